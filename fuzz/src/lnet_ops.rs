//! Arbitrary operations of several services, an LND and a clock on one LNet machine. After each its
//! invariants hold; when all operations have ended, it is idle. A descriptor has events until one
//! says that it is gone, and each request has one SEND event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::{ConnId, Errno, MessageId, Payload, Sink, Time};
use fulmar_lnd::{
    FailureClass, NiConfig, NiTunables, PathState, Received, RxId, SendError, SendRequest, Verdict,
};
use fulmar_lnet::{
    Bound, Config, CopyId, Event, EventDone, EventKind, Forwarding, Globals, Lnet, Md, MdId,
    MdOptions, MeId, Memory, Op, Output, RouteConfig, RouterBuffers, RoutingConfig, ServiceId,
};
use fulmar_lnet_wire::{Body, Handle, Header, MTU, Nid, PING_MATCH_BITS, Pid, ProcessId};

mod values;

use crate::Choices;
use values::*;

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
    services: [ServiceId; SERVICES],
    sending: Vec<MessageId>,
    /// What peers may answer.
    asked: Vec<SendRequest>,
    /// The last header, until its first verdict.
    judging: Option<Received>,
    /// Messages whose payload must stay unread, and their headers.
    waiting: BTreeMap<RxId, Received>,
    /// Messages whose payload is being received, and its sink.
    receiving: Vec<(RxId, Sink)>,
    copying: Vec<CopyId>,
    handling: Vec<EventDone>,
    mes: Vec<(ServiceId, MeId)>,
    mds: Vec<(ServiceId, MdId)>,
    /// The descriptors that are not gone.
    alive: BTreeMap<MdId, Alive>,
    /// Names the last descriptor, whether it could be made or not.
    user: u64,
    next_conn: u64,
    /// The requests that have begun and have had no SEND event.
    requests: u64,
}

