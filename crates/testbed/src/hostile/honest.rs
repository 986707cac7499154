//! An honest client of the attacked targets: statfs, pings and locks, one after the other.

mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::{BufferId, Errno};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CANCEL, ENQUEUE_EXTENT, LOCK_REPLY, LOCK_REQUEST, OST_STATFS, PING,
};
use fulmar_lustre_wire::ldlm::LockRequest;
use fulmar_lustre_wire::message::{Flavor, Message};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};
use fulmar_net::{Host, Job, Memory, Node, Running, Service};
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::{Request, RequestId, State, Target, TargetKind};
use fulmar_rpc::service::{PartitionConfig, Server, ServerConfig, TargetConfig, TargetState, Task};
use fulmar_rpc::timeouts::Limits;

pub(super) use worker::Worker;

use super::requests::{OST, enqueue};

/// How long anything may take, on a machine of any speed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The `at_min` of the client. It waits for a reply for longer than anything may take: what the targets
/// have lost is not sent again, and a slow machine is not taken for that.
const AT_MIN: u32 = 60;
/// The handle of its connection, which callbacks name.
const CONNECTION: Handle = Handle(0x1001);
const TARGET: TargetId = TargetId(0);
const REPLY: usize = 1024;

/// A client that is connected to the OST.
pub(super) struct Honest {
    node: Node,
    client: Running<ClientHost>,
    import: ImportId,
    inbox: Arc<Inbox>,
    next_lock: u64,
}

#[derive(Debug, Default)]
struct Inbox {
    news: Mutex<News>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct News {
    is_full: bool,
    is_closed: bool,
    /// How often the server has forgotten this client, or was not reached.
    lost: Vec<State>,
    replies: BTreeMap<RequestId, Result<Box<Message<'static>>, Errno>>,
    /// Locks that completion callbacks granted.
    granted: BTreeSet<Handle>,
}

#[derive(Debug)]
struct ClientHost(Arc<Inbox>);

#[derive(Debug)]
struct CallbackHost(Arc<Inbox>);

impl Honest {
    /// Connects to the OST at `server` as the client with this name. To be called on its host.
    pub(super) fn connect(node: Node, server: Nid, name: &str) -> Result<Self, String> {
        let failed = |errno: Errno| format!("{name}: {errno}");
        let inbox = Arc::<Inbox>::default();
        let machine = Client::new(XidSource::new(fulmar_net::wall_clock() / 1_000_000_000));
        let host = ClientHost(inbox.clone());
        let client = Running::start(&node, Client::CONFIG, machine, host, []).map_err(failed)?;
        let host = CallbackHost(inbox.clone());
        let callbacks =
            Running::start(&node, Server::CONFIG, callbacks(), host, []).map_err(failed)?;
        let import = client.call(|client, now| client.connect(now, target(server, name)));
        let import = import.map_err(failed)?;
        let this = Self { node, client, import, inbox, next_lock: 0 };
        let full = this.inbox.wait(|news| news.is_full.then_some(()));
        full.ok_or_else(|| format!("{name} was not connected: {:?}", this.lost()))?;
        let granted = this.client.call(|client, _| *client.import(import).unwrap().granted());
        let granted = granted.map_err(failed)?;
        let server = ProcessId::lustre(server);
        let admitted = callbacks.call(|machine, now| {
            machine.admit_server(now, TARGET, CONNECTION, server, Flavor::NULL, &granted)
        });
        admitted.map_err(failed)?;
        Ok(this)
    }

    /// Sends a request, and waits for its reply; it is sent again as long as that takes.
    fn ask(&self, request: Request) -> Result<Box<Message<'static>>, String> {
        let import = self.import;
        let begun = self.client.call(|client, now| client.request(now, import, request));
        let begun = begun.ok().flatten().ok_or("the client has failed")?;
        let reply = self.inbox.wait(|news| news.replies.remove(&begun));
        let reply = reply.ok_or("no reply in time")?.map_err(|errno| errno.to_string())?;
        match reply.body.status.errno() {
            None => Ok(reply),
            Some(errno) => Err(format!("{:?}: {errno}", reply.body.opcode)),
        }
    }

    /// Asks for the state of the OST.
    pub(super) fn statfs(&self) -> Result<(), String> {
        self.ask(Request::new(Message::request(&OST_STATFS), REPLY)).map(drop)
    }

    /// Pings the OST.
    pub(super) fn ping(&self) -> Result<(), String> {
        self.ask(Request::new(Message::request(&PING), REPLY)).map(drop)
    }

