//! Two machines, connected by byte streams with random cuts.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use fulmar_base::{BufferId, Rng, Span};
use fulmar_lnd::{CloseCause, DialError, FailureClass};

const NIDS: [Nid; 2] = [LOW, HIGH];

/// The end of a connection: its node, and its ID there.
type End = (usize, ConnId);

/// Two nodes, the network between them, and an owner for each that stores the payload.
struct Pair {
    nodes: [Socklnd; 2],
    now: Time,
    rng: Rng,
    /// The other end.
    joined: BTreeMap<End, End>,
    /// Queued writes that are not in the socket.
    unsent: BTreeMap<End, VecDeque<u8>>,
    /// Bytes in the socket that this end has not read.
    unread: BTreeMap<End, VecDeque<u8>>,
    /// Ends whose peer has closed.
    ended: Vec<End>,
    dials: VecDeque<(End, SocketAddr)>,
    /// Payload received so far on each connection, with the name of its message.
    receiving: BTreeMap<End, (u64, Vec<u8>)>,
    received: Vec<(usize, u64)>,
    sent: Vec<(usize, u64, Result<(), SendError>)>,
    notices: Vec<Notice>,
    /// Number of connection attempts that will fail.
    refuse: u32,
}

impl Pair {
    fn new(seed: u64, config: &Config) -> Self {
        let node = |nid: Nid| {
            let mut node = Socklnd::new(config.clone());
            node.add_ni(Time::ZERO, &ni(nid));
            node
        };
        Self {
            nodes: NIDS.map(node),
            now: Time::from_secs(1),
            rng: Rng::new(seed),
            joined: BTreeMap::new(),
            unsent: BTreeMap::new(),
            unread: BTreeMap::new(),
            ended: Vec::new(),
            dials: VecDeque::new(),
            receiving: BTreeMap::new(),
            received: Vec::new(),
            sent: Vec::new(),
            notices: Vec::new(),
            refuse: 0,
        }
    }

    /// Sends message `name` from node `from`; its length and bytes follow from its name.
    fn send(&mut self, from: usize, name: u64) {
        let len = length(name);
        let (source, target) = (NIDS[from], NIDS[1 - from]);
        let span = Span { buffer: BufferId(name), offset: 0, len };
        let request = SendRequest {
            message: MessageId(name),
            ni: source,
            next_hop: target,
            header: put_header(source, target, name, len),
            payload: if len == 0 { Payload::Empty } else { Payload::Span(span) },
        };
        self.nodes[from].send(self.now, request);
        self.drain(from);
    }

    /// Moves bytes until none are left.
    fn run(&mut self) {
        while self.step() {}
    }

    fn run_for(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        loop {
            self.run();
            let next = self.nodes.iter().filter_map(Socklnd::poll_timeout).min();
            let Some(at) = next.filter(|&at| at <= until) else { break };
            self.now = self.now.max(at);
            for node in 0..2 {
                self.nodes[node].handle_timeout(self.now);
                self.drain(node);
            }
        }
        self.now = until;
    }

    /// Performs one random step, if there is any.
    fn step(&mut self) -> bool {
        self.now = Time(self.now.0 + 1);
        let mut choices: Vec<(u8, Option<End>)> = Vec::new();
        choices.extend(self.dials.front().map(|_| (0, None)));
        let waiting = |queue: &VecDeque<u8>| !queue.is_empty();
        choices.extend(self.unsent.iter().filter(|e| waiting(e.1)).map(|e| (1, Some(*e.0))));
        choices.extend(self.unread.iter().filter(|e| waiting(e.1)).map(|e| (2, Some(*e.0))));
        let silent = |end: &&End| !self.unread.get(end).is_some_and(waiting);
        choices.extend(self.ended.iter().filter(silent).map(|end| (3, Some(*end))));
        let Some(&choice) = choices.get(self.rng.below(choices.len() as u64) as usize) else {
            return false;
        };
        match choice {
            (1, Some(end)) => self.carry(end),
            (2, Some(end)) => self.read(end),
            (3, Some(end)) => {
                self.ended.retain(|ended| *ended != end);
                self.unsent.remove(&end);
                self.nodes[end.0].handle_closed(self.now, end.1, CloseCause::Eof);
                self.drain(end.0);
            }
            _ => self.connect(),
        }
        true
    }

