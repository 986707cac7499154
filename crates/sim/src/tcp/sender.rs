//! The sending half of a stream: what may go when, what is under way, and what was lost.
//!
//! ```text
//! burst()         -> a range of bytes and the number of their transmission
//! handle_ack()    <- transmission 17 arrived, all up to byte n has, there is room up to byte m
//! handle_timeout()<- nothing was heard for long
//! ```
//!
//! Every transmission has a number, and nothing overtakes on a connection: when one is reported,
//! those before it that were not are lost. That is what SACK and RACK tell a kernel.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::Time;

use super::congestion::{Congestion, Sample};
use crate::options::Tcp;

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) struct Sender {
    segment: u64,
    /// The longest burst that the path should see at once.
    burst_max: u64,
    buffer: u64,
    /// The first byte that was never sent.
    next: u64,
    /// All before it has arrived.
    acked: u64,
    /// The peer has room up to here.
    edge: u64,
    /// What is under way, by number; those numbers follow each other.
    flight: VecDeque<Sent>,
    /// The number of the first of them.
    first: u64,
    /// How many bytes they are.
    under_way: u64,
    /// What is to be sent again, in the order of its bytes.
    lost: VecDeque<Range<u64>>,
    congestion: Congestion,
    round_trip: RoundTrip,
    /// Bytes that have arrived, and when the last were reported.
    delivered: u64,
    /// A loss of a transmission below this is part of one that the control knows of.
    recovery: u64,
    /// A transmission from this number on begins a new round.
    round: u64,
    /// The window or the pace has held back what came after this transmission.
    held_back: u64,
    /// When the pace lets the next burst go.
    paced_until: Time,
    timer: Timer,
    /// How many bytes were sent again.
    pub(crate) resent: u64,
}

/// A transmission.
#[derive(Debug)]
struct Sent {
    bytes: Range<u64>,
    at: Time,
    /// What had arrived when it was sent.
    delivered: u64,
}

/// What an acknowledgement says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    /// The transmission that came.
    pub(crate) number: u64,
    /// The parts of it that did not.
    pub(crate) holes: Vec<Range<u64>>,
    /// All before this byte has arrived.
    pub(crate) upto: u64,
    /// There is room up to this byte.
    pub(crate) edge: u64,
}

/// The estimator of round trips (RFC 6298).
#[derive(Debug, Default)]
struct RoundTrip {
    smooth: Option<Duration>,
    varies: Duration,
}

/// Waits for news of what is under way.
#[derive(Debug, Default)]
struct Timer {
    deadline: Option<Time>,
    /// The end of what is under way was sent again, to make the peer say what it lacks.
    probed: bool,
    /// How often in a row nothing was heard.
    vain: u32,
    /// When something was heard, or the first was sent since.
    heard: Time,
}

impl Sender {
    /// Returns the sender of a new stream over a path whose own round trip and rate are known.
    pub(crate) fn new(tcp: &Tcp, burst_max: u64) -> Self {
        let segment = tcp.segment();
        Self {
            segment,
            burst_max: burst_max.clamp(segment, BURST_MAX),
            buffer: tcp.write_buffer,
            next: 0,
            acked: 0,
            edge: tcp.read_buffer,
            flight: VecDeque::new(),
            first: 0,
            under_way: 0,
            lost: VecDeque::new(),
            congestion: Congestion::new(tcp.congestion, segment, tcp.initial_window),
            round_trip: RoundTrip::default(),
            delivered: 0,
            recovery: 0,
            round: 0,
            held_back: 0,
            paced_until: Time::ZERO,
            timer: Timer::default(),
            resent: 0,
        }
    }

    /// Returns how many bytes the socket has room for, of which `taken` came into it so far.
    pub(crate) fn room(&self, taken: u64) -> u64 {
        (self.acked + self.buffer).saturating_sub(taken)
    }

    /// Returns the first byte that was never sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns when the pace lets something go, if that is later.
    pub(crate) fn paced_until(&mut self, now: Time) -> Option<Time> {
        if self.paced_until <= now {
            return None;
        }
        self.held_back = self.first + self.flight.len() as u64;
        Some(self.paced_until)
    }

