//! Arbitrary operations of an application, an LND and a clock on one LNet machine. After each its
//! invariants hold; when all operations have ended, it is idle.

use std::time::Duration;

use fulmar_base::{BufferId, Errno, MessageId, PathNews, Sink, Time, Verdict};
use fulmar_lnet::{
    Config, CopyId, EventDone, Forwarding, Get, Globals, Lnet, Md, MdId, MdOptions, Me, MeId,
    MePosition, NiConfig, NiTunables, Output, Put, Received, RouteConfig, RouterBuffers,
    RoutingConfig, RxId, SendFailure,
};
use fulmar_lnet_wire::{Body, Handle, Header, MTU, Net, Nid, PING_MATCH_BITS, Pid, ProcessId};

use crate::Choices;

/// Runs the operations that the bytes encode.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut world = World::new(&mut choices);
    while !choices.is_empty() {
        world.step(&mut choices);
        world.check();
    }
    world.finish();
}

struct World {
    lnet: Lnet,
    now: Time,
    sending: Vec<MessageId>,
    /// Messages whose payload is being received, and its sink.
    receiving: Vec<(RxId, Sink)>,
    copying: Vec<CopyId>,
    handling: Vec<EventDone>,
    mes: Vec<MeId>,
    mds: Vec<MdId>,
    next_rx: u64,
}