    fn connect(&mut self) {
        let Some(((node, conn), remote)) = self.dials.pop_front() else { return };
        let local = addr(NIDS[node], 1023);
        let other = 1 - node;
        let accepted = match self.refuse {
            0 => self.nodes[other].handle_accepted(self.now, remote, local),
            _ => None,
        };
        self.refuse = self.refuse.saturating_sub(1);
        let result = accepted.map(|_| local).ok_or(DialError(Errno::ECONNREFUSED));
        if let Some(accepted) = accepted {
            self.joined.insert((node, conn), (other, accepted));
            self.joined.insert((other, accepted), (node, conn));
        }
        self.nodes[node].handle_dialled(self.now, conn, result);
        self.drain(node);
    }

    /// Puts some bytes into the socket.
    fn carry(&mut self, end: End) {
        let queue = self.unsent.get_mut(&end).unwrap();
        let len = self.rng.between(1, queue.len().min(3_000) as u64) as usize;
        let bytes: Vec<u8> = queue.drain(..len).collect();
        let other = self.joined[&end];
        self.unread.entry(other).or_default().extend(bytes);
        self.nodes[end.0].handle_sent(self.now, end.1, len as u64);
        self.drain(end.0);
    }

    /// Reads some bytes, as the machine needs them.
    fn read(&mut self, end: End) {
        let (node, conn) = end;
        let queue = self.unread.get_mut(&end).unwrap();
        let len = self.rng.between(1, queue.len().min(3_000) as u64) as usize;
        let bytes: Vec<u8> = queue.iter().copied().take(len).collect();
        let used = match self.nodes[node].need(conn) {
            Need::Bytes(_) => self.nodes[node].handle_bytes(self.now, conn, &bytes),
            Need::Payload { sink, crc } => {
                let len = len.min(sink.len() as usize);
                let bytes = &bytes[..len];
                if let Sink::Span(_) = sink {
                    self.receiving.get_mut(&end).unwrap().1.extend(bytes);
                }
                let crc = crc.map(|state| checksum::update(state, bytes));
                self.nodes[node].handle_payload(self.now, conn, len as u32, crc);
                len
            }
            Need::Nothing => queue.len(),
            need @ (Need::Verdict | Need::Wait) => panic!("{need:?} was answered"),
        };
        self.unread.get_mut(&end).unwrap().drain(..used);
        self.drain(node);
    }

    fn drain(&mut self, node: usize) {
        while let Some(output) = self.nodes[node].poll_output() {
            match output {
                Output::Stream(Stream::Dial { conn, remote, .. }) => {
                    self.dials.push_back(((node, conn), remote))
                }
                Output::Stream(Stream::Write { conn, head, payload, checksum }) => {
                    self.write((node, conn), head, &payload, checksum);
                }
                Output::Stream(Stream::Close { conn, flush }) => {
                    self.close((node, conn), flush);
                    self.nodes[node].handle_stopped(self.now, conn, 0);
                }
                Output::Received(Received { conn, header, .. }) => {
                    self.judge((node, conn), &header)
                }
                Output::Completed { rx, result } => self.complete((node, ConnId(rx.0)), result),
                Output::Sent { message, result } => self.sent.push((node, message.0, result)),
                Output::Path { .. } | Output::Waiting { .. } => {}
                Output::Notice(notice) => self.notices.push(notice),
            }
        }
    }

    fn write(&mut self, end: End, mut head: Vec<u8>, payload: &Payload, checksum: bool) {
        let bytes = match payload {
            Payload::Empty => Vec::new(),
            Payload::Inline(bytes) => bytes.to_vec(),
            Payload::Span(span) => content(span.buffer.0, span.len),
        };
        if checksum {
            let sum = checksum::of(&head, &bytes);
            FrameHeader::set_checksum(&mut head, sum);
        }
        let queue = self.unsent.entry(end).or_default();
        queue.extend(head);
        queue.extend(bytes);
    }

    fn close(&mut self, end: End, flush: bool) {
        self.dials.retain(|(dialled, _)| *dialled != end);
        let rest = self.unsent.remove(&end).unwrap_or_default();
        self.unread.remove(&end);
        self.ended.retain(|ended| *ended != end);
        let Some(&other) = self.joined.get(&end) else { return };
        if flush {
            self.unread.entry(other).or_default().extend(rest);
        }
        self.ended.push(other);
    }