    /// Returns when to call [`Self::handle_timeout`].
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.timer.deadline
    }

    /// Returns whether a burst could go now, but for the pace. `taken` is the end of what there is
    /// to send.
    pub(crate) fn is_ready(&mut self, taken: u64) -> bool {
        self.allowed(taken) > 0
    }

    /// Returns the next burst, of at most `limit` bytes if it is new, and its number.
    pub(crate) fn burst(&mut self, now: Time, taken: u64, limit: u64) -> Option<(u64, Range<u64>)> {
        let allowed = self.allowed(taken);
        if allowed == 0 {
            return None;
        }
        let bytes = match self.lost.front_mut() {
            Some(lost) => {
                let bytes = lost.start..lost.start + allowed;
                lost.start = bytes.end;
                if lost.is_empty() {
                    self.lost.pop_front();
                }
                self.resent += allowed;
                bytes
            }
            None => {
                let bytes = self.next..self.next + allowed.min(limit);
                self.next = bytes.end;
                bytes
            }
        };
        Some((self.send(now, bytes.clone()), bytes))
    }

    fn send(&mut self, now: Time, bytes: Range<u64>) -> u64 {
        let len = bytes.end - bytes.start;
        if let Some(rate) = self.congestion.pacing() {
            let takes = Duration::from_nanos(((len as f64 / rate as f64) * 1e9) as u64);
            self.paced_until = self.paced_until.max(now) + takes;
        }
        let number = self.first + self.flight.len() as u64;
        self.flight.push_back(Sent { bytes, at: now, delivered: self.delivered });
        self.under_way += len;
        if self.timer.deadline.is_none() {
            self.timer.heard = now;
            self.arm(now);
        }
        number
    }

    /// Returns how many bytes may go now.
    fn allowed(&mut self, taken: u64) -> u64 {
        let wanted = match self.lost.front() {
            Some(lost) => lost.end - lost.start,
            None => taken.min(self.edge).saturating_sub(self.next),
        };
        if wanted == 0 {
            return 0;
        }
        let window = self.congestion.window();
        let room = window.saturating_sub(self.under_way);
        if room < wanted {
            self.held_back = self.first + self.flight.len() as u64;
        }
        let wanted = wanted.min(self.longest(window));
        // A part of a burst waits for the rest of its room while enough is under way to make some.
        let least = if self.under_way >= window / 2 { wanted } else { wanted.min(self.segment) };
        if room >= least || self.under_way == 0 { wanted.min(room.max(self.segment)) } else { 0 }
    }

    /// Returns the longest burst: a part of what the window is, and of what the path takes.
    fn longest(&self, window: u64) -> u64 {
        let window = window.min(self.buffer).min(self.edge.saturating_sub(self.acked));
        let mut longest = (window / PARTS).max(SMALL.min(window / 2)).min(self.burst_max);
        if let Some(rate) = self.congestion.pacing() {
            longest = longest.min(rate / PACED_BY);
        }
        longest.max(self.segment)
    }

    /// Takes an acknowledgement. Returns how many bytes have been said to have arrived.
    pub(crate) fn handle_ack(&mut self, now: Time, ack: &Ack, taken: u64) -> u64 {
        self.edge = self.edge.max(ack.edge);
        self.acked = self.acked.max(ack.upto);
        self.timer.vain = 0;
        self.timer.heard = now;
        self.timer.probed = false;
        let mut arrived = 0;
        if let Some(index) = ack.number.checked_sub(self.first)
            && (index as usize) < self.flight.len()
        {
            let mut missing = false;
            for _ in 0..index {
                missing |= self.lose_first();
            }
            arrived = self.report_first(now, ack);
            if missing || !ack.holes.is_empty() {
                self.loss(ack.number);
            }
        }
        self.forget_arrived();
        self.timer.deadline = None;
        if !self.flight.is_empty() || self.is_shut(taken) {
            self.arm(now);
        }
        arrived
    }

    /// Takes word that the peer has room up to a byte.
    pub(crate) fn handle_room(&mut self, now: Time, upto: u64, edge: u64) {
        self.edge = self.edge.max(edge);
        self.acked = self.acked.max(upto);
        self.timer.heard = now;
        self.timer.vain = 0;
        if self.under_way == 0 {
            self.timer.deadline = None;
        }
        self.forget_arrived();
    }

    /// The first transmission under way was not reported. Returns whether anything is missing.
    fn lose_first(&mut self) -> bool {
        let Some(sent) = self.flight.pop_front() else { return false };
        self.first += 1;
        self.under_way -= sent.bytes.end - sent.bytes.start;
        self.lack(sent.bytes)
    }

    fn report_first(&mut self, now: Time, ack: &Ack) -> u64 {
        let Some(sent) = self.flight.pop_front() else { return 0 };
        self.first += 1;
        let len = sent.bytes.end - sent.bytes.start;
        self.under_way -= len;
        let mut acked = len;
        for hole in &ack.holes {
            acked -= hole.end - hole.start;
            self.lack(hole.clone());
        }
        self.delivered += acked;
        let rtt = now.since(sent.at);
        self.round_trip.observe(rtt);
        let new_round = ack.number >= self.round;
        if new_round {
            self.round = self.first + self.flight.len() as u64;
        }
        let seconds = rtt.as_secs_f64().max(1e-9);
        let sample = Sample {
            acked,
            rtt,
            rate: ((self.delivered - sent.delivered) as f64 / seconds) as u64,
            limited: ack.number <= self.held_back,
            new_round,
        };
        if acked > 0 {
            self.congestion.handle_ack(now, sample);
        }
        acked
    }

    /// Notes that bytes must be sent again, unless they have arrived since.
    fn lack(&mut self, bytes: Range<u64>) -> bool {
        let bytes = bytes.start.max(self.acked)..bytes.end;
        if bytes.is_empty() {
            return false;
        }
        // Most come in order; what was sent again and lost again does not.
        let index = self.lost.partition_point(|lost| lost.start <= bytes.start);
        match index.checked_sub(1).map(|before| &mut self.lost[before]) {
            Some(before) if before.end >= bytes.start => before.end = before.end.max(bytes.end),
            _ => self.lost.insert(index, bytes),
        }
        true
    }

    fn forget_arrived(&mut self) {
        while let Some(lost) = self.lost.front_mut().filter(|lost| lost.start < self.acked) {
            lost.start = self.acked.min(lost.end);
            if lost.is_empty() {
                self.lost.pop_front();
            }
        }
    }

    fn loss(&mut self, number: u64) {
        if number >= self.recovery {
            self.congestion.handle_loss();
            self.recovery = self.first + self.flight.len() as u64;
        }
    }

    /// Returns whether the peer's lack of room is all that keeps the sender back.
    fn is_shut(&self, taken: u64) -> bool {
        self.lost.is_empty() && self.next < taken && self.next >= self.edge
    }

    /// Sees to it that a peer without room is asked whether it has some by now.
    pub(crate) fn watch_the_edge(&mut self, now: Time, taken: u64) {
        if self.timer.deadline.is_none() && self.is_shut(taken) {
            self.timer.heard = now;
            self.arm(now);
        }
    }

    /// Does what is to be done when nothing was heard for too long. Returns what to send at once.
    pub(crate) fn handle_timeout(&mut self, now: Time, taken: u64) -> Option<(u64, Range<u64>)> {
        self.timer.deadline = None;
        let probe = if self.under_way == 0 {
            self.first += self.flight.len() as u64;
            self.flight.clear();
            if !self.is_shut(taken) {
                return None;
            }
            // A probe carries nothing: the answer says how much room there is.
            self.timer.vain += 1;
            self.next..self.next
        } else if !self.timer.probed {
            self.timer.probed = true;
            let last = self.flight.back()?.bytes.clone();
            last.end.saturating_sub(self.segment).max(last.start)..last.end
        } else {
            self.lose_everything();
            self.timer.vain += 1;
            self.arm(now);
            return None;
        };
        self.resent += probe.end - probe.start;
        let number = self.send(now, probe.clone());
        self.arm(now);
        Some((number, probe))
    }

    fn lose_everything(&mut self) {
        while !self.flight.is_empty() {
            self.lose_first();
        }
        // What is lost again says nothing new of the network.
        if self.timer.vain == 0 {
            self.congestion.handle_timeout();
        }
        self.recovery = self.first;
    }

    fn arm(&mut self, now: Time) {
        let wait = match self.round_trip.smooth {
            Some(smooth) if !self.timer.probed && self.timer.vain == 0 => smooth * 2 + PROBE_LATER,
            _ => self.round_trip.timeout(self.timer.vain),
        };
        self.timer.deadline = Some(now + wait);
    }

    /// Returns for how long nothing was heard of what is under way, if it was sent in vain again
    /// and again.
    pub(crate) fn silence(&self, now: Time) -> Option<Duration> {
        let waits = self.under_way > 0 || !self.lost.is_empty();
        (waits && self.timer.vain > 0).then(|| now.since(self.timer.heard))
    }

    /// Returns how often in a row nothing was heard.
    pub(crate) fn vain(&self) -> u32 {
        self.timer.vain
    }

    /// Gives everything up.
    pub(crate) fn abort(&mut self) {
        self.flight.clear();
        self.lost.clear();
        self.under_way = 0;
        self.timer.deadline = None;
    }
}