impl World {
    fn new(choices: &mut Choices<'_>) -> Self {
        let globals = Globals { discovery: choices.flag(), ..Globals::default() };
        let buffers = RouterBuffers { tiny: 2, small: 2, large: 2 };
        let forwarding = choices.flag();
        let routing = RoutingConfig { forwarding, buffers, ..RoutingConfig::default() };
        let config = Config { pid: Pid::LUSTRE, interface_cookie: COOKIE, globals, routing };
        let mut lnet = Lnet::new(config);
        let now = Time::from_secs(1);
        let tunables = NiTunables { peer_credits: 2, credits: 3, ..NiTunables::default() };
        let lnd_timeout = Duration::from_secs(50);
        for nid in OURS {
            let ni = NiConfig { nid, tunables, lnd_timeout };
            lnet.add_ni(now, ni).expect("the interfaces differ");
        }
        lnet.start(now);
        let (sending, receiving, copying, handling) = (vec![], vec![], vec![], vec![]);
        let (mes, mds, next_rx) = (vec![], vec![], 0);
        Self { lnet, now, sending, receiving, copying, handling, mes, mds, next_rx }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0 | 1 => self.attach(choices),
            2..=4 => self.request(choices),
            5..=8 => self.receive(choices),
            9 => self.end_send(choices),
            10 => self.end_receive(choices),
            11 => self.end_local(choices),
            12 => self.unlink(choices),
            13 => self.administer(choices),
            _ => self.pass(Duration::from_millis(choices.below(20_000) as u64)),
        }
        self.drain();
    }

    fn attach(&mut self, choices: &mut Choices<'_>) {
        let peer = peer(choices);
        let me = Me {
            match_id: choices.of(&[peer, ProcessId::ANY]),
            match_bits: choices.below(4) as u64,
            ignore_bits: choices.below(4) as u64,
            unlink: choices.flag(),
            position: choices.of(&[MePosition::Before, MePosition::After]),
        };
        let Ok(me) = self.lnet.me_attach(choices.of(&PORTALS), me) else { return };
        self.mes.push(me);
        let md = descriptor(choices);
        self.mds.extend(self.lnet.md_attach(self.now, me, md).ok());
    }

    fn request(&mut self, choices: &mut Choices<'_>) {
        let Ok(md) = self.lnet.md_bind(descriptor(choices)) else { return };
        self.mds.push(md);
        let (peer, own) = (peer(choices), ProcessId::lustre(choices.of(&OURS)));
        let target = choices.of(&[peer, peer, own]);
        let source = choices.flag().then(|| choices.of(&OURS));
        let (portal, match_bits) = (choices.of(&PORTALS), choices.below(4) as u64);
        let offset = choices.below(5000) as u32;
        // Either may be refused: the descriptor then stays bound.
        let _ = if choices.flag() {
            let (ack, header_data) = (choices.flag(), 1);
            let put = Put { md, ack, source, target, portal, match_bits, offset, header_data };
            self.lnet.put(self.now, put)
        } else {
            self.lnet.get(self.now, Get { md, source, target, portal, match_bits, offset })
        };
    }

    fn receive(&mut self, choices: &mut Choices<'_>) {
        self.next_rx += 1;
        let (rx, ni) = (RxId(self.next_rx), choices.of(&OURS));
        let source = peer(choices);
        let (other, beyond) = (peer(choices).nid, remote(choices));
        let target = choices.of(&[ni, ni, ni, source.nid, other, beyond]);
        let from = choices.of(&[source.nid, source.nid, other]);
        let (match_bits, portal) = (choices.below(4) as u64, choices.of(&PORTALS));
        let (offset, object) = (choices.below(5000) as u32, choices.below(64) as u64);
        let handle = choices.of(&[Handle { interface: COOKIE, object }, Handle::NONE]);
        let match_bits = choices.of(&[match_bits, PING_MATCH_BITS]);
        let length = choices.of(&[0, 8, 300, 4096, MTU]);
        let (body, payload_len) = match choices.below(4) {
            0 => (Body::Put { ack: handle, match_bits, header_data: 0, portal, offset }, length),
            1 => {
                let sink_len = length;
                (Body::Get { reply: handle, match_bits, portal, offset, sink_len }, 0)
            }
            2 => (Body::Reply { handle }, length),
            _ => (Body::Ack { handle, match_bits, accepted: length }, choices.of(&[0, 0, 0, 1])),
        };
        let (target_pid, source_pid) = (Pid::LUSTRE, source.pid);
        let source = source.nid;
        let header = Header { target, source, target_pid, source_pid, payload_len, body };
        self.lnet.handle_received(self.now, Received { rx, ni, from, header });
    }

    fn end_send(&mut self, choices: &mut Choices<'_>) {
        let Some(message) = take(&mut self.sending, choices) else { return };
        let failure = choices.of(&[
            SendFailure::RemoteDropped,
            SendFailure::LocalDropped,
            SendFailure::NetworkTimeout,
        ]);
        let ok = choices.below(4) > 0;
        let result = if ok { Ok(()) } else { Err((failure, Errno::ETIMEDOUT)) };
        self.lnet.handle_sent(self.now, message, result);
    }

    fn end_receive(&mut self, choices: &mut Choices<'_>) {
        let Some((rx, sink)) = take(&mut self.receiving, choices) else { return };
        let bytes = match sink {
            Sink::Inline { len } => (0..len).map(|_| choices.byte()).collect(),
            Sink::Discard { .. } | Sink::Span(_) => vec![],
        };
        let ok = choices.below(4) > 0;
        let result = if ok { Ok(bytes) } else { Err(Errno::ECONNRESET) };
        self.lnet.handle_receive_done(self.now, rx, result);
    }

    fn end_local(&mut self, choices: &mut Choices<'_>) {
        if choices.flag() {
            if let Some(copy) = take(&mut self.copying, choices) {
                self.lnet.handle_copied(self.now, copy);
            }
        } else if let Some(done) = take(&mut self.handling, choices) {
            self.lnet.handle_event_done(self.now, done);
        }
    }

    fn unlink(&mut self, choices: &mut Choices<'_>) {
        // Unlinked or busy descriptors are refused.
        if choices.flag() {
            let _ = take(&mut self.mds, choices).map(|md| self.lnet.md_unlink(self.now, md));
        } else {
            let _ = take(&mut self.mes, choices).map(|me| self.lnet.me_unlink(self.now, me));
        }
    }

    fn administer(&mut self, choices: &mut Choices<'_>) {
        let nid = peer(choices).nid;
        match choices.below(7) {
            6 => self.rails(choices, nid),
            0 => {
                let timeout = Duration::from_secs(choices.below(10) as u64);
                self.lnet.ping(self.now, ProcessId::lustre(nid), None, timeout);
            }
            1 => {
                self.lnet.discover(self.now, nid, choices.flag());
            }
            2 => {
                let others = [peer(choices).nid];
                let _ = self.lnet.peer_add(self.now, nid, &others, choices.flag());
            }
            3 => {
                let _ = self.lnet.peer_del(self.now, nid, &[]);
            }
            4 => {
                let _ = self.lnet.set_lazy(self.now, choices.of(&PORTALS), choices.flag());
            }
            _ => self.lnet.reset_stats(),
        }
    }

    /// Changes rails, routes and forwarding; any change may be refused.
    fn rails(&mut self, choices: &mut Choices<'_>, nid: Nid) {
        let (now, ours) = (self.now, choices.of(&OURS));
        let lnet = &mut self.lnet;
        match choices.below(10) {
            0 => lnet.handle_link(now, ours, choices.flag()),
            1 => {
                let news = [PathNews::Up, PathNews::Down, PathNews::Stalled];
                lnet.handle_path(now, ours, nid, choices.of(&news));
            }
            2 => {
                let _ = lnet.set_ni_enabled(now, ours, choices.flag());
            }
            3 => {
                let _ = lnet.set_peer_ni_health(now, Some(nid), choices.below(1100) as u32);
            }
            4 => {
                let _ = lnet.set_ni_health(now, Some(ours), choices.below(1100) as u32);
            }
            5 | 6 => {
                let (net, hops) = (remote(choices).net(), choices.flag().then_some(1));
                let route = RouteConfig { net, gateway: nid, hops, priority: 0 };
                let _ = lnet.route_add(now, route);
            }
            7 => {
                let _ = lnet.route_del(now, None, Some(nid));
            }
            8 => {
                let wish = [Forwarding::Enable, Forwarding::Disable, Forwarding::Drain];
                let _ = lnet.set_forwarding(now, choices.of(&wish));
            }
            _ => {
                let each = 1 + choices.below(3) as u32;
                let buffers = RouterBuffers { tiny: each, small: each, large: each };
                let _ = lnet.set_router_buffers(now, buffers);
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        if self.lnet.poll_timeout().is_some_and(|at| at <= self.now) {
            self.lnet.handle_timeout(self.now);
            let next = self.lnet.poll_timeout();
            assert!(next.is_none_or(|at| at > self.now), "a deadline is due again at once");
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.lnet.poll_output() {
            match output {
                Output::Send(request) => self.sending.push(request.message),
                Output::Verdict { rx, verdict: Verdict::Receive(sink) } => {
                    self.receiving.push((rx, sink));
                }
                Output::Copy { copy, .. } => self.copying.push(copy),
                Output::Event(event) => self.handling.extend(event.done),
                Output::Verdict { .. } => {}
                Output::Service { .. } => unreachable!("no service is here"),
                Output::Allocate { .. } | Output::Release { .. } => {}
                Output::Pinged { .. } | Output::Discovered { .. } | Output::Notice(_) => {}
            }
        }
    }

    fn check(&self) {
        self.lnet.check_invariants().unwrap_or_else(|error| panic!("{error}"));
        // An administrator may call these at any time.
        let _ = (self.lnet.nis(), self.lnet.peers(), self.lnet.stats(), self.lnet.ping_info());
        let _ = (self.lnet.routes(), self.lnet.routers(), self.lnet.routing());
    }

    /// Ends all operations, with failures where possible.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            self.drain();
            self.check();
            if let Some(message) = self.sending.pop() {
                let failed = Err((SendFailure::NetworkTimeout, Errno::ETIMEDOUT));
                self.lnet.handle_sent(self.now, message, failed);
            } else if let Some((rx, _)) = self.receiving.pop() {
                self.lnet.handle_receive_done(self.now, rx, Err(Errno::ECONNRESET));
            } else if let Some(copy) = self.copying.pop() {
                self.lnet.handle_copied(self.now, copy);
            } else if let Some(done) = self.handling.pop() {
                self.lnet.handle_event_done(self.now, done);
            } else {
                return;
            }
        }
        panic!("the machine does not become idle");
    }
}

