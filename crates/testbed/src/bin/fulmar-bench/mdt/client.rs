//! Clients that create files, or create some and then look at them.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lustre_wire::format::{LOCK_REPLY, MDT_BODY, SEQ_RANGE};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Status};
use fulmar_net::{Host, Job, Memory, Running, Service};
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::import::{Request, RequestId, State};

use super::{Load, requests};
use crate::Failure;
use crate::lnet::{runtime, start};
use crate::rpc::Rates;
use crate::rpc::client::{OURS, TIMEOUT, WARM_UP};

/// The clients, each with a connection of its own. A client may have so many changes under way.
const CLIENTS: usize = 8;
const PER_CLIENT: usize = 8;
/// How many files each client creates before its load is measured: the OST makes more and more objects
/// in advance, and all have attributes that can be looked at.
const FILES: u32 = 1250;

/// Runs a load for some time, and prints the results.
pub(crate) fn run(port: u16, load: Load, duration: Duration) -> Result<(), Failure> {
    let runtime = runtime()?;
    let node = start(&runtime, OURS.into(), port)?;
    let (begun, begins) = sync_channel(CLIENTS);
    let host = ClientHost { state: Mutex::new(Progress::new(load)), begun };
    let machine = Client::new(XidSource::new(fulmar_net::wall_clock() / 1_000_000_000));
    let client = Running::start(&node, Client::CONFIG, machine, host, [])
        .map_err(|errno| Failure(format!("cannot start the client: {errno}")))?;
    for number in 0..CLIENTS {
        let target = requests::target(number, PER_CLIENT);
        client
            .call(|machine, now| {
                let import = machine.connect(now, target);
                client.host().progress().clients.insert(import, OneClient::default());
            })
            .map_err(|errno| Failure(format!("cannot connect: {errno}")))?;
    }
    for _ in 0..CLIENTS {
        let ready = begins.recv_timeout(TIMEOUT);
        let ended = client.host().done().map(drop);
        ready.map_err(|_| ended.err().unwrap_or(Failure("no files were made".to_owned())))?;
    }
    sleep(WARM_UP);
    let (begun, before) = (Instant::now(), client.host().done()?);
    sleep(duration);
    let (seconds, after) = (begun.elapsed().as_secs_f64(), client.host().done()?);
    let rates = Rates { requests: (after - before) as f64, bytes: 0.0, seconds };
    println!("{}", serde_json::to_string(&rates).expect("numbers are JSON"));
    node.stop();
    Ok(())
}

/// The host of the clients.
struct ClientHost {
    state: Mutex<Progress>,
    /// Gets a value for each client that has its files.
    begun: SyncSender<()>,
}

struct Progress {
    load: Load,
    clients: BTreeMap<ImportId, OneClient>,
    /// What each request is for.
    under_way: BTreeMap<(ImportId, RequestId), Step>,
    done: u64,
    failed: Option<String>,
}

/// One client.
#[derive(Default)]
struct OneClient {
    root: Fid,
    /// The sequence of its FIDs.
    seq: u64,
    /// How many creations have begun and ended.
    begun: u32,
    created: u32,
    /// How many files were looked at.
    looks: u32,
}

/// What a request does.
#[derive(Clone, Copy)]
enum Step {
    Root,
    Sequence,
    Open(Fid),
    /// The file that is closed was opened by this request.
    Close(RequestId),
    GetAttr,
}

impl Progress {
    fn new(load: Load) -> Self {
        let (clients, under_way) = Default::default();
        Self { load, clients, under_way, done: 0, failed: None }
    }

    fn send(
        &mut self,
        now: Time,
        client: &mut Client,
        import: ImportId,
        (step, request): (Step, Request),
    ) {
        if let Some(id) = client.request(now, import, request) {
            self.under_way.insert((import, id), step);
        }
    }

