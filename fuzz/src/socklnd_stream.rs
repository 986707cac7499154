//! Arbitrary bytes, in arbitrary pieces, for a machine on either side of a connection.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Rng, Sink, Span, Time};
use fulmar_lnd::{
    Closed, DialError, Lnd, Need, NiConfig, NiTunables, Output, RxId, SendRequest, Stream, Verdict,
};
use fulmar_lnet_wire::{Body, Handle, Header, Net, Nid, Pid};
use fulmar_socklnd::{Config, Socklnd, checksum};

/// The local network interfaces are `10.99.0.1@tcp` to `10.99.0.4@tcp`, as in the reference traces.
const INTERFACES: u8 = 4;

/// The first byte is the seed of pieces and verdicts, the second selects the connecting side; the
/// rest is sent by the remote side.
pub fn run(bytes: &[u8]) {
    let Some((&[seed, role], stream)) = bytes.split_first_chunk() else { return };
    let mut side = Side::new(seed);
    let Some(conn) = (if role & 1 == 0 { side.called() } else { side.call(nid(role >> 1)) }) else {
        return;
    };
    side.read(conn, stream);
    side.machine.handle_closed(side.now, conn, Closed::Eof);
    side.drain();
    side.judge_late(conn);
    assert!(side.begun.is_empty(), "messages of a closed connection do not end: {:?}", side.begun);
    side.pass_deadlines();
}

struct Side {
    machine: Socklnd,
    rng: Rng,
    now: Time,
    /// Its header waits for a verdict.
    judged: Option<(RxId, Header)>,
    dialling: Option<ConnId>,
    received: u64,
    /// The messages with a verdict to receive or to wait, which have not ended.
    begun: BTreeSet<RxId>,
}

impl Side {
    fn new(seed: u8) -> Self {
        let mut machine = Socklnd::new(Config::default());
        for number in 0..INTERFACES {
            let ni = NiConfig {
                nid: nid(number),
                tunables: NiTunables::default(),
                incarnation: 7,
                conns_per_peer: 1,
                conns_max: 1,
            };
            machine.add_ni(Time::ZERO, &ni);
        }
        let rng = Rng::new(seed.into());
        let (now, judged, dialling) = (Time::from_secs(1), None, None);
        Self { machine, rng, now, judged, dialling, received: 0, begun: BTreeSet::new() }
    }

    fn called(&mut self) -> Option<ConnId> {
        let (local, remote) = (address(1, 988), address(9, 1023));
        let conn = self.machine.handle_accepted(self.now, local, remote);
        self.drain();
        conn
    }

    fn call(&mut self, next_hop: Nid) -> Option<ConnId> {
        let (ni, len) = (nid(0), 4096);
        let span = Span { buffer: BufferId(1), offset: 0, len };
        let header = Header {
            target: next_hop,
            source: ni,
            target_pid: Pid::LUSTRE,
            source_pid: Pid::LUSTRE,
            payload_len: len,
            body: Body::Put {
                ack: Handle::NONE,
                match_bits: 1,
                header_data: 0,
                portal: 4,
                offset: 0,
            },
        };
        let (message, payload) = (MessageId(1), Payload::Span(span));
        self.machine.send(self.now, SendRequest { message, ni, next_hop, header, payload });
        self.drain();
        let conn = self.dialling.take()?;
        self.machine.handle_dialled(self.now, conn, Ok(address(1, 1023)));
        self.drain();
        Some(conn)
    }

