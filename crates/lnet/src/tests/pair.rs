//! Two machines back to back: a trivial LND of the test's carries random operations between
//! them, and what lands is compared with what was sent.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{Payload, Rng};

use super::*;

/// One direction of a connection: messages in order, of which the first may be stalled.
#[derive(Default)]
struct Wire {
    queue: VecDeque<(SendRequest, Vec<u8>)>,
    /// The payload of the message that waits for its verdict.
    stalled: Option<(RxId, Vec<u8>)>,
}

struct Node {
    nid: Nid,
    lnet: Lnet,
    memory: BTreeMap<BufferId, Vec<u8>>,
    /// What the LND has and has not finished with.
    sending: Vec<fulmar_base::MessageId>,
    handlers: Vec<EventDone>,
    newest: MdId,
    events: Vec<Event>,
    unlinked: BTreeMap<MdId, u32>,
}

struct Pair {
    rng: Rng,
    now: Time,
    nodes: [Node; 2],
    /// `wires[n]` leads to node `n`.
    wires: [Wire; 2],
    /// The names of the next messages that the nodes receive.
    rx: [u64; 2],
    buffers: u64,
    /// How many PUTs and GETs returned without an error, and how many SEND events there were.
    requests: u64,
}

fn node(n: u32, rng: &mut Rng) -> Node {
    let credits = rng.between(1, 12) as u32;
    let tunables = NiTunables { peer_credits: 4, credits, ..NiTunables::default() };
    let mut lnet = super::node(config());
    lnet.add_ni(Time::ZERO, NiConfig { tunables, ..ni(tcp(n)) }, LND_TIMEOUT).unwrap();
    lnet.start(Time::ZERO);
    lnet.set_lazy(Time::ZERO, PORTAL + 1, true).unwrap();
    Node {
        nid: tcp(n),
        lnet,
        memory: BTreeMap::new(),
        sending: Vec::new(),
        handlers: Vec::new(),
        newest: MdId(0),
        events: Vec::new(),
        unlinked: BTreeMap::new(),
    }
}

impl Node {
    fn read(&self, payload: &Payload) -> Vec<u8> {
        match payload {
            Payload::Empty => Vec::new(),
            Payload::Inline(bytes) => bytes.to_vec(),
            Payload::Span(span) => {
                let start = span.offset as usize;
                self.memory[&span.buffer][start..start + span.len as usize].to_vec()
            }
        }
    }

