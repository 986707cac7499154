//! Socket buffer limits, compared with the needs of the path.

use fulmar_text::{bit_rate, bytes, micros};

use super::PathNeed;
use crate::evidence::TcpSettings;
use crate::finding::{Finding, Level, Place};

/// Buffer size as a multiple of the bandwidth-delay product: half of a receive buffer is for the
/// overhead of packets, and a lost packet keeps one more round trip of data in the buffer.
const FACTOR: u64 = 2;
/// The assumed round trip of a long path, for hosts without a known path.
const LONG_PATH: PathNeed = PathNeed { rate: 0.0, round_trip_us: 50_000.0 };
/// The rate that a host should reach on such a path, in bits per second.
const TARGET_RATE: f64 = 1e9;
/// The largest advised buffer, in bytes; the kernel's limits are not much above.
const ADVICE_MAX: u64 = 1 << 30;

/// Judges the limits of a host's sockets. Without a path, against a long path of 50 ms.
pub fn sockets(place: Place, tcp: &TcpSettings, path: Option<PathNeed>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, value, why) in [
        ("tcp_window_scaling", tcp.window_scaling, "windows are limited to 64 KiB"),
        ("tcp_sack", tcp.sack, "recovery takes a round trip for each lost packet"),
        ("tcp_moderate_rcvbuf", tcp.moderate_rcvbuf, "receive buffers do not grow with demand"),
    ] {
        if value == Some(0) {
            let what = format!("{name} is off: {why}");
            let remedy = format!("sysctl -w net.ipv4.{name}=1");
            let finding = Finding::new(Level::Warning, place, what, format!("net.ipv4.{name}=0"));
            found.push(finding.remedy(remedy));
        }
    }
    for (name, limits) in [("tcp_rmem", tcp.tcp_rmem), ("tcp_wmem", tcp.tcp_wmem)] {
        if let Some(limits) = limits {
            found.push(match path.filter(|path| path.bytes() > 0) {
                Some(path) => against_path(place, name, limits, path),
                None => alone(place, name, limits),
            });
        }
    }
    found.extend(explicit(place, tcp, path));
    found
}

fn carries(limit: u64, round_trip_us: f64) -> f64 {
    (limit / FACTOR) as f64 * 8.0 / (round_trip_us.max(1.0) / 1e6)
}

/// Returns the next power of two, at most [`ADVICE_MAX`].
fn advice(bytes: u64) -> u64 {
    bytes.min(ADVICE_MAX).next_power_of_two()
}

fn against_path(place: Place, name: &str, limits: [u64; 3], path: PathNeed) -> Finding {
    let [least, first, most] = limits;
    let (full, need) = (path.bytes(), path.bytes().saturating_mul(FACTOR));
    let at_most = carries(most, path.round_trip_us);
    let evidence = format!(
        "limit {}; {} with a round trip of {} has {} in flight and needs a limit of {}",
        bytes(most),
        bit_rate(path.rate),
        micros(path.round_trip_us),
        bytes(full),
        bytes(need)
    );
    if most >= need {
        return Finding::ok(place, format!("{name} is large enough for the path"), evidence);
    }
    // Several connections share the load, so a smaller limit may do.
    let level = if most.saturating_mul(4) >= need { Level::Note } else { Level::Warning };
    let what = format!("{name} limits one connection to {}", bit_rate(at_most));
    let remedy = format!("sysctl -w net.ipv4.{name}=\"{least} {first} {}\"", advice(need));
    Finding::new(level, place, what, evidence).remedy(remedy)
}

fn alone(place: Place, name: &str, limits: [u64; 3]) -> Finding {
    let [least, first, most] = limits;
    let at_most = carries(most, LONG_PATH.round_trip_us);
    let evidence =
        format!("limit {}: one connection reaches {} over 50 ms", bytes(most), bit_rate(at_most));
    if at_most >= TARGET_RATE {
        return Finding::ok(place, format!("{name} is large enough for long paths"), evidence);
    }
    let need = (TARGET_RATE / 8.0 * LONG_PATH.round_trip_us / 1e6) as u64 * FACTOR;
    let what = format!("{name} is too small for long paths");
    let remedy = format!("sysctl -w net.ipv4.{name}=\"{least} {first} {}\"", advice(need));
    Finding::new(Level::Note, place, what, evidence).remedy(remedy)
}

