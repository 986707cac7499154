//! The counters of a link.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fulmar_base::Time;
use serde::Serialize;

use crate::line::Line;

/// The counters of one direction since the start of the link.
///
/// Every segment that entered is counted once: `entered` is the sum of `delivered`, `lost`,
/// `overflowed`, `refused` and `under_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Packets that entered, as the sender's network stack produced them: up to 64 KiB each.
    pub packets: u64,
    /// Segments that entered: packets on a real line.
    pub entered: u64,
    /// Segments that arrived.
    pub delivered: u64,
    /// Bytes that arrived, including headers and Ethernet framing.
    pub delivered_bytes: u64,
    /// Segments that were lost at random.
    pub lost: u64,
    /// Segments that were dropped because the queue was full.
    pub overflowed: u64,
    /// Segments that the remote device refused because it was down or out of memory.
    pub refused: u64,
    /// Segments in the queue or in flight.
    pub under_way: u64,
    /// Segments that were delayed, so that others overtook them.
    pub reordered: u64,
    /// Bytes in the queue.
    pub queue_bytes: u64,
    /// The maximum of bytes in the queue.
    pub queue_max_bytes: u64,
    /// The average lateness of delivery since the start: the delay that this machine adds.
    pub lateness_mean_us: f64,
    /// The maximum lateness.
    pub lateness_max_us: f64,
    /// Packets that the sender's device dropped because the link did not read them in time: this
    /// machine is too busy for the rate.
    pub missed: u64,
}

/// The counters of a running direction. One thread writes, others read.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) packets: AtomicU64,
    pub(crate) entered: AtomicU64,
    pub(crate) delivered: AtomicU64,
    pub(crate) delivered_bytes: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) reordered: AtomicU64,
    pub(crate) queue_max: AtomicU64,
    /// The number of delivered packets, and the sum of their lateness in nanoseconds.
    pub(crate) handed: AtomicU64,
    pub(crate) lateness: AtomicU64,
    pub(crate) lateness_max: AtomicU64,
    /// The time when the line will have sent its queue.
    pub(crate) busy_until: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

/// Keeps the maximum. One thread writes.
pub(crate) fn raise(counter: &AtomicU64, value: u64) {
    if value > counter.load(Relaxed) {
        counter.store(value, Relaxed);
    }
}

impl Tally {
    /// Counts a packet that was delivered so many nanoseconds late.
    pub(crate) fn handed_over(&self, late: u64) {
        add(&self.handed, 1);
        add(&self.lateness, late);
        raise(&self.lateness_max, late);
    }

    /// Returns the counters at `now`.
    pub(crate) fn at(&self, now: Time, line: &Line, missed: u64) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        // Segments that left are read before those that entered: the difference is not negative.
        let (delivered, delivered_bytes) = (get(&self.delivered), get(&self.delivered_bytes));
        let (lost, overflowed) = (get(&self.lost), get(&self.overflowed));
        let (refused, entered) = (get(&self.refused), get(&self.entered));
        let busy = Time(get(&self.busy_until)).since(now);
        Counters {
            packets: get(&self.packets),
            entered,
            delivered,
            delivered_bytes,
            lost,
            overflowed,
            refused,
            under_way: entered.saturating_sub(delivered + lost + overflowed + refused),
            reordered: get(&self.reordered),
            queue_bytes: line.rate.bytes_in(busy),
            queue_max_bytes: get(&self.queue_max),
            lateness_mean_us: micros(get(&self.lateness) / get(&self.handed).max(1)),
            lateness_max_us: micros(get(&self.lateness_max)),
            missed,
        }
    }
}

/// Returns microseconds with three decimals, the precision of the clock.
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
