//! An extension of Fulmar nodes: the latencies and the cost of RPCs.
//!
//! A kernel node answers a QUERY_STAT whose kind is [`MEASURE`] plus the number of a bucket with
//! its counters, as any other. A Fulmar node marks its reply in the reserved words of the header,
//! and reports its RPCs since the start of the session and some buckets of the histogram.

use fulmar_wire::{DecodeError, Field, Reader, Writer, wire_struct};

use super::framework::SessionId;

/// The kind of a [`Stat`](super::Stat) that requests [`MeasureReply`]; the low 16 bits are the number
/// of the first bucket of the [`Slice`].
pub const MEASURE: u32 = 0x4655_0000;

wire_struct! {
    /// The cost of RPCs on this node. All counts start with the node.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Usage {
        /// The processor time of the whole process in nanoseconds.
        pub cpu_ns: u64,
        /// Retransmitted TCP segments of all connections.
        pub retransmits: u32,
        /// The largest congestion window of a connection in bytes; 0 if unknown.
        pub window: u32,
    }
}

/// Some buckets of a [`Histogram`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The number of the first.
    pub first: u32,
    /// Their counts.
    pub counts: [u32; Self::LEN],
}

impl Slice {
    /// The number of buckets in a reply.
    pub const LEN: usize = 14;
}

/// The reply. It counts the RPCs of the session's tests for which this node is the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MeasureReply {
    /// A positive error number, 0 for success.
    pub status: u32,
    pub session: SessionId,
    /// RPCs that succeeded.
    pub rpcs: u64,
    /// Their bulk bytes.
    pub bytes: u64,
    /// The shortest and the longest duration in nanoseconds; 0 without RPCs.
    pub min_ns: u64,
    pub max_ns: u64,
    pub usage: Usage,
    pub slice: Slice,
}

impl MeasureReply {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            status: r.u32("MeasureReply.status")?,
            session: Field::read(r, "MeasureReply.session")?,
            rpcs: r.u64("MeasureReply.rpcs")?,
            bytes: r.u64("MeasureReply.bytes")?,
            min_ns: r.u64("MeasureReply.min_ns")?,
            max_ns: r.u64("MeasureReply.max_ns")?,
            usage: Field::read(r, "MeasureReply.usage")?,
            slice: Slice {
                first: r.u32("MeasureReply.first")?,
                counts: Field::read(r, "MeasureReply.counts")?,
            },
        })
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.status);
        self.session.write(w);
        w.u64(self.rpcs);
        w.u64(self.bytes);
        w.u64(self.min_ns);
        w.u64(self.max_ns);
        self.usage.write(w);
        w.u32(self.slice.first);
        self.slice.counts.write(w);
    }
}

/// Counts of durations in buckets of growing width: eight for each power of two, from a microsecond
/// to about a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u32>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; Self::BUCKETS] }
    }
}

impl Histogram {
    /// The number of buckets.
    pub const BUCKETS: usize = 8 * (Self::LONGEST - Self::SHORTEST) as usize;
    /// Durations below 2^10 ns are in the first bucket.
    const SHORTEST: u32 = 10;
    /// Durations of 2^36 ns and more are in the last.
    const LONGEST: u32 = 36;

    /// Counts a duration.
    pub fn record(&mut self, ns: u64) {
        let count = &mut self.counts[Self::bucket(ns)];
        *count = count.saturating_add(1);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// Adds some buckets of another histogram; buckets that do not exist are ignored.
    pub fn merge_slice(&mut self, slice: &Slice) {
        let counts = self.counts.get_mut(slice.first as usize..).unwrap_or_default();
        for (count, more) in counts.iter_mut().zip(slice.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// Returns some buckets, starting with the first non-empty one that is not before `first`; if
    /// there is none, the slice starts at [`BUCKETS`](Self::BUCKETS).
    pub fn slice(&self, first: usize) -> Slice {
        let mut rest = first..Self::BUCKETS;
        let first = rest.find(|bucket| self.counts[*bucket] > 0).unwrap_or(Self::BUCKETS);
        let mut slice = Slice { first: first as u32, ..Slice::default() };
        for (to, from) in slice.counts.iter_mut().zip(&self.counts[first..]) {
            *to = *from;
        }
        slice
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the quantile for a share from 0 to 1 in nanoseconds: 0.5 for the median. `None`
    /// without durations.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = u64::from(*count);
            if seen + count >= rank {
                let (low, high) = Self::bounds(bucket);
                // The durations of a bucket are assumed to be evenly distributed.
                let part = ((rank - seen) as f64 - 0.5) / count as f64;
                return Some(low + ((high - low) as f64 * part) as u64);
            }
            seen += count;
        }
        None
    }

    fn bucket(ns: u64) -> usize {
        let ns = ns.clamp(1 << Self::SHORTEST, (1 << Self::LONGEST) - 1);
        let octave = ns.ilog2() - Self::SHORTEST;
        let eighth = (ns >> (octave + Self::SHORTEST - 3)) % 8;
        octave as usize * 8 + eighth as usize
    }

    /// Returns the start and the end of a bucket.
    fn bounds(bucket: usize) -> (u64, u64) {
        let edge = |bucket: usize| {
            let (octave, eighth) = (bucket / 8, (bucket % 8) as u64);
            (8 + eighth) << (octave + Self::SHORTEST as usize - 3)
        };
        (edge(bucket), edge(bucket + 1))
    }
}
