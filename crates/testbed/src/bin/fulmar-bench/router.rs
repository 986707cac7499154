//! The family `router`: forwarding beside haproxy, and sharing of a router.

use fulmar_testbed::lab::Rate;
use fulmar_testbed::routers::{forward, groups, senders};

use crate::namespaces::measured;
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure};

const GIGA: f64 = 1e9;
/// The rate of the network of each group: together, the rate of the link of the router.
const GROUP: Rate = Rate::megabits(1000);
const FRONT: Rate = Rate::megabits(2000);
const SLOW: Rate = Rate::megabits(100);
/// The links are limited, so that few repeats suffice.
const GROUP_REPEATS: usize = 3;
const SENDERS: u8 = 200;
/// How many MiB each of them sends: as many as its credits allow.
const EACH: usize = 8;

/// 1 MiB PUTs through a router, and through haproxy in TCP mode on the same path.
pub(crate) fn forward(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, duration| {
        let ours = || forward::by_router(&make.lab()?, duration);
        let theirs = || forward::by_haproxy(&make.lab()?, false, duration);
        let (ours, theirs) = interleave(effort.repeats, ours, theirs)?;
        let spliced = forward::by_haproxy(&make.lab()?, true, duration)?;
        let rate = |all: &[forward::ForwardReport]| {
            Series::new(all.iter().map(|one| one.bytes_per_second / GIGA))
        };
        let cpu = |all: &[forward::ForwardReport]| {
            Series::new(all.iter().map(|one| one.cpu_per_gigabyte))
        };
        let (our_rate, their_rate) = (rate(&ours), rate(&theirs));
        let (our_cpu, their_cpu) = (cpu(&ours), cpu(&theirs));
        Ok(vec![
            Figure::median("router.forward_1m.rate", &our_rate, "GB/s").beside_median(&their_rate),
            Figure::ratio("router.forward_1m.vs_haproxy", &our_rate, &their_rate)
                .held_to(Bar::AtLeast(1.0)),
            Figure::median("router.forward_1m.cpu", &our_cpu, "CPU s/GB").beside_median(&their_cpu),
            Figure::ratio("router.forward_1m.cpu_vs_haproxy", &our_cpu, &their_cpu)
                .held_to(Bar::AtMost(1.0)),
            // The kernel moves the bytes; haproxy does not read them.
            Figure::plain(
                "router.forward_1m.haproxy_splice",
                spliced.bytes_per_second / GIGA,
                "GB/s",
            ),
            Figure::plain(
                "router.forward_1m.haproxy_splice_cpu",
                spliced.cpu_per_gigabyte,
                "CPU s/GB",
            ),
        ])
    })
}

/// Two groups of servers behind one router, each with half the rate of the link of the router; then
/// a slow one beside a fast one.
pub(crate) fn two_groups(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, duration| {
        let groups = |rates: [Option<Rate>; 2]| -> Result<Vec<groups::Groups>, String> {
            let one = |_| groups::measure(&make.lab()?, Some(FRONT), rates, duration);
            (0..GROUP_REPEATS).map(one).collect()
        };
        let halves = groups([Some(GROUP); 2])?;
        let ratio = Series::new(halves.iter().map(groups::Groups::sum_ratio));
        let sum = Series::new(halves.iter().map(|half| (half.alone[0] + half.alone[1]) / GIGA));
        let slow_and_fast = groups([Some(SLOW), Some(GROUP)])?;
        let kept = Series::new(slow_and_fast.iter().map(|groups| groups.kept(1)));
        let fast = Series::new(slow_and_fast.iter().map(|groups| groups.alone[1] / GIGA));
        Ok(vec![
            Figure::median("router.two_groups.vs_sum", &ratio, "ratio")
                .beside_median(&sum)
                .held_to(Bar::AtLeast(0.98)),
            Figure::median("router.two_groups.fast_kept", &kept, "ratio")
                .beside_median(&fast)
                .held_to(Bar::AtLeast(0.95)),
        ])
    })
}

/// The memory of a router between many senders and a stopped receiver, beside its pools.
pub(crate) fn stopped_receiver(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |make, _| {
        let stalled = senders::into_a_stopped_receiver(&make.lab()?, SENDERS, EACH)?;
        let lost = stalled.end.begun - stalled.end.done;
        let grown = stalled.stalled - stalled.before;
        Ok(vec![
            Figure::plain("router.stopped_receiver.grown_mib", grown, "MiB")
                .beside(stalled.pools)
                .held_to(Bar::AtMost(stalled.pools + CONNECTIONS_MIB)),
            Figure::plain("router.stopped_receiver.lost", lost as f64, "messages")
                .held_to(Bar::AtMost(0.0)),
        ])
    })
}

/// Memory allowance for the bulk connections of all senders, in addition to the pools.
const CONNECTIONS_MIB: f64 = 16.0;
