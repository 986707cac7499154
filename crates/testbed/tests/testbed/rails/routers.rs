//! Messages that pass routers.

use std::process::Command;
use std::time::Duration;

use fulmar_testbed::lab::{Rate, not_run};
use fulmar_testbed::routers::{forward, groups, path, senders};
use fulmar_testbed::traffic::Outcome;

use super::{RAIL, lab};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_router_forwards_messages_of_a_mebibyte() {
    let Some(lab) = lab() else { return };
    let forwarded = forward::by_router(&lab, SECOND).unwrap();
    assert!(forwarded.bytes_per_second > 0.0, "{forwarded:?}");
}

#[test]
fn haproxy_forwards_between_the_same_two_programs() {
    if Command::new("haproxy").arg("-v").output().is_err() {
        return not_run("haproxy is needed: scripts/need.sh haproxy");
    }
    let Some(lab) = lab() else { return };
    let forwarded = forward::by_haproxy(&lab, false, SECOND).unwrap();
    assert!(forwarded.bytes_per_second > 0.0, "{forwarded:?}");
}

#[test]
fn two_groups_share_a_router_without_loss() {
    let Some(lab) = lab() else { return };
    let front = Rate::megabits(200);
    let groups = groups::measure(&lab, Some(front), [Some(RAIL); 2], 2 * SECOND).unwrap();
    assert!(groups.sum_ratio() > 0.7, "{groups:?}");
}

#[test]
fn a_slow_group_does_not_hold_up_a_fast_one() {
    let Some(lab) = lab() else { return };
    let rates = [Some(Rate::megabits(10)), Some(RAIL)];
    let groups = groups::measure(&lab, None, rates, 2 * SECOND).unwrap();
    assert!(groups.kept(1) > 0.7, "{groups:?}");
}

#[test]
fn a_router_between_many_senders_and_a_stopped_receiver_stays_within_its_pools() {
    let Some(lab) = lab() else { return };
    let stalled = senders::into_a_stopped_receiver(&lab, 200, 4).unwrap();
    assert!(stalled.large_free < 0, "messages wait for buffers: {stalled:?}");
    // The memory of their connections is not in the pools.
    assert!(stalled.stalled - stalled.before < stalled.pools + 32.0, "{stalled:?}");
    assert_eq!((stalled.end.done, stalled.end.failed), (stalled.end.begun, 0));
}

#[test]
fn one_of_two_routers_may_be_killed() {
    let Some(lab) = lab() else { return };
    let killed = path::kill_one_of_two(&lab, 10).unwrap();
    // Messages that the router had received and not forwarded are lost with it, and LNet has no
    // second copy: they fail. No other message may fail.
    let Outcome { sum, lost, wrong, broken, resent, .. } = &killed.outcome;
    assert_eq!((*lost, wrong.as_ref().or(broken.as_ref())), (0, None), "{killed:?}");
    assert_eq!(killed.served.fault(*resent), None, "{killed:?}");
    assert!(sum.failed <= 64, "no more than were in flight: {killed:?}");
    assert!(killed.recovered.is_some(), "{killed:?}");
}

#[test]
fn two_routers_in_a_row_pass_messages_of_every_length_both_ways() {
    let Some(lab) = lab() else { return };
    for (outcome, served) in path::two_in_a_row(&lab, SECOND).unwrap() {
        assert_eq!(outcome.fault().or(served.fault(outcome.resent)), None);
        assert!(served.puts > 0 && served.gets > 0);
    }
}
