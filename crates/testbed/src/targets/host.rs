//! The host of the targets: executes their requests one at a time, and carries lock callbacks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_base::{BufferId, Errno, Time};
use fulmar_ldlm::server::{
    Answer, Callback, CallbackId, CallbackKind, Config, Enqueue, EvictReason, Features, Namespace,
    Outcome, Output, RequestId as LockRequestId,
};
use fulmar_lustre_wire::format::{
    BLOCKING, COMPLETION, COMPLETION_EXTENT, GLIMPSED_EXTENT, LOCK_REPLY, LOCK_REQUEST, OST_BODY,
    OST_LVB,
};
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Opcode, Status, Uuid, portal};
use fulmar_mgs::Mgs;
use fulmar_net::{Buffer, Host, Job, Memory, Service};
use fulmar_rpc::HandleSource;
use fulmar_rpc::export::{Eviction, ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::reverse::{Call, CallId};
use fulmar_rpc::service::{
    PartitionConfig, Request, RequestId, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;

use super::moves::Move;
use super::{Ost, TargetOptions};

/// The targets, and what they do at the moment.
#[derive(Debug)]
pub struct TargetHost(Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) mgs: Mgs,
    pub(super) ost: Ost,
    /// The locks of each target.
    pub(super) locks: [Namespace; 2],
    /// Requests about locks that wait for their answers.
    pub(super) enqueues: BTreeMap<LockRequestId, Box<Request>>,
    /// Callbacks under way.
    pub(super) callbacks: BTreeMap<CallId, (TargetId, CallbackId)>,
    /// Requests whose data are being moved.
    pub(super) moves: BTreeMap<RequestId, Move>,
    pub(super) buffers: BTreeMap<BufferId, Buffer>,
    pub(super) buffers_made: u64,
    options: TargetOptions,
}

const MGS: TargetId = TargetId(0);
const OST: TargetId = TargetId(1);
/// The room for the reply to a callback.
const CALLBACK_REPLY: usize = 1024;

/// Returns a server with a management service and an OST of this name, such as `lv-OST0000`.
///
/// # Errors
/// EINVAL if the name is too long.
pub fn server(key: u128, ost: &str) -> Result<Server, Errno> {
    let uuid = |text: &str| Uuid::new(text).ok_or(Errno::EINVAL);
    let lock_operations = [Opcode::LDLM_ENQUEUE, Opcode::LDLM_CONVERT, Opcode::LDLM_CANCEL];
    let with_locks =
        |own: &[Opcode]| -> &'static [Opcode] { Vec::leak([own, &lock_operations].concat()) };
    let mgs = TargetConfig {
        kind: TargetKind::Mgs,
        name: uuid("MGS")?,
        uuid: uuid("MGS")?,
        operations: with_locks(Mgs::OPERATIONS),
    };
    let ost = TargetConfig {
        kind: TargetKind::Ost,
        name: uuid(ost)?,
        uuid: uuid(&format!("{ost}_UUID"))?,
        operations: with_locks(Ost::OPERATIONS),
    };
    let objects = [portal::OST_REQUEST, portal::OST_CREATE];
    let mut server = Server::new(ServerConfig {
        key,
        partitions: vec![
            PartitionConfig::mgs(),
            PartitionConfig::new("ost", &objects, 16 << 10),
            PartitionConfig::new("ost_io", &[portal::OST_IO], 64 << 10),
            PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], 5 << 10),
        ],
        targets: vec![mgs, ost],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(MGS, TargetState::Open);
    server.set_state(OST, TargetState::Open);
    Ok(server)
}

impl TargetHost {
    /// Returns a host with these configuration logs.
    pub fn new(key: u128, mgs: Mgs, options: TargetOptions) -> Self {
        let times = options.times();
        let locks = |config, key| {
            let mut handles = HandleSource::new(key);
            Namespace::new(Config { times, ..config }, move || handles.issue())
        };
        Self(Mutex::new(State {
            mgs,
            ost: Ost::default(),
            locks: [locks(Config::mgs(), key ^ 1), locks(Config::ost(), key ^ 2)],
            enqueues: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            moves: BTreeMap::new(),
            buffers: BTreeMap::new(),
            buffers_made: 0,
            options,
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the passing of time.
    pub fn tick(&self, server: &mut Server, now: Time) {
        let mut state = self.state();
        for target in [MGS, OST] {
            state.locks(target).handle_timeout(now);
        }
        state.follow_locks(server, now);
    }
}

impl Host for TargetHost {
    type Service = Server;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        self.state().buffers.get(&buffer).map(Memory::from)
    }

    fn handle(&self, service: &Service, server: &mut Server, task: Task) -> Option<Job<Server>> {
        let mut state = self.state();
        let now = service.now();
        match task {
            Task::Execute(request) => state.execute(server, now, request),
            Task::Transferred { request, result } => {
                state.transferred(server, now, request, result);
            }
            Task::Called { call, result, .. } => state.called(now, call, result),
            Task::Evicted { target, export, client, why } => {
                eprintln!("evicted {client} from target {}: {why:?}", target.0);
                state.locks(target).handle_disconnect(now, export);
            }
            Task::Recovered { target } => eprintln!("target {} has recovered", target.0),
            Task::PortalFailed { portal, errno } => eprintln!("portal {portal}: {errno}"),
        }
        state.follow_locks(server, now);
        None
    }
}

impl State {
    fn locks(&mut self, target: TargetId) -> &mut Namespace {
        &mut self.locks[target.0 as usize]
    }

    fn execute(&mut self, server: &mut Server, now: Time, request: Box<Request>) {
        let opcode = request.message.body.opcode;
        if self.options.prints_requests {
            eprintln!("{} {opcode:?} from {}", request.target.0, request.from.nid);
        }
        match opcode {
            Opcode::LDLM_ENQUEUE => self.enqueue(server, now, request),
            Opcode::LDLM_CONVERT => self.convert(server, now, request),
            Opcode::LDLM_CANCEL => self.cancel(server, now, &request),
            Opcode::OST_READ | Opcode::OST_WRITE => self.transfer(server, now, request),
            Opcode::MGS_CONFIG_READ => self.read_table(server, now, request),
            _ => {
                let result = match request.target {
                    MGS => self.mgs.execute(&request.message),
                    _ => self.ost.execute(&request.message),
                };
                if opcode.is_connect() && result.is_ok() {
                    self.locks(request.target).handle_connect(request.export, Features::default());
                }
                self.attributes_changed(&request);
                answer(server, now, &request, result);
                if matches!(opcode, Opcode::MGS_DISCONNECT | Opcode::OST_DISCONNECT) {
                    self.locks(request.target).handle_disconnect(now, request.export);
                }
            }
        }
    }

    fn enqueue(&mut self, server: &mut Server, now: Time, request: Box<Request>) {
        let Ok(lock) = request.message.require(&LOCK_REQUEST) else {
            return answer(server, now, &request, Err(Errno::EPROTO));
        };
        let id = LockRequestId(request.id.0);
        let (target, export) = (request.target, request.export);
        let is_resent = request.message.body.flags.has(MessageFlags::RESENT);
        self.enqueues.insert(id, request);
        let outcome = Outcome::Ordinary;
        let enqueue = Enqueue { request: id, export, lock, is_resent, outcome };
        self.locks(target).handle_enqueue(now, enqueue);
    }

    fn convert(&mut self, server: &mut Server, now: Time, request: Box<Request>) {
        let Ok(lock) = request.message.require(&LOCK_REQUEST) else {
            return answer(server, now, &request, Err(Errno::EPROTO));
        };
        let id = LockRequestId(request.id.0);
        let (target, export) = (request.target, request.export);
        self.enqueues.insert(id, request);
        self.locks(target).handle_convert(now, id, export, &lock);
    }

    fn cancel(&mut self, server: &mut Server, now: Time, request: &Request) {
        let lock = request.message.require(&LOCK_REQUEST).map_err(|_| Errno::EPROTO);
        let export = request.export;
        let known = lock.and_then(|lock| {
            let locks = self.locks(request.target);
            locks.handle_cancel(now, export, &lock)
        });
        // That no lock was known is not an error.
        let status = |known| if known == 0 { Status(Errno::ESTALE.0) } else { Status::OK };
        let reply = known.map(|known| Message::reply(request.message.format(), status(known)));
        answer(server, now, request, reply);
    }

    /// Tells the locks of an object that a request has changed it.
    pub(super) fn attributes_changed(&mut self, request: &Request) {
        if request.target == OST
            && let Ok(Some(body)) = request.message.get(&OST_BODY)
        {
            let resource = body.id.resource();
            let lvb = self.ost.lvb(resource);
            self.locks(OST).set_lvb(resource, lvb);
        }
    }

    /// Takes the end of a callback.
    fn called(&mut self, now: Time, call: CallId, result: Result<Box<Message<'static>>, Errno>) {
        let Some((target, callback)) = self.callbacks.remove(&call) else { return };
        let answer = match result {
            Ok(reply) => {
                let lvb = reply.get(&OST_LVB).ok().flatten();
                Answer::Answered(reply.body.status, lvb)
            }
            Err(errno) => {
                eprintln!("callback: {errno}");
                Answer::Failed
            }
        };
        self.locks(target).handle_answer(now, callback, answer);
    }

    /// Does what the locks want.
    fn follow_locks(&mut self, server: &mut Server, now: Time) {
        for target in [MGS, OST] {
            while let Some(output) = self.locks(target).poll_output() {
                self.follow(server, now, target, output);
            }
        }
    }

    fn follow(&mut self, server: &mut Server, now: Time, target: TargetId, output: Output) {
        match output {
            Output::Reply { request, status, reply, lvb } => {
                let Some(request) = self.enqueues.remove(&request) else { return };
                let mut message = Message::reply(request.message.format(), status);
                message = message.with(&LOCK_REPLY, &reply);
                if let Some(lvb) = lvb {
                    message = message.with(&OST_LVB, &lvb);
                }
                server.reply(now, request.id, message);
            }
            Output::Callback(callback) => self.call(server, now, target, &callback),
            Output::ReadLvb { resource } => {
                let lvb = self.ost.lvb(resource);
                self.locks(target).handle_lvb(now, resource, Ok(lvb));
            }
            Output::Evict { export, why } => {
                let why = match why {
                    EvictReason::NotCancelled => Eviction::NotCancelled,
                    EvictReason::NotAnswered => Eviction::NotAnswered,
                };
                server.evict(now, export, why);
            }
            Output::Local { .. } | Output::LocalBlocks { .. } => {}
        }
    }

    fn call(&mut self, server: &mut Server, now: Time, target: TargetId, callback: &Callback) {
        if self.options.prints_requests {
            eprintln!("{:?} callback to {}", callback.kind, callback.export);
        }
        let format = match (callback.kind, target) {
            (CallbackKind::Blocking, _) => &BLOCKING,
            (CallbackKind::Completion, OST) => &COMPLETION_EXTENT,
            (CallbackKind::Completion, _) => &COMPLETION,
            (CallbackKind::Glimpse, _) => &GLIMPSED_EXTENT,
        };
        let mut message = Message::request(format).with(&LOCK_REQUEST, &callback.lock);
        if let Some(lvb) = callback.lvb {
            message = message.with(&OST_LVB, &lvb);
        }
        let call = Call::new(message, CALLBACK_REPLY, self.options.times().answer);
        match server.call(now, callback.export, call) {
            Some(call) if callback.has_answer => {
                self.callbacks.insert(call, (target, callback.id));
            }
            _ => {}
        }
    }
}

pub(super) fn answer(
    server: &mut Server,
    now: Time,
    request: &Request,
    result: Result<Message<'static>, Errno>,
) {
    let format = request.message.format();
    let reply = result.unwrap_or_else(|errno| Message::error(format, Status::failed(errno)));
    server.reply(now, request.id, reply);
}
