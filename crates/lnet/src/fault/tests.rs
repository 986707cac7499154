use fulmar_lnet_wire::{Body, Handle, Net, Pid};

use super::*;
use crate::views::ByType;

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn header(body: Body) -> Header {
    Header {
        target: nid("10.0.0.2@tcp"),
        source: nid("10.0.0.1@tcp"),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 0,
        body,
    }
}

fn put_to(portal: u32) -> Header {
    let ack = Handle::NONE;
    header(Body::Put { ack, match_bits: 0, header_data: 0, portal, offset: 0 })
}

fn put() -> Header {
    put_to(12)
}

fn get() -> Header {
    let reply = Handle::NONE;
    header(Body::Get { reply, match_bits: 0, portal: 3, offset: 0, sink_len: 0 })
}

fn ack() -> Header {
    header(Body::Ack { handle: Handle::NONE, match_bits: 0, accepted: 0 })
}

fn reply() -> Header {
    header(Body::Reply { handle: Handle::NONE })
}

fn us() -> Nid {
    nid("10.0.0.2@tcp")
}

/// Drops every message of the types.
fn dropping(types: u32) -> FaultRule {
    FaultRule {
        source: NidMatch::Any,
        target: NidMatch::Any,
        local: NidMatch::Any,
        portals: 0,
        types: MessageTypes(types),
        rate: 1,
        interval: 0,
        effect: FaultEffect::Drop { failures: 0, random: false, all: false },
    }
}

fn failing(failures: u32) -> FaultRule {
    let effect = FaultEffect::Drop { failures, random: false, all: false };
    FaultRule { effect, ..dropping(0) }
}

fn delaying(latency: u32) -> FaultRule {
    FaultRule { effect: FaultEffect::Delay { latency }, ..dropping(0) }
}

fn every(rule: FaultRule) -> FaultRule {
    match rule.effect {
        FaultEffect::Drop { failures, .. } => {
            let effect = FaultEffect::Drop { failures, random: false, all: true };
            FaultRule { rate: 0, effect, ..rule }
        }
        FaultEffect::Delay { .. } => unreachable!("a delay has a rate or an interval"),
    }
}

fn faults(seed: u64, rules: &[FaultRule]) -> Faults {
    let mut faults = Faults::new(seed);
    for rule in rules {
        faults.add(Time::ZERO, *rule).unwrap();
    }
    faults
}

/// Returns which of the header's first `n` copies are dropped.
fn dropped(faults: &mut Faults, n: u64) -> Vec<u64> {
    (0..n).filter(|_| faults.drop_received(Time::ZERO, &put(), us())).collect()
}

#[test]
fn a_rate_takes_one_message_of_each_window() {
    let mut places = [false; 7];
    for seed in 0..200 {
        let mut faults = faults(seed, &[FaultRule { rate: 7, ..dropping(0) }]);
        let dropped = dropped(&mut faults, 70);
        let windows: Vec<u64> = dropped.iter().map(|n| n / 7).collect();
        assert_eq!(windows, (0..10).collect::<Vec<u64>>(), "seed {seed}: {dropped:?}");
        dropped.iter().for_each(|n| places[(n % 7) as usize] = true);
    }
    assert_eq!(places, [true; 7], "any position in a window is drawn");
}

#[test]
fn an_interval_takes_one_message_of_each_period() {
    for seed in 0..200 {
        let rule = FaultRule { rate: 0, interval: 5, ..dropping(0) };
        let mut faults = faults(seed, &[rule]);
        let at = |tenth: u64| Time::ZERO + Duration::from_millis(100 * tenth);
        let fired = (0..500).filter(|&t| faults.drop_received(at(t), &put(), us()));
        let periods: Vec<u64> = fired.map(|tenth| tenth / 50).collect();
        assert_eq!(periods, (0..10).collect::<Vec<u64>>(), "seed {seed}");
    }
}

