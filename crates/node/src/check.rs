//! Checks of the tables of a node, active and idle. Guards 1, 2, 3, 20 and 32 of
//! lnet-behaviour §17.

use std::fmt;

use fulmar_lnet::views::{Ni, PeerNi, Pool};

use crate::Node;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The invariant, by its number in lnet-behaviour §17.
    pub number: u8,
    /// A description.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}: {}", self.number, self.text)
    }
}

/// The result of a check.
pub type Verdict = Result<(), Finding>;

/// Fails with this number and text unless `holds`.
///
/// # Errors
/// The broken invariant.
pub fn require(holds: bool, number: u8, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Finding { number, text: text() }) }
}

/// The initial and maximal health.
const HEALTH_MAX: u32 = 1000;

/// Returns the broken invariants of a node, and if it should be idle, its remaining work.
pub fn broken(node: &Node, idle: bool) -> Vec<String> {
    let judged = [at_work(node, false), if idle { at_rest(node) } else { Ok(()) }];
    let findings = judged.into_iter().filter_map(Result::err);
    findings.map(|finding| finding.to_string()).collect()
}

/// Checks the invariants that hold at any time. `insensitive` means that the health sensitivity of
/// the node is 0.
/// # Errors
/// A broken invariant.
pub fn at_work(node: &Node, insensitive: bool) -> Verdict {
    let lnet = node.lnet();
    // The sums of the core over all messages: 2 of queues, 3 of commits.
    let own = lnet.check_invariants();
    require(own.is_ok(), 2, || format!("{own:?}"))?;
    let (nis, peers) = (lnet.nis(), lnet.peers());
    let peers: Vec<PeerNi> = peers.into_iter().flat_map(|peer| peer.nis).collect();
    credits_are_within_their_bounds(&nis, &peers)?;
    health_is_bounded(&nis, &peers, insensitive)?;
    pools_are_within_their_bounds(&lnet.routing().pools)
}

/// 2: min ≤ cur ≤ max.
fn credits_are_within_their_bounds(nis: &[Ni], peers: &[PeerNi]) -> Verdict {
    let own = nis.iter().map(|ni| (ni.nid, ni.credits_min, ni.credits, ni.credits_max));
    let others = peers.iter().map(|ni| (ni.nid, ni.credits_min, ni.credits, ni.credits_max));
    for (nid, min, now, max) in own.chain(others) {
        require(min <= now && now <= max, 2, || {
            format!("{nid} has {now} of {min}..{max} credits")
        })?;
    }
    Ok(())
}

/// 32: health stays within its bounds, and unchanged without sensitivity.
fn health_is_bounded(nis: &[Ni], peers: &[PeerNi], insensitive: bool) -> Verdict {
    let own = nis.iter().map(|ni| (ni.nid, ni.health.value));
    for (nid, health) in own.chain(peers.iter().map(|ni| (ni.nid, ni.health.value))) {
        let bounded = health <= HEALTH_MAX && (!insensitive || health == HEALTH_MAX);
        require(bounded, 32, || format!("the health of {nid} is {health}"))?;
    }
    Ok(())
}

/// 20: memory stays within its configured limits.
fn pools_are_within_their_bounds(pools: &[Pool; 3]) -> Verdict {
    for pool in pools {
        let bounded = pool.credits_min <= pool.credits
            && pool.credits <= pool.buffers.into()
            && pool.allocated <= pool.buffers;
        require(bounded, 20, || format!("{pool:?}"))?;
    }
    Ok(())
}

/// Checks that nothing is left in an idle node: 1 and 3.
///
/// # Errors
/// What is left.
pub fn at_rest(node: &Node) -> Verdict {
    let lnet = node.lnet();
    let peers: Vec<PeerNi> = lnet.peers().into_iter().flat_map(|peer| peer.nis).collect();
    every_credit_is_back(&lnet.nis(), &peers)?;
    every_buffer_is_back(&lnet.routing().pools)?;
    no_message_is_left(lnet.stats().msgs_alloc)?;
    let own = lnet.is_idle();
    require(own.is_ok(), 1, || format!("{own:?}"))
}

