//! A network interface.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::command::output;
use super::interrupts::{self, Interrupt};
use super::{entries, number, read};

/// A network interface of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// Whether the link is up, as far as the kernel knows.
    pub up: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether it is a device of the hardware or of a hypervisor.
    pub physical: bool,
    /// The MTU, in bytes.
    pub mtu: u32,
    /// The link's speed in Mbit/s, if it has one.
    pub speed: Option<u64>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// The driver.
    pub driver: Option<String>,
    /// The NUMA node that it is attached to.
    pub numa_node: Option<i32>,
    /// The length of its transmit queue, in packets.
    pub tx_queue_len: Option<u64>,
    /// The queueing disciplines: the root first, then its children.
    pub qdiscs: Vec<String>,
    /// Packets that its queueing disciplines dropped.
    pub qdisc_drops: u64,
    /// Its rings.
    pub rings: Option<Rings>,
    /// Offloads by ethtool's names, and whether they are on; those that are fixed off are left out.
    pub offloads: BTreeMap<String, bool>,
    /// Receive queues.
    pub rx_queues: u32,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues with RPS enabled.
    pub rps_queues: u32,
    /// Transmit queues with XPS enabled.
    pub xps_queues: u32,
    /// Its interrupts.
    pub interrupts: Vec<Interrupt>,
    /// Packet and error counters since the interface exists.
    pub counters: Counters,
}

/// The lengths of the rings, and their maximums, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Rings {
    pub rx: u32,
    pub rx_max: u32,
    pub tx: u32,
    pub tx_max: u32,
}

/// Counters of the kernel, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Counters {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_errors: u64,
    pub rx_crc_errors: u64,
    pub rx_missed: u64,
    pub rx_dropped: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

/// Returns every interface that has an address.
pub(super) fn all() -> Vec<Device> {
    let found = fulmar_net::interfaces().unwrap_or_default();
    found.into_iter().filter(|one| !one.name.contains(':')).map(device).collect()
}

