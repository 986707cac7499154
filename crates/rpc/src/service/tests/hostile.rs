//! Peers that break the rules, or take what they can.

use fulmar_base::Rng;
use fulmar_lustre_wire::ldlm::LockRequest;
use fulmar_lustre_wire::message::{ConnectOpFlags, Container};
use proptest::prelude::*;

use fulmar_lustre_wire::format;

use super::*;

#[test]
fn ten_thousand_connects_whose_replies_are_not_taken_stay_within_the_bounds() {
    let mut rig = Rig::new(config());
    rig.sends = false;
    for n in 0..10_000 {
        rig.send_unchecked(node(1), 128 * (n + 1), &connect(&format!("client-{n}")));
        while let Some(Task::Execute(request)) = rig.tasks.pop_front() {
            let data = Offer::MGS.grant(&request.message.require(&CONNECT_DATA).unwrap());
            let reply = Message::reply(&MGS_CONNECT, Status::OK).with(&CONNECT_DATA, &data);
            rig.server.reply(rig.now, request.id, reply);
            rig.drain();
        }
    }
    rig.server.check_invariants().unwrap();
    let limits = (ExportLimits::default(), Bounds::default());
    assert_eq!(rig.server.exports().len(), limits.0.of_node as usize);
    assert_eq!(rig.sent.len(), limits.1.of_node as usize + 16);
    assert_eq!(rig.stats().refused[&Errno::ENOMEM], 2048 + 16 - 1024);
    assert_eq!(rig.dropped(DropReason::Busy), 10_000 - 2048 - 16);
    // Another node is served.
    rig.sent.clear();
    rig.send(node(2), 128, &connect("other"));
    let export = rig.grant().message().body.handle;
    assert!(rig.server.exports().get(export).is_some());
    // When the messages fail, everything is free again, but for the exports until they are silent.
    for id in 0..3000 {
        rig.finish_send(1 << 63 | id << 1, Err(Errno::EHOSTUNREACH));
    }
    rig.server.is_idle().unwrap();
    rig.advance(200);
    assert!(rig.server.exports().is_empty());
}

#[test]
fn a_node_that_fills_the_queue_can_still_ping_and_others_are_served() {
    let mut rig = Rig::new(config());
    let one = rig.connect(node(1), "one");
    let two = rig.connect(node(2), "two");
    for n in 0..3000 {
        rig.send_unchecked(node(1), 256 + 128 * n, &modify(one));
    }
    rig.server.check_invariants().unwrap();
    assert_eq!(rig.dropped(DropReason::Busy), 3000 - 2048);
    rig.tasks.clear();
    assert_eq!(rig.ask(node(1), 1 << 30, &ping(one)).status(), (Kind::REPLY, 0));
    assert_eq!(rig.ask(node(2), 256, &ping(two)).status(), (Kind::REPLY, 0));
}

#[test]
fn no_node_takes_the_place_of_a_client_of_another_node() {
    let mut rig = Rig::new(config());
    let one = rig.connect(node(1), "one");
    let guessed = Handle(one.0 + 1);
    let disconnect = |export| request(&format::MGS_DISCONNECT, export);
    for message in [ping(guessed), modify(guessed), disconnect(guessed)] {
        assert_eq!(rig.ask(node(2), 256, &message).status(), (Kind::ERROR, -107));
    }
    // A connect in its name, as a new client and as one that knows the handle of its export.
    let again = |handle, flags| {
        let mut message = connect("one").with(&CONNECTION, &Handle(78));
        (message.body.handle, message.body.connect_flags) = (handle, flags);
        message.body.connection_count = 9;
        message
    };
    for flags in [ConnectOpFlags::INITIAL, ConnectOpFlags::RECONNECT] {
        for handle in [Handle::NONE, one] {
            let sent = rig.ask(node(2), 384, &again(handle, flags));
            assert_eq!(sent.status(), (Kind::ERROR, -114), "{flags:?} {handle}");
        }
    }
    let refused = [(Errno(107), 3), (Errno(114), 4)];
    assert_eq!(rig.stats().refused, refused.into_iter().collect());
    assert_eq!(rig.ask(node(1), 256, &ping(one)).status(), (Kind::REPLY, 0));
    assert!(rig.tasks.is_empty(), "the host has seen nothing of it");
    rig.send(node(1), 384, &disconnect(one));
    let id = rig.request().id;
    rig.reply(id, Message::reply(&format::MGS_DISCONNECT, Status::OK));
    rig.server.is_idle().unwrap();
    assert!(rig.server.exports().is_empty());
}

