//! A host: kernel settings, clock, CPUs and network interfaces.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::device::{self, Device};
use super::firewall::{self, Firewall};
use super::{entries, number, read};

/// The evidence of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The release of its kernel.
    pub kernel: String,
    /// The release of Fulmar that gathered it.
    pub fulmar: String,
    /// Number of CPUs.
    pub processors: u32,
    /// The CPUs of each NUMA node, as lists such as `0-7`.
    pub numa: Vec<String>,
    /// The CPU frequency governors in use, each once; empty if the host does not control the
    /// frequency.
    pub governors: Vec<String>,
    /// Its clock.
    pub clock: Clock,
    /// The limit of open files of a process.
    pub open_files: Limit,
    /// TCP settings.
    pub tcp: TcpSettings,
    /// Counters of the kernel's receive backlog.
    pub softnet: Softnet,
    /// Its network interfaces that have an address.
    pub devices: Vec<Device>,
    /// The interface that leads to the remote host.
    pub device: Option<String>,
    /// Whether a process listens on TCP port 988.
    pub listens: bool,
    /// The version of Lustre's kernel module, if it is loaded.
    pub lustre: Option<String>,
    /// Signs of a firewall.
    pub firewall: Firewall,
}

impl Host {
    /// Returns the interface that leads to the remote host.
    pub fn path_device(&self) -> Option<&Device> {
        let name = self.device.as_ref()?;
        self.devices.iter().find(|device| device.name == *name)
    }

    /// Returns the interface that leads to the remote host, or all but loopback if there is none.
    pub fn relevant_devices(&self) -> Vec<&Device> {
        match self.path_device() {
            Some(device) => vec![device],
            None => self.devices.iter().filter(|device| !device.loopback).collect(),
        }
    }
}

/// A host's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The clock source in use.
    pub source: Option<String>,
    /// The available clock sources.
    pub available: Vec<String>,
    /// Whether it is synchronised; `None` if unknown.
    pub synchronised: Option<bool>,
    /// The maximum error, as reported by the time service, in microseconds.
    pub error_max_us: Option<u64>,
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Limit {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// Settings of sockets and TCP, named by their sysctls. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TcpSettings {
    pub rmem_max: Option<u64>,
    pub wmem_max: Option<u64>,
    /// Minimum, default and maximum receive buffer.
    pub tcp_rmem: Option<[u64; 3]>,
    /// Minimum, default and maximum send buffer.
    pub tcp_wmem: Option<[u64; 3]>,
    pub congestion_control: Option<String>,
    pub available: Vec<String>,
    pub default_qdisc: Option<String>,
    pub window_scaling: Option<u32>,
    pub timestamps: Option<u32>,
    pub sack: Option<u32>,
    pub moderate_rcvbuf: Option<u32>,
    pub mtu_probing: Option<u32>,
    pub slow_start_after_idle: Option<u32>,
    pub no_metrics_save: Option<u32>,
    pub netdev_max_backlog: Option<u64>,
    pub netdev_budget: Option<u64>,
}

/// Counters of the backlog queues between drivers and protocols, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Softnet {
    /// Packets that were processed.
    pub processed: u64,
    /// Packets that were dropped because a queue was full.
    pub dropped: u64,
    /// How often a poll ended with packets left.
    pub squeezed: u64,
}

/// Gathers the evidence of this host. `local` is its address towards the remote host, if there is
/// one.
pub fn gather(local: Option<IpAddr>) -> Host {
    let devices = device::all();
    let device = local.and_then(|local| {
        let has = |device: &&Device| device.addresses.contains(&local);
        let found = devices
            .iter()
            .find(has)
            .or_else(|| devices.iter().find(|device| device.loopback && local.is_loopback()));
        found.map(|device| device.name.clone())
    });
    Host {
        name: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        fulmar: env!("CARGO_PKG_VERSION").to_owned(),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        numa: numa(),
        governors: governors(),
        clock: clock(),
        open_files: open_files(),
        tcp: tcp(),
        softnet: read("/proc/net/softnet_stat").map(|text| softnet(&text)).unwrap_or_default(),
        devices,
        device,
        listens: ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .any(|path| read(path).is_some_and(|text| listens(&text))),
        lustre: lustre(),
        firewall: firewall::gather(),
    }
}

fn numa() -> Vec<String> {
    let base = "/sys/devices/system/node";
    let nodes = entries(base)
        .into_iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok()));
    nodes.filter_map(|node| read(format!("{base}/{node}/cpulist"))).collect()
}

