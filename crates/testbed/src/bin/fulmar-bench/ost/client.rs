//! A client that creates an object, fills it, and then reads or writes it again and again.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_base::{BufferId, Time};
use fulmar_checksum::Checksum;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, OST_CREATE, OST_READ, OST_WRITE};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{
    ChecksumKind, ChecksumTypes, FlagWord, IoObject, MaxBrw, Niobuf, NiobufFlags, Obdo, OstId,
};
use fulmar_lustre_wire::{Fid, List, Uuid, portal};
use fulmar_net::{Buffer, Host, Job, Memory, Running, Service};
use fulmar_rpc::XidSource;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::import::{Request, RequestId, State, Target, TargetKind};

use super::{FILE, Load};
use crate::Failure;
use crate::lnet::{runtime, start};
use crate::rpc::Rates;
use crate::rpc::client::{OURS, TIMEOUT, WARM_UP};
use crate::rpc::server::{ADDRESS, TARGET};

/// The object.
const OBJECT: OstId = OstId::Fid(Fid { seq: 0x2_4000_0400, oid: 1, version: 0 });
/// How many bytes are copied at once for a checksum.
const CHECKED: usize = 16 << 10;

/// Runs a load for some time, and prints the results.
pub(crate) fn run(port: u16, load: Load, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, OURS.into(), port)?;
    let (filled, reports) = sync_channel(1);
    let buffers = (0..load.concurrency).map(|slot| {
        let buffer = Buffer::new(load.size as usize);
        buffer.fill(slot as u8 + 1);
        buffer
    });
    let progress = Progress {
        load,
        phase: Phase::Create,
        buffers: buffers.collect(),
        used: BTreeMap::new(),
        begun: 0,
        requests: 0,
        bytes: 0,
        failed: None,
    };
    let (unchecked, queue) = channel();
    let host = ClientHost { state: Mutex::new(progress), filled, unchecked };
    let machine = Client::new(XidSource::new(fulmar_net::wall_clock() / 1_000_000_000));
    let client = Running::start(&node, Client::CONFIG, machine, host, [])
        .map_err(|errno| Failure(format!("cannot start the client: {errno}")))?;
    let of_thread = client.clone();
    std::thread::spawn(move || check(&of_thread, &queue));
    client
        .call(|machine, now| machine.connect(now, target(load)))
        .map_err(|errno| Failure(format!("cannot connect: {errno}")))?;
    reports.recv_timeout(TIMEOUT).map_err(|_| Failure("the object was not filled".to_owned()))?;
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), client.host().done()?);
    sleep(duration);
    let (seconds, after) = (begun.elapsed().as_secs_f64(), client.host().done()?);
    let rates = Rates {
        requests: (after.0 - before.0) as f64,
        bytes: (after.1 - before.1) as f64,
        seconds,
    };
    println!("{}", serde_json::to_string(&rates).expect("numbers are JSON"));
    node.stop();
    Ok(())
}

/// Returns the OST, of which is requested what a client of now requests.
fn target(load: Load) -> Target {
    let flags = ConnectFlags::VERSION
        | ConnectFlags::AT
        | ConnectFlags::FULL20
        | ConnectFlags::FID
        | ConnectFlags::BRW_SIZE
        | ConnectFlags::CKSUM
        | ConnectFlags::GRANT
        | ConnectFlags::GRANT_PARAM
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let data = ConnectData {
        flags,
        flags2: ConnectFlags2::REP_MBITS,
        version: fulmar_rpc::RELEASE,
        brw_size: 4 << 20,
        grant: 64 << 20,
        checksums: ChecksumTypes::CRC32C,
        ..ConnectData::default()
    };
    let uuid = |name: &str| Uuid::new(name).expect("it is short");
    let server = Nid::of_ip(Net::TCP, ADDRESS.into());
    let name = uuid(&format!("{TARGET}_UUID"));
    Target {
        client: uuid("bench-client"),
        in_flight_max: load.concurrency as usize,
        ..Target::new(TargetKind::Ost, name, vec![server], data)
    }
}

