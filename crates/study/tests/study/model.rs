//! Compares simulations with the closed-form model and with each other.

use std::time::Duration;

use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Line, Tcp};
use fulmar_study::sc11::grid::{Distance, Hold, Key};
use fulmar_study::{
    Begin, Binding, Credits, Direction, Effort, Path, Routers, Scenario, predict, sc11,
};
use fulmar_tune::model;

const RTT: Duration = Duration::from_micros(50_500);
const MIB: u32 = 1 << 20;

/// A point of the study whose simulation takes less than a second.
fn small(direction: Direction, hold: Hold, peer_credits: u32, concurrency: u32) -> Key {
    Key { concurrency, clients: 4, ..Key::usual(direction, hold, peer_credits) }
}

/// One client and one server over one trunk, with warm connections and large buffers.
fn pair(rate_mbps: u64, concurrency: u32) -> Scenario {
    let path = Path::pipe(rate_mbps, RTT);
    let tcp = Tcp { mtu: 9000, initial_window: 20_000, ..Tcp::default() };
    Scenario {
        clients: 1,
        servers: 1,
        direction: Direction::Write,
        concurrency,
        size: MIB,
        begin: Begin::Together,
        credits: Credits::default(),
        path: Path { tcp: tcp.with_buffers(160 << 20), ..path },
    }
}

#[test]
fn simulation_and_model_agree_where_rpcs_credits_or_cables_are_the_bottleneck() {
    let points = [
        small(Direction::Write, Hold::Fulmar, 8, 1),
        small(Direction::Write, Hold::Fulmar, 8, 32),
        small(Direction::Read, Hold::Fulmar, 16, 16),
        small(Direction::Read, Hold::Fulmar, 8, 128),
        small(Direction::Write, Hold::Kernel, 8, 4),
        small(Direction::Write, Hold::Kernel, 8, 32),
        small(Direction::Read, Hold::Kernel, 16, 64),
        Key { size: 4096, ..small(Direction::Write, Hold::Kernel, 8, 32) },
        Key { distance: Distance::BackToBack, ..small(Direction::Read, Hold::Fulmar, 8, 4) },
    ];
    for key in points {
        let point = sc11::simulate(&key).unwrap();
        assert!(point.error.abs() <= 0.05, "{point:#?}");
    }
}

#[test]
fn a_prediction_is_reproducible_and_names_the_bottleneck() {
    // These windows are just large enough, so that requests do not queue behind data in the trunk.
    // With enough credits no message waits in LNet.
    let mut scenario = pair(5_000, 160);
    scenario.path.tcp = scenario.path.tcp.with_buffers(40 << 20);
    scenario.credits.peer_credits = 256;
    let first = predict(&scenario, Effort::default()).unwrap();
    assert_eq!(predict(&scenario, Effort::default()).unwrap(), first);
    let payload = model::payload_rate(5_000_000_000, 9000) as f64;
    assert!(first.bytes_per_second > 0.95 * payload, "{first:?}");
    assert!(first.bytes_per_second <= payload * 1.01, "{first:?}");
    assert_eq!(first.binding, Binding::Trunks);
    let latencies = first.latencies.unwrap();
    assert!(latencies.median >= 2 * RTT && latencies.percentile_99 >= latencies.median);

    let kernel = Credits { zc_min_payload: Some(Credits::KERNEL_ZERO_COPY), ..Credits::default() };
    let held = predict(&Scenario { credits: kernel, ..scenario }, Effort::default()).unwrap();
    assert_eq!(held.binding, Binding::PeerCredits);
    assert!(held.bytes_per_second < 0.35 * first.bytes_per_second, "{held:?}");
}

#[test]
fn a_small_socket_buffer_limits_a_pair_to_one_buffer_per_round_trip() {
    let scenario = pair(5_000, 64);
    let tcp = scenario.path.tcp.clone().with_buffers(4 << 20);
    let path = Path { tcp, ..scenario.path };
    let credits = Credits { peer_credits: 128, ..Credits::default() };
    let scenario = Scenario { path, credits, ..scenario };
    let predicted = predict(&scenario, Effort::default()).unwrap();
    let window = f64::from(4 << 20) / RTT.as_secs_f64();
    let error = predicted.bytes_per_second / window - 1.0;
    assert!(error.abs() < 0.1, "{error} {predicted:?}");
    assert_eq!(predicted.binding, Binding::RpcsOrWindows);
}

#[test]
fn routers_at_both_sites_forward_at_line_rate() {
    let mut scenario = pair(2_000, 96);
    scenario.path.routers = Some(Routers {
        at_clients: 1,
        at_servers: 1,
        cable: Line::new(20_000, Duration::ZERO),
        buffers: RouterBuffers::default(),
        peer_buffer_credits: 0,
    });
    let predicted = predict(&scenario, Effort::default()).unwrap();
    let payload = model::payload_rate(2_000_000_000, 9000) as f64;
    assert!(predicted.bytes_per_second > 0.9 * payload, "{predicted:?}");
}
