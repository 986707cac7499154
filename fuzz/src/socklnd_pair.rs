//! Two machines and a network that delays, splits and fails: every message ends once, and without
//! failures every message arrives. None arrives twice, or after its sender was told that it was
//! dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Sink, Span, Time};
use fulmar_lnd::{
    Closed, DialError, FailureClass, Lnd, Need, NiConfig, NiTunables, Output, RxId, SendError,
    SendRequest, Stream, Verdict,
};
use fulmar_lnet_wire::{Body, Handle, Header, MTU, Net, Nid, Pid};
use fulmar_socklnd::{AcceptMode, Config, Socklnd};

use crate::Choices;

/// Runs the operations that the bytes encode.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut pair = Pair::new(1 + choices.below(3) as u32, choices.of(&[None, Some(928)]));
    while !choices.is_empty() {
        match choices.below(16) {
            0..=3 => pair.send(choices.below(2), choices.of(&LENGTHS)),
            4..=11 => pair.deliver(choices.below(64), 1 + choices.below(4096)),
            12..=13 => pair.pass(Duration::from_millis(choices.below(300) as u64)),
            14 => pair.pass(Duration::from_secs(choices.below(60) as u64)),
            _ => pair.break_one(choices.below(64)),
        }
    }
    pair.settle();
}

const LENGTHS: [u32; 6] = [0, 8, 927, 928, 65_536, MTU];

/// One side of a connection: the machine, and its id there.
type End = (usize, ConnId);

/// The bytes that a side has not read.
struct Inbox {
    bytes: VecDeque<u8>,
    /// The remote side; `None` if it has closed, which is noticed when all is read.
    peer: Option<End>,
}

struct Pair {
    machines: [Socklnd; 2],
    now: Time,
    ends: BTreeMap<End, Inbox>,
    /// The headers that wait for their verdicts.
    judged: BTreeMap<End, Header>,
    /// The messages that are being received, each with the one that was sent.
    begun: BTreeMap<(usize, RxId), MessageId>,
    last_rx: u64,
    next_port: u16,
    /// The sent messages that have not ended.
    sent: BTreeMap<MessageId, usize>,
    last_message: u64,
    arrived: BTreeSet<MessageId>,
    /// The messages whose sender was told that they were not delivered.
    dropped: BTreeSet<MessageId>,
    /// Whether no connection failed and the clock made no large step.
    calm: bool,
    failed: u64,
}

impl Pair {
    fn new(conns_per_peer: u32, zc_min_payload: Option<u32>) -> Self {
        let machine = |side| {
            let config = Config { accept: AcceptMode::All, zc_min_payload, ..Config::default() };
            let mut machine = Socklnd::new(config);
            let ni = NiConfig {
                nid: nid(side),
                tunables: NiTunables::default(),
                incarnation: 7,
                conns_per_peer,
                conns_max: conns_per_peer,
            };
            machine.add_ni(Time::ZERO, &ni);
            machine
        };
        Self {
            machines: [machine(0), machine(1)],
            now: Time::from_secs(1),
            ends: BTreeMap::new(),
            judged: BTreeMap::new(),
            begun: BTreeMap::new(),
            last_rx: 0,
            next_port: 1023,
            sent: BTreeMap::new(),
            last_message: 0,
            arrived: BTreeSet::new(),
            dropped: BTreeSet::new(),
            calm: true,
            failed: 0,
        }
    }

    fn send(&mut self, side: usize, len: u32) {
        self.last_message += 1;
        let message = MessageId(self.last_message);
        let (ni, next_hop) = (nid(side), nid(1 - side));
        let body = Body::Put {
            ack: Handle::NONE,
            match_bits: self.last_message,
            header_data: 0,
            portal: 4,
            offset: 0,
        };
        let header = Header {
            target: next_hop,
            source: ni,
            target_pid: Pid::LUSTRE,
            source_pid: Pid::LUSTRE,
            payload_len: len,
            body,
        };
        let payload = match len {
            0 => Payload::Empty,
            len => Payload::Span(Span { buffer: BufferId(1), offset: 0, len }),
        };
        self.sent.insert(message, side);
        let request = SendRequest { message, ni, next_hop, header, payload };
        self.machines[side].send(self.now, request);
        self.drain();
    }

