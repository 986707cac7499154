//! The family `router`: what a router forwards beside haproxy, and how it shares itself.

use fulmar_proof::lab::Rate;
use fulmar_proof::routers::{forward, groups, senders};

use crate::namespaces::measured;
use crate::report::{Bar, Figure};
use crate::stats::{interleave, median};
use crate::{Effort, Failure};

const GIGA: f64 = 1e9;
/// What each group's network carries: together, all that the router's own link does.
const GROUP: Rate = Rate::megabits(1000);
const FRONT: Rate = Rate::megabits(2000);
const SLOW: Rate = Rate::megabits(100);
const SENDERS: u8 = 200;
/// How many MiB each of them sends: as many as its credits let it.
const EACH: usize = 8;

/// 1 MiB PUTs through a router, and through haproxy in TCP mode on the same path.
pub(crate) fn forward(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |lab, duration| {
        let ours = || forward::by_router(&lab()?, duration);
        let theirs = || forward::by_haproxy(&lab()?, false, duration);
        let (ours, theirs) = interleave(effort.repeats, ours, theirs)?;
        let spliced = forward::by_haproxy(&lab()?, true, duration)?;
        let rate = |all: &[forward::Forwarded]| {
            median(all.iter().map(|one| one.bytes_per_second / GIGA).collect())
        };
        let cpu = |all: &[forward::Forwarded]| {
            median(all.iter().map(|one| one.cpu_per_gigabyte).collect())
        };
        let (our_rate, their_rate) = (rate(&ours), rate(&theirs));
        let (our_cpu, their_cpu) = (cpu(&ours), cpu(&theirs));
        Ok(vec![
            Figure::plain("router.forward_1m.rate", our_rate, "GB/s").beside(their_rate),
            Figure::plain("router.forward_1m.vs_haproxy", our_rate / their_rate, "ratio")
                .beside(their_rate)
                .held_to(Bar::AtLeast(1.0)),
            Figure::plain("router.forward_1m.cpu", our_cpu, "CPU s/GB").beside(their_cpu),
            Figure::plain("router.forward_1m.cpu_vs_haproxy", our_cpu / their_cpu, "ratio")
                .beside(their_cpu)
                .held_to(Bar::AtMost(1.0)),
            // For who tunes it: the kernel moves what haproxy does not look at.
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

/// Two groups of servers behind one router, each with half of what the router's link carries; then
/// a slow one beside a fast one.
pub(crate) fn two_groups(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |lab, duration| {
        let half = groups::measure(&lab()?, Some(FRONT), [Some(GROUP); 2], duration)?;
        let rates = [Some(SLOW), Some(GROUP)];
        let slow_and_fast = groups::measure(&lab()?, Some(FRONT), rates, duration)?;
        let sum = half.alone[0] + half.alone[1];
        Ok(vec![
            Figure::plain("router.two_groups.vs_sum", half.sum_ratio(), "ratio")
                .beside(sum / GIGA)
                .held_to(Bar::AtLeast(0.98)),
            Figure::plain("router.two_groups.fast_kept", slow_and_fast.kept(1), "ratio")
                .beside(slow_and_fast.alone[1] / GIGA)
                .held_to(Bar::AtLeast(0.95)),
        ])
    })
}

/// The memory of a router between many senders and a receiver that has stopped, beside its pools.
pub(crate) fn stopped_receiver(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measured(effort, |lab, _| {
        let stalled = senders::into_a_stopped_receiver(&lab()?, SENDERS, EACH)?;
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

/// What the bulk connections of all senders may take beside the pools.
const CONNECTIONS_MIB: f64 = 16.0;
