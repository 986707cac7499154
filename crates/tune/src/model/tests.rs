//! The example of the specification, each bound, and properties for all settings.

use proptest::prelude::*;

use super::*;

const RTT: Duration = Duration::from_millis(50);
const MIB: u64 = 1 << 20;

fn path() -> Path {
    Path::of_line(100_000_000_000, 9000, RTT)
}

/// Returns settings with which only the line binds.
fn open() -> Settings {
    Settings {
        peer_credits: 4096,
        credits: 65_536,
        socket_buffer: 1 << 30,
        bulk_connections: 4,
        hold: Hold::Written,
        cache: None,
        nic: None,
        routers: None,
    }
}

/// Returns two routers at each end.
fn through(router_credits: u32, large_buffers: u32) -> Routers {
    Routers {
        at_clients: 2,
        at_servers: 2,
        rate: 1 << 33,
        router_credits,
        large_buffers,
        sharing: Sharing::FirstCome,
    }
}

fn write(pairs: u32, concurrency: u32) -> Load {
    Load::selftest(pairs, concurrency, Direction::Write)
}

fn close_to(prediction: &Prediction, expected: f64) {
    let got = prediction.bytes_per_second;
    assert!((got / expected - 1.).abs() < 0.01, "{got} is not {expected}: {prediction:#?}");
}

#[test]
fn a_line_of_jumbo_frames_carries_99_percent() {
    assert_eq!(payload_rate(100_000_000_000, 9000), 12_375_525_558);
    assert_eq!(payload_rate(100_000_000_000, 1500), 11_768_530_559);
    assert_eq!(path().bytes_in_flight() / MIB, 590);
}

#[test]
fn eight_credits_held_for_50_ms_carry_160_mib_per_second() {
    let settings = Settings { peer_credits: 8, hold: Hold::RoundTrip, ..open() };
    let load = Load { rpc_bytes: 4 * MIB, kind: Kind::Lustre, ..write(1, 256) };
    let prediction = predict(&path(), &load, &settings);
    close_to(&prediction, 159. * MIB as f64);
    assert_eq!(prediction.bound, Bound::PeerCredits);
    let term = prediction.terms.iter().find(|term| term.what == Bound::PeerCredits).unwrap();
    assert_eq!(term.formula, "1 pair x 8 credits x 1 MiB / (84.7 µs + 50 ms round trip)");
}

#[test]
fn credits_that_are_not_held_leave_the_line_as_the_bound() {
    let settings = Settings { peer_credits: 8, ..open() };
    let prediction = predict(&path(), &write(2, 1024), &settings);
    close_to(&prediction, path().rate as f64);
    assert_eq!(prediction.bound, Bound::Line);
}

#[test]
fn a_write_takes_two_round_trips_and_a_read_one() {
    let one = |direction, hold| {
        let load = Load::selftest(1, 1, direction);
        predict(&path(), &load, &Settings { hold, ..open() }).rpc_time.as_millis()
    };
    assert_eq!(one(Direction::Write, Hold::Written), 100);
    assert_eq!(one(Direction::Write, Hold::RoundTrip), 100);
    assert_eq!(one(Direction::Read, Hold::Written), 50);
    assert_eq!(one(Direction::Read, Hold::RoundTrip), 100);
}

