//! A client that enqueues and cancels locks.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_ldlm::client::{Answer, CancelId, LockId, LockSpec, Namespace, Output, Settings};
use fulmar_lustre_wire::format::{CANCEL, ENQUEUE_EXTENT, LOCK_REPLY, LOCK_REQUEST, OST_LVB};
use fulmar_lustre_wire::ldlm::{Extent, LockMode, LockType, ResourceDesc, ResourceId};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, portal};
use fulmar_net::{Host, Job, Memory, Running, Service};
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::import::{Request, RequestId, State};

use crate::Failure;
use crate::lnet::{runtime, start};
use crate::rpc::client::{OURS, TIMEOUT, WARM_UP, target};

/// So many locks are kept after use; then all of them are given up together.
const UNUSED: usize = 64;
/// The bytes of a lock.
const LEN: u64 = 1 << 20;
/// The room for a reply.
const REPLY: usize = 1024;

/// Enqueues and cancels locks for some time, and prints how many per second.
pub(crate) fn run(port: u16, concurrency: u32, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, OURS.into(), port)?;
    let (connected, reports) = sync_channel(1);
    let host = LockHost { state: Mutex::new(Progress::new(concurrency)), connected };
    let machine = Client::new(XidSource::new(fulmar_net::wall_clock() / 1_000_000_000));
    let client = Running::start(&node, Client::CONFIG, machine, host, [])
        .map_err(|errno| Failure(format!("cannot start the client: {errno}")))?;
    // Cancels are sent beside the enqueues.
    let target = target(0, 2 * concurrency as usize);
    client
        .call(|machine, now| machine.connect(now, target))
        .map_err(|errno| Failure(format!("cannot connect: {errno}")))?;
    reports.recv_timeout(TIMEOUT).map_err(|_| Failure("the server was not reached".to_owned()))?;
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), client.host().cancelled()?);
    sleep(duration);
    let (seconds, after) = (begun.elapsed().as_secs_f64(), client.host().cancelled()?);
    println!("{}", (after - before) as f64 / seconds);
    node.stop();
    Ok(())
}

/// The host of the client.
struct LockHost {
    state: Mutex<Progress>,
    connected: SyncSender<()>,
}

impl LockHost {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many locks were cancelled.
    fn cancelled(&self) -> Result<u64, Failure> {
        let state = self.progress();
        match &state.failed {
            Some(failed) => Err(Failure(failed.clone())),
            None => Ok(state.cancelled),
        }
    }
}

impl Host for LockHost {
    type Service = Client;

    fn memory(&self, _buffer: BufferId) -> Option<Memory> {
        None
    }

    fn handle(
        &self,
        service: &Service,
        client: &mut Client,
        notice: Notice,
    ) -> Option<Job<Client>> {
        let (mut state, now) = (self.progress(), service.now());
        match notice {
            Notice::Done { import, request, result, .. } => {
                state.handle_done(now, request, result);
                state.follow(now, client, import);
            }
            Notice::State { import, state: State::Full } => {
                state.begin(now);
                state.follow(now, client, import);
                // No thread waits after the first report.
                let _ = self.connected.try_send(());
            }
            Notice::State { .. } | Notice::Replayed { .. } | Notice::Released { .. } => {}
        }
        None
    }
}

struct Progress {
    concurrency: u32,
    locks: Namespace,
    requests: BTreeMap<RequestId, Purpose>,
    /// How many objects were locked.
    objects: u32,
    cancelled: u64,
    failed: Option<String>,
}

/// What a request under way is for.
enum Purpose {
    Enqueue(LockId),
    /// A cancel of so many locks.
    Cancel(CancelId, u32),
}

impl Progress {
    fn new(concurrency: u32) -> Self {
        let (locks, requests) = (Namespace::new(Settings::new(1)), BTreeMap::new());
        Self { concurrency, locks, requests, objects: 0, cancelled: 0, failed: None }
    }

    /// Begins all enqueues.
    fn begin(&mut self, now: Time) {
        (0..self.concurrency).for_each(|_| self.acquire(now));
    }

    /// Acquires a lock of the next object.
    fn acquire(&mut self, now: Time) {
        let fid = Fid { seq: 0x1_0000_0000, oid: self.objects, version: 0 };
        self.objects = self.objects.wrapping_add(1);
        let id = ResourceId::of_fid(fid);
        let resource = ResourceDesc { kind: LockType::EXTENT, id, ..ResourceDesc::default() };
        let extent = Extent { start: 0, end: LEN - 1, gid: 0 };
        let wanted = LockSpec::new(resource, LockMode::PW, extent);
        if let Err(errno) = self.locks.acquire(now, wanted) {
            self.failed = Some(format!("a lock cannot be requested: {errno}"));
        }
    }

    fn handle_done(
        &mut self,
        now: Time,
        request: RequestId,
        result: Result<Box<Message<'static>>, Errno>,
    ) {
        match self.requests.remove(&request) {
            Some(Purpose::Enqueue(lock)) => {
                let answer = result.as_ref().map_err(|errno| *errno).map(|reply| Answer {
                    status: reply.body.status,
                    reply: reply.get(&LOCK_REPLY).ok().flatten(),
                    lvb: reply.bytes(&OST_LVB).unwrap_or_default(),
                });
                self.locks.handle_enqueued(now, lock, answer);
            }
            Some(Purpose::Cancel(id, count)) => {
                match result.as_ref().map(|reply| reply.body.status.errno()) {
                    Ok(None) => self.cancelled += u64::from(count),
                    other => self.failed = Some(format!("a cancel failed: {other:?}")),
                }
                self.locks.handle_cancelled(id, result.map(drop));
            }
            None => {}
        }
    }

    /// Does what the locks want.
    fn follow(&mut self, now: Time, client: &mut Client, import: ImportId) {
        while let Some(output) = self.locks.poll_output() {
            match output {
                Output::Enqueue { lock, request } => {
                    let message = Message::request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &request);
                    let id = client.request(now, import, Request::new(message, REPLY));
                    self.requests.extend(id.map(|id| (id, Purpose::Enqueue(lock))));
                }
                Output::Cancel { id, request } => {
                    let message = Message::request(&CANCEL).with(&LOCK_REQUEST, &request);
                    let cancel = Request::new(message, REPLY).at(portal::LDLM_CANCEL_REQUEST);
                    let purpose = Purpose::Cancel(id, request.count);
                    let id = client.request(now, import, cancel);
                    self.requests.extend(id.map(|id| (id, purpose)));
                }
                Output::Granted { lock, .. } => self.granted(now, lock),
                Output::Flush { lock, .. } => {
                    self.locks.flushed(now, lock);
                }
                other => self.failed = Some(format!("a lock is not uncontended: {other:?}")),
            }
        }
    }

    /// Uses a lock, and acquires the next.
    fn granted(&mut self, now: Time, lock: LockId) {
        self.locks.release(now, lock);
        if self.locks.unused_len() >= UNUSED {
            self.locks.give_up_unused(now, UNUSED);
        }
        self.acquire(now);
    }
}
