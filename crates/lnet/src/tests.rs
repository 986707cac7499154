//! Scripts: the machine against a peer that the test plays, and two machines back to back.

mod ageing;
mod claims;
mod credits;
mod discovery;
mod faults;
mod loopback;
mod operations;
mod pair;
mod rails;
mod receive;
mod routing;
mod service;
mod settings;

use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, Payload, Sink, Span, Time};
use fulmar_lnd::{
    FailureClass, NiConfig, NiTunables, PathState, Received, RxId, SendError, SendRequest, Verdict,
};
use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::{
    Body, Handle, Header, Net, Nid, PING_MATCH_BITS, Pid, ProcessId, RESERVED_PORTAL,
};
use fulmar_wire::Order;

use crate::*;

/// A portal of the application's.
const PORTAL: u32 = 12;
const COOKIE: u64 = 0x1111_2222_3333_4444;

/// The NID of node `n` on `tcp`.
fn tcp(n: u32) -> Nid {
    Nid::small(Net::TCP, 0x0a00_0000 + n)
}

fn tcp1(n: u32) -> Nid {
    Nid::small(Net(Net::TCP.0 + 1), 0x0a01_0000 + n)
}

/// The first service of a node: that of the tests.
const SERVICE: ServiceId = ServiceId(0);
const LND_TIMEOUT: Duration = Duration::from_secs(50);

fn ni(nid: Nid) -> NiConfig {
    NiConfig {
        nid,
        tunables: NiTunables::default(),
        incarnation: 1,
        conns_per_peer: 1,
        conns_max: 1,
        timeout: None,
    }
}

/// A node with the service of the tests and without network interfaces.
fn node(config: Config) -> Lnet {
    let mut lnet = Lnet::new(config);
    assert_eq!(lnet.open_service(ServiceConfig::default()), SERVICE);
    lnet
}

fn config() -> Config {
    Config {
        pid: Pid::LUSTRE,
        interface_cookie: COOKIE,
        globals: Globals::default(),
        routing: RoutingConfig::default(),
    }
}

/// A source or a sink for one operation.
fn bound(len: u64, threshold: u32) -> Md {
    Md {
        buffer: BufferId(7),
        offset: 0,
        len,
        threshold: Some(threshold),
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: true,
        user: 70,
    }
}

fn posted(len: u64, options: MdOptions) -> Md {
    Md { buffer: BufferId(8), threshold: None, options, auto_unlink: false, ..bound(len, 0) }
}

fn catch_all() -> Me {
    Me {
        match_id: ProcessId::ANY,
        match_bits: 0,
        ignore_bits: u64::MAX,
        unlink: true,
        position: MePosition::After,
    }
}

fn put(target: Nid) -> Put {
    Put {
        ack: false,
        source: None,
        target: ProcessId::lustre(target),
        portal: PORTAL,
        match_bits: 5,
        offset: 0,
        header_data: 0xfeed,
    }
}

fn get(target: Nid) -> Get {
    let target = ProcessId::lustre(target);
    Get { source: None, target, portal: PORTAL, match_bits: 5, offset: 0 }
}

/// What a node with discovery says of itself.
fn info(sequence: u32, nids: &[Nid]) -> PingInfo {
    let features = Features(0x1e);
    let entries = nids.iter().map(|nid| NiEntry { nid: *nid, status: NiStatus::UP }).collect();
    PingInfo { features, pid: Pid::LUSTRE, sequence, entries }
}

/// What a node says of itself that neither pushes nor wants to be pushed to.
fn plain_info(nid: Nid) -> PingInfo {
    PingInfo { features: Features(0x06), ..info(1, &[nid]) }
}

fn bytes(info: &PingInfo) -> Vec<u8> {
    let mut bytes = Vec::new();
    info.encode(Order::Little, &mut bytes);
    bytes
}

fn event(output: &Output) -> Option<Event> {
    match output {
        Output::Event { event, .. } => Some(*event),
        _ => None,
    }
}

