use super::*;

const NI: Target = Target::Ni(NiId(1));
const PEER: Target = Target::PeerNi(PeerNiId(1 << 24));

fn health() -> Health {
    let mut health = Health::default();
    health.add(NI);
    health.add(PEER);
    health
}

fn at(millis: u64) -> Time {
    Time(millis * 1_000_000)
}

#[test]
fn peers_are_told_when_an_interface_has_no_health_left_and_when_it_has_all() {
    let mut health = health();
    assert!(!health.lower(at(0), NI, 600), "it still has some");
    assert!(health.is_published_up(NiId(1)));
    assert!(health.lower(at(0), NI, 600));
    assert_eq!((health.value(NI), health.is_published_up(NiId(1))), (0, false));
    assert!(!health.raise(at(0), NI, 600), "it has not all");
    assert!(health.raise(at(0), NI, 600));
    assert!(health.is_full(NI) && health.is_published_up(NiId(1)));
    assert!(!health.raise(at(0), NI, 600));
}

#[test]
fn what_has_failed_is_pinged_until_it_is_at_its_best() {
    let mut health = health();
    health.lower(at(0), PEER, 100);
    health.lower(at(500), PEER, 100);
    assert_eq!((health.poll_timeout(), health.is_recovering(PEER)), (Some(at(1000)), true));
    assert_eq!(health.pop_due(at(999)), None);
    assert_eq!(health.pop_due(at(1000)), Some(PEER));
    let due = PingDue { previous: None, pings: 0, heard: None };
    assert_eq!(health.ping_due(PEER), Some(due));
    health.schedule(PEER, at(2000));
    health.pinged(PEER, Some(MdId(5)), 0);
    assert_eq!(health.ping_due(PEER), Some(PingDue { previous: Some(MdId(5)), pings: 1, ..due }));
    health.ping_ended(PEER, MdId(9));
    health.ping_ended(PEER, MdId(5));
    assert_eq!(health.ping_due(PEER).unwrap().previous, None);
    assert!(!health.heard(at(1500), PEER));
    health.raise(at(1500), PEER, HEALTH_MAX);
    assert_eq!((health.ping_due(PEER), health.poll_timeout()), (None, None));
    assert_eq!((health.view(PEER).ping_count, health.last_heard(PEER)), (0, Some(at(1500))));
}

#[test]
fn only_what_is_not_at_its_best_is_tried_again() {
    let mut health = health();
    health.try_again(at(3), NI);
    assert_eq!(health.poll_timeout(), None);
    health.set(at(3), NI, 10);
    health.try_again(at(3), NI);
    assert_eq!(health.pop_due(at(3)), Some(NI));
}

#[test]
fn doubt_grows_with_the_silence_and_ends_with_an_answer() {
    let mut health = health();
    let doubt = |health: &Health, millis| health.rank(at(millis), PEER).doubt;
    health.asked(at(0), PEER);
    health.asked(at(200), PEER);
    assert_eq!([249, 250, 500, 1000].map(|millis| doubt(&health, millis)), [0, 1, 2, 3]);
    health.heard(at(1000), PEER);
    assert_eq!(doubt(&health, 9000), 0);
    // An answer in 10 ms is usual from now on.
    let mut health = self::health();
    health.asked(at(0), PEER);
    health.heard(at(10), PEER);
    health.asked(at(20), PEER);
    assert_eq!([59, 60, 100].map(|millis| doubt(&health, millis)), [0, 1, 2]);
}

#[test]
fn requests_since_the_latest_sign_of_life_count() {
    let mut health = health();
    let mut after = |requests: usize| {
        health.heard(at(0), PEER);
        (0..requests).for_each(|_| health.asked(at(0), PEER));
        health.rank(at(0), PEER).unanswered
    };
    assert_eq!([0, 3, 4, 11, 12, 64, 1000, 0].map(&mut after), [0, 0, 1, 1, 2, 4, 4, 0]);
}

#[test]
fn a_removed_target_has_no_health_and_needs_none() {
    let mut health = health();
    health.set(at(0), PEER, 1);
    health.remove(PEER);
    health.remove(NI);
    assert_eq!((health.poll_timeout(), health.value(PEER)), (None, 0));
    assert!(!health.lower(at(0), NI, 1) && !health.is_published_up(NiId(1)));
    assert!(health.heard(at(0), PEER), "there is nothing to recover");
    assert_eq!(health.view(NI), views::Health::default());
}

#[test]
fn failures_are_counted_by_class() {
    let mut health = health();
    for class in [FailureClass::LocalError, FailureClass::LocalError, FailureClass::LocalTimeout] {
        health.count(NI, class);
    }
    let view = health.view(NI);
    assert_eq!((view.error, view.timeouts, view.value), (2, 1, HEALTH_MAX));
}