    /// Handles the bytes of a connection as a driver does.
    fn read(&mut self, conn: ConnId, mut rest: &[u8]) {
        while !rest.is_empty() {
            let cut = self.cut(rest.len());
            let taken = match self.machine.need(conn) {
                Need::Bytes(wanted) => {
                    assert!(wanted > 0, "a need of no bytes");
                    let used = self.machine.handle_bytes(self.now, conn, &rest[..cut]);
                    assert!((1..=cut).contains(&used), "{used} of {cut} bytes were used");
                    used
                }
                Need::Payload { sink, crc } => {
                    assert!(!sink.is_empty(), "a need of no payload");
                    let len = cut.min(sink.len() as usize);
                    let crc = crc.map(|crc| checksum::update(crc, &rest[..len]));
                    self.machine.handle_payload(self.now, conn, len as u32, crc);
                    len
                }
                Need::Verdict | Need::Wait => {
                    self.judge(conn);
                    0
                }
                Need::Nothing => return,
            };
            rest = &rest[taken..];
            self.drain();
            self.now = self.now + Duration::from_micros(self.rng.below(1000));
        }
    }

    fn cut(&mut self, len: usize) -> usize {
        let most = if self.rng.one_in(4) { len } else { len.min(32) };
        self.rng.between(1, most as u64) as usize
    }

    fn judge(&mut self, conn: ConnId) {
        let (rx, header) = self.judged.expect("a header waits for a verdict");
        let verdict = self.verdict(&header);
        if verdict != Verdict::Wait {
            self.judged = None;
        }
        match verdict {
            Verdict::Reject => self.begun.remove(&rx),
            Verdict::Receive(_) | Verdict::Wait => self.begun.insert(rx),
        };
        self.machine.handle_verdict(self.now, conn, rx, verdict);
    }

    /// Gives the verdict that is still missing, after the end of its connection.
    fn judge_late(&mut self, conn: ConnId) {
        if self.judged.is_some() {
            self.judge(conn);
            self.drain();
        }
    }

    fn verdict(&mut self, header: &Header) -> Verdict {
        let len = self.rng.between(0, header.payload_len.into()) as u32;
        let buffer = BufferId(2);
        match self.rng.below(16) {
            0 => Verdict::Wait,
            1 => Verdict::Reject,
            2..=4 => Verdict::Receive(Sink::Discard { len }),
            5..=7 => Verdict::Receive(Sink::Inline { len: len.min(4096) }),
            _ => Verdict::Receive(Sink::Span(Span { buffer, offset: 0, len })),
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Stream(stream) => self.perform(stream),
                Output::Received(received) => {
                    assert_eq!(self.judged, None, "two headers wait for their verdicts");
                    self.received += 1;
                    self.judged = Some((RxId(self.received), received.header));
                }
                Output::Completed { rx, .. } => {
                    assert!(self.begun.remove(&rx), "{rx:?} ended, and was not under way");
                    // It ended while it waited for another verdict.
                    self.judged = self.judged.filter(|(judged, _)| *judged != rx);
                }
                Output::Path { .. } | Output::Sent { .. } => {}
                Output::Waiting { .. } | Output::Notice(_) => {}
            }
        }
    }

    fn perform(&mut self, stream: Stream) {
        match stream {
            Stream::Dial { conn, .. } if self.dialling.is_none() => self.dialling = Some(conn),
            Stream::Dial { conn, .. } => {
                let refused = DialError(Errno::ECONNREFUSED);
                self.machine.handle_dialled(self.now, conn, Err(refused));
            }
            Stream::Write { conn, head, payload, .. } => {
                let bytes = head.len() as u64 + u64::from(payload.len());
                self.machine.handle_sent(self.now, conn, bytes);
            }
            Stream::Close { conn, .. } => self.machine.handle_stopped(self.now, conn, 0),
        }
    }

    /// Lets the deadlines pass: each must be handled when it is due, and not be due again at once.
    fn pass_deadlines(&mut self) {
        for _ in 0..100 {
            let Some(next) = self.machine.poll_timeout() else { return };
            self.now = self.now.max(next);
            self.machine.handle_timeout(self.now);
            self.drain();
            assert!(
                self.machine.poll_timeout().is_none_or(|next| next > self.now),
                "due again at once"
            );
        }
    }
}

fn nid(number: u8) -> Nid {
    Nid::small(Net::TCP, 0x0a63_0001 + u32::from(number % INTERFACES))
}

fn address(host: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 99, 0, host), port).into()
}