    /// Delivers some bytes to one side that has bytes to read.
    fn deliver(&mut self, which: usize, most: usize) {
        let busy = |inbox: &Inbox| !inbox.bytes.is_empty() || inbox.peer.is_none();
        let waiting = self.ends.iter().filter(|(_, inbox)| busy(inbox));
        let waiting: Vec<End> = waiting.map(|(end, _)| *end).collect();
        let Some(&end) = waiting.get(which % waiting.len().max(1)) else { return };
        self.read(end, most);
    }

    fn read(&mut self, end: End, most: usize) {
        let (now, (side, conn)) = (self.now, end);
        let mut left = most;
        while left > 0 {
            let Some(Inbox { bytes: inbox, peer }) = self.ends.get_mut(&end) else { return };
            if inbox.is_empty() && peer.is_none() {
                self.end(end, Closed::Eof);
                return self.drain();
            }
            let machine = &mut self.machines[side];
            let used = match machine.need(conn) {
                Need::Verdict | Need::Wait => {
                    let header = self.judged.remove(&end).expect("a header waits for its verdict");
                    self.judge(end, &header);
                    self.drain();
                    continue;
                }
                _ if inbox.is_empty() => return,
                Need::Nothing => return,
                Need::Bytes(_) => {
                    let bytes = inbox.make_contiguous();
                    let len = left.min(bytes.len());
                    machine.handle_bytes(now, conn, &bytes[..len])
                }
                Need::Payload { sink, .. } => {
                    let len = left.min(inbox.len()).min(sink.len() as usize);
                    machine.handle_payload(now, conn, len as u32, None);
                    len
                }
            };
            inbox.drain(..used);
            left -= used;
            self.drain();
        }
    }

    fn judge(&mut self, end: End, header: &Header) {
        let Body::Put { match_bits, .. } = header.body else {
            panic!("no node sent {header:?}");
        };
        self.last_rx += 1;
        let (side, rx, len) = (end.0, RxId(self.last_rx), header.payload_len);
        self.begun.insert((side, rx), MessageId(match_bits));
        let sink = Sink::Span(Span { buffer: BufferId(2), offset: 0, len });
        self.machines[side].handle_verdict(self.now, end.1, rx, Verdict::Receive(sink));
    }

    fn pass(&mut self, time: Duration) {
        self.calm &= time < Duration::from_secs(1);
        let until = self.now + time;
        for _ in 0..1000 {
            let next = self.machines.iter().filter_map(Socklnd::poll_timeout).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.machines.iter_mut().for_each(|machine| machine.handle_timeout(self.now));
            self.drain();
        }
        self.now = until;
    }

    fn break_one(&mut self, which: usize) {
        let Some(&end) = self.ends.keys().nth(which % self.ends.len().max(1)) else { return };
        self.calm = false;
        self.hang_up(end, false);
        self.end(end, Closed::ReadError(Errno::ECONNRESET));
        self.drain();
    }

    /// Disconnects the remote side. With `flush`, the written bytes are still read.
    fn hang_up(&mut self, end: End, flush: bool) {
        let other = self.ends.get(&end).and_then(|inbox| inbox.peer);
        if let Some(other) = other.and_then(|other| self.ends.get_mut(&other)) {
            other.peer = None;
            if !flush {
                other.bytes.clear();
            }
        }
    }

    /// Ends a side, and reports it to its machine.
    fn end(&mut self, end: End, how: Closed) {
        self.ends.remove(&end);
        self.machines[end.0].handle_closed(self.now, end.1, how);
        self.judge_late(end);
    }

    /// Gives the verdict that is still missing, after the end of its connection.
    fn judge_late(&mut self, end: End) {
        if let Some(header) = self.judged.remove(&end) {
            self.judge(end, &header);
        }
    }

    fn drain(&mut self) {
        while let Some((side, output)) =
            (0..2).find_map(|side| self.machines[side].poll_output().map(|output| (side, output)))
        {
            self.perform(side, output);
        }
    }

