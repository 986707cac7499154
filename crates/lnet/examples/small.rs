//! Measures how many small messages the core alone handles: two nodes in one thread exchange PUTs
//! of 64 bytes and their ACKs, eight at a time, and nothing is between them.
//!
//! ```text
//! cargo run --release -p fulmar-lnet --example small [PUTS]
//! ```
#![allow(clippy::disallowed_methods, reason = "the program measures time")]

use std::time::{Duration, Instant};

use fulmar_base::{BufferId, ConnId, Time};
use fulmar_lnd::{NiConfig, NiTunables, Received, RxId, SendRequest, Verdict};
use fulmar_lnet::{
    Bound, Config, EventKind, Globals, Lnet, Md, MdOptions, Me, MePosition, Memory, Op, Output,
    Put, RoutingConfig, ServiceConfig, ServiceId,
};
use fulmar_lnet_wire::{Net, Nid, Pid, ProcessId};

/// The portal of the receiving service.
const PORTAL: u32 = 12;
/// Bytes of each PUT.
const LEN: u64 = 64;
/// PUTs that are under way at once: as many as a peer has credits.
const WINDOW: u64 = 8;
/// PUTs of one measurement, and how many measurements are made.
const PUTS: u64 = 200_000;
const ROUNDS: usize = 5;

fn nid(n: usize) -> Nid {
    Nid::small(Net::TCP, 0x0a00_0001 + n as u32)
}

fn node(n: usize) -> (Lnet, ServiceId) {
    let mut lnet = Lnet::new(Config {
        pid: Pid::LUSTRE,
        interface_cookie: 1 + n as u64,
        globals: Globals::default(),
        routing: RoutingConfig::default(),
    });
    let ni = NiConfig {
        nid: nid(n),
        tunables: NiTunables::default(),
        incarnation: 1,
        conns_per_peer: 1,
        conns_max: 1,
        timeout: None,
    };
    lnet.add_ni(Time::ZERO, ni, Duration::from_secs(50)).expect("the interface is valid");
    lnet.start(Time::ZERO);
    let service = lnet.open_service(ServiceConfig::default());
    (lnet, service)
}

fn descriptor(threshold: Option<u32>, options: MdOptions) -> Md {
    Md {
        buffer: BufferId(7),
        offset: 0,
        len: LEN,
        threshold,
        options,
        max_size: 0,
        auto_unlink: threshold.is_some(),
        user: 0,
    }
}

/// Two nodes. What one sends the other has received at once.
struct Pair {
    nodes: [Lnet; 2],
    services: [ServiceId; 2],
    now: Time,
    posted: u64,
    acknowledged: u64,
    /// Messages of any kind.
    messages: u64,
}

impl Pair {
    fn new() -> Self {
        let [(a, of_a), (mut b, of_b)] = [node(0), node(1)];
        let me = Me {
            match_id: ProcessId::ANY,
            match_bits: 0,
            ignore_bits: u64::MAX,
            unlink: false,
            position: MePosition::After,
        };
        let md = descriptor(None, MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE));
        let attach = Op::Attach { portal: PORTAL, me, md, memory: Memory::Buffer };
        b.post(Time::ZERO, of_b, [attach], |result| {
            result.expect("the entry is valid");
        });
        let (nodes, services, now) = ([a, b], [of_a, of_b], Time::ZERO);
        Self { nodes, services, now, posted: 0, acknowledged: 0, messages: 0 }
    }

    fn put(&mut self) {
        let put = Put {
            ack: true,
            source: None,
            target: ProcessId::lustre(nid(1)),
            portal: PORTAL,
            match_bits: self.posted,
            offset: 0,
            header_data: 0,
        };
        let from = Bound::New(descriptor(Some(2), MdOptions::default()), Memory::Buffer);
        let [node, _] = &mut self.nodes;
        node.post(self.now, self.services[0], [Op::Put { from, put }], |result| {
            result.expect("the operation is valid");
        });
        self.posted += 1;
    }

    /// Does what a node asks for, and returns whether it asked for anything.
    fn step(&mut self, n: usize) -> bool {
        let Some(output) = self.nodes[n].poll_output() else { return false };
        // A microsecond for each step, so that deadlines differ.
        self.now = self.now + Duration::from_micros(1);
        match output {
            Output::Send(request) => self.deliver(n, request),
            Output::Verdict { rx, verdict: Verdict::Receive(sink), .. } => {
                self.complete(n, rx, sink.len());
            }
            Output::Event { event, .. } => {
                self.acknowledged += u64::from(event.kind == EventKind::Ack);
                assert_eq!(event.status, Ok(()));
                if let Some(done) = event.done {
                    self.nodes[n].handle_event_done(self.now, done);
                }
            }
            _ => {}
        }
        true
    }

    fn deliver(&mut self, n: usize, request: SendRequest) {
        let SendRequest { message, ni, next_hop, header, payload } = request;
        self.messages += 1;
        self.nodes[n].handle_sent(self.now, message, Ok(()));
        let other = 1 - n;
        let received = Received { conn: ConnId(1), ni: next_hop, from: ni, header };
        self.nodes[other].handle_received(self.now, received);
        // Ping info is the only payload whose bytes matter.
        if let fulmar_base::Payload::Inline(bytes) = payload {
            while let Some(output) = self.nodes[other].poll_output() {
                if let Output::Verdict { rx, verdict: Verdict::Receive(_), .. } = output {
                    let bytes = bytes.to_vec();
                    return self.nodes[other].handle_receive_done(self.now, rx, Ok(bytes));
                }
            }
        }
    }

    fn complete(&mut self, n: usize, rx: RxId, len: u32) {
        if len > 0 {
            self.nodes[n].handle_receive_done(self.now, rx, Ok(Vec::new()));
        }
    }

    /// Exchanges `puts` PUTs.
    fn run(&mut self, puts: u64) {
        let end = self.posted + puts;
        while self.acknowledged < end {
            while self.posted < end && self.posted < self.acknowledged + WINDOW {
                self.put();
            }
            while self.step(0) || self.step(1) {}
            for node in &mut self.nodes {
                if node.poll_timeout().is_some_and(|at| at <= self.now) {
                    node.handle_timeout(self.now);
                }
            }
        }
    }
}

fn main() {
    let puts = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(PUTS);
    let mut pair = Pair::new();
    pair.run(1000);
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let (begin, before) = (Instant::now(), pair.messages);
        pair.run(puts);
        let rate = (pair.messages - before) as f64 / begin.elapsed().as_secs_f64();
        best = best.max(rate);
        println!("{rate:>10.0} messages/s");
    }
    for node in &pair.nodes {
        node.is_idle().expect("nothing is under way");
    }
    println!("{best:>10.0} messages/s at best, {:.0} ns each", 1e9 / best);
}
