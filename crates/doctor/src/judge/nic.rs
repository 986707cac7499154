//! Network interfaces: link, rings, offloads, interrupts.

use crate::evidence::{Device, Host};
use crate::finding::{Finding, Level, Place};

/// Judges links, rings and errors.
pub fn nic(place: Place, host: &Host) -> Vec<Finding> {
    host.relevant_devices().iter().flat_map(|device| link(place, device)).collect()
}

fn link(place: Place, device: &Device) -> Vec<Finding> {
    let name = &device.name;
    let speed = device.speed.map(|speed| format!("{speed} Mbit/s"));
    let evidence = format!(
        "{name}: {}, MTU {}, driver {}",
        speed.unwrap_or_else(|| "speed unknown".into()),
        device.mtu,
        device.driver.as_deref().unwrap_or("none")
    );
    let mut found = Vec::new();
    if !device.up {
        let remedy = format!("ip link set {name} up; see dmesg, the cable and the switch");
        let what = format!("{name} is down");
        return vec![Finding::new(Level::Error, place, what, evidence).remedy(remedy)];
    }
    if device.duplex.as_deref() == Some("half") {
        let what = format!("{name} runs at half duplex");
        let remedy =
            format!("ethtool -s {name} autoneg on; enable autonegotiation on the switch too");
        found.push(Finding::new(Level::Warning, place, what, evidence.clone()).remedy(remedy));
    }
    found.extend(errors(place, device));
    found.extend(rings(place, device));
    if found.is_empty() {
        found.push(Finding::ok(place, format!("{name} works without errors"), evidence));
    }
    found
}

/// A smaller share of errors is normal on a link that is up for long.
const ERRORS_SHARE: f64 = 1e-7;

fn errors(place: Place, device: &Device) -> Option<Finding> {
    let (name, counters) = (&device.name, device.counters);
    let bad = counters
        .rx_errors
        .saturating_add(counters.rx_crc_errors)
        .saturating_add(counters.rx_missed)
        .saturating_add(counters.tx_errors);
    let all = counters.rx_packets.saturating_add(counters.tx_packets);
    (bad > 0 && bad as f64 > all as f64 * ERRORS_SHARE).then(|| {
        let what = format!("{name} has errors");
        let evidence = format!(
            "receive: {} errors ({} CRC), {} missed, {} packets; send: {} errors",
            counters.rx_errors,
            counters.rx_crc_errors,
            counters.rx_missed,
            counters.rx_packets,
            counters.tx_errors
        );
        let remedy = if counters.rx_missed > counters.rx_errors {
            format!("the host receives too slowly: enlarge the rings with ethtool -G {name}")
        } else {
            "replace cable, transceiver and switch port one by one, and watch ethtool -S".to_owned()
        };
        Finding::new(Level::Warning, place, what, evidence).remedy(remedy)
    })
}

fn rings(place: Place, device: &Device) -> Option<Finding> {
    let (name, rings) = (&device.name, device.rings?);
    let small = rings.rx < rings.rx_max || rings.tx < rings.tx_max;
    let fast = device.speed.is_some_and(|speed| speed >= 10_000);
    let missed = device.counters.rx_missed > 0 || device.counters.rx_dropped > 0;
    (small && (fast || missed)).then(|| {
        let what = format!("the rings of {name} are smaller than possible");
        let evidence = format!(
            "rx {} of {}, tx {} of {}; {} missed, {} dropped",
            rings.rx,
            rings.rx_max,
            rings.tx,
            rings.tx_max,
            device.counters.rx_missed,
            device.counters.rx_dropped
        );
        let level = if device.counters.rx_missed > 0 { Level::Warning } else { Level::Note };
        let remedy = format!("ethtool -G {name} rx {} tx {}", rings.rx_max, rings.tx_max);
        Finding::new(level, place, what, evidence).remedy(remedy)
    })
}

/// Judges offloads.
pub fn offload(place: Place, host: &Host) -> Vec<Finding> {
    let devices = host.relevant_devices();
    let devices = devices.iter().filter(|device| !device.offloads.is_empty());
    devices.map(|device| offloads(place, device)).collect()
}