#[test]
fn each_setting_binds_where_it_is_the_least() {
    let bound = |load: &Load, settings: Settings| predict(&path(), load, &settings).bound;
    let load = write(2, 1024);
    assert_eq!(bound(&load, open()), Bound::Line);
    assert_eq!(bound(&write(2, 64), open()), Bound::Concurrency);
    assert_eq!(bound(&load, Settings { socket_buffer: MIB, ..open() }), Bound::Window);
    let held = Settings { hold: Hold::RoundTrip, ..open() };
    assert_eq!(bound(&load, Settings { peer_credits: 64, ..held }), Bound::PeerCredits);
    assert_eq!(bound(&load, Settings { credits: 64, ..held }), Bound::Credits);
    assert_eq!(bound(&load, Settings { cache: Some(32 * MIB), ..open() }), Bound::Cache);
    let nic = Some(Nic { rate: 1_250_000_000 });
    assert_eq!(bound(&load, Settings { nic, ..open() }), Bound::Nic);
    let routers = through(4096, 4096);
    let of = |routers| Settings { routers: Some(routers), ..held };
    assert_eq!(bound(&load, of(routers)), Bound::Line);
    assert_eq!(bound(&load, of(Routers { rate: 1 << 30, ..routers })), Bound::Router);
    assert_eq!(bound(&load, of(Routers { large_buffers: 64, ..routers })), Bound::RouterBuffers);
    assert_eq!(bound(&load, of(Routers { router_credits: 16, ..routers })), Bound::RouterCredits);
}

#[test]
fn a_router_stores_a_message_for_the_time_of_its_own_cable() {
    let path = Path::of_line(1_000_000_000, 9000, RTT);
    let load = Load::selftest(1, 1, Direction::Read);
    let time = |routers| {
        let settings = Settings { routers, ..open() };
        predict(&path, &load, &settings).rpc_time.as_secs_f64()
    };
    let routers = Routers { rate: path.rate * 10, ..through(64, 1024) };
    let message = MIB as f64 / path.rate as f64;
    let stored = |routers| (time(Some(routers)) - time(None)) / message;
    assert!((stored(routers) - 0.2).abs() < 1e-6);
    assert!((stored(Routers { rate: path.rate, ..routers }) - 2.).abs() < 1e-6);
    assert!((stored(Routers { at_servers: 0, ..routers }) - 0.1).abs() < 1e-6);
}

#[test]
fn a_router_of_fulmar_keeps_buffers_for_other_targets() {
    let held = Settings { hold: Hold::RoundTrip, ..open() };
    let of = |pairs, sharing| {
        let routers = Routers { at_clients: 1, sharing, ..through(4096, 12) };
        let settings = Settings { routers: Some(routers), ..held };
        let terms = predict(&path(), &write(pairs, 512), &settings).terms;
        terms.into_iter().find(|term| term.what == Bound::RouterBuffers).unwrap().formula
    };
    assert!(of(1, Sharing::ByTarget).starts_with("1 router x 6 buffers of 12 x"));
    assert!(of(2, Sharing::ByTarget).starts_with("1 router x 8 buffers of 12 x"));
    assert!(of(2, Sharing::FirstCome).starts_with("1 router x 12 buffers x"));
}

#[test]
fn requests_behind_bulk_form_convoys_with_an_idle_round_trip() {
    let settings = Settings { peer_credits: 8, hold: Hold::RoundTrip, ..open() };
    let convoy = |concurrency| predict(&path(), &write(1, concurrency), &settings);
    // 8 RPCs never wait for each other. 16 need two waves of a round trip, and during the second,
    // the requests of the first wait for its credits: 16 in three round trips, not two.
    assert!(convoy(8).convoy == 1. && convoy(8).bound == Bound::Concurrency);
    let pipe = 8. * MIB as f64 / 0.05;
    close_to(&convoy(16), pipe * 2. / 3.);
    close_to(&convoy(64), pipe * 8. / 9.);
    assert_eq!(convoy(64).bound, Bound::PeerCredits);
}

#[test]
fn a_full_line_has_convoys_if_sockets_hold_less_than_is_in_flight() {
    // 2.5 times the capacity, of which all but the window waits in LNet's queue.
    let window = path().bytes_in_flight() / 8 + MIB;
    let tight = Settings { peer_credits: 8, socket_buffer: window, ..open() };
    let load = write(2, 740);
    let prediction = predict(&path(), &load, &tight);
    assert!(prediction.convoy < 0.9, "{prediction:#?}");
    assert_eq!(prediction.bound, Bound::PeerCredits);
    let wide = Settings { peer_credits: 1024, ..tight };
    assert_eq!(predict(&path(), &load, &wide).bound, Bound::Line);
}

