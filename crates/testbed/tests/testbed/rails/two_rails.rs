//! Two rails are used at once, and one of them may fail.

use std::time::Duration;

use fulmar_testbed::rails::Nets;
use fulmar_testbed::rails::cut::{self, Course, Cut, Trial};
use fulmar_testbed::rails::two_rails;

use super::{RAIL, lab};

/// Some messages of every length, in bytes.
const CARRIED: u64 = 8 << 20;

#[test]
fn two_interfaces_in_one_net_are_used_at_once() {
    let Some(lab) = lab() else { return };
    for carried in two_rails::between_two_nodes(lab, Nets::One, RAIL, 2.0).unwrap() {
        assert!(carried.ratio() > 1.3, "{carried:?}");
    }
}

#[test]
fn two_nets_are_used_at_once() {
    let Some(lab) = lab() else { return };
    for carried in two_rails::between_two_nodes(lab, Nets::Two, RAIL, 2.0).unwrap() {
        assert!(carried.ratio() > 1.3, "{carried:?}");
    }
}

#[test]
fn servers_on_a_net_each_are_used_at_once() {
    let Some(lab) = lab() else { return };
    for carried in two_rails::with_a_server_on_each_net(lab, RAIL, 2.0).unwrap() {
        assert!(carried.ratio() > 1.3, "{carried:?}");
    }
}

/// Only what is checked below is waited for: a silent rail is given up after some three seconds, and
/// the bytes that were on their way arrive within as long as the cut took.
fn trial(nets: Nets, cut: Cut) -> Trial {
    let cut_for = Duration::from_secs(if cut == Cut::Silence { 7 } else { 3 });
    let (before, after) = (Duration::from_secs(1), cut_for + Duration::from_secs(1));
    Trial { rate: RAIL, before, cut_for, after, carried_min: 2 * CARRIED, ..Trial::new(nets, cut) }
}

fn check(course: &Course) {
    // The benchmark checks rates and times. A part is carried before the first sample that counts.
    assert!(course.carried >= CARRIED, "{course:?}");
}

fn messages_survive(nets: Nets, cut: Cut) {
    let Some(lab) = lab() else { return };
    let (course, outcome, served) = cut::under_messages(lab, &trial(nets, cut)).unwrap();
    let fault = outcome.fault().or(served.fault(outcome.resent));
    assert_eq!(fault, None, "{course:?}");
    check(&course);
}

fn lst_survives(nets: Nets, cut: Cut) {
    let Some(lab) = lab() else { return };
    let (course, report) = cut::under_lst(lab, &trial(nets, cut)).unwrap();
    assert!(report.rate().is_ok(), "{report:?} {course:?}");
    check(&course);
}

#[test]
fn messages_survive_a_link_that_goes_down_in_one_net() {
    messages_survive(Nets::One, Cut::LinkDown);
}

#[test]
fn messages_survive_a_net_that_falls_silent() {
    messages_survive(Nets::Two, Cut::Silence);
}

#[test]
fn lst_survives_a_link_that_goes_down_in_two_nets() {
    lst_survives(Nets::Two, Cut::LinkDown);
}

#[test]
fn lst_survives_a_rail_that_falls_silent() {
    lst_survives(Nets::One, Cut::Silence);
}