/// A descriptor, as its service made it.
#[derive(Clone, Copy)]
struct Alive {
    service: ServiceId,
    user: u64,
    /// Its bytes come with the events.
    inline: bool,
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
            let ni = NiConfig { nid, tunables, incarnation: 1, conns_per_peer: 1, conns_max: 1 };
            lnet.add_ni(now, ni, lnd_timeout).expect("the interfaces differ");
        }
        lnet.start(now);
        let services = SERVICE_CONFIGS.map(|config| lnet.open_service(config));
        Self {
            lnet,
            now,
            services,
            sending: vec![],
            asked: vec![],
            judging: None,
            waiting: BTreeMap::new(),
            receiving: vec![],
            copying: vec![],
            handling: vec![],
            mes: vec![],
            mds: vec![],
            alive: BTreeMap::new(),
            user: 0,
            next_conn: 0,
            requests: 0,
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(21) {
            0 | 1 => self.attach(choices),
            2..=4 => self.request(choices),
            5..=8 => self.receive(choices),
            9 => self.end_send(choices),
            10 => self.end_receive(choices),
            11 => self.end_local(choices),
            12 => self.unlink(choices),
            13 => self.administer(choices),
            14..=16 => self.post(choices),
            17 | 18 => self.answer(choices),
            19 if choices.below(4) == 0 => self.reopen(choices),
            _ => self.pass(Duration::from_millis(choices.below(20_000) as u64)),
        }
        self.drain();
    }

    fn attach(&mut self, choices: &mut Choices<'_>) {
        let (service, portal) = (choices.of(&self.services), choices.of(&PORTALS));
        let Ok(me) = self.lnet.me_attach(service, portal, entry(choices)) else { return };
        self.mes.push((service, me));
        let (md, memory) = self.descriptor(choices);
        let alive = Alive::new(service, &md, &memory);
        if let Ok(md) = self.lnet.md_attach(self.now, service, me, md, memory) {
            self.made(md, alive);
        }
    }

    fn request(&mut self, choices: &mut Choices<'_>) {
        let service = choices.of(&self.services);
        let (md, memory) = self.unattached(choices);
        let alive = Alive::new(service, &md, &memory);
        let Ok(md) = self.lnet.md_bind(service, md, memory) else { return };
        self.made(md, alive);
        // Either may be refused: the descriptor then stays bound.
        let begun = if choices.flag() { self.lnet.put(self.now, service, md, put(choices)) } else { self.lnet.get(self.now, service, md, get(choices)) };
        self.requests += u64::from(begun.is_ok());
    }

    /// Posts a batch. Of what is refused nothing may be left, so it has no event.
    fn post(&mut self, choices: &mut Choices<'_>) {
        let service = choices.of(&self.services);
        let ops: Vec<Op> = (0..1 + choices.below(4)).map(|_| self.op(choices)).collect();
        let mut results = vec![];
        self.lnet.post(self.now, service, ops.clone(), |result| results.push(result));
        assert_eq!(results.len(), ops.len(), "not every operation has a result");
        for (op, result) in ops.iter().zip(results) {
            let Ok(id) = result else { continue };
            self.requests += u64::from(matches!(op, Op::Put { .. } | Op::Get { .. }));
            match op {
                Op::Attach { md, memory, .. }
                | Op::Put { from: Bound::New(md, memory), .. }
                | Op::Get { into: Bound::New(md, memory), .. } => {
                    self.made(id, Alive::new(service, md, memory));
                }
                Op::Put { from: Bound::Again(md), .. }
                | Op::Get { into: Bound::Again(md), .. }
                | Op::Unlink(md) => {
                    assert_eq!(id, *md, "another descriptor than was named");
                    assert_eq!(self.alive[md].service, service, "a descriptor of another service");
                }
            }
        }
    }

    fn op(&mut self, choices: &mut Choices<'_>) -> Op {
        match choices.below(4) {
            0 => {
                let (md, memory) = self.descriptor(choices);
                Op::Attach { portal: choices.of(&PORTALS), me: entry(choices), md, memory }
            }
            1 => Op::Put { from: self.bound(choices), put: put(choices) },
            2 => Op::Get { into: self.bound(choices), get: get(choices) },
            _ => Op::Unlink(self.some_md(choices)),
        }
    }

    fn bound(&mut self, choices: &mut Choices<'_>) -> Bound {
        if choices.below(4) == 0 {
            return Bound::Again(self.some_md(choices));
        }
        let (md, memory) = self.unattached(choices);
        Bound::New(md, memory)
    }

    /// Returns a descriptor, which may be gone or that of another service.
    fn some_md(&self, choices: &mut Choices<'_>) -> MdId {
        self.mds.get(choices.below(self.mds.len())).map_or(MdId(1), |(_, md)| *md)
    }

    fn made(&mut self, md: MdId, alive: Alive) {
        assert!(self.alive.insert(md, alive).is_none(), "{md:?} is used twice");
        self.mds.push((alive.service, md));
    }

    /// Ends a service, and opens one in its place.
    fn reopen(&mut self, choices: &mut Choices<'_>) {
        let at = choices.below(SERVICES);
        self.close(at);
        self.services[at] = self.lnet.open_service(SERVICE_CONFIGS[at]);
        assert!(!self.alive.values().any(|alive| alive.service == self.services[at]));
    }

    fn close(&mut self, at: usize) {
        let service = self.services[at];
        self.lnet.close_service(self.now, service).expect("it is open");
        assert_eq!(self.lnet.close_service(self.now, service), Err(Errno::ENOENT));
        let (md, memory) = (bound_md(), Memory::Buffer);
        assert_eq!(self.lnet.md_bind(service, md, memory), Err(Errno::ESHUTDOWN));
    }

    /// Describes a descriptor that, mostly, accepts nothing of others, as those that are bound.
    fn unattached(&mut self, choices: &mut Choices<'_>) -> (Md, Memory) {
        let (mut md, memory) = self.descriptor(choices);
        if choices.below(8) > 0 {
            let accepted = MdOptions::OP_PUT.with(MdOptions::OP_GET);
            md.options.0 &= !accepted.0;
        }
        (md, memory)
    }

    /// Describes a descriptor, with a name of its own for its events.
    fn descriptor(&mut self, choices: &mut Choices<'_>) -> (Md, Memory) {
        self.user += 1;
        let mut md = Md { user: self.user, ..descriptor(choices) };
        let memory = match choices.below(8) {
            0..=3 => return (md, Memory::Buffer),
            4 | 5 => Memory::Inline,
            kind => {
                let len = choices.of(&[0, 8, 300]);
                let memory = Memory::Bytes(vec![7; len].into());
                if kind == 7 {
                    // Its length may differ, which is refused.
                    return (md, memory);
                }
                md.len = len as u64;
                memory
            }
        };
        md.offset = 0;
        (md, memory)
    }

    fn receive(&mut self, choices: &mut Choices<'_>) {
        self.next_conn += 1;
        let (conn, ni) = (ConnId(self.next_conn), choices.of(&OURS));
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
        self.receive_header(Received { conn, ni, from, header });
    }

    /// The peer that a request went to answers it, not always as it should.
    fn answer(&mut self, choices: &mut Choices<'_>) {
        let Some(request) = take(&mut self.asked, choices) else { return };
        let asked = request.header;
        let (body, payload_len) = match asked.body {
            Body::Put { ack, match_bits, .. } if ack != Handle::NONE => {
                (Body::Ack { handle: ack, match_bits, accepted: asked.payload_len }, 0)
            }
            Body::Get { reply, sink_len, .. } => {
                let len = choices.of(&[sink_len, sink_len.min(40), 8, MTU]);
                (Body::Reply { handle: reply }, len)
            }
            _ => return,
        };
        self.next_conn += 1;
        let (conn, ni, from) = (ConnId(self.next_conn), request.ni, request.next_hop);
        let header = Header {
            target: asked.source,
            source: asked.target,
            target_pid: asked.source_pid,
            source_pid: asked.target_pid,
            payload_len,
            body,
        };
        self.receive_header(Received { conn, ni, from, header });
    }

    fn receive_header(&mut self, received: Received) {
        self.judging = Some(received);
        self.lnet.handle_received(self.now, received);
        self.drain();
        assert_eq!(self.judging, None, "a header has no verdict");
    }

    fn end_send(&mut self, choices: &mut Choices<'_>) {
        let Some(message) = take(&mut self.sending, choices) else { return };
        let class = choices.of(&[
            FailureClass::RemoteDropped,
            FailureClass::LocalDropped,
            FailureClass::NetworkTimeout,
            FailureClass::RemoteError,
            FailureClass::LocalError,
        ]);
        let ok = choices.below(4) > 0;
        let result = if ok { Ok(()) } else { Err(SendError { class, errno: Errno::ETIMEDOUT }) };
        self.lnet.handle_sent(self.now, message, result);
    }

    fn end_receive(&mut self, choices: &mut Choices<'_>) {
        if choices.below(4) == 0
            && let Some((rx, _)) = self.waiting.pop_first()
        {
            // The connection ends before the verdict.
            return self.lnet.handle_receive_done(self.now, rx, Err(Errno::ECONNRESET));
        }
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
        let (now, by) = (self.now, choices.of(&self.services));
        if choices.flag() {
            let Some((service, md)) = take(&mut self.mds, choices) else { return };
            if by != service {
                assert_eq!(self.lnet.md_unlink(now, by, md), Err(Errno::ENOENT));
            }
            // It may be unlinked already.
            let _ = self.lnet.md_unlink(now, service, md);
        } else {
            let Some((service, me)) = take(&mut self.mes, choices) else { return };
            if by != service {
                assert_eq!(self.lnet.me_unlink(now, by, me), Err(Errno::ENOENT));
            }
            // It may be gone already, with its descriptor.
            let _ = self.lnet.me_unlink(now, service, me);
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
                let states = [PathState::Up, PathState::Down, PathState::Stalled];
                lnet.handle_path(now, ours, nid, choices.of(&states));
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
                Output::Send(request) => {
                    assert_eq!(request.payload.len(), request.header.payload_len);
                    assert!(!self.sending.contains(&request.message), "it is being sent");
                    self.sending.push(request.message);
                    self.asked.push(request);
                }
                Output::Verdict { ni, conn, rx, verdict } => self.judge(ni, conn, rx, verdict),
                Output::Copy { copy, from, to } => {
                    assert!(!matches!(from, Payload::Inline(_)), "bytes of the machine");
                    assert!(!matches!(to, Sink::Inline { .. }), "bytes for the machine");
                    self.copying.push(copy);
                }
                Output::Event { service, event, bytes } => self.handle(service, &event, &bytes),
                // The owner reports no message that waits.
                Output::ReportWaiting { .. } => {}
                Output::Allocate { .. } | Output::Release { .. } => {}
                Output::Pinged { .. } | Output::Discovered { .. } | Output::Notice(_) => {}
            }
        }
    }

    /// A message has one verdict, or one to wait and then another.
    fn judge(&mut self, ni: Nid, conn: ConnId, rx: RxId, verdict: Verdict) {
        let first = self.judging.take_if(|received| received.conn == conn);
        let received = first.or_else(|| self.waiting.remove(&rx));
        let received = received.expect("a verdict for nothing");
        assert_eq!((received.ni, received.conn), (ni, conn), "{rx:?} came in another way");
        match verdict {
            Verdict::Receive(sink) => {
                assert!(sink.len() <= received.header.payload_len, "{sink:?} is too long");
                self.receiving.push((rx, sink));
            }
            Verdict::Wait => {
                let old = self.waiting.insert(rx, received);
                assert!(old.is_none() && first.is_some(), "{rx:?} waits twice");
            }
            Verdict::Reject => {}
        }
    }

    fn handle(&mut self, service: ServiceId, event: &Event, bytes: &[u8]) {
        let alive = self.alive.get(&event.md).copied();
        let Some(Alive { service: owner, user, inline }) = alive else {
            panic!("the descriptor of an event is gone, or was never there: {event:?}");
        };
        assert_eq!((service, event.user), (owner, user), "an event of another: {event:?}");
        if event.unlinked {
            self.alive.remove(&event.md);
        }
        let moves = matches!(event.kind, EventKind::Put | EventKind::Reply);
        let expected = if inline && moves && event.status.is_ok() { event.mlength } else { 0 };
        if event.status.is_ok() || !inline {
            assert_eq!(bytes.len(), expected as usize, "the bytes of {event:?}");
        }
        if event.kind == EventKind::Send {
            self.requests = self.requests.checked_sub(1).expect("a SEND event for each request");
        }
        self.handling.extend(event.done);
    }

    fn check(&self) {
        self.lnet.check_invariants().unwrap_or_else(|error| panic!("{error}"));
        // An administrator may call these at any time.
        let _ = (self.lnet.nis(), self.lnet.peers(), self.lnet.stats(), self.lnet.ping_info());
        let _ = (self.lnet.routes(), self.lnet.routers(), self.lnet.routing());
    }

    /// Ends all operations, with failures where possible, and all services.
    fn finish(&mut self) {
        (0..SERVICES).for_each(|at| self.close(at));
        for portal in PORTALS {
            // What waits there for a descriptor is dropped. Some of them cannot be lazy.
            let _ = self.lnet.set_lazy(self.now, portal, false);
        }
        for _ in 0..10_000 {
            self.drain();
            self.check();
            if let Some(message) = self.sending.pop() {
                let (class, errno) = (FailureClass::NetworkTimeout, Errno::ETIMEDOUT);
                self.lnet.handle_sent(self.now, message, Err(SendError { class, errno }));
            } else if let Some((rx, _)) = self.receiving.pop() {
                self.lnet.handle_receive_done(self.now, rx, Err(Errno::ECONNRESET));
            } else if let Some((rx, _)) = self.waiting.pop_first() {
                self.lnet.handle_receive_done(self.now, rx, Err(Errno::ECONNRESET));
            } else if let Some(copy) = self.copying.pop() {
                self.lnet.handle_copied(self.now, copy);
            } else if let Some(done) = self.handling.pop() {
                self.lnet.handle_event_done(self.now, done);
            } else if let Err(error) = self.lnet.is_idle() {
                let next = self.lnet.poll_timeout();
                let next = next.unwrap_or_else(|| panic!("it is not idle for ever: {error}"));
                self.pass(Duration::from_nanos(next.0.saturating_sub(self.now.0)));
            } else {
                let left: BTreeSet<MdId> = self.alive.keys().copied().collect();
                assert!(left.is_empty(), "these descriptors of closed services stay: {left:?}");
                return assert_eq!(self.requests, 0, "requests without a SEND event");
            }
        }
        panic!("the machine does not become idle");
    }
}

impl Alive {
    fn new(service: ServiceId, md: &Md, memory: &Memory) -> Self {
        Self { service, user: md.user, inline: matches!(memory, Memory::Inline) }
    }
}
