//! Congestion control and queues.

use super::PathNeed;
use crate::evidence::{Device, Host};
use crate::finding::{Finding, Level, Place};

/// Judges a host's congestion control. `losses` says whether packets were sent again on the path.
pub fn congestion(place: Place, host: &Host, path: Option<PathNeed>, losses: bool) -> Vec<Finding> {
    let tcp = &host.tcp;
    let Some(used) = tcp.congestion_control.as_deref() else { return Vec::new() };
    let long = path.is_none_or(|path| path.is_long());
    let evidence = format!("{used}; available: {}", tcp.available.join(" "));
    let advice = match tcp.available.iter().any(|name| name == "bbr") {
        true => "sysctl -w net.ipv4.tcp_congestion_control=bbr",
        false => "modprobe tcp_bbr && sysctl -w net.ipv4.tcp_congestion_control=bbr",
    };
    let mut found = vec![match used {
        "reno" if long => {
            let what = "reno takes minutes to fill a long path again after one loss";
            Finding::new(Level::Warning, place, what, evidence).mend(advice)
        }
        used if used != "bbr" && long && losses => {
            let what = format!("{used} slows down at each loss, and this long path loses packets");
            Finding::new(Level::Warning, place, what, evidence).mend(advice)
        }
        used => Finding::ok(place, format!("congestion control is {used}"), evidence),
    }];
    if tcp.slow_start_after_idle == Some(1) && long {
        let what = "a connection that paused begins again with a small window";
        let level = if path.is_some() { Level::Warning } else { Level::Note };
        let finding =
            Finding::new(level, place, what, "net.ipv4.tcp_slow_start_after_idle=1".to_owned());
        found.push(finding.mend("sysctl -w net.ipv4.tcp_slow_start_after_idle=0"));
    }
    if tcp.no_metrics_save == Some(0) && long && losses {
        let what = "one connection's losses hold down the next ones";
        let finding = Finding::new(Level::Note, place, what, "net.ipv4.tcp_no_metrics_save=0");
        found.push(finding.mend("sysctl -w net.ipv4.tcp_no_metrics_save=1"));
    }
    found
}

/// Judges the queues of a host's interfaces, and of its kernel.
pub fn queue(place: Place, host: &Host, path: Option<PathNeed>) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        host.relevant_devices().iter().flat_map(|device| of(place, host, device, path)).collect();
    found.extend(backlog(place, host));
    found
}

/// Disciplines that let a rate through, or lose on purpose.
const SHAPERS: [&str; 6] = ["tbf", "htb", "netem", "hfsc", "cbq", "ets"];
/// Packets for which a queue of a fast interface has room.
const QUEUE_LEN_LEAST: u64 = 1000;

fn of(place: Place, host: &Host, device: &Device, path: Option<PathNeed>) -> Vec<Finding> {
    let name = &device.name;
    let qdiscs = device.qdiscs.join(" ");
    let evidence = format!(
        "{name}: {}, {} dropped, txqueuelen {}; default {}",
        if qdiscs.is_empty() { "unknown" } else { &qdiscs },
        device.qdisc_drops,
        device.tx_queue_len.map_or("unknown".into(), |len| len.to_string()),
        host.tcp.default_qdisc.as_deref().unwrap_or("unknown")
    );
    let mut found = Vec::new();
    if let Some(shaper) = device.qdiscs.iter().find(|kind| SHAPERS.contains(&kind.as_str())) {
        let what = format!("{name} is held down by a shaper ({shaper})");
        let mend = format!(
            "see tc -s qdisc show dev {name}; if nobody wants it: tc qdisc delete dev {name} root"
        );
        found.push(Finding::new(Level::Warning, place, what, evidence.clone()).mend(mend));
    }
    let fast = device.speed.is_some_and(|speed| speed >= 10_000);
    if fast && device.tx_queue_len.is_some_and(|len| len < QUEUE_LEN_LEAST) {
        let what = format!("the queue of {name} is short");
        let mend = format!("ip link set {name} txqueuelen 10000");
        found.push(Finding::new(Level::Note, place, what, evidence.clone()).mend(mend));
    }
    let paces = device.qdiscs.iter().any(|kind| kind == "fq");
    let long = path.is_some_and(|path| path.is_long());
    if long && device.physical && !paces && found.is_empty() {
        let what = format!("{name} does not pace: bursts may overrun a switch on a long path");
        let mend =
            format!("sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev {name} root fq");
        found.push(Finding::new(Level::Note, place, what, evidence.clone()).mend(mend));
    }
    if found.is_empty() {
        found.push(Finding::ok(place, format!("the queue of {name} is as it should be"), evidence));
    }
    found
}