const COOKIE: u64 = 99;
const OURS: [Nid; 2] = [
    Nid::small(Net::TCP, 0x0a00_0001),
    Nid::small(Net::new(fulmar_lnet_wire::NetType::TCP, 1), 0x0a01_0001),
];
const PORTALS: [u32; 5] = [0, 4, 5, 63, 64];

fn peer(choices: &mut Choices<'_>) -> ProcessId {
    let number = choices.below(6) as u32;
    let net = if number % 2 == 0 { Net::TCP } else { OURS[1].net() };
    ProcessId::lustre(Nid::small(net, 0x0a00_0002 + number))
}

/// A NID on a remote network.
fn remote(choices: &mut Choices<'_>) -> Nid {
    let net = Net::new(fulmar_lnet_wire::NetType::TCP, 7);
    Nid::small(net, 0x0a07_0001 + choices.below(3) as u32)
}

fn descriptor(choices: &mut Choices<'_>) -> Md {
    Md {
        buffer: BufferId(choices.below(4) as u64),
        offset: choices.below(100) as u64,
        len: choices.of(&[0, 8, 4096, u64::from(MTU), u64::from(MTU) + 1]),
        threshold: choices.of(&[None, Some(0), Some(1), Some(2)]),
        options: MdOptions(u32::from(choices.byte()) | choices.below(16) as u32 * 256),
        max_size: choices.of(&[0, 8, 4096]),
        auto_unlink: choices.flag(),
        user: 0,
    }
}

fn take<T>(list: &mut Vec<T>, choices: &mut Choices<'_>) -> Option<T> {
    let at = choices.below(list.len());
    (at < list.len()).then(|| list.swap_remove(at))
}
