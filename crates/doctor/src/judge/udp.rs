//! Datagrams at a chosen rate.

use fulmar_text::{bit_rate, micros, percent};

use crate::finding::{Finding, Level, Place};
use crate::measure::{UdpSeen, UdpWay, Way};

/// Judges loss, order and jitter both ways.
pub fn udp(seen: &UdpSeen) -> Vec<Finding> {
    [(Way::Out, seen.out), (Way::Back, seen.back)]
        .into_iter()
        .flat_map(|(way, one)| judge(seen, way, one))
        .collect()
}

/// TCP with CUBIC on a long path is held down by less.
const LOSS_NOTE: f64 = 1e-6;
/// TCP on any long path is held down by this.
const LOSS_WARNING: f64 = 1e-4;
/// Nothing works well any more.
const LOSS_ERROR: f64 = 0.05;

fn judge(seen: &UdpSeen, way: Way, one: UdpWay) -> Vec<Finding> {
    let word = way.word();
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
    let receiver = if way == Way::Out { Place::There } else { Place::Here };
    let lost = one.sent.saturating_sub(one.seen.received);
    // What the receiver had no room for has passed the network.
    let on_path = lost.saturating_sub(one.seen.overrun) as f64 / one.sent.max(1) as f64;
    let what = format!("UDP {word}: {} lost", percent(one.loss()));
    let level = match on_path {
        _ if one.sent > 0 && one.seen.received == 0 => Level::Warning,
        LOSS_ERROR.. => Level::Error,
        LOSS_WARNING.. => Level::Warning,
        LOSS_NOTE.. => Level::Note,
        _ => Level::Ok,
    };
    let mend = match level {
        Level::Ok => None,
        _ => Some(
            "find where: drops on switch ports and in ethtool -S; a cable or an optic; a policer: \
             run this again at half of --udp-rate",
        ),
    };
    found.push(match mend {
        Some(mend) => Finding::new(level, Place::Path, what, evidence).mend(mend),
        None => Finding::ok(Place::Path, what, evidence),
    });
    if one.seen.overrun > 0 {
        let what = "the receiver had no room for all datagrams";
        let evidence = format!("{} arrived and were dropped {}", one.seen.overrun, receiver.word());
        let mend =
            "sysctl -w net.core.rmem_max=16777216, and run this again; it says nothing of TCP";
        found.push(Finding::new(Level::Note, receiver, what, evidence).mend(mend));
    }
    if one.seen.received > 0 && one.seen.reordered as f64 / one.seen.received as f64 > 1e-3 {
        let what = format!("packets overtake each other {word}");
        let evidence = format!("{} of {}", one.seen.reordered, one.seen.received);
        let mend =
            "links that are bundled by packet and not by flow? Set a hash of addresses and ports";
        found.push(Finding::new(Level::Warning, Place::Path, what, evidence).mend(mend));
    }
    if sent < seen.wanted as f64 * 0.9 {
        let sender = if way == Way::Out { Place::Here } else { Place::There };
        let what = "the sender could not send datagrams so fast";
        let evidence = format!("{} of {}", bit_rate(sent), bit_rate(seen.wanted as f64));
        found.push(Finding::new(Level::Note, sender, what, evidence));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far::FloodSeen;

    fn way(received: u64, overrun: u64, reordered: u64) -> UdpWay {
        let seen = FloodSeen { received, overrun, reordered, ..FloodSeen::default() };
        UdpWay { sent: 10_000, micros: 1_172_800, seen }
    }

    fn levels(out: UdpWay) -> Vec<Level> {
        let seen = UdpSeen {
            wanted: 100_000_000,
            size: 1400,
            on_wire: 1466,
            out,
            back: way(10_000, 0, 0),
        };
        udp(&seen).into_iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn loss_counts_by_its_share() {
        assert_eq!(levels(way(10_000, 0, 0)), [Level::Ok, Level::Ok]);
        assert_eq!(levels(way(9_990, 0, 0)), [Level::Warning, Level::Ok]);
        assert_eq!(levels(way(9_000, 0, 0)), [Level::Error, Level::Ok]);
    }

    #[test]
    fn what_the_receiver_dropped_is_not_the_paths_loss() {
        assert_eq!(levels(way(9_000, 1000, 0)), [Level::Ok, Level::Note, Level::Ok]);
    }

    #[test]
    fn packets_that_overtake_are_noticed() {
        assert_eq!(levels(way(10_000, 0, 50)), [Level::Ok, Level::Warning, Level::Ok]);
    }

    #[test]
    fn nonsense_of_a_far_end_is_judged_without_harm() {
        let mad =
            FloodSeen { received: u64::MAX, overrun: u64::MAX, reordered: 0, ..way(0, 0, 0).seen };
        assert_eq!(levels(UdpWay { seen: mad, ..way(0, 0, 0) })[0], Level::Ok);
        assert!(!levels(UdpWay::default()).is_empty());
    }
}