fn device(interface: fulmar_net::Interface) -> Device {
    let name = interface.name;
    let base = Path::new("/sys/class/net").join(&name);
    let at = |path: &str| base.join(path);
    let driver = std::fs::read_link(at("device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let queues = entries(at("queues"));
    let count = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).count() as u32;
    let spread = |kind: &str, file: &str| {
        let masks = queues.iter().filter(|queue| queue.starts_with(kind));
        let masks = masks.filter_map(|queue| read(base.join("queues").join(queue).join(file)));
        masks.filter(|mask| mask.chars().any(|c| !matches!(c, '0' | ','))).count() as u32
    };
    let (qdiscs, qdisc_drops) = output("tc", &["-s", "-j", "qdisc", "show", "dev", &name])
        .map(|text| qdiscs(&text))
        .unwrap_or_default();
    Device {
        up: interface.up,
        loopback: name == "lo",
        physical: at("device").exists(),
        mtu: number(at("mtu")).unwrap_or(0),
        // Some virtual devices report -1, and a veth pair reports a meaningless number.
        speed: interface.speed.filter(|speed| is_real(&base) && (1..10_000_000).contains(speed)),
        duplex: read(at("duplex")).filter(|duplex| duplex != "unknown"),
        driver,
        numa_node: number(at("device/numa_node")).filter(|node| *node >= 0),
        tx_queue_len: number(at("tx_queue_len")),
        qdiscs,
        qdisc_drops,
        rings: output("ethtool", &["-g", &name]).and_then(|text| rings(&text)),
        offloads: output("ethtool", &["-k", &name]).map(|text| offloads(&text)).unwrap_or_default(),
        rx_queues: count("rx-"),
        tx_queues: count("tx-"),
        rps_queues: spread("rx-", "rps_cpus"),
        xps_queues: spread("tx-", "xps_cpus"),
        interrupts: interrupts::of(&name, &base),
        counters: counters(&base),
        addresses: interface.addresses,
        name,
    }
}

/// Returns whether a device is hardware, or built on hardware, such as a bond.
fn is_real(base: &Path) -> bool {
    let kind = read(base.join("uevent")).unwrap_or_default();
    let made = ["DEVTYPE=bond", "DEVTYPE=vlan", "DEVTYPE=team"];
    base.join("device").exists() || kind.lines().any(|line| made.contains(&line))
}

fn counters(base: &Path) -> Counters {
    let of = |name: &str| number(base.join("statistics").join(name)).unwrap_or(0);
    Counters {
        rx_packets: of("rx_packets"),
        tx_packets: of("tx_packets"),
        rx_errors: of("rx_errors"),
        rx_crc_errors: of("rx_crc_errors"),
        rx_missed: of("rx_missed_errors"),
        rx_dropped: of("rx_dropped"),
        tx_errors: of("tx_errors"),
        tx_dropped: of("tx_dropped"),
    }
}

/// Parses the output of `tc -s -j qdisc`: kinds, root first, and drops.
fn qdiscs(text: &str) -> (Vec<String>, u64) {
    let list: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let (mut root, mut children) = (Vec::new(), Vec::new());
    let mut drops = 0_u64;
    for qdisc in &list {
        let Some(kind) = qdisc["kind"].as_str() else { continue };
        let is_root = qdisc["root"].as_bool() == Some(true);
        let kinds = if is_root { &mut root } else { &mut children };
        if !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
        // The root's counter includes the drops of its children.
        if is_root {
            drops = drops.saturating_add(qdisc["drops"].as_u64().unwrap_or(0));
        }
    }
    children.retain(|kind| !root.contains(kind));
    root.append(&mut children);
    (root, drops)
}

/// Parses the output of `ethtool -g`.
fn rings(text: &str) -> Option<Rings> {
    let (maximums, current) = text.split_once("Current hardware settings")?;
    let of = |part: &str, name: &str| -> Option<u32> {
        let line = part.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        line?.trim().parse().ok()
    };
    Some(Rings {
        rx: of(current, "RX")?,
        rx_max: of(maximums, "RX")?,
        tx: of(current, "TX")?,
        tx_max: of(maximums, "TX")?,
    })
}

/// Parses the output of `ethtool -k`: the offloads that matter to TCP and are not fixed off.
fn offloads(text: &str) -> BTreeMap<String, bool> {
    const NAMES: [&str; 7] = [
        "rx-checksumming",
        "tx-checksumming",
        "scatter-gather",
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "large-receive-offload",
    ];
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let known = NAMES.contains(&name) && !(value.contains("off") && value.contains("fixed"));
        known.then(|| (name.to_owned(), value.trim().starts_with("on")))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_parsed_from_ethtool_output() {
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\n\
                    TX:\t\t4096\nCurrent hardware settings:\nRX:\t\t512\nRX Mini:\tn/a\nTX:\t\t1024\n";
        assert_eq!(rings(text), Some(Rings { rx: 512, rx_max: 4096, tx: 1024, tx_max: 4096 }));
        assert_eq!(rings("netlink error: Operation not supported"), None);
    }

    #[test]
    fn offloads_that_are_fixed_off_are_left_out() {
        let text = "Features for eth0:\nrx-checksumming: on [fixed]\n\
                    tcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\n\
                    generic-receive-offload: on\nlarge-receive-offload: off [fixed]\n";
        let expected = [
            ("generic-receive-offload".to_owned(), true),
            ("rx-checksumming".to_owned(), true),
            ("tcp-segmentation-offload".to_owned(), false),
        ];
        assert_eq!(offloads(text), expected.into());
    }

    #[test]
    fn the_root_of_the_queueing_disciplines_comes_first() {
        let text = r#"[{"kind":"fq_codel","parent":":2","drops":3},
            {"kind":"mq","root":true,"drops":4},{"kind":"fq_codel","parent":":1","drops":1}]"#;
        assert_eq!(qdiscs(text), (vec!["mq".to_owned(), "fq_codel".to_owned()], 4));
        assert_eq!(qdiscs("what"), (vec![], 0));
    }

    #[test]
    fn loopback_is_found() {
        let all = all();
        let lo = all.iter().find(|device| device.loopback).unwrap();
        assert!(lo.up && !lo.physical && lo.mtu > 1500, "{lo:?}");
    }
}