    /// Puts the front of `bytes` into the sink and returns what goes to the machine itself.
    fn write(&mut self, sink: Sink, bytes: &[u8]) -> Vec<u8> {
        match sink {
            Sink::Discard { .. } => Vec::new(),
            Sink::Inline { len } => bytes[..len as usize].to_vec(),
            Sink::Span(span) => {
                let start = span.offset as usize;
                let memory = self.memory.get_mut(&span.buffer).unwrap();
                memory[start..start + span.len as usize]
                    .copy_from_slice(&bytes[..span.len as usize]);
                Vec::new()
            }
        }
    }
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = [node(1, &mut rng), node(2, &mut rng)];
        let wires = Default::default();
        Self { rng, now: Time::ZERO, nodes, wires, rx: [0; 2], buffers: 0, requests: 0 }
    }

    fn buffer(&mut self, n: usize, len: u64, fill: u8) -> BufferId {
        self.buffers += 1;
        let id = BufferId(self.buffers);
        self.nodes[n].memory.insert(id, vec![fill; len as usize]);
        id
    }

    /// Does one random thing.
    fn step(&mut self) {
        let n = self.rng.below(2) as usize;
        match self.rng.below(12) {
            0 | 1 => self.post_request(n),
            2 => self.post_entry(n),
            3 => self.finish_send(n),
            4 => self.finish_handler(n),
            5 => self.unlink_something(n),
            6 if self.rng.one_in(4) => {
                self.now = self.now + Duration::from_secs(self.rng.below(20));
                self.nodes[n].lnet.handle_timeout(self.now);
            }
            7 if self.rng.one_in(30) => self.break_wire(n),
            8 if self.rng.one_in(20) => {
                self.nodes[n].lnet.discover(self.now, tcp(2 - n as u32), true);
            }
            9 if self.rng.one_in(60) => {
                let _ = self.nodes[n].lnet.peer_del(self.now, tcp(2 - n as u32), &[]);
            }
            10 if self.rng.one_in(60) => self.replace_ni(n),
            _ => self.deliver(n),
        }
        self.pump();
    }

    fn replace_ni(&mut self, n: usize) {
        let Node { nid, lnet, .. } = &mut self.nodes[n];
        lnet.remove_ni(self.now, *nid).unwrap();
        lnet.add_ni(self.now, ni(*nid), LND_TIMEOUT).unwrap();
    }

    fn post_request(&mut self, n: usize) {
        let len = [0, 1, 40, 4096][self.rng.below(4) as usize];
        let fill = self.rng.below(256) as u8;
        let buffer = self.buffer(n, len, fill);
        let looped = self.rng.one_in(5);
        let target = if looped { Nid::LOOPBACK } else { self.nodes[1 - n].nid };
        let portal = PORTAL + self.rng.below(2) as u32;
        let (ack, is_put) = (self.rng.one_in(2), self.rng.one_in(2));
        let threshold = if is_put && !ack { 1 } else { 2 };
        let md = Md { buffer, user: fill.into(), ..bound(len, threshold) };
        let Node { lnet, newest, .. } = &mut self.nodes[n];
        let md = lnet.md_bind(SERVICE, md, Memory::Buffer).unwrap();
        *newest = md;
        let result = if is_put {
            let header_data = fill.into();
            lnet.put(self.now, SERVICE, md, Put { ack, portal, header_data, ..put(target) })
        } else {
            lnet.get(self.now, SERVICE, md, Get { portal, ..get(target) })
        };
        result.unwrap();
        self.requests += 1;
    }

    fn post_entry(&mut self, n: usize) {
        let buffer = self.buffer(n, 10_000, 0xee);
        let both = MdOptions::OP_PUT.with(MdOptions::OP_GET);
        let options = match self.rng.below(3) {
            0 => both,
            1 => both.with(MdOptions::TRUNCATE),
            _ => both.with(MdOptions::MAX_SIZE),
        };
        let threshold = Some(self.rng.between(1, 4) as u32);
        let md =
            Md { buffer, threshold, max_size: 4096, auto_unlink: true, ..posted(10_000, options) };
        let portal = PORTAL + self.rng.below(2) as u32;
        let Node { lnet, newest, .. } = &mut self.nodes[n];
        let me = lnet.me_attach(SERVICE, portal, catch_all()).unwrap();
        *newest = lnet.md_attach(self.now, SERVICE, me, md, Memory::Buffer).unwrap();
    }

    fn finish_send(&mut self, n: usize) {
        let count = self.nodes[n].sending.len() as u64;
        if count > 0 {
            let index = self.rng.below(count) as usize;
            let message = self.nodes[n].sending.remove(index);
            self.nodes[n].lnet.handle_sent(self.now, message, Ok(()));
        }
    }

    fn finish_handler(&mut self, n: usize) {
        if let Some(done) = self.nodes[n].handlers.pop() {
            self.nodes[n].lnet.handle_event_done(self.now, done);
        }
    }

    fn unlink_something(&mut self, n: usize) {
        let md = MdId(self.nodes[n].newest.0.saturating_sub(4 * self.rng.below(40)));
        if self.rng.one_in(4) {
            let _ = self.nodes[n].lnet.md_unlink(self.now, SERVICE, md);
        }
    }

    /// Delivers the next message to node `n`, unless one is stalled.
    fn deliver(&mut self, n: usize) {
        if self.wires[n].stalled.is_some() {
            return;
        }
        let Some((request, bytes)) = self.wires[n].queue.pop_front() else { return };
        assert_eq!(request.next_hop, self.nodes[n].nid);
        let rx = RxId(self.rx[n]);
        self.rx[n] += 1;
        self.wires[n].stalled = Some((rx, bytes));
        let (ni, from, header) = (request.next_hop, request.ni, request.header);
        self.nodes[n]
            .lnet
            .handle_received(self.now, Received { conn: ConnId(rx.0), ni, from, header });
    }

    /// The connection to node `n` dies, with the message that is on it.
    fn break_wire(&mut self, n: usize) {
        if let Some((rx, _)) = self.wires[n].stalled.take() {
            self.nodes[n].lnet.handle_receive_done(self.now, rx, Err(Errno::ECONNRESET));
        }
        self.wires[n].queue.clear();
    }

    fn pump(&mut self) {
        for n in [0, 1] {
            while let Some(output) = self.nodes[n].lnet.poll_output() {
                self.handle(n, output);
            }
        }
        for node in &self.nodes {
            node.lnet.check_invariants().unwrap();
        }
    }

    fn handle(&mut self, n: usize, output: Output) {
        match output {
            Output::Send(request) => {
                let bytes = self.nodes[n].read(&request.payload);
                assert_eq!(bytes.len(), request.header.payload_len as usize);
                self.nodes[n].sending.push(request.message);
                self.wires[1 - n].queue.push_back((request, bytes));
            }
            Output::Verdict { rx, verdict: Verdict::Receive(sink), .. } => {
                let (waiting, bytes) = self.wires[n].stalled.take().unwrap();
                assert_eq!(waiting, rx);
                let inline = self.nodes[n].write(sink, &bytes);
                self.nodes[n].lnet.handle_receive_done(self.now, rx, Ok(inline));
            }
            Output::Verdict { verdict: Verdict::Wait, .. } => {}
            Output::Verdict { verdict: Verdict::Reject, .. } => {
                panic!("no node broke the protocol")
            }
            Output::Copy { copy, from, to } => {
                let bytes = self.nodes[n].read(&from);
                self.nodes[n].write(to, &bytes);
                self.nodes[n].lnet.handle_copied(self.now, copy);
            }
            Output::ReportWaiting { .. } => {
                for message in self.nodes[n].sending.clone() {
                    self.nodes[n].lnet.handle_waiting(self.now, message);
                }
            }
            Output::Event { event, .. } => self.handle_event(n, event),
            Output::Allocate { .. } | Output::Release { .. } => unreachable!("no node routes"),
            Output::Pinged { .. } | Output::Discovered { .. } | Output::Notice(_) => {}
        }
    }

    fn handle_event(&mut self, n: usize, event: Event) {
        let node = &mut self.nodes[n];
        assert!(!node.unlinked.contains_key(&event.md), "an event after the last: {event:?}");
        if event.unlinked {
            node.unlinked.insert(event.md, 1);
        }
        if let Some(done) = event.done {
            node.handlers.push(done);
        }
        if event.kind == EventKind::Put && event.status.is_ok() {
            let span = node.memory.values().find(|memory| {
                let start = event.offset as usize;
                let landed = memory.get(start..start + event.mlength as usize);
                landed.is_some_and(|bytes| bytes.iter().all(|b| u64::from(*b) == event.header_data))
            });
            assert!(span.is_some(), "{event:?} did not land");
        }
        node.events.push(event);
    }

    /// Lets everything that is under way come to its end.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let moving = self.wires.iter().any(|w| !w.queue.is_empty() && w.stalled.is_none())
                || self.nodes.iter().any(|n| !n.sending.is_empty() || !n.handlers.is_empty());
            if !moving {
                break;
            }
            for n in [0, 1] {
                self.deliver(n);
                self.finish_send(n);
                self.finish_handler(n);
            }
            self.pump();
        }
        for n in [0, 1] {
            self.nodes[n].lnet.set_lazy(self.now, PORTAL + 1, false).unwrap();
            self.pump();
        }
    }
}