/// Judges the limits of programs that set buffer sizes, such as a node with `tx_buffer_size`.
fn explicit(place: Place, tcp: &TcpSettings, path: Option<PathNeed>) -> Option<Finding> {
    let (rmem, wmem) = (tcp.rmem_max?, tcp.wmem_max?);
    let need = path?.bytes();
    let least = rmem.min(wmem);
    (least < need && path?.is_long()).then(|| {
        let what = "rmem_max and wmem_max limit programs that set their buffer sizes";
        let evidence =
            format!("{} and {}; {} are in flight", bytes(rmem), bytes(wmem), bytes(need));
        let advice = advice(need.saturating_mul(FACTOR));
        let remedy = format!("sysctl -w net.core.rmem_max={advice} net.core.wmem_max={advice}");
        Finding::new(Level::Note, place, what, evidence).remedy(remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(most: u64) -> TcpSettings {
        TcpSettings {
            tcp_rmem: Some([4096, 131_072, most]),
            tcp_wmem: Some([4096, 16_384, 256 << 20]),
            rmem_max: Some(256 << 20),
            wmem_max: Some(256 << 20),
            window_scaling: Some(1),
            ..TcpSettings::default()
        }
    }

    const PATH: PathNeed = PathNeed { rate: 10e9, round_trip_us: 50_000.0 };

    #[test]
    fn a_buffer_limit_is_compared_with_the_bandwidth_delay_product() {
        assert_eq!(PATH.bytes(), 62_500_000);
        let found = sockets(Place::Local, &settings(6 << 20), Some(PATH));
        assert_eq!((found[0].level, found[1].level), (Level::Warning, Level::Ok));
        assert!(found[0].what.contains("503 Mbit/s"), "{}", found[0].what);
        let remedy = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 134217728\"";
        assert_eq!(found[0].remedy.as_deref(), Some(remedy));
        assert_eq!(sockets(Place::Local, &settings(128 << 20), Some(PATH))[0].level, Level::Ok);
        assert_eq!(sockets(Place::Local, &settings(64 << 20), Some(PATH))[0].level, Level::Note);
    }

    #[test]
    fn a_host_without_a_path_is_judged_for_a_long_path() {
        let found = sockets(Place::Local, &settings(6 << 20), None);
        assert_eq!((found[0].level, found[1].level), (Level::Note, Level::Ok));
        assert!(found[0].evidence.contains("503 Mbit/s over 50 ms"), "{}", found[0].evidence);
    }

    #[test]
    fn windows_that_cannot_grow_are_a_warning() {
        let tcp = TcpSettings { window_scaling: Some(0), ..settings(128 << 20) };
        let found = sockets(Place::Remote, &tcp, Some(PATH));
        assert!(found[0].level == Level::Warning && found[0].what.contains("64 KiB"));
    }

    #[test]
    fn small_limits_of_explicit_buffers_matter_on_long_paths_only() {
        let tcp = TcpSettings { rmem_max: Some(212_992), ..settings(128 << 20) };
        assert_eq!(sockets(Place::Local, &tcp, Some(PATH)).len(), 3);
        let near = PathNeed { round_trip_us: 100.0, ..PATH };
        assert_eq!(sockets(Place::Local, &tcp, Some(near)).len(), 2);
    }

    #[test]
    fn absurd_limits_cause_no_panic() {
        let absurd = TcpSettings { tcp_rmem: Some([u64::MAX; 3]), ..settings(1) };
        let path = PathNeed { rate: 1e300, round_trip_us: 1e300 };
        assert!(!sockets(Place::Remote, &absurd, Some(path)).is_empty());
    }
}
