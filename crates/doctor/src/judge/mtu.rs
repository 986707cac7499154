//! The path MTU.

use crate::finding::{Finding, Level, Place};
use crate::measure::MtuResult;

/// Judges the path MTU. `device` is the name of the local interface, `probing` the local sysctl
/// `tcp_mtu_probing`.
pub fn mtu(seen: &MtuResult, device: &str, probing: u32) -> Vec<Finding> {
    let ways = if seen.one_way { (seen.out, seen.out) } else { (seen.out, seen.back) };
    let (Some(out), Some(back)) = ways else { return vec![nothing(seen)] };
    let evidence = if seen.one_way {
        format!(
            "path MTU {out} to the remote host by ICMP echoes; interface MTU {} local",
            seen.local
        )
    } else {
        format!(
            "path MTU {out} to the remote host, {back} from it; interface MTU {} local, {} remote",
            seen.local, seen.remote
        )
    };
    let mut found = Vec::new();
    let full = seen.local.min(seen.remote);
    // An unequal MTU of both interfaces is a finding of its own.
    let narrow = out.min(back);
    if narrow >= full {
        found.push(Finding::ok(Place::Path, format!("the path MTU is {narrow} bytes"), evidence));
        if seen.local != seen.remote {
            found.push(unequal(seen));
        }
        return found;
    }
    let directions = [
        (Place::Local, out, seen.local, seen.learned),
        (Place::Remote, back, seen.remote, seen.learned_remote),
    ];
    let vanishes = |(_, carried, sent, learned): &(Place, u32, u32, Option<u32>)| {
        carried < sent && learned.is_some_and(|learned| learned > *carried)
    };
    let mut black_holes = directions.into_iter().filter(vanishes).peekable();
    if black_holes.peek().is_none() {
        let what = format!("the path MTU is only {narrow} bytes; the interfaces have {full}");
        let remedy = format!(
            "raise the MTU of the routers and switches on the path (tracepath -n shows where it is \
            lower), or on both hosts: ip link set {device} mtu {narrow}"
        );
        found.push(Finding::new(Level::Warning, Place::Path, what, &evidence).remedy(remedy));
    }
    for (place, _, _, learned) in black_holes {
        let (origin, device) = match place {
            Place::Local => ("from the local host", device),
            _ => ("from the remote host", "DEV"),
        };
        let what = format!(
            "packets {origin} above the path MTU are lost without an ICMP error (black hole)"
        );
        let level = if probing == 0 { Level::Error } else { Level::Warning };
        let learned = learned.unwrap_or_default();
        let evidence =
            format!("{evidence}; the {} kernel still uses a path MTU of {learned}", place.word());
        let remedy = format!(
            "on the {} host: ip link set {device} mtu {narrow}; better: let firewalls pass ICMP \
             \"fragmentation needed\"; until then, on both hosts: sysctl -w \
             net.ipv4.tcp_mtu_probing=1",
            place.word()
        );
        found.push(Finding::new(level, Place::Path, what, evidence).remedy(remedy));
    }
    if out.abs_diff(back) > 0 && out.min(seen.remote) != back.min(seen.local) {
        let what = "the path MTU differs between the two directions";
        let evidence = format!("{out} bytes to the remote host, {back} from it");
        found.push(Finding::new(Level::Note, Place::Path, what, evidence));
    }
    found
}

fn nothing(seen: &MtuResult) -> Finding {
    if seen.one_way {
        let what = "the path MTU cannot be measured";
        let evidence = "no ICMP echo of 576 bytes is answered by the remote host";
        let remedy = "let ICMP echoes pass, or run \"fulmar doctor serve\" on the remote host";
        return Finding::new(Level::Note, Place::Path, what, evidence).remedy(remedy);
    }
    let evidence = match (seen.out, seen.back) {
        (Some(_), None) => "datagrams reach the remote host, but none from it arrive",
        _ => "no datagram reaches the remote host and is answered",
    };
    let remedy = format!(
        "let UDP port {} pass on all firewalls between both hosts, and repeat the check",
        crate::remote::PORT
    );
    let what = "the path MTU cannot be measured";
    Finding::new(Level::Warning, Place::Path, what, evidence).remedy(remedy)
}

fn unequal(seen: &MtuResult) -> Finding {
    let evidence = format!("{} bytes local, {} bytes remote", seen.local, seen.remote);
    let what = "the interfaces of both hosts have different MTUs";
    let remedy = "set the same MTU on every host of a network: ip link set DEV mtu SIZE";
    Finding::new(Level::Note, Place::Path, what, evidence).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(seen: MtuResult) -> (Level, String) {
        let worst = mtu(&seen, "eth0", 0).into_iter().max_by_key(|finding| finding.level).unwrap();
        (worst.level, worst.remedy.unwrap_or_default())
    }

    const GOOD: MtuResult = MtuResult {
        local: 9000,
        remote: 9000,
        out: Some(9000),
        back: Some(9000),
        learned: None,
        learned_remote: None,
        one_way: false,
    };

    #[test]
    fn a_path_with_the_mtu_of_its_interfaces_is_ok() {
        assert_eq!(judged(GOOD).0, Level::Ok);
    }

    #[test]
    fn a_narrow_router_is_a_warning_with_icmp_and_an_error_without() {
        let narrow = MtuResult { out: Some(1400), back: Some(1400), ..GOOD };
        let (level, remedy) = judged(MtuResult { learned: Some(1400), ..narrow });
        assert!(level == Level::Warning && remedy.contains("tracepath"), "{remedy}");
        let (level, remedy) = judged(MtuResult { learned: Some(9000), ..narrow });
        assert!(level == Level::Error && remedy.contains("mtu 1400"), "{remedy}");
        let back = MtuResult { back: Some(1504), learned: Some(1400), ..narrow };
        let (level, remedy) = judged(MtuResult { learned_remote: Some(9000), ..back });
        assert!(level == Level::Error && remedy.starts_with("on the remote host: "), "{remedy}");
        assert!(remedy.contains("mtu 1400"), "{remedy}");
        let probing = mtu(&MtuResult { learned: Some(9000), ..narrow }, "eth0", 1);
        assert_eq!(probing[0].level, Level::Warning);
    }

    #[test]
    fn without_a_server_the_way_out_is_judged() {
        let echoes = MtuResult { back: None, one_way: true, ..GOOD };
        assert_eq!(judged(echoes).0, Level::Ok);
        let (level, remedy) = judged(MtuResult { out: Some(1400), learned: Some(1400), ..echoes });
        assert!(level == Level::Warning && remedy.contains("tracepath"), "{remedy}");
        let (level, remedy) = judged(MtuResult { out: Some(1400), learned: Some(9000), ..echoes });
        assert!(level == Level::Error && remedy.starts_with("on the local host: "), "{remedy}");
        let (level, remedy) = judged(MtuResult { out: None, ..echoes });
        assert!(level == Level::Note && remedy.contains("doctor serve"), "{remedy}");
    }

    #[test]
    fn different_mtus_and_blocked_datagrams_are_reported() {
        let differ = MtuResult { local: 1500, out: Some(1500), back: Some(1500), ..GOOD };
        assert_eq!(judged(differ).0, Level::Note);
        let (level, remedy) = judged(MtuResult { out: None, back: None, ..GOOD });
        assert!(level == Level::Warning && remedy.contains("7988"), "{remedy}");
    }
}
