//! One point, for a look.
use fulmar_sim::options::{Line, Tcp};
use fulmar_study::*;
use std::time::{Duration, Instant};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let [clients, servers, concurrency, pc, zc, size, write, rtt_us] = args[..] else { panic!() };
    let cable = Line::new(10_000, Duration::ZERO);
    let trunk = Line::new(50_000, Duration::from_micros(rtt_us / 2));
    let scenario = Scenario {
        clients: clients as u32,
        servers: servers as u32,
        direction: if write == 1 { Direction::Write } else { Direction::Read },
        concurrency: concurrency as u32,
        size: size as u32,
        credits: Credits {
            peer_credits: pc as u32,
            credits: 1024,
            conns_per_peer: 1,
            zc_min_payload: (zc == 1).then_some(16384),
        },
        path: Path {
            client_cable: cable.clone(),
            server_cable: cable,
            trunks: vec![trunk.clone(), trunk],
            tcp: Tcp {
                mtu: 9000,
                initial_window: 100_000,
                ..Tcp::default().with_buffers(167 << 20)
            },
            routers: None,
        },
    };
    let t = Instant::now();
    let p =
        predict(&scenario, Effort { least_rounds: 5, most_rounds: 15, latencies: false }).unwrap();
    println!(
        "{:.1} MB/s {:?}\n{:.3} s, {} steps, {:.1} us/rpc",
        p.bytes_per_second / 1e6,
        p,
        t.elapsed().as_secs_f64(),
        p.steps,
        t.elapsed().as_secs_f64() * 1e6 / (p.rpcs as f64)
    );
}