/// Offload names in the output of ethtool, and on its command line.
const OFFLOADS: [(&str, &str); 6] = [
    ("rx-checksumming", "rx"),
    ("tx-checksumming", "tx"),
    ("scatter-gather", "sg"),
    ("tcp-segmentation-offload", "tso"),
    ("generic-segmentation-offload", "gso"),
    ("generic-receive-offload", "gro"),
];

fn offloads(place: Place, device: &Device) -> Finding {
    let name = &device.name;
    let known = |on: bool| -> Vec<&str> {
        let known = OFFLOADS.iter().filter(|(long, _)| device.offloads.get(*long) == Some(&on));
        known.map(|(_, short)| *short).collect()
    };
    let (on, off) = (known(true), known(false));
    let evidence = format!("{name}: on: {}", on.join(" "));
    if off.is_empty() {
        return Finding::ok(place, format!("all offloads of {name} are on"), evidence);
    }
    let what = format!("offloads of {name} are off: {}", off.join(", "));
    let words: Vec<String> = off.iter().map(|short| format!("{short} on")).collect();
    let remedy = format!("ethtool -K {name} {}", words.join(" "));
    // Virtual devices often have good reasons to turn offloads off.
    let level = if device.physical { Level::Warning } else { Level::Note };
    Finding::new(level, place, what, evidence).remedy(remedy)
}

/// Judges how interrupts are spread over CPUs.
pub fn irq(place: Place, host: &Host) -> Vec<Finding> {
    let devices = host.relevant_devices();
    devices
        .iter()
        .filter(|device| device.physical)
        .flat_map(|device| interrupts(place, host, device))
        .collect()
}

/// Interrupts with a lower count are ignored.
const COUNT_LEAST: u64 = 10_000;

fn interrupts(place: Place, host: &Host, device: &Device) -> Vec<Finding> {
    let name = &device.name;
    let fast = device.speed.is_some_and(|speed| speed >= 10_000);
    let evidence = format!(
        "{name}: {} receive and {} send queues, {} with RPS, {} with XPS, {} interrupts, {} CPUs",
        device.rx_queues,
        device.tx_queues,
        device.rps_queues,
        device.xps_queues,
        device.interrupts.len(),
        host.processors
    );
    let mut found = Vec::new();
    let busy: Vec<_> =
        device.interrupts.iter().filter(|interrupt| interrupt.count >= COUNT_LEAST).collect();
    let first = busy.first().and_then(|interrupt| interrupt.busiest);
    if busy.len() > 1 && busy.iter().all(|interrupt| interrupt.busiest == first) {
        let what = format!("one CPU handles all interrupts of {name}");
        let evidence = format!("CPU {} handles {} interrupts", first.unwrap_or(0), busy.len());
        let remedy =
            "systemctl enable --now irqbalance, or run the driver's script set_irq_affinity";
        found.push(Finding::new(Level::Warning, place, what, evidence).remedy(remedy));
    }
    if fast && device.rx_queues == 1 && device.rps_queues == 0 && host.processors > 1 {
        let what = format!("one CPU handles all packets of {name}");
        let remedy = format!(
            "ethtool -L {name} combined {0}, or: echo {1} \
             >/sys/class/net/{name}/queues/rx-0/rps_cpus",
            host.processors.min(8),
            "ff"
        );
        found.push(Finding::new(Level::Warning, place, what, evidence.clone()).remedy(remedy));
    }
    found.extend(remote_node(place, host, device));
    if found.is_empty() {
        found.push(Finding::ok(
            place,
            format!("interrupts of {name} are spread over CPUs"),
            evidence,
        ));
    }
    found
}

