//! What a link has carried.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fulmar_base::Time;
use serde::Serialize;

use crate::line::Line;

/// What one direction has carried since the link was started.
///
/// Every segment that entered is in one place: `entered` is the sum of `delivered`, `lost`,
/// `overflowed`, `refused` and `under_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Packets that entered, as the sender's network stack made them: up to 64 KiB each.
    pub packets: u64,
    /// Segments that entered: what a packet is on a wire.
    pub entered: u64,
    /// Segments that arrived.
    pub delivered: u64,
    /// Bytes that arrived, headers and framing of Ethernet included.
    pub delivered_bytes: u64,
    /// Segments that were lost by chance.
    pub lost: u64,
    /// Segments that found no place in the queue.
    pub overflowed: u64,
    /// Segments that came to the other end when it was down, or out of memory.
    pub refused: u64,
    /// Segments that are in the queue or on their way.
    pub under_way: u64,
    /// Segments that were late, so that others overtook them.
    pub reordered: u64,
    /// Bytes in the queue.
    pub queue_bytes: u64,
    /// The most bytes that were in the queue.
    pub queue_max_bytes: u64,
    /// How late packets were handed over at the other end, on average since the start: what this
    /// machine adds to the delay.
    pub lateness_mean_us: f64,
    /// How late the latest was.
    pub lateness_max_us: f64,
    /// Packets that the sender's device dropped because the link was too slow to fetch them: this
    /// machine is too busy for the rate.
    pub missed: u64,
}

/// The counters of a direction that runs. One thread writes, others read.
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
    /// Packets that were handed over, and by how many nanoseconds these were late in all.
    pub(crate) handed: AtomicU64,
    pub(crate) lateness: AtomicU64,
    pub(crate) lateness_max: AtomicU64,
    /// When the line will have sent what is in its queue.
    pub(crate) busy_until: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

/// Keeps the greatest of what was said. One thread writes.
pub(crate) fn raise(counter: &AtomicU64, value: u64) {
    if value > counter.load(Relaxed) {
        counter.store(value, Relaxed);
    }
}

impl Tally {
    /// A packet was handed over so many nanoseconds late.
    pub(crate) fn handed_over(&self, late: u64) {
        add(&self.handed, 1);
        add(&self.lateness, late);
        raise(&self.lateness_max, late);
    }

    /// Returns the counters as they are at `now`.
    pub(crate) fn at(&self, now: Time, line: &Line, missed: u64) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        // What has left is read before what has entered, so that the difference is not negative.
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

/// No clock is more exact than three decimals.
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