fn backlog(place: Place, host: &Host) -> Option<Finding> {
    let softnet = host.softnet;
    (softnet.dropped > 0).then(|| {
        let what = "the kernel had no room for packets that came";
        let evidence = format!(
            "{} of {} dropped since the host started; netdev_max_backlog {}",
            softnet.dropped,
            softnet.processed,
            host.tcp.netdev_max_backlog.unwrap_or(0)
        );
        let mend = "sysctl -w net.core.netdev_max_backlog=250000 net.core.netdev_budget=600";
        Finding::new(Level::Warning, place, what, evidence).mend(mend)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Softnet, TcpSettings};

    const LONG: PathNeed = PathNeed { rate: 1e9, round_trip_us: 50_000.0 };
    const NEAR: PathNeed = PathNeed { rate: 1e9, round_trip_us: 100.0 };

    fn host(used: &str) -> Host {
        let tcp = TcpSettings {
            congestion_control: Some(used.into()),
            available: vec!["reno".into(), "cubic".into()],
            slow_start_after_idle: Some(0),
            ..TcpSettings::default()
        };
        let device = Device {
            name: "eth0".into(),
            physical: true,
            speed: Some(100_000),
            tx_queue_len: Some(1000),
            qdiscs: vec!["mq".into(), "fq_codel".into()],
            ..Device::default()
        };
        Host { tcp, device: Some("eth0".into()), devices: vec![device], ..Host::default() }
    }

    #[test]
    fn cubic_is_fine_until_a_long_path_loses() {
        let level =
            |used, path, losses| congestion(Place::Here, &host(used), Some(path), losses)[0].level;
        assert_eq!(level("cubic", LONG, false), Level::Ok);
        assert_eq!(level("cubic", LONG, true), Level::Warning);
        assert_eq!(level("cubic", NEAR, true), Level::Ok);
        assert_eq!(level("bbr", LONG, true), Level::Ok);
        assert_eq!(level("reno", LONG, false), Level::Warning);
        let mend = congestion(Place::Here, &host("reno"), Some(LONG), false)[0].mend.clone();
        assert!(mend.unwrap().starts_with("modprobe tcp_bbr"));
    }

    #[test]
    fn windows_that_shrink_in_pauses_matter_on_long_paths() {
        let mut host = host("cubic");
        host.tcp.slow_start_after_idle = Some(1);
        assert_eq!(congestion(Place::Here, &host, Some(LONG), false).len(), 2);
        assert_eq!(congestion(Place::Here, &host, Some(NEAR), false).len(), 1);
    }

    #[test]
    fn shapers_short_queues_and_bursts_are_told() {
        let level = |change: fn(&mut Device), path| {
            let mut host = host("cubic");
            change(&mut host.devices[0]);
            queue(Place::Here, &host, Some(path))[0].level
        };
        assert_eq!(level(|_| {}, NEAR), Level::Ok);
        assert_eq!(level(|_| {}, LONG), Level::Note);
        assert_eq!(level(|device| device.qdiscs = vec!["fq".into()], LONG), Level::Ok);
        assert_eq!(level(|device| device.qdiscs = vec!["tbf".into()], NEAR), Level::Warning);
        assert_eq!(level(|device| device.tx_queue_len = Some(32), NEAR), Level::Note);
    }

    #[test]
    fn a_backlog_that_overflowed_is_told() {
        let softnet = Softnet { processed: 1000, dropped: 3, squeezed: 0 };
        let host = Host { softnet, ..host("cubic") };
        let found = queue(Place::There, &host, Some(NEAR));
        assert_eq!((found.len(), found[1].level), (2, Level::Warning));
    }
}
