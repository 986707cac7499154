//! Conversations with a machine. The tests act as the peer, with the real codecs.

mod accept;
mod dial;
mod limits;
mod pair;
mod paths;
mod receive;
mod room;
mod send;
mod windows;

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_base::{ConnId, Errno, MessageId, Payload, Sink, Time};
use fulmar_lnd::{
    Lnd, Need, NiConfig, Notice, Output, PathState, Received, RxId, SendError, SendRequest, Stream,
    Verdict,
};
use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, Hello, Version};
use fulmar_lnet_wire::{Body, Handle, Header, Net, Nid, Pid, ProcessId};
use fulmar_wire::Order;

use crate::{AcceptMode, AcceptNid, Config, Socklnd, checksum};

/// The machine under test has the NID in the middle, so that it loses and wins races.
const LOW: Nid = Nid::small(Net::TCP, 0x0a00_0001);
const OURS: Nid = Nid::small(Net::TCP, 0x0a00_0002);
const HIGH: Nid = Nid::small(Net::TCP, 0x0a00_0003);
const OUR_INCARNATION: u64 = 2_000;
const THEIR_INCARNATION: u64 = 3_000;

/// A machine and a clock.
struct Script {
    machine: Socklnd,
    now: Time,
}

impl Script {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let mut machine = Socklnd::new(config);
        machine.add_ni(Time::ZERO, &ni(OURS));
        Self { machine, now: Time::from_secs(1_000) }
    }

    /// Returns the outputs, and closes connections to be closed: no more of them had been written.
    fn outputs(&mut self) -> Vec<Output> {
        let mut outputs = self.all_outputs();
        outputs.retain(|output| !matches!(output, Output::Waiting { .. }));
        outputs
    }

    fn all_outputs(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(output) = self.machine.poll_output() {
            if let Output::Stream(Stream::Close { conn, .. }) = output {
                self.machine.handle_stopped(self.now, conn, 0);
            }
            outputs.push(output);
        }
        outputs
    }

    /// Returns the messages that do not move, and drops other outputs.
    fn waiting(&mut self) -> Vec<u64> {
        let waiting = |output| match output {
            Output::Waiting { message } => Some(message.0),
            _ => None,
        };
        self.all_outputs().into_iter().filter_map(waiting).collect()
    }

    /// Returns the outputs without news.
    fn actions(&mut self) -> Vec<Output> {
        let mut outputs = self.outputs();
        outputs.retain(|output| !matches!(output, Output::Notice(_) | Output::Path { .. }));
        outputs
    }

    /// Drains the outputs, which must be only this one.
    #[track_caller]
    fn expect(&mut self, expected: Output) {
        assert_eq!(self.actions(), [expected]);
    }

    #[track_caller]
    fn expect_nothing(&mut self) {
        assert_eq!(self.actions(), []);
    }

    /// Drains the outputs, which must include this notice.
    #[track_caller]
    fn expect_notice(&mut self, expected: &Notice) -> Vec<Output> {
        let outputs = self.outputs();
        let wanted = Output::Notice(expected.clone());
        assert!(outputs.contains(&wanted), "{wanted:?} is not in {outputs:#?}");
        outputs
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.machine.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.machine.handle_timeout(self.now);
        }
        self.now = until;
    }

    fn wait_secs(&mut self, seconds: u64) {
        self.wait(Duration::from_secs(seconds));
    }

    fn accepted_from(&mut self, remote: SocketAddr) -> Option<ConnId> {
        self.machine.handle_accepted(self.now, addr(OURS, 988), remote)
    }

    /// Opens an incoming TCP connection.
    fn accepted(&mut self, peer: Nid) -> ConnId {
        self.accepted_from(addr(peer, 1023)).unwrap()
    }

    /// Feeds bytes as an owner does, and returns how many were consumed before a verdict or the end
    /// of the connection.
    fn feed(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let used = match self.machine.need(conn) {
                Need::Bytes(_) => self.machine.handle_bytes(self.now, conn, rest),
                Need::Payload { sink, crc } => {
                    let len = rest.len().min(sink.len() as usize);
                    let crc = crc.map(|state| checksum::update(state, &rest[..len]));
                    self.machine.handle_payload(self.now, conn, len as u32, crc);
                    len
                }
                Need::Verdict | Need::Wait | Need::Nothing => return at,
            };
            at += used;
        }
        at
    }

    /// Opens a connection from a peer, of `kind` as seen by the peer.
    fn call(&mut self, hello: &Hello) -> ConnId {
        let conn = self.accepted(hello.source.nid);
        let mut bytes = request(OURS);
        hello.encode(Order::Little, &mut bytes);
        self.feed(conn, &bytes);
        conn
    }

    /// Opens a connection from a peer, of `kind` as seen by this node.
    #[track_caller]
    fn opened_by(&mut self, peer: Nid, kind: ConnKind, version: Version) -> ConnId {
        let theirs = kind.mirror().unwrap();
        let conn = self.call(&hello(peer, theirs, version));
        let [Output::Stream(Stream::Write { conn: to, head, .. })] = &self.actions()[..] else {
            panic!()
        };
        assert_eq!(*to, conn);
        assert_eq!(answer_kind(head), kind);
        self.machine.handle_sent(self.now, conn, head.len() as u64);
        conn
    }

    /// Expects that the machine dials; returns the attempt.
    #[track_caller]
    fn dialled(&mut self) -> ConnId {
        let actions = self.actions();
        let [Output::Stream(Stream::Dial { conn, .. })] = actions[..] else {
            panic!("{actions:#?}")
        };
        conn
    }

    /// Completes the attempt of the machine; returns the kind that it requests.
    #[track_caller]
    fn connected(&mut self, conn: ConnId) -> Hello {
        self.machine.handle_dialled(self.now, conn, Ok(addr(OURS, 1023)));
        let [Output::Stream(Stream::Write { conn: to, head, .. })] = &self.actions()[..] else {
            panic!()
        };
        assert_eq!(*to, conn);
        self.machine.handle_sent(self.now, conn, head.len() as u64);
        let (_, used) = ConnRequest::decode(head).unwrap().unwrap();
        let (hello, order, _) = Hello::decode(&head[used..]).unwrap().unwrap();
        assert_eq!(order, Order::Little);
        hello
    }

    /// Expects that the machine dials a connection of `kind`, and lets the peer agree.
    #[track_caller]
    fn opens(&mut self, peer: Nid, kind: ConnKind) -> ConnId {
        let conn = self.dialled();
        let ours = self.connected(conn);
        assert_eq!((ours.kind, ours.target.nid), (kind, peer));
        let answer = hello(peer, kind.mirror().unwrap(), ours.version);
        self.answer(conn, &answer);
        conn
    }

    fn answer(&mut self, conn: ConnId, hello: &Hello) {
        let mut bytes = Vec::new();
        hello.encode(Order::Little, &mut bytes);
        self.feed(conn, &bytes);
    }

    /// Sends message `name`, for which the machine opens the whole set.
    #[track_caller]
    fn opens_all(&mut self, peer: Nid) -> [ConnId; 3] {
        self.send(peer, 1, 0);
        let control = self.opens(peer, ConnKind::CONTROL);
        let written = self.machine.poll_output();
        assert!(matches!(written, Some(Output::Notice(Notice::PeerUp { .. }))), "{written:?}");
        let news = self.machine.poll_output();
        assert_eq!(news, Some(Output::Path { ni: OURS, peer, state: PathState::Up }));
        let Some(Output::Stream(Stream::Write { conn, head, .. })) = self.machine.poll_output()
        else {
            panic!()
        };
        assert_eq!(conn, control);
        let bulk_in = self.opens(peer, ConnKind::BULK_IN);
        let bulk_out = self.opens(peer, ConnKind::BULK_OUT);
        self.expect_nothing();
        self.machine.handle_sent(self.now, control, head.len() as u64);
        self.expect(Output::Sent { message: MessageId(1), result: Ok(()) });
        [control, bulk_in, bulk_out]
    }

    fn send(&mut self, peer: Nid, name: u64, len: u32) {
        let request = put(peer, name, len);
        self.machine.send(self.now, request);
    }

    /// Drains the only write, and reports that it is in the socket.
    #[track_caller]
    fn written(&mut self) -> (ConnId, Vec<u8>) {
        let mut actions = self.actions();
        let Some(Output::Stream(Stream::Write { conn, head, payload, .. })) = actions.pop() else {
            panic!()
        };
        assert_eq!(actions, []);
        self.machine.handle_sent(self.now, conn, head.len() as u64 + u64::from(payload.len()));
        (conn, head)
    }

    /// Receives a message of a peer without payload.
    fn talks(&mut self, peer: Nid, conn: ConnId) {
        let bytes = message(peer, Version::V3, Order::Little, FrameHeader::lnet(), 0);
        assert_eq!(self.feed(conn, &bytes), bytes.len());
        self.judge(conn, inline(0));
        self.actions();
    }

    /// Receives the message that waits on a connection.
    fn judge(&mut self, conn: ConnId, verdict: Verdict) {
        self.machine.handle_verdict(self.now, conn, rx_on(conn), verdict);
    }
}

