//! Predictions of the closed-form model and of the simulator for a setup.

use std::time::Duration;

use fulmar_link::{Line, Tcp};
use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Control, Line as Cable, Tcp as SimulatedTcp};
use fulmar_study::{Begin, Credits, Effort, OCEAN_JITTER, Path, Routers, Scenario};
use fulmar_tune::advice::Congestion;
use fulmar_tune::model::{self, Bound, Load};

use super::{MTU, Ocean, Setup};

/// The predictions for a setup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OceanPrediction {
    /// Payload in bytes per second, by the closed-form model.
    pub model: f64,
    /// The bottleneck, by the closed-form model.
    pub bound: Bound,
    /// Payload in bytes per second, by the simulator.
    pub simulated: f64,
    /// Whether that rate was steady; if not, it is the rate of the last round trips.
    pub steady: bool,
}

/// Predicts the rate by the closed-form model and by the simulator.
///
/// # Errors
/// Fails if the simulation fails.
pub fn predict(ocean: &Ocean, setup: &Setup) -> Result<OceanPrediction, String> {
    let bytes = u64::from(setup.size);
    let load = Load::selftest(1, setup.concurrency, setup.direction);
    let load = Load { rpc_bytes: bytes, message_bytes: bytes, ..load };
    let model = model::predict(&ocean.path(), &load, &settings(ocean, setup));
    let simulated = fulmar_study::predict(&scenario(ocean, setup), EFFORT)
        .map_err(|error| format!("the simulation failed: {error}"))?;
    Ok(OceanPrediction {
        model: model.bytes_per_second,
        bound: model.bound,
        simulated: simulated.bytes_per_second,
        steady: simulated.steady,
    })
}

fn settings(ocean: &Ocean, setup: &Setup) -> model::Settings {
    let routers = model::Routers {
        at_clients: 1,
        at_servers: 1,
        rate: model::payload_rate(LAN_MBPS * 1_000_000, u32::from(MTU)),
        router_credits: match setup.peer_buffer_credits {
            0 => setup.peer_credits,
            credits => credits,
        },
        large_buffers: large_buffers(setup),
        sharing: model::Sharing::ByTarget,
    };
    model::Settings {
        peer_credits: setup.peer_credits,
        credits: setup.credits,
        socket_buffer: window(ocean),
        bulk_connections: setup.conns_per_peer,
        hold: setup.hold,
        cache: None,
        nic: None,
        routers: ocean.routed.then_some(routers),
    }
}

fn scenario(ocean: &Ocean, setup: &Setup) -> Scenario {
    let cable = Cable::new(LAN_MBPS, LAN_DELAY);
    let window = window(ocean);
    let tcp = SimulatedTcp {
        read_buffer: window,
        write_buffer: window,
        mtu: u32::from(MTU),
        congestion: match ocean.congestion() {
            Congestion::Cubic => Control::Cubic,
            Congestion::Bbr => Control::Bbr,
        },
        ..SimulatedTcp::default()
    };
    let routers = Routers {
        at_clients: 1,
        at_servers: 1,
        cable: cable.clone(),
        buffers: RouterBuffers { large: large_buffers(setup), ..RouterBuffers::default() },
        peer_buffer_credits: setup.peer_buffer_credits,
    };
    let trunk = Cable::new(ocean.rate.bits() / 1_000_000, ocean.round_trip / 2);
    Scenario {
        clients: 1,
        servers: 1,
        direction: setup.direction,
        concurrency: setup.concurrency,
        size: setup.size,
        begin: Begin::Together,
        credits: Credits {
            peer_credits: setup.peer_credits,
            credits: setup.credits,
            conns_per_peer: setup.conns_per_peer,
            zc_min_payload: setup.zc_min_payload(),
        },
        path: Path {
            client_cable: cable.clone(),
            server_cable: cable,
            trunks: vec![Cable { jitter: OCEAN_JITTER, ..trunk }],
            tcp,
            routers: ocean.routed.then_some(routers),
        },
    }
}

/// The window of a connection: half of the socket buffer.
fn window(ocean: &Ocean) -> u64 {
    let line = Line::new(ocean.rate, ocean.round_trip / 2);
    Tcp::filling(&[line; 2]).buffer / 2
}

fn large_buffers(setup: &Setup) -> u32 {
    match setup.large_buffers {
        0 => RouterBuffers::default().large,
        buffers => buffers,
    }
}

/// Cables within a site are fast enough not to matter.
const LAN_MBPS: u64 = 100_000;
const LAN_DELAY: Duration = Duration::from_micros(10);
const EFFORT: Effort = Effort { least_rounds: 49, most_rounds: 301, latencies: false };
