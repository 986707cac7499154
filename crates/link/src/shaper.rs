//! One direction of a link as a pure machine: when each segment arrives, or whether it is lost.
//!
//! The machine moves no bytes. Its owner reports a packet with [`Shaper::handle_packet`], and gets
//! runs of segments with the same fate from [`Shaper::poll_output`]. An unsegmented packet is a
//! [`Train`] of many segments; nearly always the whole train is one run, and the owner moves it
//! unchanged.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::{Rng, Time};

use crate::line::Line;

/// The segments of a packet on the line: all have the same length except the last. Lengths include
/// headers and framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// The number of segments.
    pub count: u32,
    /// The length of each except the last, in bytes on the line.
    pub each: u32,
    /// The length of the last.
    pub last: u32,
}

/// Segments of a train that share a fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The segments, counted from 0.
    pub segments: Range<u32>,
    /// Their fate.
    pub fate: Fate,
    /// Their length on the line in bytes.
    pub bytes: u64,
}

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at this time, in order with other segments of this fate.
    Arrives(Time),
    /// It arrives at this time, after others that entered later.
    Late(Time),
    /// It was sent, and is lost.
    Lost,
    /// The queue was full.
    Overflowed,
}

/// One direction of a link; see the module.
#[derive(Clone, Debug)]
pub struct Shaper {
    line: Line,
    queue_bytes: u64,
    /// The bytes that the line sends in the time of a piece.
    piece_bytes: u64,
    /// The bytes in the queue, including the segments of the last packet.
    waiting: u64,
    /// The time when the line has sent its queue. The fraction of a nanosecond is kept in units of
    /// 1 / rate, so that the rate is exact without limit.
    busy_until: Time,
    fraction: u64,
    /// The earliest arrival of a segment in order.
    last_arrival: Time,
    rng: Rng,
    lottery: [Lottery; 2],
    outputs: VecDeque<Run>,
}

const LOSS: usize = 0;
const REORDER: usize = 1;

/// A large packet on a slow line would arrive at once after a long pause: it is sent in pieces of
/// this length, if it is at least twice as long.
const PIECE: Duration = Duration::from_millis(1);

/// A random event that affects a share of the segments.
#[derive(Clone, Debug)]
struct Lottery {
    share: f64,
    /// The number of segments before the next affected one.
    pass: u64,
}

impl Lottery {
    fn new(share: f64, rng: &mut Rng) -> Self {
        let mut this = Self { share, pass: 0 };
        this.draw(rng);
        this
    }

