//! The sending half of a stream: what may be sent, what is in flight, and what was lost.
//!
//! ```text
//! burst()         -> a range of bytes and their transmission number
//! handle_ack()    <- transmission 17 arrived, as did all bytes before n; the window ends at m
//! handle_timeout()<- no acknowledgement for too long
//! ```
//!
//! Every transmission has a number, and packets are not reordered: when one is acknowledged,
//! earlier unacknowledged ones are lost. A kernel learns the same from SACK and RACK.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::Time;

use super::autotune::{self, ReceiveBuffer};
use super::congestion::{Congestion, Sample};
use super::round_trip::RoundTrip;
use crate::options::Tcp;

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) struct Sender {
    segment: u64,
    /// The longest burst for the path, in bytes.
    burst_max: u64,
    buffer: u64,
    /// Whether the buffer grows with the congestion window.
    autotune: bool,
    /// Whether an idle time shrinks the congestion window.
    idle_restart: bool,
    /// Whether the peer may acknowledge later.
    delayed_acks: bool,
    /// The time of the last transmission.
    sent_at: Time,
    /// The first byte that was never sent.
    next: u64,
    /// All bytes before this one have arrived.
    acked: u64,
    /// The end of the peer's window.
    edge: u64,
    /// Transmissions in flight, with consecutive numbers.
    flight: VecDeque<Transmission>,
    /// The number of the first one.
    first: u64,
    /// Their total bytes.
    in_flight: u64,
    /// Ranges to be retransmitted, in order.
    lost: VecDeque<Range<u64>>,
    congestion: Congestion,
    round_trip: RoundTrip,
    /// Bytes that were acknowledged.
    delivered: u64,
    /// A loss of a transmission below this number belongs to a loss that was handled already.
    recovery: u64,
    /// The next round starts with this transmission.
    round: u64,
    /// The window or the pace limited sending up to this transmission.
    held_back: u64,
    /// When pacing allows the next burst.
    paced_until: Time,
    timer: Timer,
    /// Retransmitted bytes.
    pub(crate) resent: u64,
}

/// A transmission.
#[derive(Debug)]
struct Transmission {
    bytes: Range<u64>,
    at: Time,
    /// The value of `delivered` when it was sent.
    delivered: u64,
}

/// An acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    /// The transmission that arrived.
    pub(crate) number: u64,
    /// The parts of it that were lost.
    pub(crate) holes: Vec<Range<u64>>,
    /// All bytes before this one have arrived.
    pub(crate) upto: u64,
    /// The end of the window.
    pub(crate) edge: u64,
    /// The time between the arrivals of the first and the last byte of the transmission.
    pub(crate) spread: Duration,
}

/// The retransmission timer.
#[derive(Debug, Default)]
struct Timer {
    deadline: Option<Time>,
    /// A tail loss probe was sent.
    probed: bool,
    /// Consecutive timeouts without an acknowledgement.
    timeouts: u32,
    /// Time of the last acknowledgement, or of the first transmission after it.
    acked_at: Time,
}