    /// Acquires the lock of a whole object and gives it up; returns how long it waited for the lock.
    pub(super) fn lock(&mut self, object: u64) -> Result<Duration, String> {
        self.next_lock += 1;
        let own = Handle(self.next_lock);
        let begun = Instant::now();
        let lock = LockRequest { handles: vec![own, Handle::NONE], ..enqueue(object) };
        let request = Message::request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &lock);
        let reply = self.ask(Request::new(request, REPLY))?;
        let reply = reply.require(&LOCK_REPLY).map_err(|error| error.to_string())?;
        if reply.lock.granted != reply.lock.requested {
            let granted = self.inbox.wait(|news| news.granted.remove(&own).then_some(()));
            granted.ok_or("the lock was not granted in time")?;
        }
        let waited = begun.elapsed();
        let handles = vec![reply.handle, Handle::NONE];
        let given_up = LockRequest { count: 1, handles, ..LockRequest::default() };
        let request = Message::request(&CANCEL).with(&LOCK_REQUEST, &given_up);
        self.ask(Request::new(request, REPLY).at(portal::LDLM_CANCEL_REQUEST))?;
        Ok(waited)
    }

    /// Returns what went wrong with the connection.
    pub(super) fn lost(&self) -> Vec<State> {
        self.inbox.news().lost.clone()
    }

    /// Disconnects.
    pub(super) fn end(self) -> Result<(), String> {
        let import = self.import;
        let asked = self.client.call(|client, now| client.disconnect(now, import));
        asked.map_err(|errno| errno.to_string())?;
        let closed = self.inbox.wait(|news| news.is_closed.then_some(()));
        closed.ok_or_else(|| "the disconnect has no end".to_owned())
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        self.node.stop();
    }
}

fn target(server: Nid, name: &str) -> Target {
    let uuid = |text: &str| Uuid::new(text).expect("it is short");
    let flags = ConnectFlags::VERSION
        | ConnectFlags::AT
        | ConnectFlags::FULL20
        | ConnectFlags::FID
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let data = ConnectData { flags, flags2: ConnectFlags2::REP_MBITS, ..ConnectData::default() };
    let target = Target::new(TargetKind::Ost, uuid(OST), vec![server], data);
    let limits = Limits { min: AT_MIN, ..Limits::default() };
    Target { client: uuid(name), connection: CONNECTION, limits, ..target }
}

/// Returns the service of callbacks.
fn callbacks() -> Server {
    let name = Uuid::new("callbacks").expect("it is short");
    let operations =
        &[Opcode::LDLM_BL_CALLBACK, Opcode::LDLM_CP_CALLBACK, Opcode::LDLM_GL_CALLBACK];
    let mut server = Server::new(ServerConfig {
        key: fulmar_net::wall_clock().into(),
        partitions: vec![PartitionConfig::callbacks()],
        targets: vec![TargetConfig { kind: TargetKind::Client, name, uuid: name, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TARGET, TargetState::Open);
    server
}

impl Inbox {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what `find` finds, as soon as it is there; `None` when that takes too long.
    fn wait<R>(&self, mut find: impl FnMut(&mut News) -> Option<R>) -> Option<R> {
        let deadline = Instant::now() + TIMEOUT;
        let mut news = self.news();
        loop {
            if let Some(found) = find(&mut news) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(news, left);
            news = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Host for ClientHost {
    type Service = Client;

    fn memory(&self, _: BufferId) -> Option<Memory> {
        None
    }

    fn handle(&self, _: &Service, _: &mut Client, notice: Notice) -> Option<Job<Client>> {
        let mut news = self.0.news();
        match notice {
            Notice::Done { request, result, .. } => {
                news.replies.insert(request, result);
            }
            Notice::State { state, .. } => {
                news.is_full = state == State::Full;
                news.is_closed |= matches!(state, State::Closed(_));
                if matches!(state, State::Evicted | State::Disconnected(_)) {
                    news.lost.push(state);
                }
            }
            Notice::Replayed { .. } | Notice::Released { .. } => {}
        }
        self.0.changed.notify_all();
        None
    }
}

impl Host for CallbackHost {
    type Service = Server;

    fn memory(&self, _: BufferId) -> Option<Memory> {
        None
    }

    fn handle(&self, service: &Service, server: &mut Server, task: Task) -> Option<Job<Server>> {
        let Task::Execute(request) = task else { return None };
        let message = &request.message;
        if message.body.opcode == Opcode::LDLM_CP_CALLBACK
            && let Ok(lock) = message.require(&LOCK_REQUEST)
        {
            self.0.news().granted.extend(lock.handles.first());
            self.0.changed.notify_all();
        }
        // A lock that others want is given up soon anyway.
        let reply = Message::reply(message.format(), Status::OK);
        server.reply(service.now(), request.id, reply);
        None
    }
}