fn ni(nid: Nid) -> NiConfig {
    let (tunables, incarnation) = (Default::default(), OUR_INCARNATION);
    NiConfig { nid, tunables, incarnation, conns_per_peer: 1, conns_max: 1, timeout: None }
}

fn addr(nid: Nid, port: u16) -> SocketAddr {
    SocketAddr::new(nid.ip().unwrap(), port)
}

fn request(target: Nid) -> Vec<u8> {
    let mut bytes = Vec::new();
    ConnRequest { target }.encode(&mut bytes);
    bytes
}

fn hello(peer: Nid, kind: ConnKind, version: Version) -> Hello {
    Hello {
        version,
        source: ProcessId::lustre(peer),
        target: ProcessId { nid: OURS, pid: Pid(0) },
        source_incarnation: THEIR_INCARNATION,
        target_incarnation: 0,
        kind,
        ips: Vec::new(),
    }
}

#[track_caller]
fn answer_kind(bytes: &[u8]) -> ConnKind {
    let (hello, _, used) = Hello::decode(bytes).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    assert_eq!(hello.source_incarnation, OUR_INCARNATION);
    hello.kind
}

fn put_header(source: Nid, target: Nid, name: u64, len: u32) -> Header {
    Header {
        target,
        source,
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: len,
        body: Body::Put {
            ack: Handle::NONE,
            match_bits: name,
            header_data: 0,
            portal: 26,
            offset: 0,
        },
    }
}