/// The host of the client.
struct ClientHost {
    state: Mutex<Progress>,
    filled: SyncSender<()>,
    unchecked: Sender<ChecksumJob>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Create,
    Fill,
    Load,
}

struct Progress {
    load: Load,
    phase: Phase,
    buffers: Vec<Buffer>,
    /// The buffers of requests.
    used: BTreeMap<RequestId, usize>,
    /// Reads or writes of this phase, and those that have ended.
    begun: u64,
    requests: u64,
    bytes: u64,
    failed: Option<String>,
}

/// The next request of a buffer.
struct Next {
    write: bool,
    slot: usize,
    offset: u64,
    buffer: Buffer,
    checksum: Option<ChecksumKind>,
}

impl Progress {
    /// Returns how many reads or writes the object has.
    fn pieces(&self) -> u64 {
        FILE / u64::from(self.load.size)
    }

    /// Chooses the next request of a buffer; `None` if the object is full and others are under way.
    fn next(&mut self, slot: usize) -> Option<Next> {
        let pieces = self.pieces();
        if self.phase == Phase::Fill && self.begun == pieces {
            return None;
        }
        let offset = self.begun % pieces * u64::from(self.load.size);
        self.begun += 1;
        let write = self.load.write || self.phase == Phase::Fill;
        let checksum = self.load.checksums.then_some(ChecksumKind::CRC32C);
        Some(Next { write, slot, offset, buffer: self.buffers[slot].clone(), checksum })
    }

    fn send(
        &mut self,
        now: Time,
        client: &mut Client,
        import: ImportId,
        next: Next,
        checksum: Option<u32>,
    ) {
        let (slot, request) = (next.slot, next.request(checksum));
        if let Some(id) = client.request(now, import, request) {
            self.used.insert(id, slot);
        }
    }

    fn begin(&mut self, now: Time, client: &mut Client, import: ImportId, phase: Phase) {
        (self.phase, self.begun, self.requests, self.bytes) = (phase, 0, 0, 0);
        for slot in 0..self.buffers.len() {
            if let Some(next) = self.next(slot) {
                let checksum = next.sum();
                self.send(now, client, import, next, checksum);
            }
        }
    }

    /// Handles the reply to a read or a write, and returns the next one with the checksum of what was
    /// read.
    fn handle_reply(
        &mut self,
        request: RequestId,
        reply: &Message<'_>,
        moved: u64,
    ) -> Option<(Next, u32)> {
        let slot = self.used.remove(&request)?;
        self.requests += 1;
        self.bytes += moved;
        let next = self.next(slot)?;
        let body = reply.require(&OST_BODY).ok()?;
        Some((next, body.nlink))
    }

    fn is_full(&self) -> bool {
        self.phase == Phase::Fill && self.requests == self.pieces()
    }
}

impl ClientHost {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many requests have ended, and how many bytes were moved.
    fn done(&self) -> Result<(u64, u64), Failure> {
        let state = self.progress();
        match &state.failed {
            Some(failed) => Err(Failure(failed.clone())),
            None => Ok((state.requests, state.bytes)),
        }
    }

    /// Sends the next request, or has the thread of the checksums send it.
    fn go_on(&self, now: Time, client: &mut Client, import: ImportId, next: Next, theirs: u32) {
        if next.checksum.is_none() {
            self.progress().send(now, client, import, next, None);
        } else {
            // Without the thread the measurement has ended.
            let _ = self.unchecked.send(ChecksumJob { import, next, theirs });
        }
    }
}

/// What waits for a checksum: of what was read, or of what is written next.
struct ChecksumJob {
    import: ImportId,
    next: Next,
    /// The server's, of what was read.
    theirs: u32,
}