/// 1: all credits are returned, and nothing is queued.
fn every_credit_is_back(nis: &[Ni], peers: &[PeerNi]) -> Verdict {
    let own = nis.iter().map(|ni| (ni.nid, ni.credits, ni.credits_max, 0));
    let others = peers.iter().map(|ni| (ni.nid, ni.credits, ni.credits_max, ni.queued_bytes));
    for (nid, now, max, bytes) in own.chain(others) {
        let whole = now == max && bytes == 0;
        require(whole, 1, || format!("{nid} has {now} of {max} credits, {bytes} bytes wait"))?;
    }
    Ok(())
}

/// 3: every commit had its decommit.
fn no_message_is_left(left: u64) -> Verdict {
    require(left == 0, 3, || format!("{left} messages are left"))
}

/// 1: every router buffer is free.
fn every_buffer_is_back(pools: &[Pool; 3]) -> Verdict {
    let missing = pools.iter().find(|pool| pool.credits != i64::from(pool.buffers));
    require(missing.is_none(), 1, || format!("{missing:?}"))
}

#[cfg(test)]
mod tests {
    use fulmar_lnet::views::Health;
    use fulmar_lnet_wire::Nid;

    use super::*;

    fn nid(number: u8) -> Nid {
        format!("10.0.0.{number}@tcp").parse().unwrap()
    }

    /// Requires that a check fails with this invariant.
    #[track_caller]
    fn is_broken(number: u8, verdict: Verdict) {
        assert_eq!(verdict.map_err(|finding| finding.number), Err(number));
    }

    fn peer_ni(credits: i64, health: u32) -> PeerNi {
        PeerNi {
            nid: nid(2),
            credits_max: 2,
            credits,
            credits_min: credits,
            router_credits: 0,
            router_credits_min: 0,
            queued_bytes: 0,
            refcount: 0,
            health: Health { value: health, ..Health::default() },
            alive: None,
            priority: 0,
            net_priority: 0,
            preferred_nids: Vec::new(),
            preferred_gateways: Vec::new(),
            traffic: Default::default(),
        }
    }

    fn own_ni(credits: i64) -> Ni {
        Ni {
            nid: nid(1),
            net: nid(1).net(),
            up: true,
            fatal: false,
            enabled: true,
            tunables: Default::default(),
            credits_max: 3,
            credits,
            credits_min: credits,
            health: Health { value: 1000, ..Health::default() },
            priority: 0,
            net_priority: 0,
            pinged: None,
            traffic: Default::default(),
        }
    }

    #[test]
    fn tables_are_within_their_bounds() {
        let peers = [peer_ni(2, 1000)];
        credits_are_within_their_bounds(&[own_ni(3)], &peers).unwrap();
        is_broken(2, credits_are_within_their_bounds(&[own_ni(4)], &peers));
        is_broken(2, credits_are_within_their_bounds(&[], &[peer_ni(3, 1000)]));
        let raised = PeerNi { credits_min: 2, ..peer_ni(1, 1000) };
        is_broken(2, credits_are_within_their_bounds(&[], &[raised]));
        health_is_bounded(&[own_ni(3)], &[peer_ni(2, 0)], false).unwrap();
        is_broken(32, health_is_bounded(&[], &[peer_ni(2, 1001)], false));
        is_broken(32, health_is_bounded(&[], &[peer_ni(2, 900)], true));
        let pool = Pool { pages: 1, buffers: 4, allocated: 4, credits: 0, credits_min: -1 };
        pools_are_within_their_bounds(&[pool; 3]).unwrap();
        is_broken(20, pools_are_within_their_bounds(&[Pool { allocated: 5, ..pool }; 3]));
        is_broken(20, pools_are_within_their_bounds(&[Pool { credits: 5, ..pool }; 3]));
    }

    #[test]
    fn an_idle_node_has_all_resources_back() {
        every_credit_is_back(&[own_ni(3)], &[peer_ni(2, 1000)]).unwrap();
        is_broken(1, every_credit_is_back(&[own_ni(2)], &[]));
        is_broken(1, every_credit_is_back(&[], &[peer_ni(1, 1000)]));
        is_broken(1, every_credit_is_back(&[], &[PeerNi { queued_bytes: 1, ..peer_ni(2, 1000) }]));
        let pool = Pool { buffers: 4, credits: 4, ..Pool::default() };
        every_buffer_is_back(&[pool; 3]).unwrap();
        is_broken(1, every_buffer_is_back(&[Pool { credits: 3, ..pool }; 3]));
        no_message_is_left(0).unwrap();
        is_broken(3, no_message_is_left(1));
    }
}