fn put(peer: Nid, name: u64, len: u32) -> SendRequest {
    let span = fulmar_base::Span { buffer: fulmar_base::BufferId(name), offset: 0, len };
    SendRequest {
        message: MessageId(name),
        ni: OURS,
        next_hop: peer,
        header: put_header(OURS, peer, name, len),
        payload: if len == 0 { Payload::Empty } else { Payload::Span(span) },
    }
}

/// Returns a message as a peer writes it.
fn message(peer: Nid, version: Version, order: Order, frame: FrameHeader, len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    if version != Version::V1 {
        frame.encode(order, &mut bytes);
    }
    put_header(peer, OURS, 9, len).encode(version.header_form(), &mut bytes);
    bytes.extend((0..len).map(|i| i as u8));
    bytes
}

fn noop(cookies: [u64; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameHeader { cookies, ..FrameHeader::acknowledge(0) }.encode(Order::Little, &mut bytes);
    bytes
}

fn failed(name: u64, error: SendError) -> Output {
    Output::Sent { message: MessageId(name), result: Err(error) }
}

fn close(conn: ConnId) -> Output {
    Output::Stream(Stream::Close { conn, flush: false })
}

fn completed(conn: ConnId, result: Result<Vec<u8>, Errno>) -> Output {
    Output::Completed { rx: rx_on(conn), result }
}

/// A connection receives one message at a time: the tests name the message after it.
fn rx_on(conn: ConnId) -> RxId {
    RxId(conn.0)
}

fn inline(len: u32) -> Verdict {
    Verdict::Receive(Sink::Inline { len })
}

/// Lets all peers connect from another address too.
fn two_addresses() -> Config {
    let accept_nid = AcceptNid::parse_list("*@tcp from 10.0.7.7").unwrap();
    Config { accept_nid, ..Config::default() }
}

fn open_to_all() -> Config {
    Config { accept: AcceptMode::All, ..Config::default() }
}
