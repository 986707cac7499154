//! The tables of a node, while it works and when it rests. Guards 1, 2, 3, 20 and 32 of
//! lnet-behaviour §17.

use fulmar_lnet::views::{Ni, PeerNi, Pool};
use fulmar_node::Node as Machine;

use super::{Terms, Verdict, require};

/// The health of what never failed.
const HEALTH_MAX: u32 = 1000;

/// Returns which invariants a node breaks as it is, and if it should have nothing to do, what it has
/// nevertheless.
pub fn broken(machine: &Machine, idle: bool) -> Vec<String> {
    let judged = [at_work(machine, Terms::default()), if idle { at_rest(machine) } else { Ok(()) }];
    let mut broken: Vec<String> =
        judged.into_iter().filter_map(Result::err).map(|finding| finding.to_string()).collect();
    if let Some(selftest) = machine.selftest() {
        let rests = if idle { selftest.is_idle() } else { Ok(()) };
        let judged = [selftest.check_invariants(), rests].into_iter().filter_map(Result::err);
        broken.extend(judged.map(|what| format!("selftest: {what}")));
    }
    broken
}

/// Judges what must hold at any time.
pub(super) fn at_work(machine: &Machine, terms: Terms) -> Verdict {
    let lnet = machine.lnet();
    // Its own sums over all messages: 2 of queues, 3 of commits.
    let own = lnet.check_invariants();
    require(own.is_ok(), 2, || format!("{own:?}"))?;
    let (nis, peers) = (lnet.nis(), lnet.peers());
    let peers: Vec<PeerNi> = peers.into_iter().flat_map(|peer| peer.nis).collect();
    credits_are_within_their_bounds(&nis, &peers)?;
    health_is_bounded(&nis, &peers, terms.insensitive)?;
    pools_are_within_their_bounds(&lnet.routing().pools)
}

/// 2: min ≤ cur ≤ max.
pub(super) fn credits_are_within_their_bounds(nis: &[Ni], peers: &[PeerNi]) -> Verdict {
    let own = nis.iter().map(|ni| (ni.nid, ni.credits_min, ni.credits, ni.credits_max));
    let others = peers.iter().map(|ni| (ni.nid, ni.credits_min, ni.credits, ni.credits_max));
    for (nid, min, now, max) in own.chain(others) {
        require(min <= now && now <= max, 2, || {
            format!("{nid} has {now} of {min}..{max} credits")
        })?;
    }
    Ok(())
}

/// 32: health stays within its bounds, and without sensitivity where it was.
pub(super) fn health_is_bounded(nis: &[Ni], peers: &[PeerNi], insensitive: bool) -> Verdict {
    let own = nis.iter().map(|ni| (ni.nid, ni.health.value));
    for (nid, health) in own.chain(peers.iter().map(|ni| (ni.nid, ni.health.value))) {
        let bounded = health <= HEALTH_MAX && (!insensitive || health == HEALTH_MAX);
        require(bounded, 32, || format!("the health of {nid} is {health}"))?;
    }
    Ok(())
}

/// 20: memory stays within what is configured.
pub(super) fn pools_are_within_their_bounds(pools: &[Pool; 3]) -> Verdict {
    for pool in pools {
        let bounded = pool.credits_min <= pool.credits
            && pool.credits <= pool.buffers.into()
            && pool.allocated <= pool.buffers;
        require(bounded, 20, || format!("{pool:?}"))?;
    }
    Ok(())
}

/// 1 and 3: judges that nothing is left in a node that has nothing to do.
pub(super) fn at_rest(machine: &Machine) -> Verdict {
    let lnet = machine.lnet();
    let peers: Vec<PeerNi> = lnet.peers().into_iter().flat_map(|peer| peer.nis).collect();
    every_credit_is_back(&lnet.nis(), &peers)?;
    every_buffer_is_back(&lnet.routing().pools)?;
    no_message_is_left(lnet.stats().msgs_alloc)?;
    let own = lnet.is_idle();
    require(own.is_ok(), 1, || format!("{own:?}"))
}

/// 1: every credit is there, and nothing is queued.
pub(super) fn every_credit_is_back(nis: &[Ni], peers: &[PeerNi]) -> Verdict {
    let own = nis.iter().map(|ni| (ni.nid, ni.credits, ni.credits_max, 0));
    let others = peers.iter().map(|ni| (ni.nid, ni.credits, ni.credits_max, ni.queued_bytes));
    for (nid, now, max, bytes) in own.chain(others) {
        let whole = now == max && bytes == 0;
        require(whole, 1, || format!("{nid} has {now} of {max} credits, {bytes} bytes wait"))?;
    }
    Ok(())
}

/// 3: every commit had its decommit.
pub(super) fn no_message_is_left(left: u64) -> Verdict {
    require(left == 0, 3, || format!("{left} messages are left"))
}

/// 1: every router buffer is free.
pub(super) fn every_buffer_is_back(pools: &[Pool; 3]) -> Verdict {
    let missing = pools.iter().find(|pool| pool.credits != i64::from(pool.buffers));
    require(missing.is_none(), 1, || format!("{missing:?}"))
}