#[test]
fn numbers_that_repeat_or_go_backwards_are_executed_at_most_once_at_a_time() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    for xid in [512, 512, 384, 512, 256, 384] {
        rig.send(node(1), xid, &modify(export));
    }
    assert_eq!((rig.tasks.len(), rig.dropped(DropReason::InProgress)), (3, 3));
    let mut tasks = std::mem::take(&mut rig.tasks);
    while let Some(Task::Execute(request)) = tasks.pop_front() {
        let reply = Message::reply(request.message.format(), Status::OK);
        rig.server.reply(rig.now, request.id, reply);
        rig.drain();
    }
    let bits: Vec<u64> = rig.sent.drain(..).map(|sent| sent.put.match_bits).collect();
    assert_eq!(bits, [512, 384, 256]);
    // The client has all replies up to 512: what is not newer is wrong, however often it comes.
    let mut message = ping(export);
    message.body.last_xid = 512;
    assert_eq!(rig.ask(node(1), 640, &message).status(), (Kind::REPLY, 0));
    for xid in [512, 256, 0] {
        assert_eq!(rig.ask(node(1), xid, &ping(export)).status(), (Kind::ERROR, -71), "{xid}");
    }
    assert_eq!(rig.stats().refused[&Errno(71)], 3);
    rig.server.is_idle().unwrap();
}

#[test]
fn a_reused_descriptor_is_posted_again() {
    let mut rig = Rig::new(config());
    let event = Event {
        kind: EventKind::Put,
        target: node(0),
        initiator: node(1),
        source: node(1),
        portal: portal::MGS_REQUEST,
        ..Event::unlinked(MdId(2), 2)
    };
    rig.server.handle_event(rig.now, &event, Vec::new());
    rig.drain();
    assert_eq!(rig.attached, 5);
    rig.server.handle_event(rig.now, &Event::unlinked(MdId(2), 2), Vec::new());
    rig.drain();
    assert_eq!(rig.attached, 5, "the service is closed");
    rig.server.handle_posted(rig.now, 1, Err(Errno::EPERM));
    rig.drain();
    let failed = Task::PortalFailed { portal: portal::MGS_REQUEST, errno: Errno::EPERM };
    assert_eq!(rig.tasks.pop_front(), Some(failed));
}

#[test]
fn no_buffer_of_a_connect_may_be_of_another_size() {
    let connect_with = |place: usize, len: usize| {
        let whole = connect("one").to_bytes();
        let container = Container::decode(&whole).unwrap();
        let mut buffers = container.buffers.clone();
        buffers[place] = vec![0xff; len].into();
        let mut bytes = Vec::new();
        Container { buffers, ..container }.encode(&mut bytes);
        bytes
    };
    let outcomes = |place: usize, len: usize| {
        let mut rig = Rig::new(config());
        rig.deliver(node(1), portal::MGS_REQUEST, 128, connect_with(place, len));
        let refused = rig.sent.pop_front().map(|sent| sent.status().1);
        rig.server.is_idle().unwrap();
        assert!(rig.server.exports().is_empty() && rig.tasks.is_empty());
        (refused, rig.dropped(DropReason::Malformed))
    };
    // The body: too short, and not a body.
    assert_eq!(outcomes(0, 100), (None, 1));
    assert_eq!(outcomes(0, 184), (None, 1));
    // The target, the client, the handle, the data.
    for (place, lens, errno) in
        [(1, [0, 50], -22), (2, [0, 50], -22), (3, [0, 7], -22), (4, [0, 71], -71)]
    {
        for len in lens {
            assert_eq!(outcomes(place, len), (Some(errno), 0), "buffer {place} of {len} bytes");
        }
    }
}

