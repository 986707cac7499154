//! Congestion control and queues.

use super::PathNeed;
use crate::evidence::{Device, Host};
use crate::finding::{Finding, Level, Place};

/// Judges the congestion control of a host. `losses` is whether TCP retransmitted on the path.
pub fn congestion(place: Place, host: &Host, path: Option<PathNeed>, losses: bool) -> Vec<Finding> {
    let tcp = &host.tcp;
    let Some(used) = tcp.congestion_control.as_deref() else { return Vec::new() };
    let long = path.is_none_or(|path| path.is_long());
    let evidence = format!("{used}; available: {}", tcp.available.join(" "));
    let advice = if tcp.available.iter().any(|name| name == "bbr") {
        "sysctl -w net.ipv4.tcp_congestion_control=bbr"
    } else {
        "modprobe tcp_bbr && sysctl -w net.ipv4.tcp_congestion_control=bbr"
    };
    let mut found = vec![match used {
        "reno" if long => {
            let what = "reno takes minutes to recover from one loss on a long path";
            Finding::new(Level::Warning, place, what, evidence).remedy(advice)
        }
        used if used != "bbr" && long && losses => {
            let what = format!("{used} slows down at each loss, and this long path loses packets");
            Finding::new(Level::Warning, place, what, evidence).remedy(advice)
        }
        used => Finding::ok(place, format!("congestion control is {used}"), evidence),
    }];
    if tcp.slow_start_after_idle == Some(1) && long {
        let what = "connections restart with a small window after an idle period";
        let level = if path.is_some() { Level::Warning } else { Level::Note };
        let finding =
            Finding::new(level, place, what, "net.ipv4.tcp_slow_start_after_idle=1".to_owned());
        found.push(finding.remedy("sysctl -w net.ipv4.tcp_slow_start_after_idle=0"));
    }
    if tcp.no_metrics_save == Some(0) && long && losses {
        let what = "new connections inherit a low window from earlier losses";
        let finding = Finding::new(Level::Note, place, what, "net.ipv4.tcp_no_metrics_save=0");
        found.push(finding.remedy("sysctl -w net.ipv4.tcp_no_metrics_save=1"));
    }
    found
}

/// Judges the queues of a host's interfaces and of its kernel.
pub fn queue(place: Place, host: &Host, path: Option<PathNeed>) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        host.relevant_devices().iter().flat_map(|device| of(place, host, device, path)).collect();
    found.extend(backlog(place, host));
    found
}

/// Queueing disciplines that limit the rate or drop packets on purpose.
const SHAPERS: [&str; 6] = ["tbf", "htb", "netem", "hfsc", "cbq", "ets"];
/// The least length of a fast interface's queue, in packets.
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
        let what = format!("a traffic shaper ({shaper}) limits {name}");
        let remedy = format!(
            "inspect it: tc -s qdisc show dev {name}; if it is not intended: tc qdisc delete dev \
            {name} root"
        );
        found.push(Finding::new(Level::Warning, place, what, evidence.clone()).remedy(remedy));
    }
    let fast = device.speed.is_some_and(|speed| speed >= 10_000);
    if fast && device.tx_queue_len.is_some_and(|len| len < QUEUE_LEN_LEAST) {
        let what = format!("the transmit queue of {name} is short");
        let remedy = format!("ip link set {name} txqueuelen 10000");
        found.push(Finding::new(Level::Note, place, what, evidence.clone()).remedy(remedy));
    }
    let paces = device.qdiscs.iter().any(|kind| kind == "fq");
    let long = path.is_some_and(|path| path.is_long());
    if long && device.physical && !paces && found.is_empty() {
        let what = format!("{name} does not pace packets: bursts may overflow switch buffers");
        // Under mq each queue has a discipline of its own; one fq for all would be a bottleneck.
        let root = if device.tx_queues > 1 { "mq" } else { "fq" };
        let remedy = format!(
            "sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev {name} root {root}"
        );
        found.push(Finding::new(Level::Note, place, what, evidence.clone()).remedy(remedy));
    }
    if found.is_empty() {
        found.push(Finding::ok(place, format!("the queue of {name} is suitable"), evidence));
    }
    found
}

fn backlog(place: Place, host: &Host) -> Option<Finding> {
    let softnet = host.softnet;
    (softnet.dropped > 0).then(|| {
        let what = "the kernel dropped received packets because its backlog was full";
        let evidence = format!(
            "{} of {} dropped since boot; netdev_max_backlog {}",
            softnet.dropped,
            softnet.processed,
            host.tcp.netdev_max_backlog.unwrap_or(0)
        );
        let remedy = "sysctl -w net.core.netdev_max_backlog=250000 net.core.netdev_budget=600";
        Finding::new(Level::Warning, place, what, evidence).remedy(remedy)
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
    fn cubic_is_ok_unless_a_long_path_loses_packets() {
        let level =
            |used, path, losses| congestion(Place::Local, &host(used), Some(path), losses)[0].level;
        assert_eq!(level("cubic", LONG, false), Level::Ok);
        assert_eq!(level("cubic", LONG, true), Level::Warning);
        assert_eq!(level("cubic", NEAR, true), Level::Ok);
        assert_eq!(level("bbr", LONG, true), Level::Ok);
        assert_eq!(level("reno", LONG, false), Level::Warning);
        let remedy = congestion(Place::Local, &host("reno"), Some(LONG), false)[0].remedy.clone();
        assert!(remedy.unwrap().starts_with("modprobe tcp_bbr"));
    }

    #[test]
    fn slow_start_after_idle_matters_on_long_paths() {
        let mut host = host("cubic");
        host.tcp.slow_start_after_idle = Some(1);
        assert_eq!(congestion(Place::Local, &host, Some(LONG), false).len(), 2);
        assert_eq!(congestion(Place::Local, &host, Some(NEAR), false).len(), 1);
    }

    #[test]
    fn shapers_short_queues_and_missing_pacing_are_reported() {
        let level = |change: fn(&mut Device), path| {
            let mut host = host("cubic");
            change(&mut host.devices[0]);
            queue(Place::Local, &host, Some(path))[0].level
        };
        assert_eq!(level(|_| {}, NEAR), Level::Ok);
        assert_eq!(level(|_| {}, LONG), Level::Note);
        assert_eq!(level(|device| device.qdiscs = vec!["fq".into()], LONG), Level::Ok);
        assert_eq!(level(|device| device.qdiscs = vec!["tbf".into()], NEAR), Level::Warning);
        assert_eq!(level(|device| device.tx_queue_len = Some(32), NEAR), Level::Note);
    }

    #[test]
    fn each_queue_of_a_device_is_to_pace() {
        let remedy = |tx_queues| {
            let mut host = host("cubic");
            host.devices[0].tx_queues = tx_queues;
            queue(Place::Local, &host, Some(LONG))[0].remedy.clone().unwrap()
        };
        assert!(remedy(1).ends_with("root fq"));
        assert!(remedy(16).ends_with("root mq"));
    }

    #[test]
    fn an_overflowed_backlog_is_reported() {
        let softnet = Softnet { processed: 1000, dropped: 3, squeezed: 0 };
        let host = Host { softnet, ..host("cubic") };
        let found = queue(Place::Remote, &host, Some(NEAR));
        assert_eq!((found.len(), found[1].level), (2, Level::Warning));
    }
}