impl RoundTrip {
    fn observe(&mut self, rtt: Duration) {
        match &mut self.smooth {
            None => (self.smooth, self.varies) = (Some(rtt), rtt / 2),
            Some(smooth) => {
                self.varies = (self.varies * 3 + rtt.abs_diff(*smooth)) / 4;
                *smooth = (*smooth * 7 + rtt) / 8;
            }
        }
    }

    /// Returns how long to wait before all is taken for lost, for the so manieth time.
    fn timeout(&self, vain: u32) -> Duration {
        let first = match self.smooth {
            Some(smooth) => smooth + (self.varies * 4).max(TIMEOUT_MIN),
            None => TIMEOUT_FIRST,
        };
        (first * 2_u32.saturating_pow(vain.min(8))).min(TIMEOUT_MAX.max(first))
    }
}

/// A burst is at most so much of the window, so that acknowledgements come often enough.
const PARTS: u64 = 8;
/// A burst of so many bytes may be half of the window.
const SMALL: u64 = 16 << 10;
/// The longest burst, in bytes.
const BURST_MAX: u64 = 1 << 20;
/// A paced burst lasts at most a second by this.
const PACED_BY: u64 = 1_000;
/// How much later than two round trips the end of what is under way is sent again.
const PROBE_LATER: Duration = Duration::from_millis(10);
/// The least that a timeout is later than a round trip, as in Linux.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// Before any round trip was measured.
const TIMEOUT_FIRST: Duration = Duration::from_secs(1);
/// Fulmar tells its sockets so.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