#[test]
fn periods_restart_after_a_time_without_messages() {
    let mut faults = faults(1, &[FaultRule { rate: 0, interval: 2, ..dropping(0) }]);
    let mut drops = |at| faults.drop_received(Time::from_secs(at), &put(), us());
    assert!(drops(100), "one is due");
    let later: Vec<u64> = (100..104).filter(|at| drops(*at)).collect();
    assert_eq!(later.len(), 2, "missed periods are not made up for: {later:?}");
}

#[test]
fn an_interval_of_a_second_takes_the_first_message() {
    let mut faults = faults(3, &[FaultRule { rate: 0, interval: 1, ..dropping(0) }]);
    assert!(faults.drop_received(Time::ZERO, &put(), us()));
    assert!(!faults.drop_received(Time::ZERO, &put(), us()));
}

#[test]
fn masks_choose_types_and_portals() {
    let all = [put(), ack(), get(), reply()];
    for (rule, expected) in [
        (dropping(0), [true; 4]),
        (dropping(2), [true, false, false, false]),
        (dropping(1 | 8), [false, true, false, true]),
        (FaultRule { portals: 1 << 12, ..dropping(0) }, [true, false, false, false]),
        (FaultRule { portals: 1 << 12 | 1 << 3, ..dropping(4) }, [false, false, true, false]),
    ] {
        let mut faults = faults(1, &[rule]);
        let got = all.map(|header| faults.drop_received(Time::ZERO, &header, us()));
        assert_eq!(got, expected, "{rule:?}");
    }
    let mut faults = faults(1, &[FaultRule { portals: u64::MAX, ..dropping(0) }]);
    for portal in [64, 76, u32::MAX] {
        assert!(
            !faults.drop_received(Time::ZERO, &put_to(portal), us()),
            "{portal} does not exist"
        );
    }
}

#[test]
fn addresses_are_those_of_the_header_and_the_interface() {
    let matching = |text: &str| text.parse::<NidMatch>().unwrap();
    for (source, target, local, expected) in [
        ("10.0.0.1@tcp", "10.0.0.2@tcp", "*", true),
        ("10.0.0.2@tcp", "*", "*", false),
        ("*", "10.0.0.1@tcp", "*", false),
        ("*@tcp", "*@tcp", "10.0.0.2@tcp", true),
        ("*@tcp1", "*", "*", false),
        ("*", "*", "10.0.0.3@tcp", false),
    ] {
        let (source, target, local) = (matching(source), matching(target), matching(local));
        let rule = FaultRule { source, target, local, ..dropping(0) };
        let got = faults(1, &[rule]).drop_received(Time::ZERO, &put(), us());
        assert_eq!(got, expected, "{rule:?}");
    }
}

#[test]
fn the_newest_rule_is_tried_first_and_one_that_fires_ends_the_search() {
    let mut faults = faults(1, &[dropping(0), dropping(2)]);
    assert!(faults.drop_received(Time::ZERO, &put(), us()));
    assert!(faults.drop_received(Time::ZERO, &get(), us()));
    let hits: Vec<u64> = faults.views().iter().map(|fault| fault.hits.total()).collect();
    assert_eq!(hits, [1, 1], "the newest is shown first");
    faults.add(Time::ZERO, FaultRule { rate: 1000, ..dropping(0) }).unwrap();
    let first = (0..1000).filter(|_| faults.drop_received(Time::ZERO, &put(), us())).count();
    assert_eq!(first, 1000, "if a rule does not fire, the next one is tried");
    let hits: Vec<u64> = faults.views().iter().map(|fault| fault.hits.total()).collect();
    assert_eq!(hits, [1, 1000, 1]);
}