impl Sender {
    /// Returns the sender of a new stream.
    pub(crate) fn new(tcp: &Tcp, burst_max: u64) -> Self {
        let segment = tcp.segment();
        Self {
            segment,
            burst_max: burst_max.clamp(segment, BURST_MAX),
            buffer: tcp.write_buffer,
            sent_at: Time::ZERO,
            next: 0,
            acked: 0,
            autotune: tcp.autotune,
            idle_restart: tcp.idle_restart,
            delayed_acks: tcp.delayed_acks,
            edge: ReceiveBuffer::new(tcp.read_buffer, segment, tcp.autotune).window(),
            flight: VecDeque::new(),
            first: 0,
            in_flight: 0,
            lost: VecDeque::new(),
            congestion: Congestion::new(tcp),
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

    /// Returns the free space of the write buffer after the socket has taken `taken` bytes in
    /// total.
    pub(crate) fn room(&self, taken: u64) -> u64 {
        (self.acked + self.write_buffer()).saturating_sub(taken)
    }

    /// Returns whether more than two thirds of the write buffer are in use.
    pub(crate) fn is_mostly_full(&self, taken: u64) -> bool {
        3 * taken.saturating_sub(self.acked) > 2 * self.write_buffer()
    }

    fn write_buffer(&self) -> u64 {
        if self.autotune { autotune::send_buffer(self.buffer, self.window()) } else { self.buffer }
    }

    /// Returns the congestion window.
    pub(crate) fn window(&self) -> u64 {
        self.congestion.window()
    }

    /// Returns the window of the receiver.
    pub(crate) fn receive_window(&self) -> u64 {
        self.edge.saturating_sub(self.acked)
    }

    /// Returns how many new bytes the receiver has room for.
    pub(super) fn receiver_room(&self) -> u64 {
        self.edge.saturating_sub(self.next)
    }

    /// Returns the bytes that are not acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the bytes that were acknowledged.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the length of the first range that is to be retransmitted.
    pub(super) fn missing(&self) -> u64 {
        self.lost.front().map_or(0, |lost| lost.end - lost.start)
    }

    /// Returns the first byte that was never sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns when pacing allows the next burst, if that is later than now.
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

    /// Returns whether a burst may be sent now, apart from pacing. `taken` is the end of the data.
    pub(crate) fn is_ready(&mut self, taken: u64) -> bool {
        self.allowed(taken) > 0
    }

    /// Returns the next burst and its number; one with new data has at most `limit` bytes.
    pub(crate) fn burst(&mut self, now: Time, taken: u64, limit: u64) -> Option<(u64, Range<u64>)> {
        self.notice_idle(now);
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

    /// Shrinks the congestion window if nothing was sent for longer than the retransmission timeout.
    fn notice_idle(&mut self, now: Time) {
        let is_idle = self.idle_restart && self.in_flight == 0 && self.lost.is_empty();
        let (idle, timeout) = (now.since(self.sent_at), self.round_trip.timeout(0));
        if is_idle && self.next > 0 && idle > timeout {
            let timeouts = (idle.as_nanos() / timeout.as_nanos().max(1)) as u32;
            self.congestion.handle_idle(idle, timeouts);
            self.sent_at = now;
        }
    }

    fn send(&mut self, now: Time, bytes: Range<u64>) -> u64 {
        let len = bytes.end - bytes.start;
        if let Some(rate) = self.congestion.pacing() {
            let takes = Duration::from_nanos(((len as f64 / rate as f64) * 1e9) as u64);
            self.paced_until = self.paced_until.max(now) + takes;
        }
        self.sent_at = now;
        let number = self.first + self.flight.len() as u64;
        self.flight.push_back(Transmission { bytes, at: now, delivered: self.delivered });
        self.in_flight += len;
        if self.timer.deadline.is_none() {
            self.timer.acked_at = now;
            self.arm(now);
        }
        number
    }

    /// Returns how many bytes may be sent now.
    fn allowed(&mut self, taken: u64) -> u64 {
        let wanted = match self.lost.front() {
            Some(lost) => lost.end - lost.start,
            None => taken.min(self.edge).saturating_sub(self.next),
        };
        if wanted == 0 {
            return 0;
        }
        let window = self.congestion.window();
        let room = window.saturating_sub(self.in_flight);
        if room < wanted {
            self.held_back = self.first + self.flight.len() as u64;
        }
        let wanted = wanted.min(self.longest(window));
        // A partial burst waits for more window while enough data are in flight to open it.
        let least = if self.in_flight >= window / 2 { wanted } else { wanted.min(self.segment) };
        if room >= least || self.in_flight == 0 { wanted.min(room.max(self.segment)) } else { 0 }
    }

    /// Returns the longest burst, by the window, the path and the pace.
    pub(super) fn longest(&self, window: u64) -> u64 {
        let window = window.min(self.buffer).min(self.edge.saturating_sub(self.acked));
        let mut longest = (window / PARTS).max(SMALL.min(window / 2)).min(self.burst_max);
        if let Some(rate) = self.congestion.pacing() {
            longest = longest.min(rate / PACED_BY);
        }
        longest.max(self.segment)
    }

    /// Handles an acknowledgement. Returns how many bytes it newly acknowledges.
    pub(crate) fn handle_ack(&mut self, now: Time, ack: &Ack, taken: u64) -> u64 {
        self.edge = self.edge.max(ack.edge);
        self.acked = self.acked.max(ack.upto);
        self.timer.timeouts = 0;
        self.timer.acked_at = now;
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
        if !self.flight.is_empty() || self.is_window_closed(taken) {
            self.arm(now);
        }
        arrived
    }

    /// Handles a window update.
    pub(crate) fn handle_room(&mut self, now: Time, upto: u64, edge: u64) {
        self.edge = self.edge.max(edge);
        self.acked = self.acked.max(upto);
        self.timer.acked_at = now;
        self.timer.timeouts = 0;
        if self.in_flight == 0 {
            self.timer.deadline = None;
        }
        self.forget_arrived();
    }

    /// Declares the first transmission in flight lost. Returns whether any of its bytes are
    /// missing.
    fn lose_first(&mut self) -> bool {
        let Some(sent) = self.flight.pop_front() else { return false };
        self.first += 1;
        self.in_flight -= sent.bytes.end - sent.bytes.start;
        self.mark_lost(sent.bytes)
    }

    fn report_first(&mut self, now: Time, ack: &Ack) -> u64 {
        let Some(sent) = self.flight.pop_front() else { return 0 };
        self.first += 1;
        let len = sent.bytes.end - sent.bytes.start;
        self.in_flight -= len;
        let mut acked = len;
        for hole in &ack.holes {
            acked -= hole.end - hole.start;
            self.mark_lost(hole.clone());
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
            spread: ack.spread,
        };
        if acked > 0 {
            self.congestion.handle_ack(now, sample);
        }
        acked
    }

    /// Schedules a retransmission, unless the bytes have arrived since.
    fn mark_lost(&mut self, bytes: Range<u64>) -> bool {
        let bytes = bytes.start.max(self.acked)..bytes.end;
        if bytes.is_empty() {
            return false;
        }
        // Most are in order, except repeated losses.
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

    /// Returns whether only the peer's window limits the sender.
    fn is_window_closed(&self, taken: u64) -> bool {
        self.lost.is_empty() && self.next < taken && self.next >= self.edge
    }

    /// Arms the timer for a window probe if the peer's window is closed.
    pub(crate) fn watch_window(&mut self, now: Time, taken: u64) {
        if self.timer.deadline.is_none() && self.is_window_closed(taken) {
            self.timer.acked_at = now;
            self.arm(now);
        }
    }

    /// Handles an expired timer. Returns a probe to send at once, if any.
    pub(crate) fn handle_timeout(&mut self, now: Time, taken: u64) -> Option<(u64, Range<u64>)> {
        self.timer.deadline = None;
        let probe = if self.in_flight == 0 {
            self.first += self.flight.len() as u64;
            self.flight.clear();
            if !self.is_window_closed(taken) {
                return None;
            }
            // A window probe is empty; its acknowledgement carries the window.
            self.timer.timeouts += 1;
            self.next..self.next
        } else if !self.timer.probed {
            self.timer.probed = true;
            let last = self.flight.back()?.bytes.clone();
            last.end.saturating_sub(self.segment).max(last.start)..last.end
        } else {
            self.lose_everything();
            self.timer.timeouts += 1;
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
        // Only the first of several timeouts is a sign of congestion.
        if self.timer.timeouts == 0 {
            self.congestion.handle_timeout();
        }
        self.recovery = self.first;
    }

    fn arm(&mut self, now: Time) {
        let wait = match self.round_trip.smooth {
            Some(smooth) if !self.timer.probed && self.timer.timeouts == 0 => {
                smooth * 2 + self.probe_later()
            }
            _ => self.round_trip.timeout(self.timer.timeouts),
        };
        self.timer.deadline = Some(now + wait);
    }

    /// Returns how much later than two round trips a tail loss is probed. The acknowledgement of a
    /// single packet may be delayed.
    fn probe_later(&self) -> Duration {
        if self.delayed_acks && self.flight.len() == 1 && self.in_flight <= self.segment {
            ACK_LATER
        } else {
            PROBE_LATER
        }
    }

    /// Returns the smoothed round trip, once known.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.smooth
    }

    /// Returns the time since the last acknowledgement, if data in flight have timed out.
    pub(crate) fn time_without_ack(&self, now: Time) -> Option<Duration> {
        let waits = self.in_flight > 0 || !self.lost.is_empty();
        (waits && self.timer.timeouts > 0).then(|| now.since(self.timer.acked_at))
    }

    /// Returns the number of consecutive timeouts.
    pub(crate) fn timeouts(&self) -> u32 {
        self.timer.timeouts
    }

    /// Drops all data.
    pub(crate) fn abort(&mut self) {
        self.flight.clear();
        self.lost.clear();
        self.in_flight = 0;
        self.timer.deadline = None;
    }
}

/// A burst is at most this fraction of the window, so that acknowledgements are frequent enough.
const PARTS: u64 = 8;
/// A burst of up to so many bytes may be half of the window.
const SMALL: u64 = 16 << 10;
/// The longest burst, in bytes.
const BURST_MAX: u64 = 1 << 20;
/// A paced burst lasts at most this fraction of a second.
const PACED_BY: u64 = 1_000;
/// A tail loss probe is sent after two round trips and this time.
const PROBE_LATER: Duration = Duration::from_millis(10);
/// The same if its acknowledgement may be delayed.
const ACK_LATER: Duration = Duration::from_millis(200);

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