fn run(seed: u64) {
    let mut pair = Pair::new(seed);
    for _ in 0..3000 {
        pair.step();
    }
    for round in 0..6 {
        pair.settle();
        pair.now = pair.now + Duration::from_secs(160);
        for n in [0, 1] {
            pair.nodes[n].lnet.handle_timeout(pair.now);
        }
        pair.pump();
        let idle = pair.nodes.iter().all(|node| node.lnet.is_idle().is_ok());
        if idle && round > 1 {
            break;
        }
    }
    for node in &pair.nodes {
        node.lnet.is_idle().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(node.lnet.stats().msgs_alloc, 0);
    }
    let sends = pair.nodes.iter().flat_map(|node| &node.events);
    let sends = sends.filter(|event| event.kind == EventKind::Send).count() as u64;
    assert_eq!(sends, pair.requests, "seed {seed}: one SEND event for each request");
    let kinds = |kind| pair.nodes.iter().flat_map(|n| &n.events).filter(|e| e.kind == kind).count();
    for kind in [EventKind::Put, EventKind::Get, EventKind::Reply, EventKind::Ack] {
        assert!(kinds(kind) > 5, "seed {seed}: hardly any {kind:?}");
    }
}

#[test]
fn random_operations_between_two_nodes_keep_every_invariant() {
    for seed in 0..12 {
        run(seed);
    }
}