fn governors() -> Vec<String> {
    let base = "/sys/devices/system/cpu";
    let policies = entries(format!("{base}/cpufreq")).into_iter();
    let words =
        policies.filter_map(|policy| read(format!("{base}/cpufreq/{policy}/scaling_governor")));
    let mut words: Vec<String> = words.collect();
    words.sort();
    words.dedup();
    words
}

fn clock() -> Clock {
    let base = "/sys/devices/system/clocksource/clocksource0";
    let words = |path: String| -> Vec<String> {
        read(path)
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default()
    };
    let state = fulmar_net::clock_state().ok();
    Clock {
        source: read(format!("{base}/current_clocksource")),
        available: words(format!("{base}/available_clocksource")),
        synchronised: state.map(|state| state.synchronised),
        error_max_us: state
            .filter(|state| state.synchronised)
            .map(|state| state.error_max.as_micros() as u64),
    }
}

fn open_files() -> Limit {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Limit { soft: limit.current, hard: limit.maximum }
}

fn tcp() -> TcpSettings {
    let core = |name: &str| format!("/proc/sys/net/core/{name}");
    let ipv4 = |name: &str| format!("/proc/sys/net/ipv4/{name}");
    let three = |name: &str| -> Option<[u64; 3]> {
        let text = read(ipv4(name))?;
        let numbers: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        numbers.try_into().ok()
    };
    let available = read(ipv4("tcp_available_congestion_control")).unwrap_or_default();
    TcpSettings {
        rmem_max: number(core("rmem_max")),
        wmem_max: number(core("wmem_max")),
        tcp_rmem: three("tcp_rmem"),
        tcp_wmem: three("tcp_wmem"),
        congestion_control: read(ipv4("tcp_congestion_control")),
        available: available.split_whitespace().map(str::to_owned).collect(),
        default_qdisc: read(core("default_qdisc")),
        window_scaling: number(ipv4("tcp_window_scaling")),
        timestamps: number(ipv4("tcp_timestamps")),
        sack: number(ipv4("tcp_sack")),
        moderate_rcvbuf: number(ipv4("tcp_moderate_rcvbuf")),
        mtu_probing: number(ipv4("tcp_mtu_probing")),
        slow_start_after_idle: number(ipv4("tcp_slow_start_after_idle")),
        no_metrics_save: number(ipv4("tcp_no_metrics_save")),
        netdev_max_backlog: number(core("netdev_max_backlog")),
        netdev_budget: number(core("netdev_budget")),
    }
}

/// Parses `/proc/net/softnet_stat`: a line for each CPU, in hexadecimal.
fn softnet(text: &str) -> Softnet {
    let mut sum = Softnet::default();
    for line in text.lines() {
        let mut words = line.split_whitespace().map(|word| u64::from_str_radix(word, 16));
        let mut next = || words.next().and_then(Result::ok).unwrap_or(0);
        sum.processed += next();
        sum.dropped += next();
        sum.squeezed += next();
    }
    sum
}

/// Parses `/proc/net/tcp`: returns whether a socket listens on port 988.
fn listens(text: &str) -> bool {
    text.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_port = words.next().is_some_and(|local| local.ends_with(":03DC"));
        is_port && words.nth(1) == Some("0A")
    })
}

fn lustre() -> Option<String> {
    if let Some(version) =
        read("/sys/module/lnet/version").or_else(|| read("/sys/fs/lustre/version"))
    {
        return Some(version);
    }
    std::path::Path::new("/sys/module/lnet").exists().then(|| "unknown version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_this_host_is_complete_and_survives_json() {
        let host = gather(Some("127.0.0.1".parse().unwrap()));
        assert!(!host.name.is_empty() && !host.kernel.is_empty() && host.processors > 0);
        assert!(host.tcp.tcp_rmem.is_some() && host.tcp.congestion_control.is_some());
        assert_eq!(host.device.as_deref(), Some("lo"));
        let json = serde_json::to_string(&host).unwrap();
        assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), host);
    }

    #[test]
    fn a_listener_is_recognised_by_port_and_state() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let line = |local: &str, state: &str| {
            format!("{head}   0: 00000000:{local} 00000000:0000 {state} 00000000:00000000\n")
        };
        assert!(listens(&line("03DC", "0A")));
        assert!(!listens(&line("03DC", "01")), "a connection");
        assert!(!listens(&line("0016", "0A")), "another port");
    }

    #[test]
    fn drops_of_all_cpus_are_summed() {
        let text = "00000010 00000001 00000000 0\n00000020 00000002 0000000a 0";
        assert_eq!(softnet(text), Softnet { processed: 48, dropped: 3, squeezed: 10 });
    }
}