#[test]
fn a_failure_is_of_a_class_that_the_rule_names() {
    let class = |class: FailureClass| 1 << class as u32;
    let (early, late) = (class(FailureClass::LocalDropped), class(FailureClass::RemoteTimeout));
    let drawn = |rule| {
        let mut faults = faults(9, &[rule]);
        let mut seen = Vec::new();
        for _ in 0..500 {
            seen.extend(faults.fail_sent(Time::ZERO, &put()));
        }
        assert_eq!(seen.len(), 500);
        seen.sort();
        seen.dedup();
        seen
    };
    assert_eq!(drawn(failing(late)), [FailureClass::RemoteTimeout]);
    let both = [FailureClass::LocalDropped, FailureClass::RemoteTimeout];
    assert_eq!(drawn(failing(early | late)), both);
    assert_eq!(drawn(failing(FaultRule::ANY_FAILURE)).len(), 10);
    assert_eq!(drawn(every(dropping(0))).len(), 10);
    assert_eq!(drawn(every(failing(early))), [FailureClass::LocalDropped]);
}

#[test]
fn a_rule_acts_when_messages_are_received_or_when_they_are_sent() {
    let timeout = 1 << FailureClass::LocalTimeout as u32;
    for (rule, on_receipt, on_sending) in [
        (dropping(0), true, false),
        (failing(timeout), false, true),
        (every(dropping(0)), true, true),
        (every(failing(timeout)), true, true),
        (every(FaultRule { local: NidMatch::Nid(us()), ..dropping(0) }), true, false),
        (delaying(1), false, false),
    ] {
        let mut faults = faults(1, &[rule]);
        assert_eq!(faults.drop_received(Time::ZERO, &put(), us()), on_receipt, "{rule:?}");
        assert_eq!(faults.fail_sent(Time::ZERO, &put()).is_some(), on_sending, "{rule:?}");
    }
}

#[test]
fn a_random_rule_takes_half_and_counts_only_hits() {
    let effect = FaultEffect::Drop { failures: 0, random: true, all: false };
    let mut faults = faults(1, &[FaultRule { rate: 0, interval: 1, effect, ..dropping(0) }]);
    let hits = dropped(&mut faults, 1000).len() as u64;
    assert!((400..600).contains(&hits), "{hits}");
    let shown = faults.views();
    assert_eq!((shown[0].examined, shown[0].hits.total()), (0, hits));
}

#[test]
fn delays_count_from_the_match_and_keep_the_order() {
    let mut faults = faults(1, &[delaying(5)]);
    let (first, until) = faults.delay(Time::from_secs(1), &put()).unwrap();
    assert_eq!(until, Time::from_secs(6));
    let (second, later) = faults.delay(Time::from_secs(2), &get()).unwrap();
    assert_eq!((first, Time::from_secs(7)), (second, later));
    faults.add(Time::ZERO, FaultRule { types: MessageTypes::PUT, ..delaying(1) }).unwrap();
    let (other, soon) = faults.delay(Time::from_secs(3), &put()).unwrap();
    assert!(other != first && soon == Time::from_secs(4), "the newest is tried first");
    let hits = |fault: &views::Fault| fault.hits;
    let shown: Vec<ByType> = faults.views().iter().map(hits).collect();
    let one = ByType { put: 1, ..ByType::default() };
    assert_eq!(shown, [one, ByType { get: 1, ..one }]);
}

#[test]
fn deletion_returns_the_rules_that_delayed_messages() {
    let matching = |text: &str| text.parse::<NidMatch>().unwrap();
    let from = |source: &str, rule| FaultRule { source: matching(source), ..rule };
    let mut faults = faults(
        1,
        &[
            from("10.0.0.1@tcp", delaying(5)),
            from("*@tcp", delaying(6)),
            from("*@tcp", dropping(0)),
        ],
    );
    let (newest, _) = faults.delay(Time::ZERO, &put()).unwrap();
    let absent = (matching("10.0.0.9@tcp"), NidMatch::Any);
    assert_eq!(faults.del(FaultKind::Delay, absent.0, absent.1), (0, Vec::new()));
    let named = faults.del(FaultKind::Delay, matching("*@tcp"), NidMatch::Any);
    assert_eq!(named, (1, vec![newest]));
    let (other, until) = faults.delay(Time::ZERO, &put()).unwrap();
    assert_eq!(until, Time::from_secs(5));
    assert_eq!(faults.del(FaultKind::Delay, NidMatch::Any, NidMatch::Any), (1, vec![other]));
    assert_eq!(faults.delay(Time::ZERO, &put()), None);
    assert_eq!(faults.del(FaultKind::Drop, NidMatch::Any, NidMatch::Any), (1, Vec::new()));
    assert!(!faults.drop_received(Time::ZERO, &put(), us()));
}

