//! The locks of kernel clients: the messages of the recorded servers go in, and what comes out is what
//! the recorded clients sent.

use std::collections::BTreeMap;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::format::{LAYOUT, LOCK_REPLY, LOCK_REQUEST, LVB, OST_LVB};
use fulmar_lustre_wire::message::Message;
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};

use super::*;

#[test]
fn a_client_answers_and_cancels_as_the_recorded_one() {
    for (name, counts) in [
        ("contend", Counts { enqueues: 54, callbacks: 28, cancels: 22, converts: 0 }),
        ("data", Counts { enqueues: 87, callbacks: 169, cancels: 167, converts: 3 }),
        ("meta", Counts { enqueues: 362, callbacks: 5, cancels: 7, converts: 0 }),
    ] {
        with_calls(name, |calls| {
            let mut playback = Playback::default();
            playback.play(&calls.rpcs);
            assert_eq!(playback.counts, counts, "{name}");
        });
    }
}

#[test]
fn locks_are_replayed_as_the_recorded_client_does() {
    let mut count = 0;
    with_calls("recovery", |calls| {
        for rpc in &calls.rpcs {
            let Some(recorded) = lock_request(rpc) else { continue };
            if !recorded.flags.has(LockFlags::REPLAY) {
                continue;
            }
            let LockDesc { resource, requested, policy, .. } = recorded.lock;
            let mut world = World::new();
            let lock = world.granted(LockSpec::new(resource, requested, policy), 1);
            world.ns.replay(world.now);
            let Output::Replay { request, .. } = world.output() else { panic!("a replay") };
            let handles = vec![world.ns.cookie(lock), Handle::NONE];
            assert_eq!(*request, LockRequest { handles, ..recorded });
            let reply = &rpc.reply().expect("it is answered").message;
            let answer = Answer {
                status: reply.body.status,
                reply: reply.get(&LOCK_REPLY).unwrap(),
                lvb: &[],
            };
            world.ns.handle_replayed(world.now, lock, Ok(answer));
            assert_eq!(world.output(), Output::Replayed);
            count += 1;
        }
    });
    assert_eq!(count, 10);
}

fn with_calls(name: &str, check: impl FnOnce(Calls<'_>)) {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    check(Calls::of(&items));
}

fn lock_request(rpc: &Rpc<'_>) -> Option<LockRequest> {
    rpc.request.message.get(&LOCK_REQUEST).ok().flatten()
}

fn value_block<'a>(message: &'a Message<'_>) -> &'a [u8] {
    let blocks = [message.bytes(&OST_LVB), message.bytes(&LVB), message.bytes(&LAYOUT)];
    blocks.into_iter().flatten().next().unwrap_or_default()
}

/// What was compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    enqueues: usize,
    callbacks: usize,
    cancels: usize,
    converts: usize,
}

/// A recorded client, and ours in its place.
struct Client {
    world: World,
    /// Our locks by the recorded handles of the client and of the server.
    cookies: BTreeMap<Handle, LockId>,
    servers: BTreeMap<Handle, LockId>,
    /// What is sent before the recorded client sends it, by the first handle.
    sent: BTreeMap<Handle, LockRequest>,
    /// The answers to callbacks, by their XIDs.
    answers: BTreeMap<u64, (Status, Vec<u8>)>,
    /// The attributes that the recorded client reported.
    attributes: BTreeMap<u64, Option<Vec<u8>>>,
}