    fn judge(&mut self, end: End, header: &Header) {
        let Body::Put { match_bits: name, .. } = header.body else { panic!("{header:?}") };
        let len = header.payload_len;
        self.receiving.insert(end, (name, Vec::new()));
        let sink = match len {
            0..500 => Sink::Inline { len },
            _ => Sink::Span(Span { buffer: BufferId(name), offset: 0, len }),
        };
        self.nodes[end.0].handle_verdict(self.now, end.1, rx_on(end.1), Verdict::Receive(sink));
    }

    fn complete(&mut self, end: End, result: Result<Vec<u8>, Errno>) {
        let (name, mut bytes) = self.receiving.remove(&end).unwrap();
        if let Ok(inline) = result {
            bytes.extend(inline);
            assert!(bytes == content(name, length(name)), "the bytes of message {name} changed");
            self.received.push((end.0, name));
        }
    }

    /// Requires that both ends have the same connections.
    #[track_caller]
    fn assert_agreed(&self, conns: usize) {
        let kinds = |node: usize| {
            let kinds = self.nodes[node].conns().into_iter().map(|info| info.kind);
            let mut kinds: Vec<_> = kinds.collect();
            kinds.sort();
            kinds
        };
        let mut mirrored: Vec<_> = kinds(1).iter().map(|kind| kind.mirror().unwrap()).collect();
        mirrored.sort();
        assert_eq!(kinds(0), mirrored);
        assert_eq!(kinds(0).len(), conns);
    }
}

fn length(name: u64) -> u32 {
    [0, 1, 100, 927, 928, 4_000, 20_000][name as usize % 7]
}

fn content(name: u64, len: u32) -> Vec<u8> {
    (0..len).map(|i| (u64::from(i) * 7 + name) as u8).collect()
}

/// Every other seed requests acknowledgements.
fn acknowledged_or_not(seed: u64) -> Config {
    let zc_min_payload = (seed % 2 == 1).then_some(1_000);
    Config { zc_min_payload, ..Config::default() }
}

#[test]
fn messages_arrive_whole_and_once_in_every_version() {
    for (seed, version) in [Version::V1, Version::V2, Version::V3, Version::V4]
        .into_iter()
        .cycle()
        .take(24)
        .enumerate()
    {
        let config = Config { version, enable_csum: true, ..acknowledged_or_not(seed as u64 / 4) };
        let mut pair = Pair::new(seed as u64, &config);
        for name in 0..60 {
            let from = pair.rng.below(2) as usize;
            pair.send(from, name);
            for _ in 0..pair.rng.below(20) {
                pair.step();
            }
        }
        pair.run_for(10);
        let mut names: Vec<_> = pair.received.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        assert_eq!(names, (0..60).collect::<Vec<_>>(), "seed {seed}: {:?}", pair.notices);
        assert!(pair.sent.iter().all(|(_, _, result)| result.is_ok()));
        pair.assert_agreed(3);
    }
}

#[test]
fn simultaneous_dials_end_with_one_set() {
    let mut races = 0;
    for seed in 0..200 {
        let mut pair = Pair::new(seed, &Config::default());
        let first = (seed % 2) as usize;
        pair.send(first, 1);
        pair.send(1 - first, 2);
        pair.run_for(10);
        pair.received.sort_unstable();
        assert_eq!(pair.received.len(), 2, "seed {seed}: {:?}", pair.notices);
        pair.assert_agreed(3);
        let refused: Vec<_> = pair.nodes.iter().map(|node| node.counters().refused_races).collect();
        assert_eq!(refused[0], 0, "the higher NID wins");
        races += refused[1];
    }
    assert!(races > 100, "only {races} races in 200 runs");
}

#[test]
fn a_restarted_node_is_connected_again() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed, &Config::default());
        pair.send(0, 1);
        pair.run_for(3);
        // It loses its memory, and its sockets without a notification to the other end.
        let mut node = Socklnd::new(Config::default());
        let ni = NiConfig { incarnation: OUR_INCARNATION + 1, ..ni(NIDS[0]) };
        node.add_ni(Time::ZERO, &ni);
        // IDs of connections are never reused: those of the old incarnation do not collide.
        for _ in 0..100 {
            let conn = node.handle_accepted(pair.now, addr(LOW, 988), addr(HIGH, 1)).unwrap();
            node.handle_closed(pair.now, conn, CloseCause::Eof);
        }
        pair.nodes[0] = node;
        pair.unsent.clear();
        pair.unread.clear();
        pair.send(0, 2);
        pair.run_for(5);
        assert!(pair.notices.contains(&Notice::Restarted { peer: LOW }), "{:?}", pair.notices);
        assert_eq!(pair.received, [(1, 1), (1, 2)]);
        pair.assert_agreed(3);
    }
}