#[test]
fn a_reset_restarts_counters_and_windows() {
    let mut faults = faults(1, &[FaultRule { rate: 50, ..dropping(0) }, delaying(1)]);
    dropped(&mut faults, 70);
    faults.delay(Time::ZERO, &put());
    faults.reset(Time::ZERO, FaultKind::Drop);
    let counts = |faults: &Faults| {
        let counts = |fault: views::Fault| (fault.examined, fault.hits.total());
        faults.views().into_iter().map(counts).collect::<Vec<_>>()
    };
    assert_eq!(counts(&faults), [(0, 0), (1, 1)]);
    assert_eq!(dropped(&mut faults, 50).len(), 1, "a window begins with the reset");
    faults.reset(Time::ZERO, FaultKind::Delay);
    assert_eq!(counts(&faults), [(50, 1), (0, 0)]);
}

#[test]
fn a_nid_fails_the_given_number_of_times() {
    let mut faults = faults(1, &[]);
    let (one, other) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
    faults.fail_nid(NidMatch::Nid(one), Some(2));
    let hits = |faults: &mut Faults| [faults.fails(one), faults.fails(other)];
    assert_eq!(hits(&mut faults), [true, false]);
    assert_eq!(hits(&mut faults), [true, false]);
    assert_eq!(hits(&mut faults), [false, false]);
    faults.fail_nid(NidMatch::Any, None);
    assert_eq!(hits(&mut faults), [true, true]);
    faults.fail_nid(NidMatch::Nid(one), Some(1));
    faults.fail_nid(NidMatch::Any, Some(0));
    assert_eq!(hits(&mut faults), [false, false], "no NID fails any longer");
    faults.fail_nid(NidMatch::Net(Net::TCP), None);
    faults.fail_nid(NidMatch::Nid(one), Some(0));
    assert_eq!(hits(&mut faults), [true, true], "the rule of the network still applies");
}

#[test]
fn inconsistent_rules_are_refused() {
    let all = |rule: FaultRule| every(rule);
    let random = FaultEffect::Drop { failures: 0, random: true, all: false };
    let local = NidMatch::Nid(us());
    for (rule, accepted) in [
        (FaultRule { interval: 3, ..dropping(0) }, false),
        (FaultRule { rate: 0, ..dropping(0) }, false),
        (all(dropping(0)), true),
        (dropping(16), false),
        (FaultRule { portals: 1, ..dropping(1 | 8) }, false),
        (FaultRule { portals: 1, ..dropping(1 | 2) }, true),
        (FaultRule { effect: random, ..dropping(0) }, false),
        (FaultRule { rate: 0, interval: 2, effect: random, ..dropping(0) }, true),
        (failing(1), false),
        (failing(1 << 11), false),
        (failing(1 << 10 | 1 << 1), true),
        (failing(FaultRule::ANY_FAILURE), true),
        (FaultRule { local, ..failing(2) }, false),
        (FaultRule { local, ..dropping(0) }, true),
        (FaultRule { local, ..delaying(1) }, false),
        (delaying(0), false),
        (FaultRule { rate: 0, ..delaying(1) }, false),
        (FaultRule { interval: 1, ..delaying(1) }, false),
    ] {
        let added = Faults::new(1).add(Time::ZERO, rule);
        assert_eq!(added, if accepted { Ok(()) } else { Err(Errno::EINVAL) }, "{rule:?}");
    }
    let shown = faults(1, &[dropping(0), FaultRule { portals: 1, ..dropping(0) }]).views();
    assert_eq!(shown.iter().map(|fault| fault.rule.types.0).collect::<Vec<_>>(), [6, 15]);
}
