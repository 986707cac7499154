//! Advice is consistent with the model, and warns about its limits.

use super::*;
use crate::model::{Bound, Term};
use crate::present::Present;

fn ocean(whose: Whose) -> Site {
    Site {
        line_bits: 100_000_000_000,
        interface_bits: None,
        rtt: Duration::from_micros(50_500),
        mtu: 9000,
        loss: None,
        nodes: 2,
        routers: 0,
        memory: Some(256 << 30),
        connections: None,
        whose,
        kind: Kind::Selftest,
        direction: Direction::Write,
    }
}

fn sites() -> Vec<Site> {
    let mut sites = Vec::new();
    for whose in [Whose::Fulmar, Whose::Kernel] {
        for kind in [Kind::Selftest, Kind::Lustre] {
            for direction in [Direction::Read, Direction::Write] {
                for (nodes, routers) in [(2, 0), (16, 0), (16, 2), (31, 4)] {
                    sites.push(Site { kind, direction, nodes, routers, ..ocean(whose) });
                }
            }
        }
    }
    sites
}

fn predicted(advice: &Advice, model: Settings) -> Prediction {
    predict(&advice.path, &advice.load, &model)
}

#[test]
fn with_the_advice_only_the_line_binds() {
    for site in sites() {
        let advice = advise(&site);
        let bound = advice.prediction.bound;
        assert_eq!(bound, Bound::Line, "{site:?}: {:#?}", advice.prediction);
        assert!(advice.prediction.bytes_per_second > 0.99 * advice.path.rate as f64);
    }
}

#[test]
fn with_a_quarter_of_a_setting_that_setting_binds() {
    let mut tried = 0;
    for site in sites() {
        let advice = advise(&site);
        let model = advice.model;
        let quarter = |count: u32| (count / 4).max(1);
        let load = Load { concurrency: quarter(advice.load.concurrency), ..advice.load };
        let fewer = predict(&advice.path, &load, &model).bound;
        assert_eq!(fewer, Bound::Concurrency, "{site:?}");
        let window =
            Settings { socket_buffer: model.socket_buffer / 8 / u64::from(site.nodes), ..model };
        assert_eq!(predicted(&advice, window).bound, Bound::Window, "{site:?}");
        // If credits are not held, sockets accept the waiting messages.
        if site.whose == Whose::Kernel {
            let less = Settings { peer_credits: quarter(model.peer_credits), ..model };
            assert_eq!(predicted(&advice, less).bound, Bound::PeerCredits, "{site:?}");
            tried += 1;
        }
    }
    assert_eq!(tried, 16);
}

#[test]
fn bytes_in_flight_are_two_to_three_times_the_capacity_of_the_path() {
    for whose in [Whose::Fulmar, Whose::Kernel] {
        let advice = advise(&ocean(whose));
        let flight = advice.load.rpc_bytes
            * u64::from(advice.load.concurrency)
            * u64::from(advice.load.pairs);
        let part = flight as f64 / advice.path.bytes_in_flight() as f64;
        assert!((2. ..3.).contains(&part), "{part}");
    }
    let read = Site { direction: Direction::Read, ..ocean(Whose::Fulmar) };
    let part = advise(&read).plan.in_flight as f64 / read.path().bytes_in_flight() as f64;
    assert!((1. ..1.5).contains(&part), "a read takes one round trip, not {part}");
}

#[test]
fn a_warning_says_that_the_limit_of_lst_is_below_the_line() {
    let advice = advise(&Site { nodes: 1, ..ocean(Whose::Fulmar) });
    assert_eq!((advice.load.concurrency, advice.prediction.bound), (1024, Bound::Concurrency));
    assert_eq!(
        advice.warnings,
        ["lst allows no more RPCs in flight for a pair than 1024: 85.8 % of the line; 2 pairs of \
          nodes fill it"]
    );
}