/// Finds interrupts that are handled on another NUMA node than the device's.
fn remote_node(place: Place, host: &Host, device: &Device) -> Option<Finding> {
    if host.numa.len() < 2 {
        return None;
    }
    let node = device.numa_node?;
    let near = host.numa.get(usize::try_from(node).ok()?)?;
    let strays = device.interrupts.iter().filter(|interrupt| {
        let busiest = interrupt.busiest.filter(|_| interrupt.count >= COUNT_LEAST);
        busiest.is_some_and(|cpu| !holds(near, cpu))
    });
    let strays = strays.count();
    (strays > 0).then(|| {
        let name = &device.name;
        let what = format!("interrupts of {name} are handled on another NUMA node");
        let evidence = format!(
            "{strays} of {} outside NUMA node {node} (CPUs {near})",
            device.interrupts.len()
        );
        let remedy = format!(
            "for each N in /sys/class/net/{name}/device/msi_irqs: echo {near} \
             >/proc/irq/N/smp_affinity_list"
        );
        Finding::new(Level::Note, place, what, evidence).remedy(remedy)
    })
}

/// Returns whether a list such as `0-3,8` contains a number.
fn holds(list: &str, number: u32) -> bool {
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&number),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Counters, Interrupt, Rings};

    fn device() -> Device {
        Device {
            name: "eth0".into(),
            up: true,
            physical: true,
            mtu: 9000,
            speed: Some(100_000),
            rx_queues: 8,
            ..Device::default()
        }
    }

    fn host(device: Device) -> Host {
        let numa = vec!["0-3".into(), "4-7".into()];
        Host { processors: 8, numa, devices: vec![device], ..Host::default() }
    }

    #[test]
    fn a_link_that_is_down_is_an_error_and_errors_are_a_warning() {
        assert_eq!(nic(Place::Local, &host(device()))[0].level, Level::Ok);
        let down = nic(Place::Local, &host(Device { up: false, ..device() }));
        assert_eq!(down[0].level, Level::Error);
        let counters =
            Counters { rx_packets: 1000, rx_crc_errors: 5, rx_errors: 5, ..Counters::default() };
        let bad = nic(Place::Local, &host(Device { counters, ..device() }));
        assert!(
            bad[0].level == Level::Warning && bad[0].remedy.as_ref().unwrap().contains("cable")
        );
    }

    #[test]
    fn small_rings_are_reported_with_the_command() {
        let rings = Some(Rings { rx: 512, rx_max: 8192, tx: 1024, tx_max: 8192 });
        let found = nic(Place::Local, &host(Device { rings, ..device() }));
        assert_eq!(found[0].level, Level::Note);
        assert_eq!(found[0].remedy.as_deref(), Some("ethtool -G eth0 rx 8192 tx 8192"));
        let slow = Device { rings, speed: Some(1000), ..device() };
        assert_eq!(nic(Place::Local, &host(slow))[0].level, Level::Ok);
    }

    #[test]
    fn offloads_that_are_off_are_reported_with_the_command() {
        let offloads =
            [("tcp-segmentation-offload".to_owned(), false), ("scatter-gather".into(), true)];
        let found = offload(Place::Remote, &host(Device { offloads: offloads.into(), ..device() }));
        assert_eq!(found[0].level, Level::Warning);
        assert_eq!(found[0].remedy.as_deref(), Some("ethtool -K eth0 tso on"));
        assert_eq!(offload(Place::Remote, &host(device())), []);
    }

    #[test]
    fn interrupts_on_one_cpu_or_on_another_numa_node_are_reported() {
        let on = |cpus: [u32; 2]| {
            let interrupts = cpus.map(|cpu| Interrupt {
                busiest: Some(cpu),
                count: 1_000_000,
                ..Interrupt::default()
            });
            let device = Device { interrupts: interrupts.into(), numa_node: Some(1), ..device() };
            let found = irq(Place::Local, &host(device));
            found.into_iter().map(|finding| finding.level).collect::<Vec<_>>()
        };
        assert_eq!(on([4, 5]), [Level::Ok]);
        assert_eq!(on([4, 4]), [Level::Warning]);
        assert_eq!(on([0, 5]), [Level::Note]);
        let single = irq(Place::Local, &host(Device { rx_queues: 1, ..device() }));
        assert_eq!(single[0].level, Level::Warning);
    }

    #[test]
    fn cpu_lists_are_parsed() {
        assert!(holds("0-3,8", 8) && holds("0-3,8", 2) && !holds("0-3,8", 4) && !holds("", 0));
    }
}
