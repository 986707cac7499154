//! Rates and latencies of a node between two samples.
//!
//! A Fulmar client reports the RPCs, bulk bytes and latencies of its tests. A kernel node has only
//! the counters of LNet: all bytes, from which the 160 bytes of every request and reply are
//! subtracted.

use std::time::Duration;

use fulmar_lnet_wire::selftest::{Histogram, Slice};
use fulmar_selftest::console::{Measures, Stats, TestSpec};

/// The counters of a node at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) stats: Stats,
    pub(super) measures: Measures,
}

/// The differences of a node between two samples.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) time: Duration,
    pub(super) bytes: u64,
    pub(super) rpcs: u64,
    /// The following fields are known only for Fulmar nodes.
    pub(super) latency: Option<Latency>,
    pub(super) cpu: Option<Duration>,
    pub(super) retransmits: Option<u32>,
    /// TCP window in bytes.
    pub(super) window: Option<u32>,
}

/// Length of every request and reply in bytes. Spec: lnet-selftest §1.
const MESSAGE_LEN: u64 = 160;

impl Figures {
    /// Returns the results of a client, unless no time has passed.
    pub(super) fn of_client(test: TestSpec, start: &Sample, end: &Sample) -> Option<Self> {
        let reported = start.measures.reported && end.measures.reported;
        let (bytes, rpcs) = if reported {
            let (from, to) = (&start.measures, &end.measures);
            (to.bytes.saturating_sub(from.bytes), to.rpcs.saturating_sub(from.rpcs))
        } else {
            passed(test, &start.stats, &end.stats)
        };
        let latency = reported.then(|| Latency::between(&start.measures, &end.measures)).flatten();
        Self::new(start, end, bytes, rpcs, latency)
    }

    /// Returns the results of a server, unless no time has passed.
    pub(super) fn of_server(start: &Sample, end: &Sample) -> Option<Self> {
        let (from, to) = (&start.stats, &end.stats);
        let rpcs = to.rpcs_received.wrapping_sub(from.rpcs_received);
        Self::new(start, end, served(from, to), rpcs.into(), None)
    }

    fn new(
        start: &Sample,
        end: &Sample,
        bytes: u64,
        rpcs: u64,
        latency: Option<Latency>,
    ) -> Option<Self> {
        let ms = end.stats.running_ms.wrapping_sub(start.stats.running_ms);
        let reported = start.measures.reported && end.measures.reported;
        let (from, to) = (&start.measures, &end.measures);
        (ms > 0).then(|| Self {
            time: Duration::from_millis(ms.into()),
            bytes,
            rpcs,
            latency,
            cpu: reported.then(|| Duration::from_nanos(to.cpu_ns.saturating_sub(from.cpu_ns))),
            // A closed connection takes its count with it.
            retransmits: reported.then(|| to.retransmits.saturating_sub(from.retransmits)),
            window: Some(to.window).filter(|window| reported && *window > 0),
        })
    }

    /// Returns the bulk rate in bytes per second.
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }

    /// Returns the RPC rate per second.
    pub(super) fn rpcs_per_second(&self) -> f64 {
        self.rpcs as f64 / self.time.as_secs_f64()
    }
}

/// Returns the bulk bytes and RPCs of a client by the counters of LNet.
pub(super) fn passed(test: TestSpec, from: &Stats, to: &Stats) -> (u64, u64) {
    let sent = to.rpcs_sent.wrapping_sub(from.rpcs_sent);
    let received = to.rpcs_received.wrapping_sub(from.rpcs_received);
    // Each RPC is one message sent and one received, on both sides.
    let overhead = MESSAGE_LEN * (u64::from(sent) + u64::from(received));
    let (length, as_server) = match test {
        TestSpec::Ping => return (0, sent.into()),
        TestSpec::Brw { write: true, .. } => {
            let served = to.bulk_put.saturating_sub(from.bulk_put);
            (to.send_length.saturating_sub(from.send_length), served)
        }
        TestSpec::Brw { write: false, .. } => {
            let served = to.bulk_get.saturating_sub(from.bulk_get);
            (to.recv_length.saturating_sub(from.recv_length), served)
        }
    };
    (length.saturating_sub(overhead + as_server), sent.into())
}

/// Returns the bulk bytes of a server.
fn served(from: &Stats, to: &Stats) -> u64 {
    let get = to.bulk_get.saturating_sub(from.bulk_get);
    get + to.bulk_put.saturating_sub(from.bulk_put)
}

/// Returns the number of failed RPCs of a node. An expired RPC is counted once, as failed. Errors
/// of a server belong to no test.
pub(super) fn errors(from: &Stats, to: &Stats) -> u64 {
    let brw = to.brw_errors.wrapping_sub(from.brw_errors);
    let ping = to.ping_errors.wrapping_sub(from.ping_errors);
    let expired = to.rpcs_expired.wrapping_sub(from.rpcs_expired);
    (u64::from(brw) + u64::from(ping)).max(expired.into())
}

/// Latencies of RPCs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Latency {
    histogram: Histogram,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
}

impl Latency {
    /// Returns the difference of two reports, unless there was no RPC between them.
    fn between(from: &Measures, to: &Measures) -> Option<Self> {
        let before = from.buckets.iter().copied().chain(std::iter::repeat(0));
        let counts = to.buckets.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        let histogram = histogram(&counts.collect::<Vec<_>>());
        // An extreme value from before the first sample does not count; the buckets are accurate to
        // one eighth.
        let shortest = histogram.quantile(0.0)?;
        let longest = histogram.quantile(1.0)?;
        let min_ns = if from.rpcs == 0 || to.min_ns < from.min_ns {
            to.min_ns
        } else {
            shortest.max(to.min_ns)
        };
        let max_ns = if to.max_ns > from.max_ns { to.max_ns } else { longest.min(to.max_ns) };
        Some(Self { histogram, min_ns, max_ns })
    }

