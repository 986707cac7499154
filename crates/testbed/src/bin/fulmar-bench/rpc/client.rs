//! A client that repeats requests.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_base::{BufferId, Time};
use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, OST_READ, OST_STATFS, OST_WRITE};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{IoObject, MaxBrw, Niobuf, Obdo};
use fulmar_lustre_wire::{List, Uuid, portal};
use fulmar_net::{Buffer, Host, Job, Memory, Node, Running, Service};
use fulmar_rpc::XidSource;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::import::{Request, RequestId, State, Target, TargetKind};

use super::server::{ADDRESS, TARGET};
use super::{Load, Rates};
use crate::Failure;
use crate::lnet::{runtime, start};

/// The address of the client's node.
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Warm-up, in which connections are opened and buffers grow.
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);
/// How long the first connection may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a load for some time, and prints the results.
pub(crate) fn run(port: u16, load: Load, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, OURS.into(), port)?;
    let (client, connected) = open(&node, Some(load))?;
    let concurrency = match load {
        Load::Echo { concurrency } | Load::Bulk { concurrency, .. } => concurrency,
    };
    connect(&client, 0, concurrency as usize)?;
    connected
        .recv_timeout(TIMEOUT)
        .map_err(|_| Failure("the server was not reached".to_owned()))?;
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), client.host().done()?);
    sleep(duration);
    let (seconds, after) = (begun.elapsed().as_secs_f64(), client.host().done()?);
    let (requests, bytes) = ((after.0 - before.0) as f64, (after.1 - before.1) as f64);
    let rates = Rates { requests, bytes, seconds };
    println!("{}", serde_json::to_string(&rates).expect("numbers are JSON"));
    node.stop();
    Ok(())
}

/// Opens the client side of RPC on a node. Each import that is connected is reported.
pub(super) fn open(
    node: &Node,
    load: Option<Load>,
) -> Result<(Running<ClientHost>, Receiver<ImportId>), Failure> {
    let (connected, reports) = sync_channel(super::CLIENTS as usize);
    let state = Progress::new(load);
    let host = ClientHost { state: Mutex::new(state), connected };
    let machine = Client::new(XidSource::new(fulmar_net::wall_clock() / 1_000_000_000));
    let client = Running::start(node, Client::CONFIG, machine, host, [])
        .map_err(|errno| Failure(format!("cannot start the client: {errno}")))?;
    Ok((client, reports))
}

/// Connects an import of the client with this number.
pub(super) fn connect(
    client: &Running<ClientHost>,
    number: u32,
    in_flight_max: usize,
) -> Result<(), Failure> {
    let target = target(number, in_flight_max);
    client
        .call(|machine, now| machine.connect(now, target))
        .map(drop)
        .map_err(|errno| Failure(format!("cannot connect: {errno}")))
}

/// Returns the target, for the client with this number.
pub(crate) fn target(number: u32, in_flight_max: usize) -> Target {
    let flags =
        ConnectFlags::FULL20 | ConnectFlags::AT | ConnectFlags::BULK_MBITS | ConnectFlags::FLAGS2;
    let flags2 = ConnectFlags2::REP_MBITS;
    let data = ConnectData { flags, flags2, ..ConnectData::default() };
    let uuid = |name: &str| Uuid::new(name).expect("it is short");
    let server = Nid::of_ip(Net::TCP, ADDRESS.into());
    Target {
        client: uuid(&format!("bench-client-{number}")),
        in_flight_max,
        ..Target::new(TargetKind::Ost, uuid(TARGET), vec![server], data)
    }
}

/// The host of a client.
pub(super) struct ClientHost {
    state: Mutex<Progress>,
    connected: SyncSender<ImportId>,
}

struct Progress {
    load: Option<Load>,
    buffers: Vec<Buffer>,
    /// The buffers of requests.
    used: BTreeMap<RequestId, usize>,
    requests: u64,
    bytes: u64,
    failed: Option<String>,
}

impl Progress {
    fn new(load: Option<Load>) -> Self {
        let (used, buffers) = Default::default();
        Self { load, buffers, used, requests: 0, bytes: 0, failed: None }
    }

    /// Begins all requests.
    fn begin(&mut self, now: Time, client: &mut Client, import: ImportId) {
        let Some(load) = self.load else { return };
        let (Load::Echo { concurrency } | Load::Bulk { concurrency, .. }) = load;
        if let Load::Bulk { size, .. } = load {
            self.buffers = (0..concurrency).map(|_| Buffer::new(size as usize)).collect();
        }
        for slot in 0..concurrency as usize {
            self.next(now, client, import, slot);
        }
    }

    /// Begins the next request of a buffer.
    fn next(&mut self, now: Time, client: &mut Client, import: ImportId, slot: usize) {
        let Some(load) = self.load else { return };
        if let Some(id) = client.request(now, import, request(load, slot)) {
            self.used.insert(id, slot);
        }
    }

    fn handle(&mut self, now: Time, client: &mut Client, notice: Notice) -> Option<ImportId> {
        match notice {
            Notice::Done { import, request, result, moved, .. } => {
                let slot = self.used.remove(&request)?;
                match result.map(|reply| reply.body.status.errno()) {
                    Ok(None) => {
                        self.requests += 1;
                        self.bytes += moved;
                        self.next(now, client, import, slot);
                    }
                    other => self.failed = Some(format!("a request failed: {other:?}")),
                }
                None
            }
            Notice::State { import, state: State::Full } => {
                self.begin(now, client, import);
                Some(import)
            }
            Notice::State { .. } | Notice::Replayed { .. } | Notice::Released { .. } => None,
        }
    }
}

/// Returns the next request of a buffer.
fn request(load: Load, slot: usize) -> Request {
    let Load::Bulk { write, size, .. } = load else {
        return Request::new(Message::request(&OST_STATFS), 512);
    };
    let (format, direction) =
        if write { (&OST_WRITE, Direction::ToServer) } else { (&OST_READ, Direction::ToClient) };
    let transfers = size.div_ceil(Bulk::PART_LEN).next_power_of_two();
    let object = IoObject { max_brw: MaxBrw::new(transfers), ranges: 1, ..IoObject::default() };
    let message = Message::request(format)
        .with(&OST_BODY, &Obdo::default())
        .with(&IO_OBJECTS, &List(vec![object]))
        .with(&NIOBUFS, &List(vec![Niobuf { len: size, ..Niobuf::default() }]));
    let memory = (BufferId(slot as u64), 0, size.into());
    let bulk = Bulk::new(direction, portal::OST_BULK, memory, 0);
    Request::new(message, 1024).with_bulk(bulk)
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
        let connected = self.progress().handle(service.now(), client, notice);
        if let Some(import) = connected {
            // No thread waits after the first report of an import.
            let _ = self.connected.try_send(import);
        }
        None
    }
}