    /// Handles a reply, and sends what follows. Returns whether the client has its files.
    fn handle(
        &mut self,
        now: Time,
        client: &mut Client,
        (import, id): (ImportId, RequestId),
        reply: &Message<'_>,
    ) -> Result<bool, Errno> {
        let step = self.under_way.remove(&(import, id)).ok_or(Errno::EINVAL)?;
        let one = self.clients.get_mut(&import).ok_or(Errno::EINVAL)?;
        match step {
            Step::Root => {
                let body: MdtBody = reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
                one.root = body.fid;
                self.send(now, client, import, (Step::Sequence, requests::sequence()));
                return Ok(false);
            }
            Step::Sequence => {
                one.seq = reply.require(&SEQ_RANGE).map_err(|_| Errno::EPROTO)?.start;
                for _ in 0..PER_CLIENT {
                    self.next(now, client, import);
                }
                return Ok(false);
            }
            Step::Open(fid) => {
                if let Some(handle) = handle_of(reply)? {
                    self.send(now, client, import, (Step::Close(id), requests::close(fid, handle)));
                } else {
                    // There were no objects on the OST, which creates some.
                    let again = requests::open(one.root, fid, &name_of(fid));
                    self.send(now, client, import, (step, again));
                }
                return Ok(false);
            }
            Step::Close(open) => {
                client.release(import, open, reply.body.transno);
                one.created += 1;
                self.done += u64::from(self.load == Load::Create);
            }
            Step::GetAttr => self.done += 1,
        }
        let is_ready = matches!(step, Step::Close(_)) && one.created == FILES;
        self.next(now, client, import);
        Ok(is_ready)
    }

    /// Begins the next operation of a client.
    fn next(&mut self, now: Time, client: &mut Client, import: ImportId) {
        let Some(one) = self.clients.get_mut(&import) else { return };
        let fid = |number: u32| Fid { seq: one.seq, oid: number + 1, version: 0 };
        let next = if self.load == Load::GetAttr && one.begun == FILES {
            let fid = fid(one.looks % FILES);
            one.looks += 1;
            (Step::GetAttr, requests::attributes(fid))
        } else {
            let fid = fid(one.begun);
            one.begun += 1;
            (Step::Open(fid), requests::open(one.root, fid, &name_of(fid)))
        };
        self.send(now, client, import, next);
    }
}

fn name_of(fid: Fid) -> String {
    format!("{:x}-{:08}", fid.seq, fid.oid)
}

/// Returns the handle of a file that was opened; `None` if that is to be repeated.
fn handle_of(reply: &Message<'_>) -> Result<Option<Handle>, Errno> {
    let answer = reply.require(&LOCK_REPLY).map_err(|_| Errno::EPROTO)?;
    match Status(answer.result2 as i32).errno() {
        None => {}
        Some(Errno::EINPROGRESS) => return Ok(None),
        Some(errno) => return Err(errno),
    }
    let body: MdtBody = reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
    Ok(Some(body.open_handle))
}

impl ClientHost {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many operations of the load have ended.
    fn done(&self) -> Result<u64, Failure> {
        let state = self.progress();
        match &state.failed {
            Some(failed) => Err(Failure(failed.clone())),
            None => Ok(state.done),
        }
    }
}

impl Host for ClientHost {
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
        let (now, mut state) = (service.now(), self.progress());
        match notice {
            Notice::State { import, state: State::Full } => {
                state.send(
                    now,
                    client,
                    import,
                    (Step::Root, Request::new(requests::root(), requests::REPLY)),
                );
            }
            Notice::Done { import, request, result, .. } => {
                let reply = result.and_then(|reply| match reply.body.status.errno() {
                    Some(errno) => Err(errno),
                    None => Ok(reply),
                });
                let handled =
                    reply.and_then(|reply| state.handle(now, client, (import, request), &reply));
                match handled {
                    Ok(false) => {}
                    // No thread waits after the first report of a client.
                    Ok(true) => drop(self.begun.try_send(())),
                    Err(errno) => state.failed = Some(format!("a request failed: {errno}")),
                }
            }
            Notice::State { .. } | Notice::Replayed { .. } | Notice::Released { .. } => {}
        }
        None
    }
}