    fn perform(&mut self, side: usize, output: Output) {
        match output {
            Output::Stream(stream) => self.perform_stream(side, stream),
            Output::Received(received) => {
                let old = self.judged.insert((side, received.conn), received.header);
                assert_eq!(old, None, "two headers of a connection wait for their verdicts");
            }
            Output::Completed { rx, result } => {
                let begun = self.begun.remove(&(side, rx));
                let message = begun.expect("a message ended that was not being received");
                if result.is_ok() {
                    assert!(self.arrived.insert(message), "{message:?} arrived twice");
                }
            }
            Output::Sent { message, result } => {
                assert_eq!(self.sent.remove(&message), Some(side), "{message:?} ended twice");
                self.failed += u64::from(result.is_err());
                if let Err(SendError {
                    class: FailureClass::LocalDropped | FailureClass::RemoteDropped,
                    ..
                }) = result
                {
                    self.dropped.insert(message);
                }
            }
            Output::Path { .. } | Output::Waiting { .. } | Output::Notice(_) => {}
        }
    }

    fn perform_stream(&mut self, side: usize, stream: Stream) {
        let now = self.now;
        match stream {
            Stream::Dial { conn, local, remote } => self.dial((side, conn), local, remote),
            Stream::Write { conn, head, payload, .. } => {
                let bytes = head.len() + payload.len() as usize;
                let peer = self.ends.get(&(side, conn)).and_then(|inbox| inbox.peer);
                if let Some(inbox) = peer.and_then(|peer| self.ends.get_mut(&peer)) {
                    inbox.bytes.extend(head);
                    inbox.bytes.resize(inbox.bytes.len() + payload.len() as usize, 0);
                }
                self.machines[side].handle_sent(now, conn, bytes as u64);
            }
            Stream::Close { conn, flush } => {
                self.hang_up((side, conn), flush);
                self.ends.remove(&(side, conn));
                // All written bytes have been reported.
                self.machines[side].handle_stopped(now, conn, 0);
                self.judge_late((side, conn));
            }
        }
    }

    fn dial(&mut self, end: End, local: IpAddr, remote: SocketAddr) {
        let (now, other) = (self.now, 1 - end.0);
        let local = SocketAddr::new(local, self.next_port);
        self.next_port = if self.next_port == 512 { 1023 } else { self.next_port - 1 };
        let result = match self.machines[other].handle_accepted(now, remote, local) {
            Some(conn) => {
                let inbox = |peer| Inbox { bytes: VecDeque::new(), peer: Some(peer) };
                self.ends.insert(end, inbox((other, conn)));
                self.ends.insert((other, conn), inbox(end));
                Ok(local)
            }
            None => Err(DialError(Errno::ECONNREFUSED)),
        };
        self.machines[end.0].handle_dialled(now, end.1, result);
    }

    /// Lets all pending operations end.
    fn settle(&mut self) {
        for _ in 0..400 {
            let ends: Vec<End> = self.ends.keys().copied().collect();
            ends.into_iter().for_each(|end| self.read(end, usize::MAX));
            if self.sent.is_empty() {
                break;
            }
            let calm = self.calm;
            self.pass(Duration::from_secs(1));
            self.calm = calm;
        }
        assert!(self.sent.is_empty(), "these messages do not end: {:?}", self.sent);
        let ends: Vec<End> = self.ends.keys().copied().collect();
        ends.into_iter().for_each(|end| self.read(end, usize::MAX));
        assert!(self.begun.is_empty(), "these are received for ever: {:?}", self.begun);
        let both = self.dropped.intersection(&self.arrived).next();
        assert_eq!(both, None, "a message was dropped and arrived");
        if self.calm {
            let (arrived, failed) = (self.arrived.len() as u64, self.failed);
            assert_eq!((arrived, failed), (self.last_message, 0), "a message was lost");
        }
    }
}

fn nid(side: usize) -> Nid {
    Nid::of_ip(Net::TCP, Ipv4Addr::new(10, 0, 0, 1 + side as u8).into())
}