/// Our machine is node 1; the test plays the others.
struct Script {
    lnet: Lnet,
    now: Time,
    /// The name of the next message that is received.
    rx: u64,
    outputs: Vec<Output>,
}

impl Script {
    fn new() -> Self {
        Self::with(&[ni(tcp(1))])
    }

    fn with(nis: &[NiConfig]) -> Self {
        let mut lnet = node(config());
        for ni in nis {
            lnet.add_ni(Time::ZERO, ni.clone(), LND_TIMEOUT).unwrap();
        }
        lnet.start(Time::ZERO);
        Self { lnet, now: Time::ZERO, rx: 0, outputs: Vec::new() }
    }

    /// A machine that has discovered node 2 as multi-rail, with these NIDs, and pushed to it.
    fn multi_rail(ours: &[NiConfig], theirs: &[Nid]) -> Self {
        let mut script = Self::with(ours);
        script.lnet.discover(script.now, tcp(2), false);
        let ping = script.sent_one();
        script.answer_ping(&ping, &bytes(&info(1, theirs)));
        let push = script.sent_one();
        script.answer_push(&push);
        // Each NID has named its peer.
        for nid in theirs.iter().filter(|nid| nid.net() == Net::TCP) {
            script.receive_push(*nid, &info(1, theirs));
            // Its ACK, and a ping that it has made needless.
            for _ in 0..2 {
                for sent in script.sent() {
                    script.done(&sent);
                }
            }
        }
        script.drain();
        script
    }

    /// A machine that knows node 2, which has one NID and no multi-rail.
    fn acquainted() -> Self {
        Self::acquainted_with(&[ni(tcp(1))])
    }

    fn acquainted_with(nis: &[NiConfig]) -> Self {
        let mut script = Self::with(nis);
        script.lnet.discover(script.now, tcp(2), false);
        let ping = script.sent_one();
        script.answer_ping(&ping, &bytes(&plain_info(tcp(2))));
        script.drain();
        script
    }

    /// Returns all outputs since the last call, having checked the invariants.
    fn drain(&mut self) -> Vec<Output> {
        self.pump();
        std::mem::take(&mut self.outputs)
    }

    fn pump(&mut self) {
        while let Some(output) = self.lnet.poll_output() {
            self.outputs.push(output);
        }
        self.lnet.check_invariants().unwrap();
    }

    /// Removes what `pick` picks from the outputs and leaves the rest.
    fn take<T>(&mut self, pick: impl Fn(&Output) -> Option<T>) -> Vec<T> {
        self.pump();
        let picked = self.outputs.iter().filter_map(&pick).collect();
        self.outputs.retain(|output| pick(output).is_none());
        picked
    }

    fn sent(&mut self) -> Vec<SendRequest> {
        self.take(|output| match output {
            Output::Send(request) => Some(request.clone()),
            _ => None,
        })
    }