impl Default for Client {
    fn default() -> Self {
        let world = World::with(|settings| {
            settings.unused_max = usize::MAX;
            settings.age_max = Duration::MAX;
        });
        let (cookies, servers, sent) = Default::default();
        Self {
            world,
            cookies,
            servers,
            sent,
            answers: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }
}

#[derive(Default)]
struct Playback {
    clients: BTreeMap<Nid, Client>,
    counts: Counts,
}

impl Playback {
    fn play(&mut self, rpcs: &[Rpc<'_>]) {
        let requests = rpcs.iter().map(|rpc| (rpc.request.time, false, rpc));
        let replies = rpcs.iter().filter_map(|rpc| Some((rpc.reply()?.time, true, rpc)));
        let mut all: Vec<_> = requests.chain(replies).collect();
        all.sort_by_key(|(time, is_reply, _)| (*time, *is_reply));
        for (time, is_reply, rpc) in all {
            let opcode = rpc.request.message.body.opcode;
            let is_callback = rpc.portal == fulmar_lustre_wire::portal::LDLM_CALLBACK_REQUEST;
            let client = if is_callback { rpc.server } else { rpc.client };
            let client = self.clients.entry(client).or_default();
            client.world.now = Time::from_secs(1000) + time.since(Time::ZERO);
            let counts = &mut self.counts;
            match (opcode, is_reply) {
                (Opcode::LDLM_ENQUEUE, false) => client.enqueue(rpc),
                (Opcode::LDLM_ENQUEUE, true) => {
                    client.enqueued(rpc);
                    counts.enqueues += 1;
                }
                (Opcode::LDLM_CANCEL, false) => {
                    client.compare_cancel(rpc);
                    counts.cancels += 1;
                }
                (Opcode::LDLM_CONVERT, false) => {
                    client.compare_convert(rpc);
                    counts.converts += 1;
                }
                (Opcode::LDLM_CONVERT, true) => client.converted(rpc),
                (_, false) if is_callback => client.callback(rpc),
                (_, true) if is_callback => {
                    let reply = &rpc.reply().expect("it is a reply").message;
                    let expected = (reply.body.status, value_block(reply).to_vec());
                    assert_eq!(client.answers.remove(&rpc.xid), Some(expected));
                    counts.callbacks += 1;
                }
                (_, false) => client.give_up_early(lock_request(rpc).as_ref(), 0),
                (_, true) => {}
            }
        }
        for client in self.clients.values() {
            assert_eq!(client.sent, BTreeMap::new(), "the recorded client sent it too");
        }
    }
}

impl Client {
    /// The recorded client requests a lock.
    fn enqueue(&mut self, rpc: &Rpc<'_>) {
        let recorded = lock_request(rpc).expect("a lock is requested");
        self.give_up_early(Some(&recorded), 1);
        let LockDesc { resource, requested, policy, .. } = recorded.lock;
        let early = recorded.valid_handles().get(1..).unwrap_or_default().to_vec();
        let wanted = LockSpec { early, ..LockSpec::new(resource, requested, policy).always() };
        let (lock, request) = self.world.send(wanted.with(recorded.flags));
        self.cookies.insert(recorded.handles[0], lock);
        let mut handles = recorded.handles.clone();
        handles[0] = self.world.ns.cookie(lock);
        assert_eq!(request, LockRequest { handles, ..recorded });
    }

    fn enqueued(&mut self, rpc: &Rpc<'_>) {
        let recorded = lock_request(rpc).expect("a lock is requested");
        let lock = self.cookies[&recorded.handles[0]];
        let reply = &rpc.reply().expect("it is a reply").message;
        let answer = Answer {
            status: reply.body.status,
            reply: reply.get(&LOCK_REPLY).expect("a reply"),
            lvb: value_block(reply),
        };
        if let Some(reply) = answer.reply.filter(|reply| !reply.handle.is_none()) {
            self.servers.insert(reply.handle, lock);
        }
        self.world.ns.handle_enqueued(self.world.now, lock, Ok(answer));
        self.drain();
    }

    /// A request gives up locks: they are flushed before.
    fn give_up_early(&mut self, request: Option<&LockRequest>, from: usize) {
        let handles = request.map_or(&[][..], LockRequest::valid_handles);
        for handle in handles.iter().skip(from) {
            if let Some(&lock) = self.servers.get(handle)
                && self.world.ns.cancel(self.world.now, lock)
            {
                self.drain();
                assert!(self.sent.remove(handle).is_some(), "the request has it");
            }
        }
    }

