//! One direction of a line: a queue with a rate and a size limit.
//!
//! A burst is modelled as a fluid with a head and a tail. A lane that is faster than the burst
//! passes it unchanged and has capacity left for others; a slower lane stretches it.

use std::time::Duration;

use fulmar_base::{Rng, Time};

use crate::options::Line;

/// The times at which the first and the last byte of a burst pass a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) head: Time,
    pub(crate) tail: Time,
}

impl Front {
    /// Returns the front of a burst that is completely present.
    pub(crate) fn at(now: Time) -> Self {
        Self { head: now, tail: now }
    }

    /// Returns the same front, later by `delay`.
    pub(crate) fn later(self, delay: Duration) -> Self {
        Self { head: self.head + delay, tail: self.tail + delay }
    }
}

/// Counters of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Bytes, including all headers.
    pub bytes: u64,
    /// Packets that were dropped because the queue was full.
    pub overflowed: u64,
    /// Packets that were lost at random.
    pub lost: u64,
    /// The longest queue, in bytes.
    pub queued_max: u64,
}

/// One direction of a line, or both of a half-duplex one.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) line: Line,
    /// When it will have sent all data.
    free: Time,
    /// The last idle interval before that.
    gap: Front,
    /// Number of packets until the next random loss.
    good: u64,
    pub(crate) carried: LaneCounters,
}

impl Lane {
    pub(crate) fn new(line: Line, rng: &mut Rng) -> Self {
        let good = good_packets(&line, rng);
        let gap = Front::at(Time::ZERO);
        Self { line, free: Time::ZERO, gap, good, carried: LaneCounters::default() }
    }

    /// Returns when it will have sent all data.
    pub(crate) fn free(&self) -> Time {
        self.free
    }

    /// Returns the queueing delay of a small packet that arrives now.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        self.free.since(now)
    }

    /// Returns how many bytes of a burst that arrives at `front` fit into the queue.
    pub(crate) fn room(&self, front: Front) -> u64 {
        if self.line.queue == u64::MAX {
            return u64::MAX;
        }
        let begins = self.free.max(front.head);
        // Data that leave while the burst arrives make room, and the packet being sent needs none.
        let leaving = self.bytes_in(front.tail.since(begins));
        let before = self.bytes_in(begins.since(front.tail));
        let own = if self.free <= front.head { PACKET } else { 0 };
        (self.line.queue.saturating_add(leaving)).saturating_add(own).saturating_sub(before)
    }

    /// Carries a burst, and returns when it leaves at the other end. Bursts must be given in the
    /// order of their heads.
    pub(crate) fn carry(&mut self, front: Front, bytes: u64) -> Front {
        let Front { head, tail } = front;
        let need = self.line.time_of(bytes);
        // Earlier slow bursts may have left capacity unused.
        let unused = self.gap.tail.since(self.gap.head.max(head)).min(need);
        self.gap.tail = self.gap.tail - unused;
        let rest = need - unused;
        let waits = self.free.max(head);
        let out = if rest.is_zero() {
            Front { head, tail }
        } else {
            let start = waits.max(tail - rest);
            if start > self.free {
                self.gap = Front { head: self.free, tail: start };
            }
            self.free = start + rest;
            let head = if unused.is_zero() { waits } else { head };
            Front { head: head.min(self.free), tail: self.free.max(tail) }
        };
        self.carried.bytes += bytes;
        let queued = self.bytes_in(self.free.since(tail));
        self.carried.queued_max = self.carried.queued_max.max(queued);
        out.later(self.line.delay)
    }

    /// Draws which packets are lost at random, and returns their numbers in order.
    pub(crate) fn lose(&mut self, packets: u64, rng: &mut Rng) -> Vec<u64> {
        let mut lost = Vec::new();
        let mut left = packets;
        while self.good < left {
            left -= self.good + 1;
            lost.push(packets - left - 1);
            self.good = good_packets(&self.line, rng);
        }
        if self.line.loss_ppb > 0 {
            self.good -= left;
        }
        self.carried.lost += lost.len() as u64;
        lost
    }

    fn bytes_in(&self, time: Duration) -> u64 {
        (time.as_nanos() * u128::from(self.line.rate_mbps) / 8_000) as u64
    }
}