#[test]
fn too_little_memory_reduces_all_settings_and_warns() {
    let all = advise(&ocean(Whose::Kernel));
    let little = advise(&Site { memory: Some(2 << 30), ..ocean(Whose::Kernel) });
    assert!(all.memory.total() > 1 << 30 && all.plan.scale == 1.);
    assert!(little.memory.total() <= 1 << 30, "{:?}", little.memory);
    assert!(little.plan.concurrency < all.plan.concurrency);
    let (less, more) = (little.prediction.bytes_per_second, all.prediction.bytes_per_second);
    assert!(less < more * 0.9);
    assert!(
        little.warnings[0].starts_with("half of the memory is 1 GiB: all settings are reduced to")
    );
}

#[test]
fn a_short_path_keeps_the_defaults() {
    let site = Site {
        line_bits: 10_000_000_000,
        rtt: Duration::from_micros(240),
        nodes: 1,
        ..ocean(Whose::Kernel)
    };
    let advice = advise(&site);
    let Plan { peer_credits, credits, tcp_buffer, congestion, .. } = advice.plan;
    assert_eq!((peer_credits, credits, tcp_buffer), (8, 256, 6 << 20));
    assert_eq!(congestion, Congestion::Cubic);
    assert_eq!(advice.prediction.bound, Bound::Line);
}

#[test]
fn losses_decide_the_congestion_control() {
    let with = |loss| advise(&Site { loss, ..ocean(Whose::Fulmar) }).plan.congestion;
    assert_eq!(with(Some(0.)), Congestion::Cubic);
    assert_eq!(with(Some(1e-9)), Congestion::Cubic);
    assert_eq!(with(Some(1e-6)), Congestion::Bbr);
    assert_eq!(with(None), Congestion::Bbr);
}

#[test]
fn the_defaults_carry_the_rate_of_eight_credits() {
    let site = ocean(Whose::Kernel);
    let prediction = Present::default().predict(&site, &advise(&site).load);
    assert_eq!(prediction.bound, Bound::PeerCredits);
    let expected = 2. * 8. * (1 << 20) as f64 / 0.0505;
    assert!((prediction.bytes_per_second / expected - 1.).abs() < 0.03, "{prediction:?}");
}

#[test]
fn present_connections_are_those_of_the_speed_of_the_device() {
    let site = ocean(Whose::Kernel);
    let connections =
        |device_bits| Present { device_bits, ..Present::default() }.model(&site).bulk_connections;
    assert_eq!(connections(Some(1_000_000_000)), 1);
    assert_eq!(connections(Some(25_000_000_000)), 3);
    assert_eq!(connections(None), plan::connections(&site));
}

#[test]
fn the_prediction_of_present_settings_equals_the_advice_that_was_applied() {
    for site in sites() {
        let advice = advise(&site);
        let mut present = Present::default();
        for setting in &advice.settings {
            present.set(setting.name, &setting.advised);
        }
        assert_eq!(present.model(&site), advice.model, "{site:?}");
    }
}

#[test]
fn each_setting_of_the_model_has_the_prediction_without_it() {
    let advice = advise(&ocean(Whose::Kernel));
    let without = |name: &str| {
        let setting = advice.settings.iter().find(|setting| setting.name == name).unwrap();
        setting.without.unwrap().bound
    };
    assert_eq!(without("peer_credits"), Bound::PeerCredits);
    assert_eq!(without("credits"), Bound::Credits);
    assert_eq!(without("net.ipv4.tcp_rmem"), Bound::Window);
    assert_eq!(without("concurrency"), Bound::Concurrency);
    let term = |what| {
        let mut terms = advice.prediction.terms.iter();
        terms.find(|Term { what: other, .. }| *other == what).unwrap().formula.clone()
    };
    assert_eq!(
        term(Bound::PeerCredits),
        "2 pairs x 840 credits x 1 MiB / (84.7 µs + 50.5 ms round trip)"
    );
}
