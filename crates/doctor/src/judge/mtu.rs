//! The path's MTU.

use crate::finding::{Finding, Level, Place};
use crate::measure::MtuSeen;

/// Judges what passes uncut. `device` is our interface's name, `probing` the sysctl
/// `tcp_mtu_probing` here.
pub fn mtu(seen: &MtuSeen, device: &str, probing: u32) -> Vec<Finding> {
    let (Some(out), Some(back)) = (seen.out, seen.back) else { return vec![nothing(seen)] };
    let evidence = format!(
        "{out} bytes to the far end, {back} from it; interfaces carry {} here, {} there",
        seen.here, seen.there
    );
    let mut found = Vec::new();
    let full = seen.here.min(seen.there);
    // Packets that are larger than the other end takes are a matter of both interfaces.
    let narrow = out.min(back);
    if narrow >= full {
        found.push(Finding::ok(
            Place::Path,
            format!("the path carries {narrow} bytes uncut"),
            evidence,
        ));
        if seen.here != seen.there {
            found.push(unequal(seen));
        }
        return found;
    }
    let ways = [
        (Place::Here, out, seen.here, seen.learned),
        (Place::There, back, seen.there, seen.learned_there),
    ];
    let vanish = |(_, carried, sent, learned): &(Place, u32, u32, Option<u32>)| {
        carried < sent && learned.is_some_and(|learned| learned > *carried)
    };
    let mut holes = ways.into_iter().filter(vanish).peekable();
    if holes.peek().is_none() {
        let what = format!("the path carries only {narrow} bytes uncut, and the interfaces {full}");
        let mend = format!(
            "raise the MTU on the routers and switches between (tracepath -n shows where it falls), \
             or ip link set {device} mtu {narrow} at both ends"
        );
        found.push(Finding::new(Level::Warning, Place::Path, what, &evidence).mend(mend));
    }
    for (place, _, _, learned) in holes {
        let (whence, device) = match place {
            Place::Here => ("from here", device),
            _ => ("from there", "DEV"),
        };
        let what =
            format!("packets {whence} that are too large vanish without a word (a black hole)");
        let level = if probing == 0 { Level::Error } else { Level::Warning };
        let learned = learned.unwrap_or_default();
        let evidence =
            format!("{evidence}; the kernel {} still believes in {learned}", place.word());
        let mend = format!(
            "{}: ip link set {device} mtu {narrow}; better: let ICMP \"fragmentation needed\" pass; \
             until then, at both ends: sysctl -w net.ipv4.tcp_mtu_probing=1",
            place.word()
        );
        found.push(Finding::new(level, Place::Path, what, evidence).mend(mend));
    }
    if out.abs_diff(back) > 0 && out.min(seen.there) != back.min(seen.here) {
        let what = "the ways there and back carry different packets";
        let evidence = format!("{out} bytes to the far end, {back} from it");
        found.push(Finding::new(Level::Note, Place::Path, what, evidence));
    }
    found
}

fn nothing(seen: &MtuSeen) -> Finding {
    let way = match (seen.out, seen.back) {
        (Some(_), None) => "no datagram comes back that was not asked for",
        _ => "no datagram gets through",
    };
    let mend = format!(
        "let UDP port {} pass on firewalls between and there, and run this again",
        crate::far::PORT
    );
    Finding::new(Level::Warning, Place::Path, "the path's MTU cannot be measured", way).mend(mend)
}

fn unequal(seen: &MtuSeen) -> Finding {
    let evidence = format!("{} bytes here, {} there", seen.here, seen.there);
    let what = "both ends have different MTUs";
    let mend = "set the same MTU on every host of a network: ip link set DEV mtu SIZE";
    Finding::new(Level::Note, Place::Path, what, evidence).mend(mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(seen: MtuSeen) -> (Level, String) {
        let worst = mtu(&seen, "eth0", 0).into_iter().max_by_key(|finding| finding.level).unwrap();
        (worst.level, worst.mend.unwrap_or_default())
    }

    const GOOD: MtuSeen = MtuSeen {
        here: 9000,
        there: 9000,
        out: Some(9000),
        back: Some(9000),
        learned: None,
        learned_there: None,
    };

    #[test]
    fn a_path_that_carries_what_its_ends_do_is_fine() {
        assert_eq!(judged(GOOD).0, Level::Ok);
    }

    #[test]
    fn a_narrow_router_is_a_warning_if_it_says_so_and_an_error_if_not() {
        let narrow = MtuSeen { out: Some(1400), back: Some(1400), ..GOOD };
        let (level, mend) = judged(MtuSeen { learned: Some(1400), ..narrow });
        assert!(level == Level::Warning && mend.contains("tracepath"), "{mend}");
        let (level, mend) = judged(MtuSeen { learned: Some(9000), ..narrow });
        assert!(level == Level::Error && mend.contains("mtu 1400"), "{mend}");
        let back = MtuSeen { back: Some(1504), learned: Some(1400), ..narrow };
        let (level, mend) = judged(MtuSeen { learned_there: Some(9000), ..back });
        assert!(level == Level::Error && mend.starts_with("there: "), "{mend}");
        assert!(mend.contains("mtu 1400"), "{mend}");
        let probing = mtu(&MtuSeen { learned: Some(9000), ..narrow }, "eth0", 1);
        assert_eq!(probing[0].level, Level::Warning);
    }

    #[test]
    fn ends_that_differ_and_ends_that_hear_nothing_are_told() {
        let differ = MtuSeen { here: 1500, out: Some(1500), back: Some(1500), ..GOOD };
        assert_eq!(judged(differ).0, Level::Note);
        let (level, mend) = judged(MtuSeen { out: None, back: None, ..GOOD });
        assert!(level == Level::Warning && mend.contains("7988"), "{mend}");
    }
}
