//! Two machines and a network that delays, splits and fails: every message ends once, and without
//! failures every message arrives.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Sink, Span, Time, Verdict};
use fulmar_lnet_wire::{Body, Handle, Header, MTU, Net, Nid, Pid};
use fulmar_socklnd::{
    AcceptMode, Closed, Config, DialError, Need, NiConfig, Output, SendRequest, Socklnd,
};

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
    /// The payload of the message that a side is reading.
    judged: BTreeMap<End, u32>,
    next_port: u16,
    /// The sent messages that have not ended.
    sent: BTreeMap<MessageId, usize>,
    last_message: u64,
    arrived: u64,
    /// Whether no connection failed and the clock made no large step.
    calm: bool,
    failed: u64,
}

impl Pair {
    fn new(conns_per_peer: u32, zc_min_payload: Option<u32>) -> Self {
        let machine = |side| {
            let config = Config { accept: AcceptMode::All, zc_min_payload, ..Config::default() };
            let mut machine = Socklnd::new(config);
            machine.add_ni(NiConfig { nid: nid(side), incarnation: 7, conns_per_peer });
            machine
        };
        Self {
            machines: [machine(0), machine(1)],
            now: Time::from_secs(1),
            ends: BTreeMap::new(),
            judged: BTreeMap::new(),
            next_port: 1023,
            sent: BTreeMap::new(),
            last_message: 0,
            arrived: 0,
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
                    let len = self.judged.remove(&end).expect("a header waits for its verdict");
                    let sink = Sink::Span(Span { buffer: BufferId(2), offset: 0, len });
                    machine.handle_verdict(now, conn, Verdict::Receive(sink));
                    0
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
        self.forget(end);
        self.machines[end.0].handle_closed(self.now, end.1, how);
    }

    fn forget(&mut self, end: End) {
        self.ends.remove(&end);
        self.judged.remove(&end);
    }

    fn drain(&mut self) {
        while let Some((side, output)) =
            (0..2).find_map(|side| self.machines[side].poll_output().map(|output| (side, output)))
        {
            self.perform(side, output);
        }
    }

    fn perform(&mut self, side: usize, output: Output) {
        let now = self.now;
        match output {
            Output::Dial { conn, local, remote } => self.dial((side, conn), local, remote),
            Output::Write { conn, head, payload, .. } => {
                let bytes = head.len() + payload.len() as usize;
                let peer = self.ends.get(&(side, conn)).and_then(|inbox| inbox.peer);
                if let Some(inbox) = peer.and_then(|peer| self.ends.get_mut(&peer)) {
                    inbox.bytes.extend(head);
                    inbox.bytes.resize(inbox.bytes.len() + payload.len() as usize, 0);
                }
                self.machines[side].handle_sent(now, conn, bytes as u64);
            }
            Output::Close { conn, flush } => {
                self.hang_up((side, conn), flush);
                self.forget((side, conn));
                // All written bytes have been reported.
                self.machines[side].handle_stopped(now, conn, 0);
            }
            Output::Received { conn, header, .. } => {
                self.judged.insert((side, conn), header.payload_len);
            }
            Output::Completed { result, .. } => self.arrived += u64::from(result.is_ok()),
            Output::Sent { message, result } => {
                assert_eq!(self.sent.remove(&message), Some(side), "{message:?} ended twice");
                self.failed += u64::from(result.is_err());
            }
            Output::Path { .. } | Output::Notice(_) => {}
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
        if self.calm {
            let (arrived, failed) = (self.arrived, self.failed);
            assert_eq!((arrived, failed), (self.last_message, 0), "a message was lost");
        }
    }
}

fn nid(side: usize) -> Nid {
    Nid::of_ip(Net::TCP, Ipv4Addr::new(10, 0, 0, 1 + side as u8).into())
}