    /// Adds the latencies of another client.
    pub(super) fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Merges the latencies of several clients, if there are any.
    pub(super) fn of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?.clone();
        Some(all.fold(first, |mut sum, latency| {
            sum.merge(latency);
            sum
        }))
    }

    /// Returns a quantile of the latencies in nanoseconds; `share` is from 0 to 1.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let ns = self.histogram.quantile(share).expect("a latency was counted");
        ns.clamp(self.min_ns, self.max_ns)
    }
}

fn histogram(buckets: &[u32]) -> Histogram {
    let mut histogram = Histogram::default();
    for (number, part) in buckets.chunks(Slice::LEN).enumerate() {
        let mut slice = Slice { first: (number * Slice::LEN) as u32, ..Slice::default() };
        slice.counts[..part.len()].copy_from_slice(part);
        histogram.merge_slice(&slice);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_selftest::console::DataCheck;

    fn brw(write: bool) -> TestSpec {
        TestSpec::Brw { write, check: DataCheck::None, size: 1 << 20, offset: 0 }
    }

    fn measures(rpcs: u64, min_ns: u64, max_ns: u64, latencies: &[(u64, u32)]) -> Measures {
        let mut histogram = Histogram::default();
        for (ns, count) in latencies {
            (0..*count).for_each(|_| histogram.record(*ns));
        }
        let mut buckets = Vec::new();
        while buckets.len() < Histogram::BUCKETS {
            let slice = histogram.slice(buckets.len());
            buckets.resize(slice.first as usize, 0);
            buckets.extend(slice.counts);
        }
        let reported = true;
        Measures {
            reported,
            rpcs,
            bytes: rpcs << 20,
            min_ns,
            max_ns,
            buckets,
            ..Measures::default()
        }
    }

    #[test]
    fn bulk_of_a_kernel_client_excludes_messages_and_its_own_service() {
        let start = Sample::default();
        let stats = Stats {
            running_ms: 2000,
            rpcs_sent: 10,
            rpcs_received: 5,
            bulk_put: 3 << 20,
            send_length: (13 << 20) + 15 * 160,
            recv_length: (2 << 20) + 15 * 160,
            ..Stats::default()
        };
        let end = Sample { stats, ..Sample::default() };
        let figures = Figures::of_client(brw(true), &start, &end).unwrap();
        assert_eq!((figures.bytes, figures.rpcs), (10 << 20, 10));
        assert_eq!(figures.bytes_per_second(), f64::from(5 << 20));
        assert_eq!((figures.latency, figures.cpu, figures.window), (None, None, None));
        assert_eq!(Figures::of_client(brw(false), &start, &end).unwrap().bytes, 2 << 20);
        assert_eq!(Figures::of_server(&start, &end).unwrap().bytes, 3 << 20);
        assert_eq!(Figures::of_client(TestSpec::Ping, &start, &end).unwrap().bytes, 0);
    }

    #[test]
    fn counters_of_32_bits_may_wrap_between_samples() {
        let from = Stats {
            running_ms: u32::MAX - 499,
            rpcs_sent: u32::MAX,
            brw_errors: u32::MAX,
            ..Stats::default()
        };
        let to = Stats { running_ms: 500, rpcs_sent: 9, brw_errors: 1, ..Stats::default() };
        let sample = |stats| Sample { stats, ..Sample::default() };
        let figures = Figures::of_client(TestSpec::Ping, &sample(from), &sample(to)).unwrap();
        assert_eq!((figures.time, figures.rpcs), (Duration::from_secs(1), 10));
        assert_eq!(errors(&from, &to), 2);
    }

    #[test]
    fn an_expired_rpc_counts_as_one_failure() {
        let to = Stats { brw_errors: 2, ping_errors: 1, rpcs_expired: 2, ..Stats::default() };
        assert_eq!(errors(&Stats::default(), &to), 3);
        let to = Stats { rpcs_expired: 2, ..Stats::default() };
        assert_eq!(errors(&Stats::default(), &to), 2);
    }

    #[test]
    fn latencies_start_at_the_first_sample() {
        let start = measures(11, 5_000, 900_000, &[(5_000, 10), (900_000, 1)]);
        let more = [(5_000, 10), (900_000, 1), (20_000, 98), (300_000, 1), (400_000, 1)];
        let end = measures(111, 5_000, 900_000, &more);
        let latency = Latency::between(&start, &end).unwrap();
        let near = |ns: u64, wanted: u64| ns.abs_diff(wanted) <= wanted / 8;
        assert!(near(latency.quantile(0.5), 20_000), "{latency:?}");
        assert!(near(latency.min_ns, 20_000) && near(latency.max_ns, 400_000), "{latency:?}");
        assert!(near(latency.quantile(0.99), 300_000), "{latency:?}");
        assert_eq!(Latency::between(&end, &end), None);
    }

    #[test]
    fn a_new_minimum_or_maximum_is_exact() {
        let start = measures(1, 50_000, 50_000, &[(50_000, 1)]);
        let end = measures(3, 7_001, 80_003, &[(50_000, 1), (7_001, 1), (80_003, 1)]);
        let latency = Latency::between(&start, &end).unwrap();
        assert_eq!((latency.min_ns, latency.max_ns), (7_001, 80_003));
        let all = Latency::of_all([&latency, &latency]).unwrap();
        assert_eq!((all.histogram.count(), all.max_ns), (4, 80_003));
    }
}
