//! Requests of clients about locks, and the callbacks to them.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_ldlm::server::{
    Answer as CallbackAnswer, Callback, CallbackId, CallbackKind, Config, EvictReason,
    LocalEnqueue, Namespace, Outcome, Output, RequestId as LockRequestId, Times,
};
use fulmar_lustre_wire::format::{
    BLOCKING, COMPLETION, COMPLETION_DOM, COMPLETION_EXTENT, GLIMPSED, GLIMPSED_DOM,
    GLIMPSED_EXTENT, LOCK_REPLY, LOCK_REQUEST, OST_LVB,
};
use fulmar_lustre_wire::ldlm::{Extent, InodeBits, LockType, OstLvb, ResourceId};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Status};
use fulmar_rpc::HandleSource;
use fulmar_rpc::export::Eviction;
use fulmar_rpc::reverse::{Call, CallId};
use fulmar_rpc::service::{Request, RequestId, Server};
use futures_channel::oneshot;
use tracing::warn;

use crate::context::{Context, LockAnswer, LockGrant, LockRequest};
use crate::debug_log;
use crate::silent::{self, Silent};
use crate::target::Answer;

/// The room for the reply to a callback.
const CALLBACK_REPLY: usize = 1024;

/// The locks of a target, and who waits for them.
#[derive(Debug)]
pub(crate) struct Locks {
    /// The name of the target in the log.
    name: String,
    namespace: Namespace,
    times: Times,
    enqueues: BTreeMap<LockRequestId, oneshot::Sender<LockAnswer>>,
    /// With when they came.
    converts: BTreeMap<LockRequestId, (Time, Box<Request>)>,
    locals: BTreeMap<u64, oneshot::Sender<Result<LockGrant, Errno>>>,
    /// The number of the last lock of an operation.
    last_local: u64,
    callbacks: BTreeMap<CallId, CallbackId>,
}

/// What the locks want that is not RPC.
pub(crate) enum LockNeed {
    /// The attributes of an object.
    Lvb(ResourceId),
}

impl Locks {
    pub(crate) fn new(name: String, config: Config, key: u128) -> Self {
        let mut handles = HandleSource::new(key);
        Self {
            name,
            namespace: Namespace::new(config, move || handles.issue()),
            times: config.times,
            enqueues: BTreeMap::new(),
            converts: BTreeMap::new(),
            locals: BTreeMap::new(),
            last_local: 0,
            callbacks: BTreeMap::new(),
        }
    }

    pub(crate) fn namespace(&mut self) -> &mut Namespace {
        &mut self.namespace
    }

    pub(crate) fn len(&self) -> usize {
        self.namespace.len()
    }