#[test]
fn a_long_convoy_has_the_same_result_by_both_methods() {
    let settings = Settings { peer_credits: 64, hold: Hold::RoundTrip, ..open() };
    let load = |concurrency| Load { rpc_bytes: 16 * MIB, ..write(1, concurrency) };
    let followed = predict(&path(), &load(256), &settings);
    let not = predict(&path(), &load(257), &settings);
    close_to(&followed, not.bytes_per_second);
}

#[test]
fn losses_cost_cubic_its_window() {
    assert_eq!(cubic_window(8948, RTT, 0.), u64::MAX);
    let window = cubic_window(8948, RTT, 1e-6);
    assert!((30_000_000..32_000_000).contains(&window), "{window}");
    assert!(cubic_window(8948, RTT, 1e-5) < window);
}

#[test]
fn zeros_have_a_prediction() {
    let path = Path { rate: 0, rtt: Duration::ZERO };
    let load = Load {
        clients: 0,
        servers: 0,
        pairs: 0,
        concurrency: 0,
        rpc_bytes: 0,
        message_bytes: 0,
        ..write(1, 1)
    };
    let settings =
        Settings { peer_credits: 0, credits: 0, socket_buffer: 0, bulk_connections: 0, ..open() };
    let prediction = predict(&path, &load, &settings);
    assert!(prediction.bytes_per_second.is_finite());
}

fn any_settings() -> impl Strategy<Value = (Load, Settings)> {
    let load = (1..8u32, 1..200u32, 1..4u64, any::<bool>(), any::<bool>());
    let settings = (1..512u32, 1..4096u32, 16..31u32, 1..8u32, any::<bool>(), any::<bool>());
    (load, settings).prop_map(|(load, settings)| {
        let (pairs, concurrency, messages, reads, is_lustre) = load;
        let (peer_credits, credits, buffer, bulk_connections, is_held, is_routed) = settings;
        let load = Load {
            rpc_bytes: messages * MIB,
            direction: if reads { Direction::Read } else { Direction::Write },
            kind: if is_lustre { Kind::Lustre } else { Kind::Selftest },
            ..write(pairs, concurrency)
        };
        let routers = through(64, 1024);
        let settings = Settings {
            peer_credits,
            credits,
            socket_buffer: 1 << buffer,
            bulk_connections,
            hold: if is_held { Hold::RoundTrip } else { Hold::Written },
            cache: None,
            nic: None,
            routers: is_routed.then_some(routers),
        };
        (load, settings)
    })
}

fn least(prediction: &Prediction) -> f64 {
    let terms = prediction.terms.iter().map(|term| term.bytes_per_second);
    terms.fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_prediction_is_above_the_least_term((load, settings) in any_settings()) {
        let prediction = predict(&path(), &load, &settings);
        prop_assert!(prediction.bytes_per_second <= least(&prediction));
        prop_assert!(prediction.bytes_per_second > 0.);
        prop_assert!((0. ..=1.).contains(&prediction.convoy));
    }

    /// The terms increase with every setting. Convoys may differ by some percent; and with larger
    /// windows requests meet bulk on the line, which costs up to a third.
    #[test]
    fn more_never_predicts_less((load, settings) in any_settings(), more in 1..64u32) {
        let before = predict(&path(), &load, &settings);
        let larger = [
            (Settings { peer_credits: settings.peer_credits + more, ..settings }, 0.9),
            (Settings { credits: settings.credits + more, ..settings }, 0.9),
            (Settings { socket_buffer: settings.socket_buffer << 1, ..settings }, 0.6),
            (Settings { bulk_connections: settings.bulk_connections + more, ..settings }, 0.6),
        ];
        for (settings, part) in larger {
            let after = predict(&path(), &load, &settings);
            prop_assert!(least(&after) >= least(&before) * 0.999_999);
            let (after, before) = (after.bytes_per_second, before.bytes_per_second);
            prop_assert!(after >= before * part, "{after} after {before}");
        }
    }
}
