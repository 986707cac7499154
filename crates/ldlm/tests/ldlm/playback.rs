//! Plays the requests of a capture to a namespace, and compares all that comes out.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_ldlm::server::{
    Answer, Callback, CallbackKind, Config, Enqueue, Features, IntentResult, LocalEnqueue,
    Namespace, Outcome, Output, RequestId,
};
use fulmar_lustre_wire::format::{INTENT, LOCK_REPLY, LOCK_REQUEST, OST_LVB};
use fulmar_lustre_wire::ldlm::{
    Extent, InodeBits, Intent, IntentOps, LockDesc, LockFlags, LockMode, LockReply, LockRequest,
    LockType, OstLvb, Policy, ResourceId,
};
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, portal};
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlaybackCounts {
    pub(crate) enqueues: u32,
    pub(crate) blocking: u32,
    pub(crate) completion: u32,
    pub(crate) glimpse: u32,
    /// Locks of the server itself, which are seen by their callbacks only.
    pub(crate) local: u32,
    /// Locks that the recorded server granted while it wrote the reply that they wait.
    pub(crate) late: u32,
    /// Callbacks about locks that are older than the capture.
    pub(crate) older: u32,
}

/// Plays the requests of traces for locks of a type, and compares all that comes out.
pub(crate) fn play(names: &[&str], kind: LockType, config: Config) -> PlaybackCounts {
    names
        .iter()
        .map(|name| play_one(name, kind, config))
        .fold(PlaybackCounts::default(), PlaybackCounts::plus)
}