    /// Returns how many locks wait.
    pub(crate) fn waiting_len(&self) -> usize {
        self.namespace.waiting_len()
    }

    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        self.namespace.check_invariants()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.namespace.poll_timeout()
    }

    /// Requests a lock for an operation.
    pub(crate) fn lock(
        &mut self,
        now: Time,
        wanted: LockRequest,
        waiting: oneshot::Sender<Result<LockGrant, Errno>>,
    ) {
        self.last_local += 1;
        let cookie = self.last_local;
        self.locals.insert(cookie, waiting);
        let LockRequest { resource, kind, mode, policy, is_immediate, discards_data } = wanted;
        self.namespace.handle_local_enqueue(
            now,
            LocalEnqueue { cookie, resource, kind, mode, policy, is_immediate, discards_data },
        );
    }

    /// Handles the use of locks by their client: those that others wait for have more time.
    pub(crate) fn used(&mut self, now: Time, export: Handle, resource: ResourceId, of: Extent) {
        let more = self.times.cancel_min;
        self.namespace.handle_io(now, export, resource, of, more);
    }

    /// Requests a lock for a client.
    pub(crate) fn enqueue(
        &mut self,
        now: Time,
        enqueue: fulmar_ldlm::server::Enqueue,
        waiting: oneshot::Sender<LockAnswer>,
    ) {
        debug_log::wanted(&self.name, &enqueue);
        self.enqueues.insert(enqueue.request, waiting);
        self.namespace.handle_enqueue(now, enqueue);
    }

    /// Cancels locks that a client gives up with another request.
    pub(crate) fn give_up(&mut self, now: Time, export: Handle, given_up: &[Handle]) {
        debug_log::given_up(&self.name, given_up);
        self.namespace.handle_cancel_list(now, export, given_up);
    }

    /// Executes a request about a lock that a client has.
    pub(crate) fn execute(&mut self, now: Time, server: &mut Server, request: Box<Request>) {
        let Ok(lock) = request.message.require(&LOCK_REQUEST) else {
            return self.refuse(now, server, &request, Errno::EPROTO);
        };
        let export = request.export;
        debug_log::changed(&self.name, request.message.body.opcode, &lock);
        match request.message.body.opcode {
            Opcode::LDLM_CANCEL => match self.namespace.handle_cancel(now, export, &lock) {
                Ok(known) => {
                    // That no lock is known is not an error.
                    let status = if known == 0 { Status(Errno::ESTALE.0) } else { Status::OK };
                    debug_log::answered(&self.name, &request, Some(status), Duration::ZERO);
                    let reply = Message::reply(request.message.format(), status);
                    server.reply(now, request.id, reply);
                }
                Err(errno) => self.refuse(now, server, &request, errno),
            },
            _ => {
                let id = LockRequestId(request.id.0);
                self.converts.insert(id, (now, request));
                self.namespace.handle_convert(now, id, export, &lock);
            }
        }
    }

    /// Returns whether it waits for a callback. The calls of all targets have different numbers.
    pub(crate) fn has_called(&self, call: CallId) -> bool {
        self.callbacks.contains_key(&call)
    }

    /// Handles the end of a callback.
    pub(crate) fn called(
        &mut self,
        now: Time,
        call: CallId,
        result: Result<Box<Message<'static>>, Errno>,
    ) {
        let Some(callback) = self.callbacks.remove(&call) else { return };
        let answer = match result {
            Ok(reply) => {
                let lvb = reply.get(&OST_LVB).ok().flatten();
                CallbackAnswer::Answered(reply.body.status, lvb)
            }
            Err(_) => CallbackAnswer::Failed,
        };
        self.namespace.handle_answer(now, callback, answer);
    }

    /// Does what the namespace wants, until there is something for somebody else.
    pub(crate) fn follow(
        &mut self,
        now: Time,
        server: &mut Server,
        silent: &Silent,
    ) -> Option<LockNeed> {
        while let Some(output) = self.namespace.poll_output() {
            match output {
                Output::Reply { request, status, reply, lvb } => {
                    debug_log::told(&self.name, status, &reply);
                    self.reply(now, server, request, LockAnswer { status, reply, lvb });
                }
                Output::Callback(callback) => self.call(now, server, silent, &callback),
                Output::ReadLvb { resource } => return Some(LockNeed::Lvb(resource)),
                Output::Evict { export, why, after } => {
                    if let Some(of) = server.exports().get(export) {
                        warn!("{} is {}", self.name, silent::told(now, of, why, after));
                    }
                    let why = match why {
                        EvictReason::NotCancelled => Eviction::NotCancelled,
                        EvictReason::NotAnswered => Eviction::NotAnswered,
                    };
                    server.evict(now, export, why);
                }
                Output::Local { cookie, result } => {
                    if let Some(waiting) = self.locals.remove(&cookie) {
                        // An operation waits for all that it requests.
                        let granted = |handle| (handle, self.namespace.bits(handle));
                        let _ = waiting.send(result.map(granted));
                    }
                }
                // Operations are short: their locks end by themselves.
                Output::LocalBlocks { .. } => {}
            }
        }
        None
    }

    fn reply(&mut self, now: Time, server: &mut Server, id: LockRequestId, answer: LockAnswer) {
        if let Some(waiting) = self.enqueues.remove(&id) {
            let _ = waiting.send(answer);
        } else if let Some((begun, request)) = self.converts.remove(&id) {
            debug_log::answered(&self.name, &request, Some(answer.status), now.since(begun));
            server.reply(now, RequestId(id.0), message_of(&request, &answer));
        }
    }

    fn refuse(&self, now: Time, server: &mut Server, request: &Request, errno: Errno) {
        let status = Status::failed(errno);
        debug_log::answered(&self.name, request, Some(status), Duration::ZERO);
        server.reply(now, request.id, Message::error(request.message.format(), status));
    }

    fn call(&mut self, now: Time, server: &mut Server, silent: &Silent, callback: &Callback) {
        debug_log::called(&self.name, callback);
        let exports = server.exports();
        let client = exports.get(callback.export).map(|export| export.client);
        let is_silent = |client| !silent.exports(now, client, exports).is_empty();
        if callback.has_answer
            && client.is_some_and(is_silent)
            && self.namespace.handle_silence(now, callback.export)
        {
            return;
        }
        let lock = &callback.lock.lock;
        let kind = lock.resource.kind;
        let is_on_data = kind == LockType::IBITS && lock.policy.inodebits().bits == InodeBits::DOM;
        let format = match (callback.kind, kind) {
            (CallbackKind::Blocking, _) => &BLOCKING,
            (CallbackKind::Completion, LockType::EXTENT) => &COMPLETION_EXTENT,
            (CallbackKind::Completion, _) if is_on_data => &COMPLETION_DOM,
            (CallbackKind::Completion, _) => &COMPLETION,
            (CallbackKind::Glimpse, LockType::EXTENT) => &GLIMPSED_EXTENT,
            (CallbackKind::Glimpse, LockType::IBITS) => &GLIMPSED_DOM,
            (CallbackKind::Glimpse, _) => &GLIMPSED,
        };
        let mut message = Message::request(format).with(&LOCK_REQUEST, &callback.lock);
        if let Some(lvb) = callback.lvb {
            message = message.with(&OST_LVB, &lvb);
        }
        let call = Call::new(message, CALLBACK_REPLY, self.times.answer);
        match server.call(now, callback.export, call) {
            Some(call) if callback.has_answer => {
                self.callbacks.insert(call, callback.id);
            }
            _ => {}
        }
    }

    /// Sets the attributes of an object.
    pub(crate) fn read(&mut self, now: Time, resource: ResourceId, lvb: Result<OstLvb, Errno>) {
        self.namespace.handle_lvb(now, resource, lvb);
    }

    /// Returns how many operations wait for a lock.
    pub(crate) fn waiting(&self) -> usize {
        self.enqueues.len() + self.locals.len()
    }

    /// Returns whether no operation waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.enqueues.is_empty()
            && self.converts.is_empty()
            && self.locals.is_empty()
            && self.callbacks.is_empty()
    }
}

/// Executes an enqueue without an intent.
///
/// # Errors
/// Why it is not processed.
pub async fn enqueue(context: Context, request: &Request) -> Result<Answer, Errno> {
    let answer = context.enqueue(request, Outcome::Ordinary).await?;
    Ok(Answer::Reply(message_of(request, &answer)))
}

/// Returns the reply to a request about a lock.
pub(crate) fn message_of(request: &Request, answer: &LockAnswer) -> Message<'static> {
    let message = Message::reply(request.message.format(), answer.status);
    let message = message.with(&LOCK_REPLY, &answer.reply);
    match answer.lvb {
        Some(lvb) => message.with(&OST_LVB, &lvb),
        None => message,
    }
}