    fn sent_one(&mut self) -> SendRequest {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn events(&mut self) -> Vec<Event> {
        self.take(event)
    }

    fn event(&mut self) -> Event {
        let events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events[0]
    }

    fn verdicts(&mut self) -> Vec<(RxId, Verdict)> {
        self.take(|output| match output {
            Output::Verdict { rx, verdict, .. } => Some((*rx, *verdict)),
            _ => None,
        })
    }

    fn notices(&mut self) -> Vec<Notice> {
        self.take(|output| match output {
            Output::Notice(notice) => Some(notice.clone()),
            _ => None,
        })
    }

    /// The LND has finished with `request`.
    fn done(&mut self, request: &SendRequest) {
        self.lnet.handle_sent(self.now, request.message, Ok(()));
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.lnet.handle_timeout(self.now);
    }

    /// Node 2 sends a header; returns the name of the message.
    fn receive(&mut self, payload_len: u32, body: Body) -> RxId {
        self.receive_from(tcp(2), payload_len, body)
    }

    fn receive_from(&mut self, from: Nid, payload_len: u32, body: Body) -> RxId {
        let header = Header {
            target: tcp(1),
            source: from,
            target_pid: Pid::LUSTRE,
            source_pid: Pid::LUSTRE,
            payload_len,
            body,
        };
        self.receive_header(tcp(1), from, header)
    }

    fn receive_header(&mut self, ni: Nid, from: Nid, header: Header) -> RxId {
        let rx = RxId(self.rx);
        self.rx += 1;
        self.lnet.handle_received(self.now, Received { conn: ConnId(rx.0), ni, from, header });
        rx
    }

    /// Node 2 sends a PUT of `len` bytes to the application's portal.
    fn receive_put(&mut self, len: u32) -> RxId {
        self.receive(len, put_body(Handle::NONE))
    }

    fn received(&mut self, rx: RxId, bytes: &[u8]) {
        self.lnet.handle_receive_done(self.now, rx, Ok(bytes.to_vec()));
    }

    /// Drains the only verdict, which must be to receive.
    fn sink(&mut self) -> (RxId, Sink) {
        let verdicts = self.verdicts();
        match verdicts[..] {
            [(rx, Verdict::Receive(sink))] => (rx, sink),
            _ => panic!("{verdicts:?}"),
        }
    }

    /// The peer that `ping` went to answers it.
    fn answer_ping(&mut self, ping: &SendRequest, info: &[u8]) {
        let Body::Get { reply, portal, match_bits, sink_len, .. } = ping.header.body else {
            panic!("{ping:?} is no ping");
        };
        assert_eq!((portal, match_bits), (RESERVED_PORTAL, PING_MATCH_BITS));
        self.done(ping);
        let info = &info[..info.len().min(sink_len as usize)];
        let header = reply_header(ping, info.len() as u32, Body::Reply { handle: reply });
        let rx = self.receive_header(ping.ni, ping.next_hop, header);
        self.verdicts();
        self.received(rx, info);
    }

    /// The peer that `push` went to acknowledges it.
    fn answer_push(&mut self, push: &SendRequest) {
        let Body::Put { ack, portal, match_bits, .. } = push.header.body else {
            panic!("{push:?} is no push");
        };
        assert_eq!((portal, match_bits), (RESERVED_PORTAL, PING_MATCH_BITS));
        self.done(push);
        let body = Body::Ack { handle: ack, match_bits, accepted: push.payload.len() };
        self.receive_header(push.ni, push.next_hop, reply_header(push, 0, body));
        self.verdicts();
    }

    /// A peer pushes `info` to the node and gets its ACK.
    fn receive_push(&mut self, from: Nid, info: &PingInfo) {
        let bytes = bytes(info);
        let rx = self.receive_from(from, bytes.len() as u32, push_body());
        let (_, sink) = self.sink();
        self.received(rx, &bytes[..sink.len() as usize]);
    }
}

fn put_body(ack: Handle) -> Body {
    Body::Put { ack, match_bits: 5, header_data: 0xabcd, portal: PORTAL, offset: 0 }
}

fn get_body(sink_len: u32) -> Body {
    Body::Get { reply: THEIRS, match_bits: 5, portal: PORTAL, offset: 0, sink_len }
}

fn ping_body(offset: u32, sink_len: u32) -> Body {
    let (match_bits, portal) = (PING_MATCH_BITS, RESERVED_PORTAL);
    Body::Get { reply: THEIRS, match_bits, portal, offset, sink_len }
}

fn push_body() -> Body {
    let (match_bits, portal) = (PING_MATCH_BITS, RESERVED_PORTAL);
    Body::Put { ack: THEIRS, match_bits, header_data: 0, portal, offset: 0 }
}

/// A handle of the other node's.
const THEIRS: Handle = Handle { interface: 77, object: 78 };

fn reply_header(request: &SendRequest, payload_len: u32, body: Body) -> Header {
    Header {
        target: request.header.source,
        source: request.header.target,
        target_pid: request.header.source_pid,
        source_pid: Pid::LUSTRE,
        payload_len,
        body,
    }
}

fn span(buffer: u64, offset: u64, len: u32) -> Span {
    Span { buffer: BufferId(buffer), offset, len }
}
