//! Loss, order and jitter of datagrams at a given rate.

use fulmar_text::{bit_rate, micros, percent};

use crate::finding::{Finding, Level, Place};
use crate::measure::{Direction, UdpDirection, UdpResult};

/// Judges loss, order and jitter in both directions.
pub fn udp(seen: &UdpResult) -> Vec<Finding> {
    [(Direction::Out, seen.out), (Direction::In, seen.back)]
        .into_iter()
        .flat_map(|(direction, one)| judge(seen, direction, one))
        .collect()
}

/// Loss that limits CUBIC on a long path.
const LOSS_NOTE: f64 = 1e-6;
/// Loss that limits TCP on any long path.
const LOSS_WARNING: f64 = 1e-4;
/// Loss with which nothing works well.
const LOSS_ERROR: f64 = 0.05;

fn judge(seen: &UdpResult, direction: Direction, one: UdpDirection) -> Vec<Finding> {
    let word = direction.word();
    let sent = one.rate(seen.on_wire);
    let evidence = format!(
        "{} of {} datagrams of {} B lost at {}, {} out of order, jitter {}",
        one.sent.saturating_sub(one.seen.received),
        one.sent,
        seen.size,
        bit_rate(sent),
        one.seen.reordered,
        micros(one.seen.jitter_us)
    );
    let mut found = Vec::new();
    let receiver = if direction == Direction::Out { Place::Remote } else { Place::Local };
    let lost = one.sent.saturating_sub(one.seen.received);
    // Datagrams that the receiver dropped for lack of buffer have passed the network.
    let on_path = lost.saturating_sub(one.seen.overrun) as f64 / one.sent.max(1) as f64;
    let what = format!("UDP {word}: {} lost", percent(one.loss()));
    let level = match on_path {
        _ if one.sent > 0 && one.seen.received == 0 => Level::Warning,
        LOSS_ERROR.. => Level::Error,
        LOSS_WARNING.. => Level::Warning,
        LOSS_NOTE.. => Level::Note,
        _ => Level::Ok,
    };
    let remedy = match level {
        Level::Ok => None,
        _ => Some(
            "find where packets are lost: drops on switch ports and in ethtool -S, a bad cable or \
            transceiver, a rate limit on the path (repeat with half of --udp-rate)",
        ),
    };
    found.push(match remedy {
        Some(remedy) => Finding::new(level, Place::Path, what, evidence).remedy(remedy),
        None => Finding::ok(Place::Path, what, evidence),
    });
    if one.seen.overrun > 0 {
        let what = "the receive buffer was too small for the datagrams";
        let evidence = format!("{} arrived and were dropped on the host", one.seen.overrun);
        let remedy =
            "sysctl -w net.core.rmem_max=16777216, and repeat the check; TCP is not affected";
        found.push(Finding::new(Level::Note, receiver, what, evidence).remedy(remedy));
    }
    if one.seen.received > 0 && one.seen.reordered as f64 / one.seen.received as f64 > 1e-3 {
        let what = format!("packets are reordered {word}");
        let evidence = format!("{} of {}", one.seen.reordered, one.seen.received);
        let remedy =
            "if links are bonded, distribute packets by flow (hash of addresses and ports)";
        found.push(Finding::new(Level::Warning, Place::Path, what, evidence).remedy(remedy));
    }
    if sent < seen.wanted as f64 * 0.9 {
        let sender = if direction == Direction::Out { Place::Local } else { Place::Remote };
        let what = "the sender did not reach the datagram rate";
        let evidence = format!("{} of {}", bit_rate(sent), bit_rate(seen.wanted as f64));
        found.push(Finding::new(Level::Note, sender, what, evidence));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::FloodStats;

    fn direction(received: u64, overrun: u64, reordered: u64) -> UdpDirection {
        let seen = FloodStats { received, overrun, reordered, ..FloodStats::default() };
        UdpDirection { sent: 10_000, micros: 1_172_800, seen }
    }

    fn levels(out: UdpDirection) -> Vec<Level> {
        let seen = UdpResult {
            wanted: 100_000_000,
            size: 1400,
            on_wire: 1466,
            out,
            back: direction(10_000, 0, 0),
        };
        udp(&seen).into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn the_share_of_lost_datagrams_sets_the_level() {
        assert_eq!(levels(direction(10_000, 0, 0)), [Level::Ok, Level::Ok]);
        assert_eq!(levels(direction(9_990, 0, 0)), [Level::Warning, Level::Ok]);
        assert_eq!(levels(direction(9_000, 0, 0)), [Level::Error, Level::Ok]);
    }

    #[test]
    fn drops_on_the_receiver_are_not_loss_on_the_path() {
        assert_eq!(levels(direction(9_000, 1000, 0)), [Level::Ok, Level::Note, Level::Ok]);
    }

    #[test]
    fn reordered_packets_are_reported() {
        assert_eq!(levels(direction(10_000, 0, 50)), [Level::Ok, Level::Warning, Level::Ok]);
    }

    #[test]
    fn absurd_values_of_a_remote_host_cause_no_panic() {
        let absurd = FloodStats {
            received: u64::MAX,
            overrun: u64::MAX,
            reordered: 0,
            ..direction(0, 0, 0).seen
        };
        assert_eq!(levels(UdpDirection { seen: absurd, ..direction(0, 0, 0) })[0], Level::Ok);
        assert!(!levels(UdpDirection::default()).is_empty());
    }
}