/// Computes checksums, as a client does beside its network.
fn check(client: &Running<ClientHost>, unchecked: &Receiver<ChecksumJob>) {
    for ChecksumJob { import, next, theirs } in unchecked {
        let checksum = next.sum();
        let sent = client.call(|machine, now| {
            let mut state = client.host().progress();
            if !next.write && checksum != Some(theirs) {
                state.failed = Some("a checksum is wrong".to_owned());
            }
            state.send(now, machine, import, next, checksum);
        });
        if sent.is_err() {
            return;
        }
    }
}

impl Host for ClientHost {
    type Service = Client;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        self.progress().buffers.get(buffer.0 as usize).map(Memory::from)
    }

    fn handle(
        &self,
        service: &Service,
        client: &mut Client,
        notice: Notice,
    ) -> Option<Job<Client>> {
        let now = service.now();
        match notice {
            Notice::State { import, state: State::Full } => {
                client.request(now, import, creation());
                None
            }
            Notice::Done { import, request, result, moved, .. } => {
                let mut state = self.progress();
                let reply = match result {
                    Ok(reply) if reply.body.status.errno().is_none() => reply,
                    other => {
                        state.failed = Some(format!("a request failed: {other:?}"));
                        // It is read in any case.
                        let _ = self.filled.try_send(());
                        return None;
                    }
                };
                if state.phase == Phase::Create {
                    state.begin(now, client, import, Phase::Fill);
                    return None;
                }
                let next = state.handle_reply(request, &reply, moved);
                if state.is_full() {
                    state.begin(now, client, import, Phase::Load);
                    // No thread waits after the first report.
                    let _ = self.filled.try_send(());
                    return None;
                }
                drop(state);
                if let Some((next, theirs)) = next {
                    self.go_on(now, client, import, next, theirs);
                }
                None
            }
            Notice::State { .. } | Notice::Replayed { .. } | Notice::Released { .. } => None,
        }
    }
}

/// Returns the request that creates the object.
fn creation() -> Request {
    let body = Obdo { valid: Valid::FLGROUP, id: OBJECT, ..Obdo::default() };
    Request::new(Message::request(&OST_CREATE).with(&OST_BODY, &body), 1024)
}

impl Next {
    /// Returns the checksum of the buffer, if there are checksums.
    fn sum(&self) -> Option<u32> {
        let len = self.buffer.len();
        let mut checksum = Checksum::new(self.checksum?, [(0, len as u64)])?;
        let mut bytes = [0; CHECKED];
        for at in (0..len).step_by(CHECKED) {
            let part = &mut bytes[..CHECKED.min(len - at)];
            self.buffer.read_at(at, part);
            checksum.update(part);
        }
        Some(checksum.finish())
    }

    /// Returns the request. `checksum`: of the data, if they are written.
    fn request(&self, checksum: Option<u32>) -> Request {
        let (format, direction, flags) = if self.write {
            (&OST_WRITE, Direction::ToServer, NiobufFlags::WRITE | NiobufFlags::ASYNC)
        } else {
            (&OST_READ, Direction::ToClient, NiobufFlags::READ)
        };
        let len = self.buffer.len() as u32;
        let transfers = len.div_ceil(Bulk::PART_LEN).next_power_of_two();
        let object = IoObject { id: OBJECT, max_brw: MaxBrw::new(transfers), ranges: 1 };
        let valid = Valid::FLID | Valid::FLGROUP;
        let mut body = Obdo { valid, id: OBJECT, ..Obdo::default() };
        if let Some(checksum_kind) = self.checksum {
            body.valid = valid | Valid::FLFLAGS | Valid::FLCKSUM;
            body.flags = FlagWord { checksum_kind, ..FlagWord::default() };
            body.nlink = checksum.filter(|_| self.write).unwrap_or(0);
        }
        let message = Message::request(format)
            .with(&OST_BODY, &body)
            .with(&IO_OBJECTS, &List(vec![object]))
            .with(&NIOBUFS, &List(vec![Niobuf { offset: self.offset, len, flags }]));
        let memory = (BufferId(self.slot as u64), 0, len.into());
        Request::new(message, 1024).with_bulk(Bulk::new(direction, portal::OST_BULK, memory, 0))
    }
}