    fn callback(&mut self, rpc: &Rpc<'_>) {
        let recorded = lock_request(rpc).expect("a callback names a lock");
        if !self.cookies.contains_key(&recorded.handles[0]) {
            self.lock_from_before(&recorded);
        }
        let message = &rpc.request.message;
        let kind = match message.body.opcode {
            Opcode::LDLM_BL_CALLBACK => CallbackKind::Blocking,
            Opcode::LDLM_CP_CALLBACK => CallbackKind::Completion,
            _ => CallbackKind::Glimpse,
        };
        let reply = rpc.reply().map(|reply| value_block(&reply.message).to_vec());
        self.attributes.insert(rpc.xid, reply.filter(|lvb| !lvb.is_empty()));
        let mut request = recorded.clone();
        request.handles[0] = self.world.ns.cookie(self.cookies[&recorded.handles[0]]);
        let lvb = value_block(message);
        let callback = Callback { id: rpc.xid, kind, request: &request, lvb };
        self.world.ns.handle_callback(self.world.now, callback);
        self.drain();
    }

    /// A lock that was granted before the recording.
    fn lock_from_before(&mut self, callback: &LockRequest) {
        let resource = callback.lock.resource;
        let policy = match resource.kind {
            LockType::EXTENT => extent(0, Extent::EOF),
            _ => ibits(InodeBits::LOOKUP | InodeBits::UPDATE, InodeBits::NONE),
        };
        let wanted = LockSpec::new(resource, LockMode::PW, policy).always();
        let lock = self.world.cached(wanted, callback.handles[1].0);
        self.cookies.insert(callback.handles[0], lock);
        self.servers.insert(callback.handles[1], lock);
    }

    fn compare_cancel(&mut self, rpc: &Rpc<'_>) {
        let recorded = lock_request(rpc).expect("a cancel names locks");
        let own = recorded.valid_handles().iter().filter_map(|handle| self.servers.get(handle));
        let own: Vec<LockId> = own.copied().collect();
        if !self.sent.contains_key(&recorded.handles[0]) {
            // The recorded client had reasons of its own.
            for &lock in &own {
                assert!(self.world.ns.cancel(self.world.now, lock), "{lock:?} is held");
            }
            self.drain();
        }
        let sent = self.sent.remove(&recorded.handles[0]);
        if own.len() == recorded.count as usize {
            assert_eq!(sent, Some(recorded))
        } else {
            // Others are from before the recording.
            assert_eq!(sent.map_or(0, |sent| sent.count as usize), own.len())
        }
    }

    fn compare_convert(&mut self, rpc: &Rpc<'_>) {
        let recorded = lock_request(rpc).expect("a convert names a lock");
        assert_eq!(self.sent.remove(&recorded.handles[0]), Some(recorded));
    }

    fn converted(&mut self, rpc: &Rpc<'_>) {
        let recorded = lock_request(rpc).expect("a convert names a lock");
        let lock = self.servers[&recorded.handles[0]];
        let reply = rpc.reply().and_then(|reply| reply.message.get(&LOCK_REPLY).ok()).flatten();
        let known = |handle| self.cookies.get(&handle).map(|&lock| self.world.ns.cookie(lock));
        let reply = reply
            .map(|reply| LockReply { handle: known(reply.handle).unwrap_or_default(), ..reply });
        self.world.ns.handle_converted(self.world.now, lock, Ok(reply));
        self.drain();
    }

    /// Does what a host does: every lock is used shortly, and flushed at once.
    fn drain(&mut self) {
        while let Some(output) = self.world.ns.poll_output() {
            let now = self.world.now;
            match output {
                Output::Granted { lock, .. } => drop(self.world.ns.release(now, lock)),
                Output::Flush { lock, .. } => assert!(self.world.ns.flushed(now, lock)),
                Output::Answer { callback, status, lvb } => {
                    self.answers.insert(callback, (status, lvb));
                }
                Output::Glimpse { callback, lock } => {
                    let lvb = self.attributes.remove(&callback).flatten();
                    self.world.ns.attributes(now, callback, lock, lvb);
                }
                Output::Cancel { request, .. } | Output::Convert { request, .. } => {
                    let before = self.sent.insert(request.handles[0], *request);
                    assert_eq!(before, None, "it is sent once");
                }
                Output::NoLock { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        self.world.ns.check_invariants();
    }
}
