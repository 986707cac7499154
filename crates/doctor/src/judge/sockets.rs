//! Limits of socket buffers, held against what the path needs.

use fulmar_text::{bit_rate, bytes, micros};

use super::PathNeed;
use crate::evidence::TcpSettings;
use crate::finding::{Finding, Level, Place};

/// A buffer of so many times what is on its way carries it all: half of a receive buffer is for
/// what packets cost besides their payload, and a lost one holds a round trip's more.
const FACTOR: u64 = 2;
/// The round trip of a long path, for hosts whose path is not known.
const OCEAN: PathNeed = PathNeed { rate: 0.0, round_trip_us: 50_000.0 };
/// A host that is looked at alone is meant for no slower path than this, in bits per second.
const MODEST: f64 = 1e9;
/// No advice goes beyond what the kernel takes, in bytes.
const ADVICE_MAX: u64 = 1 << 30;

/// Judges the limits of a host's sockets. Without a path, what they allow on a long one is told.
pub fn sockets(place: Place, tcp: &TcpSettings, path: Option<PathNeed>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, value, why) in [
        ("tcp_window_scaling", tcp.window_scaling, "no window is larger than 64 KiB"),
        ("tcp_sack", tcp.sack, "a burst of losses takes a round trip for each packet"),
        ("tcp_moderate_rcvbuf", tcp.moderate_rcvbuf, "receive buffers do not grow with the path"),
    ] {
        if value == Some(0) {
            let what = format!("{name} is off: {why}");
            let mend = format!("sysctl -w net.ipv4.{name}=1");
            let finding = Finding::new(Level::Warning, place, what, format!("net.ipv4.{name}=0"));
            found.push(finding.mend(mend));
        }
    }
    for (name, limits) in [("tcp_rmem", tcp.tcp_rmem), ("tcp_wmem", tcp.tcp_wmem)] {
        if let Some(limits) = limits {
            found.push(match path.filter(|path| path.bytes() > 0) {
                Some(path) => held_against(place, name, limits, path),
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

/// Returns the next power of two, within reason.
fn advice(bytes: u64) -> u64 {
    bytes.min(ADVICE_MAX).next_power_of_two()
}

fn held_against(place: Place, name: &str, limits: [u64; 3], path: PathNeed) -> Finding {
    let [least, first, most] = limits;
    let (full, need) = (path.bytes(), path.bytes().saturating_mul(FACTOR));
    let at_most = carries(most, path.round_trip_us);
    let evidence = format!(
        "{} at most; {} over {} have {} on their way, and need {}",
        bytes(most),
        bit_rate(path.rate),
        micros(path.round_trip_us),
        bytes(full),
        bytes(need)
    );
    if most >= need {
        return Finding::ok(place, format!("{name} suits the path"), evidence);
    }
    // With many connections each carries a share.
    let level = if most.saturating_mul(4) >= need { Level::Note } else { Level::Warning };
    let what = format!("{name} lets one connection carry {} at most", bit_rate(at_most));
    let mend = format!("sysctl -w net.ipv4.{name}=\"{least} {first} {}\"", advice(need));
    Finding::new(level, place, what, evidence).mend(mend)
}

fn alone(place: Place, name: &str, limits: [u64; 3]) -> Finding {
    let [least, first, most] = limits;
    let at_most = carries(most, OCEAN.round_trip_us);
    let evidence =
        format!("{} at most: one connection carries {} over 50 ms", bytes(most), bit_rate(at_most));
    if at_most >= MODEST {
        return Finding::ok(place, format!("{name} suits long paths"), evidence);
    }
    let need = (MODEST / 8.0 * OCEAN.round_trip_us / 1e6) as u64 * FACTOR;
    let what = format!("{name} is too small for long paths");
    let mend = format!("sysctl -w net.ipv4.{name}=\"{least} {first} {}\"", advice(need));
    Finding::new(Level::Note, place, what, evidence).mend(mend)
}

/// Judges the limits of those who choose a size of their own, as a node with `tx_buffer_size` does.
fn explicit(place: Place, tcp: &TcpSettings, path: Option<PathNeed>) -> Option<Finding> {
    let (rmem, wmem) = (tcp.rmem_max?, tcp.wmem_max?);
    let need = path?.bytes();
    let least = rmem.min(wmem);
    (least < need && path?.is_long()).then(|| {
        let what = "rmem_max and wmem_max hold down those who choose their buffers themselves";
        let evidence =
            format!("{} and {}; {} are on their way", bytes(rmem), bytes(wmem), bytes(need));
        let advice = advice(need.saturating_mul(FACTOR));
        let mend = format!("sysctl -w net.core.rmem_max={advice} net.core.wmem_max={advice}");
        Finding::new(Level::Note, place, what, evidence).mend(mend)
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
    fn a_buffer_is_held_against_what_is_on_its_way() {
        assert_eq!(PATH.bytes(), 62_500_000);
        let found = sockets(Place::Here, &settings(6 << 20), Some(PATH));
        assert_eq!((found[0].level, found[1].level), (Level::Warning, Level::Ok));
        assert!(found[0].what.contains("503 Mbit/s"), "{}", found[0].what);
        let mend = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 134217728\"";
        assert_eq!(found[0].mend.as_deref(), Some(mend));
        assert_eq!(sockets(Place::Here, &settings(128 << 20), Some(PATH))[0].level, Level::Ok);
        assert_eq!(sockets(Place::Here, &settings(64 << 20), Some(PATH))[0].level, Level::Note);
    }

    #[test]
    fn a_host_alone_is_told_what_it_allows_over_an_ocean() {
        let found = sockets(Place::Here, &settings(6 << 20), None);
        assert_eq!((found[0].level, found[1].level), (Level::Note, Level::Ok));
        assert!(found[0].evidence.contains("503 Mbit/s over 50 ms"), "{}", found[0].evidence);
    }

    #[test]
    fn windows_that_cannot_grow_are_a_warning() {
        let tcp = TcpSettings { window_scaling: Some(0), ..settings(128 << 20) };
        let found = sockets(Place::There, &tcp, Some(PATH));
        assert!(found[0].level == Level::Warning && found[0].what.contains("64 KiB"));
    }

    #[test]
    fn who_chooses_buffers_is_told_of_small_limits_on_long_paths_only() {
        let tcp = TcpSettings { rmem_max: Some(212_992), ..settings(128 << 20) };
        assert_eq!(sockets(Place::Here, &tcp, Some(PATH)).len(), 3);
        let near = PathNeed { round_trip_us: 100.0, ..PATH };
        assert_eq!(sockets(Place::Here, &tcp, Some(near)).len(), 2);
    }

    #[test]
    fn limits_that_nobody_could_mean_do_no_harm() {
        let mad = TcpSettings { tcp_rmem: Some([u64::MAX; 3]), ..settings(1) };
        let path = PathNeed { rate: 1e300, round_trip_us: 1e300 };
        assert!(!sockets(Place::There, &mad, Some(path)).is_empty());
    }
}