#[test]
fn a_peer_that_starts_late_is_reached() {
    let mut pair = Pair::new(1, &Config::default());
    pair.refuse = 3;
    for name in 0..4 {
        pair.send(0, name);
        pair.run_for(60);
    }
    let refused = Err(SendError::remote_dropped(Errno::ECONNREFUSED));
    assert_eq!(pair.sent[..3], [(0, 0, refused), (0, 1, refused), (0, 2, refused)]);
    assert_eq!(pair.sent[3], (0, 3, Ok(())));
}

#[test]
fn connections_that_break_at_random_lose_no_answer() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed, &acknowledged_or_not(seed));
        for name in 0..100 {
            let from = pair.rng.below(2) as usize;
            pair.send(from, name);
            for _ in 0..pair.rng.below(30) {
                pair.step();
            }
            if pair.rng.one_in(10) {
                let node = pair.rng.below(2) as usize;
                pair.nodes[node].close_peer(pair.now, NIDS[1 - node]);
                pair.drain(node);
            }
            if pair.rng.one_in(20) {
                pair.run_for(2);
            }
        }
        pair.run_for(120);
        let mut answered: Vec<_> = pair.sent.iter().map(|(_, name, _)| *name).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..100).collect::<Vec<_>>(), "seed {seed}");
        assert!(pair.receiving.is_empty());
        pair.received.sort_unstable();
        let before = pair.received.len();
        pair.received.dedup();
        assert_eq!(pair.received.len(), before, "no message arrives twice");
        // Both nodes still communicate.
        pair.send(0, 100);
        pair.run_for(5);
        assert!(pair.received.contains(&(1, 100)), "seed {seed}: {:?}", pair.notices);
    }
}

/// LNet sends dropped messages again, without a check for duplicates.
#[test]
fn dropped_messages_have_not_arrived_after_path_failures() {
    let mut retired = 0;
    for seed in 0..150 {
        let mut pair = Pair::new(seed, &acknowledged_or_not(seed));
        for name in 0..100 {
            let from = pair.rng.below(2) as usize;
            pair.send(from, name);
            for _ in 0..pair.rng.below(30) {
                pair.step();
            }
            pair.trouble();
        }
        for (node, nid) in NIDS.into_iter().enumerate() {
            pair.nodes[node].handle_link(pair.now, nid, true);
            pair.drain(node);
        }
        pair.refuse = 0;
        pair.run_for(300);
        let mut answered: Vec<_> = pair.sent.iter().map(|(_, name, _)| *name).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..100).collect::<Vec<_>>(), "seed {seed}");
        pair.received.sort_unstable();
        for (node, name, result) in &pair.sent {
            let arrived = pair.received.iter().filter(|got| **got == (1 - node, *name)).count();
            match result {
                Err(SendError {
                    class: FailureClass::LocalDropped | FailureClass::RemoteDropped,
                    ..
                }) => {
                    assert_eq!(arrived, 0, "seed {seed}: message {name} was dropped: {result:?}");
                }
                _ => assert!(arrived <= 1, "seed {seed}: message {name} arrived twice"),
            }
        }
        pair.send(0, 100);
        pair.send(1, 101);
        pair.run_for(5);
        assert!(pair.received.contains(&(1, 100)), "seed {seed}: {:?}", pair.notices);
        assert!(pair.received.contains(&(0, 101)), "seed {seed}: {:?}", pair.notices);
        retired += pair.nodes.iter().map(|node| node.counters().retired).sum::<u64>();
    }
    assert!(retired > 1_000, "only {retired} connections were retired");
}

impl Pair {
    /// Injects or removes a failure at one of the nodes.
    fn trouble(&mut self) {
        let node = self.rng.below(2) as usize;
        let conns = self.nodes[node].conns();
        match self.rng.below(12) {
            0 if !conns.is_empty() => {
                let conn = conns[self.rng.below(conns.len() as u64) as usize].conn;
                self.nodes[node].handle_stalled(self.now, conn);
            }
            1 => self.nodes[node].handle_link(self.now, NIDS[node], false),
            2 | 3 => self.nodes[node].handle_link(self.now, NIDS[node], true),
            4 if self.rng.one_in(3) => self.nodes[node].close_peer(self.now, NIDS[1 - node]),
            5 => self.refuse = 1,
            6 => self.run_for(2),
            _ => {}
        }
        self.drain(node);
    }
}