/// Draws the number of packets before the next loss: each is lost with the same probability.
fn good_packets(line: &Line, rng: &mut Rng) -> u64 {
    match line.loss_ppb {
        0 => u64::MAX,
        1_000_000_000.. => 0,
        ppb => {
            let chance = (rng.u64() >> 11) as f64 / (1_u64 << 53) as f64;
            ((1.0 - chance).ln() / (1.0 - f64::from(ppb) / 1e9).ln()) as u64
        }
    }
}

/// Largest size of the packet that is being sent.
const PACKET: u64 = 9_038;

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Gbit/s: a byte in a nanosecond.
    fn lane(delay: u64) -> Lane {
        Lane::new(Line::new(8_000, Duration::from_nanos(delay)), &mut Rng::new(1))
    }

    fn front(head: u64, tail: u64) -> Front {
        Front { head: Time(head), tail: Time(tail) }
    }

    #[test]
    fn bursts_leave_in_order_at_the_rate_and_arrive_after_the_delay() {
        let mut lane = lane(500);
        assert_eq!(lane.carry(front(0, 0), 1_000), front(500, 1_500));
        assert_eq!(lane.carry(front(0, 0), 1_000), front(1_500, 2_500));
        assert_eq!(lane.backlog(Time(200)), Duration::from_nanos(1_800));
        assert_eq!(lane.carry(front(9_000, 9_000), 10), front(9_500, 9_510));
    }

    #[test]
    fn a_burst_is_not_stored_and_forwarded() {
        let mut lane = lane(0);
        // It arrives at the rate of the lane, then slower, then faster.
        assert_eq!(lane.carry(front(0, 1_000), 1_000), front(0, 1_000));
        assert_eq!(lane.carry(front(2_000, 12_000), 1_000), front(2_000, 12_000));
        assert_eq!(lane.carry(front(20_000, 20_100), 1_000), front(20_000, 21_000));
    }

    #[test]
    fn concurrent_slow_bursts_share_a_fast_line_without_waiting() {
        let mut lane = lane(0);
        for _ in 0..8 {
            let out = lane.carry(front(1_000, 11_000), 1_000);
            assert_eq!(out, front(1_000, 11_000));
        }
        let out: Vec<Front> = (0..4).map(|_| lane.carry(front(1_000, 11_000), 1_000)).collect();
        assert_eq!(out[1].tail, Time(11_000), "ten fill it");
        assert_eq!((out[2].tail, out[3].tail), (Time(12_000), Time(13_000)));
    }

    #[test]
    fn room_is_the_queue_limit_plus_what_leaves_meanwhile() {
        let mut lane = lane(0);
        lane.line.queue = 5_000;
        assert_eq!(lane.room(front(0, 0)), 5_000 + PACKET);
        assert_eq!(lane.room(front(0, 2_000)), 7_000 + PACKET);
        lane.carry(front(0, 0), 4_000);
        assert_eq!(lane.room(front(1_000, 1_000)), 2_000);
        assert_eq!(lane.room(front(1_000, 6_000)), 7_000);
        assert_eq!(lane.carried.queued_max, 4_000);
    }

    #[test]
    fn packets_are_lost_at_the_configured_rate() {
        let mut rng = Rng::new(5);
        let line = Line { loss_ppb: 10_000_000, ..Line::new(8_000, Duration::ZERO) };
        let mut lane = Lane::new(line, &mut rng);
        let mut lost = 0;
        for _ in 0..10_000 {
            let of_burst = lane.lose(45, &mut rng);
            assert!(of_burst.is_sorted() && of_burst.iter().all(|packet| *packet < 45));
            lost += of_burst.len();
        }
        assert!((4_200..4_800).contains(&lost), "{lost} of 450000");
        lane.line.loss_ppb = 0;
        lane.good = good_packets(&lane.line, &mut rng);
        assert!(lane.lose(u64::MAX - 1, &mut rng).is_empty());
    }
}