#[test]
fn a_request_of_the_greatest_length_is_taken() {
    // Longer ones do not fit into a descriptor, so that LNet drops them.
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    let mut bytes = ping(export).to_bytes();
    bytes.resize(7 << 10, 0);
    rig.deliver(node(1), portal::MGS_REQUEST, 256, bytes);
    assert_eq!(rig.sent.pop_front().unwrap().status(), (Kind::REPLY, 0));
    let mut server = Server::new(config());
    let lens: Vec<(u64, u32)> = std::iter::from_fn(|| server.poll_output())
        .map(|output| match output {
            ServiceOutput::Post(Op::Attach { md, .. }) => (md.len, md.max_size),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lens, [(1 << 20, 7 << 10); 4]);
}

proptest! {
    #[test]
    fn damaged_messages_do_no_harm(
        n in 0..3_usize,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut rig = Rig::new(config());
        let export = rig.connect(node(1), "one");
        let mut bytes = [connect("two"), ping(export), modify(export)][n].to_bytes();
        for (place, value) in damage {
            *place.get_mut(&mut bytes) = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        rig.deliver(node(2), portal::MGS_REQUEST, 256, bytes);
        let replies = rig.sent.len();
        let tasks = rig.tasks.len();
        let dropped: u64 = rig.stats().dropped.values().sum();
        prop_assert!(replies + dropped as usize + tasks >= 1, "each is accounted for");
        let mut running = Vec::new();
        take(&mut rig, &mut Vec::new(), &mut running);
        finish(&mut rig, &mut running, 0);
    }

    #[test]
    fn any_bytes_are_dropped(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut rig = Rig::new(config());
        rig.deliver(node(1), portal::MGS_REQUEST, 256, bytes);
        prop_assert_eq!(rig.dropped(DropReason::Malformed), 1);
        prop_assert!(rig.server.is_idle().is_ok());
    }
}

/// Random requests of few clients, most of them valid, some damaged: the tables agree after each.
#[test]
fn no_sequence_of_requests_leaks_anything() {
    let (mut replays, mut recovered) = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut config = config();
        config.targets[0].operations =
            &[Opcode::MGS_TARGET_REG, Opcode::MDS_REINT, Opcode::LDLM_ENQUEUE];
        config.partitions[0].running_max = 1 + rng.below(4) as u32;
        config.partitions[0].bounds.of_node = 6;
        let mut rig = Rig::new(config);
        rig.sends = rng.below(2) == 0;
        let mut exports = vec![Handle(3)];
        let recovers = rng.below(2) == 0;
        if recovers {
            let known = |n| KnownClient { client: uuid(&format!("client-{n}")), replies: vec![] };
            let known: Vec<KnownClient> = (0..3).map(known).collect();
            exports = rig.server.recover(rig.now, MGS, &known, Window::default());
        }
        let mut running = Vec::new();
        for _ in 0..200 {
            step(&mut rig, &mut rng, &mut exports, &mut running);
            let is_replay = |one: &&Request| one.message.body.transno != 0;
            replays += running.iter().filter(is_replay).count();
            rig.server.check_invariants().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        recovered += usize::from(recovers && !rig.server.recovers(MGS));
        rig.sends = true;
        finish(&mut rig, &mut running, seed);
    }
    assert!(replays > 100 && recovered > 10, "{replays} replays, {recovered} recovered");
}

fn step(rig: &mut Rig, rng: &mut Rng, exports: &mut Vec<Handle>, running: &mut Vec<Request>) {
    let from = node(rng.below(3) as u32 + 1);
    let export = exports[rng.below(exports.len() as u64) as usize];
    let mut message = match rng.below(8) {
        0 | 1 => connect(&format!("client-{}", rng.below(4))),
        2 => ping(export),
        3 if rng.one_in(4) => request(&format::MGS_DISCONNECT, export),
        3 => {
            let lock = LockRequest { handles: vec![Handle(1)], ..LockRequest::default() };
            request(&format::ENQUEUE, export).with(&format::LOCK_REQUEST, &lock)
        }
        4 => request(&format::REINT_SETATTR, export),
        _ => modify(export),
    };
    let body = &mut message.body;
    body.connection_count = rng.below(4) as u32;
    body.tag = rng.below(3) as u16;
    body.last_xid = if rng.one_in(10) { rng.below(2000) } else { 0 };
    body.timeout = rng.below(20) as u32;
    body.flags = MessageFlags(
        [0, 0, 2, 2, 2, 4, 0x40, 0xc0][rng.below(8) as usize * usize::from(rng.one_in(2))],
    );
    let odds = if rig.server.recovers(MGS) { 3 } else { 50 };
    body.transno = if rng.one_in(odds) { rng.below(20) } else { 0 };
    if rng.one_in(4) {
        body.handle = export;
    }
    let mut bytes = message.to_bytes();
    if rng.one_in(5) {
        let place = rng.below(bytes.len() as u64) as usize;
        bytes[place] ^= 1 << rng.below(8);
        bytes.truncate(
            rng.between(0, bytes.len() as u64) as usize + usize::from(rng.one_in(2)) * 1000,
        );
    }
    rig.deliver(from, portal::MGS_REQUEST, 128 * rng.below(12), bytes);
    take(rig, exports, running);
    if rng.one_in(3) && !running.is_empty() {
        let request = running.swap_remove(rng.below(running.len() as u64) as usize);
        answer(rig, rng, &request);
        take(rig, exports, running);
    }
    if rng.one_in(20) {
        rig.advance(rng.below(60));
        take(rig, exports, running);
    }
    if rng.one_in(30) {
        rig.server.evict(rig.now, export, Eviction::Administrator);
        rig.drain();
        take(rig, exports, running);
    }
}

/// Drains the tasks of the host and the handles of replies.
fn take(rig: &mut Rig, exports: &mut Vec<Handle>, running: &mut Vec<Request>) {
    for task in rig.tasks.drain(..) {
        if let Task::Execute(request) = task {
            running.push(*request);
        }
    }
    let sent: Vec<Sent> = rig.sent.drain(..).collect();
    for sent in sent {
        let handle = sent.message().body.handle;
        if !handle.is_none() && !exports.contains(&handle) {
            exports.push(handle);
        }
        if !rig.sends {
            rig.finish_send(sent.user, Ok(()));
        }
    }
}

fn answer(rig: &mut Rig, rng: &mut Rng, request: &Request) {
    let format = request.message.format();
    let mut reply = Message::reply(format, Status::OK);
    if let Ok(Some(data)) = request.message.get(&CONNECT_DATA) {
        reply = reply.with(&CONNECT_DATA, &Offer::MGS.grant(&data));
    }
    // A replay keeps its transaction.
    reply.body.transno = match request.message.body.transno {
        0 => rng.below(2),
        transno => transno * rng.below(2),
    };
    match rng.below(6) {
        0 => rig.server.discard(rig.now, request.id),
        1 => {
            let error = Message::error(format, Status::failed(Errno::EIO));
            rig.server.reply(rig.now, request.id, error);
        }
        _ => rig.server.reply(rig.now, request.id, reply),
    }
    rig.drain();
}

fn finish(rig: &mut Rig, running: &mut Vec<Request>, seed: u64) {
    let mut exports = Vec::new();
    rig.server.abort_recovery(rig.now, MGS);
    rig.drain();
    take(rig, &mut exports, running);
    while let Some(request) = running.pop() {
        rig.server.discard(rig.now, request.id);
        rig.drain();
        take(rig, &mut exports, running);
    }
    rig.server.is_idle().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    rig.advance(1000);
    rig.advance(1000);
    assert!(rig.server.exports().is_empty());
    assert_eq!(rig.server.poll_timeout(), None);
}

impl Rig {
    /// Sends without a check of all tables.
    pub(super) fn send_unchecked(&mut self, from: ProcessId, xid: u64, message: &Message<'_>) {
        let bytes = message.to_bytes();
        let event = Event {
            kind: EventKind::Put,
            target: node(0),
            initiator: from,
            source: from,
            portal: portal::MGS_REQUEST,
            match_bits: xid,
            unlinked: false,
            ..Event::unlinked(MdId(0), 0)
        };
        self.server.handle_event(self.now, &event, bytes);
        self.drain();
    }
}