fn play_one(name: &str, kind: LockType, config: Config) -> PlaybackCounts {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let calls = Calls::of(&items);
    let mut playback = Playback::new(&calls, kind, config);
    for (now, rpc, is_reply) in in_order(&calls) {
        playback.now = now;
        playback.step(rpc, is_reply);
        playback.namespace.check_invariants().unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(playback.callbacks.is_empty(), "not recorded: {:?}", playback.callbacks);
    assert!(playback.replies.is_empty(), "not recorded: {:?}", playback.replies);
    playback.played
}

impl PlaybackCounts {
    fn plus(self, other: Self) -> Self {
        Self {
            enqueues: self.enqueues + other.enqueues,
            blocking: self.blocking + other.blocking,
            completion: self.completion + other.completion,
            glimpse: self.glimpse + other.glimpse,
            local: self.local + other.local,
            late: self.late + other.late,
            older: self.older + other.older,
        }
    }
}

/// Returns all requests and replies with their times.
fn in_order<'c, 'a>(calls: &'c Calls<'a>) -> Vec<(Time, &'c Rpc<'a>, bool)> {
    let requests = calls.rpcs.iter().map(|rpc| (rpc.request.time, rpc, false));
    let replies = calls.rpcs.iter().filter_map(|rpc| Some((rpc.reply()?.time, rpc, true)));
    let mut all: Vec<_> = requests.chain(replies).collect();
    all.sort_by_key(|(time, ..)| *time);
    all
}

struct Playback {
    namespace: Namespace,
    kind: LockType,
    now: Time,
    /// The attributes that servers sent, by object and time.
    lvbs: BTreeMap<(ResourceId, Time), OstLvb>,
    /// Recorded handles of the server, by request.
    recorded: BTreeMap<RequestId, Handle>,
    /// Our handle for each recorded one.
    handles: BTreeMap<Handle, Handle>,
    /// The client of each export.
    clients: BTreeMap<Handle, String>,
    replies: BTreeMap<RequestId, (Status, LockReply, Option<OstLvb>)>,
    callbacks: Vec<Callback>,
    /// Requests whose intent is executed under a lock of the server, by the name of that lock.
    intents: BTreeMap<u64, (Handle, LockRequest, IntentResult)>,
    /// Our callback for each recorded one, by XID.
    under_way: BTreeMap<u64, Callback>,
    played: PlaybackCounts,
}

impl Playback {
    fn new(calls: &Calls<'_>, kind: LockType, config: Config) -> Self {
        let mut issued = 0;
        let namespace = Namespace::new(config, move || {
            issued += 1;
            Handle(issued)
        });
        let mut lvbs = BTreeMap::new();
        for rpc in &calls.rpcs {
            let Some(lock) = lock_of(&rpc.request.message) else { continue };
            let sent = if rpc.portal == portal::LDLM_CALLBACK_REQUEST {
                Some(&rpc.request)
            } else {
                rpc.reply()
            };
            let lvb = sent.and_then(|packet| Some((packet.time, lvb_of(&packet.message)?)));
            if let Some((time, lvb)) = lvb {
                lvbs.insert((lock.lock.resource.id, time), lvb);
            }
        }
        let (recorded, handles, clients, replies) = Default::default();
        let (callbacks, intents, under_way, played, now) = Default::default();
        Self {
            namespace,
            kind,
            now,
            lvbs,
            recorded,
            handles,
            clients,
            replies,
            callbacks,
            intents,
            under_way,
            played,
        }
    }

    fn step(&mut self, rpc: &Rpc<'_>, is_reply: bool) {
        let opcode = rpc.request.message.body.opcode;
        let lock = lock_of(&rpc.request.message);
        let is_ours = lock.as_ref().is_some_and(|lock| lock.lock.resource.kind == self.kind);
        match (opcode, lock) {
            (Opcode::OST_WRITE, _) if is_reply => self.read_all(),
            (Opcode::LDLM_ENQUEUE, Some(lock)) if is_ours => {
                if is_reply {
                    self.compare_reply(rpc)
                } else {
                    self.enqueue(rpc, lock)
                }
            }
            (Opcode::LDLM_CANCEL, Some(lock)) if !is_reply => self.cancel(rpc, lock),
            (Opcode::MDS_REINT | Opcode::MDS_CLOSE, Some(lock)) if !is_reply => {
                self.cancel(rpc, lock);
            }
            (
                Opcode::LDLM_BL_CALLBACK | Opcode::LDLM_CP_CALLBACK | Opcode::LDLM_GL_CALLBACK,
                Some(lock),
            ) if is_ours => {
                if is_reply {
                    self.answer(rpc)
                } else {
                    self.compare_callback(rpc, &lock)
                }
            }
            _ => {}
        }
        self.drain();
    }

    fn enqueue(&mut self, rpc: &Rpc<'_>, lock: LockRequest) {
        let body = &rpc.request.message.body;
        let export = body.handle;
        if !lock.flags.has(LockFlags::REPLAY) {
            self.namespace.end_recovery(self.now);
        } else {
            self.namespace.begin_recovery();
            // The target was restarted: what it had of the client is gone with the earlier export.
            let has_it = |old: &&Handle| self.namespace.find(**old, lock.handles[0]).is_some();
            let old = self.clients.keys().filter(|&&old| old != export).find(has_it).copied();
            if let Some(old) = old {
                self.namespace.handle_disconnect(self.now, old);
            }
        }
        self.clients.insert(export, rpc.client.to_string());
        self.namespace.handle_connect(export, Features::default());
        let request = RequestId(rpc.xid);
        let reply: LockReply =
            rpc.reply().unwrap().message.get(&LOCK_REPLY).unwrap().unwrap_or_default();
        self.recorded.insert(request, reply.handle);
        let is_resent = body.flags.has(MessageFlags::RESENT);
        let outcome = Outcome::Ordinary;
        self.played.enqueues += 1;
        if self.kind == LockType::IBITS {
            return self.intent(rpc, lock, &reply);
        }
        let enqueue = Enqueue { request, export, lock, is_resent, outcome };
        self.namespace.handle_enqueue(self.now, enqueue);
    }

    /// Executes an intent as the server did: it takes the lock that the client got in the end.
    fn intent(&mut self, rpc: &Rpc<'_>, mut lock: LockRequest, recorded: &LockReply) {
        for handle in &mut lock.handles[1..] {
            *handle = self.handles.get(handle).copied().unwrap_or_default();
        }
        let message = &rpc.request.message;
        let export = message.body.handle;
        self.namespace.handle_early_cancels(self.now, export, &lock);
        let result = IntentResult { disposition: recorded.result1, status: recorded.result2 };
        let intent: Option<Intent> = message.get(&INTENT).ok().flatten();
        let outcome = match intent {
            _ if recorded.handle.is_none() => {
                match rpc.reply().unwrap().message.body.status.errno() {
                    Some(errno) => Outcome::Failed(errno),
                    None => Outcome::Aborted(result),
                }
            }
            None => Outcome::Ordinary,
            Some(intent)
                if intent.ops == IntentOps::LAYOUT
                    && !recorded.flags.has(LockFlags::LOCK_CHANGED) =>
            {
                Outcome::Executed(result)
            }
            Some(_) => {
                let LockDesc { resource, requested: mode, mut policy, .. } = recorded.lock;
                // Its server wants the layout only if that is free.
                let layout = policy.words[0] & InodeBits::LAYOUT.0;
                policy.words = [policy.words[0] & !layout, layout, 0];
                self.intents.insert(rpc.xid, (export, lock, result));
                return self.take(rpc.xid, resource.id, mode, policy, false);
            }
        };
        let request = RequestId(rpc.xid);
        let enqueue = Enqueue { request, export, lock, is_resent: false, outcome };
        self.namespace.handle_enqueue(self.now, enqueue);
    }

    /// The server has a lock of its own: it gives it to the client whose intent it has executed, or
    /// gives it up.
    fn taken(&mut self, cookie: u64, lock: Handle) {
        match self.intents.remove(&cookie) {
            None => self.namespace.handle_local_cancel(self.now, &[lock]),
            Some((export, request, result)) => {
                let outcome = Outcome::Replaced(lock, result);
                let (lock, request) = (request, RequestId(cookie));
                let enqueue = Enqueue { request, export, lock, is_resent: false, outcome };
                self.namespace.handle_enqueue(self.now, enqueue);
            }
        }
    }

    fn cancel(&mut self, rpc: &Rpc<'_>, mut lock: LockRequest) {
        for handle in &mut lock.handles {
            *handle = self.handles.get(handle).copied().unwrap_or_default();
        }
        let export = rpc.request.message.body.handle;
        let _ = self.namespace.handle_cancel(self.now, export, &lock);
    }

    /// The reply is the recorded one, but for the handle.
    fn compare_reply(&mut self, rpc: &Rpc<'_>) {
        let recorded = &rpc.reply().unwrap().message;
        let expected: LockReply = recorded.get(&LOCK_REPLY).unwrap().unwrap_or_default();
        let (status, reply, lvb) = self
            .replies
            .remove(&RequestId(rpc.xid))
            .unwrap_or_else(|| panic!("{:#x} {:?}", rpc.xid, rpc.request.message));
        let handle = if reply.handle.is_none() { Handle::NONE } else { expected.handle };
        let mut ours = LockReply { handle, ..reply };
        let is_late = expected.flags.has(LockFlags::BLOCK_GRANTED)
            && !expected.flags.has(LockFlags::REPLAY)
            && expected.lock.granted != LockMode(0);
        if is_late {
            self.played.late += 1;
            ours.lock = expected.lock;
        }
        assert_eq!((status, ours), (recorded.body.status, expected), "{:#x}", rpc.xid);
        assert_eq!(lvb, lvb_of(recorded), "{:#x}", rpc.xid);
    }

    /// The callback is the recorded one, but for our handle.
    fn compare_callback(&mut self, rpc: &Rpc<'_>, recorded: &LockRequest) {
        let kind = match rpc.request.message.body.opcode {
            Opcode::LDLM_BL_CALLBACK => CallbackKind::Blocking,
            Opcode::LDLM_CP_CALLBACK => CallbackKind::Completion,
            _ => CallbackKind::Glimpse,
        };
        let client = rpc.server.to_string();
        let is_recorded = |this: &Self| {
            this.callbacks.iter().position(|one| {
                let of_client = this.clients.get(&one.export) == Some(&client);
                of_client && one.kind == kind && one.lock.handles[0] == recorded.handles[0]
            })
        };
        if !self.handles.contains_key(&recorded.handles[1]) && kind == CallbackKind::Blocking {
            self.played.older += 1;
            return;
        }
        let found = is_recorded(self).or_else(|| {
            self.lock_as_server(rpc.xid, recorded);
            is_recorded(self)
        });
        let found = found.unwrap_or_else(|| panic!("{:#x} {recorded:?}", rpc.xid));
        let callback = self.callbacks.remove(found);
        let mut expected = recorded.clone();
        expected.handles[1] = self.handles.get(&recorded.handles[1]).copied().unwrap_or_default();
        assert_eq!(callback.lock, expected, "{:#x}", rpc.xid);
        assert_eq!(callback.lvb, lvb_of(&rpc.request.message), "{:#x}", rpc.xid);
        match kind {
            CallbackKind::Blocking => self.played.blocking += 1,
            CallbackKind::Completion => self.played.completion += 1,
            CallbackKind::Glimpse => self.played.glimpse += 1,
        }
        self.under_way.insert(rpc.xid, callback);
    }

    /// The server itself took a lock: to remove an object, or to change a log.
    fn lock_as_server(&mut self, cookie: u64, recorded: &LockRequest) {
        let LockDesc { resource, requested: mode, mut policy, .. } = recorded.lock;
        policy.words[1] = if self.kind == LockType::EXTENT { Extent::EOF } else { 0 };
        let discards_data = recorded.flags.has(LockFlags::DISCARD_DATA);
        self.take(cookie, resource.id, mode, policy, discards_data);
        self.drain();
        self.played.local += 1;
    }

    fn take(
        &mut self,
        cookie: u64,
        resource: ResourceId,
        mode: LockMode,
        policy: Policy,
        discards_data: bool,
    ) {
        let (kind, is_immediate) = (self.kind, false);
        self.namespace.handle_local_enqueue(
            self.now,
            LocalEnqueue { cookie, resource, kind, mode, policy, is_immediate, discards_data },
        );
    }

    fn answer(&mut self, rpc: &Rpc<'_>) {
        let Some(callback) = self.under_way.remove(&rpc.xid) else { return };
        let reply = &rpc.reply().unwrap().message;
        let answer = Answer::Answered(reply.body.status, lvb_of(reply));
        self.namespace.handle_answer(self.now, callback.id, answer);
    }

    /// Returns what the server found next when it looked at an object.
    fn next_lvb(&self, id: ResourceId) -> Option<OstLvb> {
        self.lvbs.range((id, self.now)..=(id, Time::MAX)).next().map(|(_, lvb)| *lvb)
    }

    /// A client has written: the host knows the attributes of its objects.
    fn read_all(&mut self) {
        let ids: std::collections::BTreeSet<_> = self.lvbs.keys().map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(lvb) = self.next_lvb(id) {
                self.namespace.set_lvb(id, lvb);
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.namespace.poll_output() {
            match output {
                Output::Reply { request, status, reply, lvb } => {
                    let recorded = self.recorded[&request];
                    if !recorded.is_none() {
                        self.handles.insert(recorded, reply.handle);
                    }
                    self.replies.insert(request, (status, *reply, lvb));
                }
                Output::Callback(callback) => self.callbacks.push(*callback),
                Output::ReadLvb { resource } => {
                    let lvb = self.next_lvb(resource).unwrap_or_default();
                    self.namespace.handle_lvb(self.now, resource, Ok(lvb));
                }
                Output::Local { cookie, result } => self.taken(cookie, result.unwrap()),
                Output::LocalBlocks { .. } => {}
                other @ Output::Evict { .. } => panic!("{other:?}"),
            }
        }
    }
}

fn lock_of(message: &Message<'_>) -> Option<LockRequest> {
    message.get(&LOCK_REQUEST).ok().flatten()
}

fn lvb_of(message: &Message<'_>) -> Option<OstLvb> {
    message.get(&OST_LVB).ok().flatten()
}