    /// Draws the distance to the next affected segment, rather than one number for each.
    fn draw(&mut self, rng: &mut Rng) {
        self.pass = if self.share <= 0.0 {
            u64::MAX
        } else if self.share >= 1.0 {
            0
        } else {
            // In (0, 1]: its logarithm is finite.
            let uniform = ((rng.u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            (uniform.ln() / (-self.share).ln_1p()) as u64
        };
    }

    fn passed(&mut self, count: u32) {
        if self.pass != u64::MAX {
            self.pass -= u64::from(count);
        }
    }
}

impl Train {
    /// Returns the total length of some segments.
    fn bytes(&self, segments: &Range<u32>) -> u64 {
        let whole = u64::from(self.each) * u64::from(segments.end - segments.start);
        if segments.end == self.count && !segments.is_empty() {
            whole - u64::from(self.each) + u64::from(self.last)
        } else {
            whole
        }
    }
}

impl Shaper {
    /// Returns an idle line. `seed` is for random events.
    pub fn new(line: Line, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let lottery = [line.loss, line.reorder].map(|share| Lottery::new(share.0, &mut rng));
        Self {
            queue_bytes: line.queue_bytes(),
            piece_bytes: line.rate.bytes_in(PIECE),
            waiting: 0,
            busy_until: Time::ZERO,
            fraction: 0,
            last_arrival: Time::ZERO,
            rng,
            lottery,
            outputs: VecDeque::new(),
            line,
        }
    }

    /// Returns how many bytes waited for the line, or were being sent, after the last packet
    /// entered.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns the time when the line will have sent its queue.
    pub fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Handles a packet. The resulting runs cover it in order.
    ///
    /// # Panics
    /// If the train has no segments.
    pub fn handle_packet(&mut self, now: Time, train: Train) {
        assert!(train.count > 0, "a packet has at least one segment");
        self.waiting = self.line.rate.bytes_in(self.busy_until.since(now));
        let piece = self.piece(train);
        let mut at = 0;
        while at < train.count {
            let room = self.room(train, at);
            if room == 0 {
                self.put(train, at..train.count, Fate::Overflowed);
                return;
            }
            let [loss, reorder] = self.lottery.each_ref().map(|lottery| lottery.pass);
            if loss == 0 {
                self.send(now, train, at..at + 1);
                self.strike(LOSS);
                self.put(train, at..at + 1, Fate::Lost);
                at += 1;
            } else if reorder == 0 {
                let sent = self.send(now, train, at..at + 1);
                self.strike(REORDER);
                self.lottery[LOSS].passed(1);
                let arrival = self.arrival(sent) + self.line.reorder_by;
                self.put(train, at..at + 1, Fate::Late(arrival));
                at += 1;
            } else {
                let clear = u32::try_from(loss.min(reorder)).unwrap_or(u32::MAX);
                let end = at + (train.count - at).min(room).min(piece).min(clear);
                let sent = self.send(now, train, at..end);
                self.lottery.iter_mut().for_each(|lottery| lottery.passed(end - at));
                self.last_arrival = self.arrival(sent).max(self.last_arrival);
                self.put(train, at..end, Fate::Arrives(self.last_arrival));
                at = end;
            }
        }
    }

    /// Returns the next run of the last packet.
    pub fn poll_output(&mut self) -> Option<Run> {
        self.outputs.pop_front()
    }

    /// Returns how many segments from `at` on fit the queue. An idle line accepts at least one.
    fn room(&self, train: Train, at: u32) -> u32 {
        let free = self.queue_bytes.saturating_sub(self.waiting);
        let rest = train.count - at;
        if train.bytes(&(at..train.count)) <= free {
            return rest;
        }
        let fit = u32::try_from(free / u64::from(train.each.max(1))).unwrap_or(u32::MAX).min(rest);
        fit.max(u32::from(self.waiting == 0))
    }

    /// Returns how many segments form one piece.
    fn piece(&self, train: Train) -> u32 {
        if train.bytes(&(0..train.count)) < 2 * self.piece_bytes {
            return train.count;
        }
        u32::try_from(self.piece_bytes / u64::from(train.each.max(1))).unwrap_or(u32::MAX).max(1)
    }

    /// Sends segments on the line and returns when the last of them is sent.
    fn send(&mut self, now: Time, train: Train, segments: Range<u32>) -> Time {
        if self.busy_until < now {
            (self.busy_until, self.fraction) = (now, 0);
        }
        let bytes = train.bytes(&segments);
        self.waiting += bytes;
        let rate = u128::from(self.line.rate.bits());
        let time = u128::from(bytes) * 8 * 1_000_000_000 + u128::from(self.fraction);
        // Both fit: the time of a packet is at most some hundred thousand seconds.
        self.busy_until = self.busy_until + Duration::from_nanos((time / rate) as u64);
        self.fraction = (time % rate) as u64;
        self.busy_until
    }

    /// Returns the arrival of a segment that was sent at this time, with jitter.
    fn arrival(&mut self, sent: Time) -> Time {
        let jitter = self.line.jitter;
        let width = u64::try_from(2 * jitter.as_nanos()).unwrap_or(u64::MAX);
        let drawn = if width == 0 { 0 } else { self.rng.between(0, width) };
        sent + (self.line.delay - jitter) + Duration::from_nanos(drawn)
    }

    fn strike(&mut self, which: usize) {
        self.lottery[which].draw(&mut self.rng);
    }

    fn put(&mut self, train: Train, segments: Range<u32>, fate: Fate) {
        let bytes = train.bytes(&segments);
        self.outputs.push_back(Run { segments, fate, bytes });
    }
}

#[cfg(test)]
mod tests;
