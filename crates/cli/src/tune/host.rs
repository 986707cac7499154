//! Present settings of this host: the kernel, its LNet modules, and a running Fulmar node.

use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_control::api::{NetShow, RoutingShow};
use fulmar_control::config::BuffersConf;
use fulmar_lnet_wire::Net;
use fulmar_tune::advice::Whose;
use fulmar_tune::present::Present;
use serde::Serialize;

use crate::context::NodeArgs;

/// The settings of this host, as far as they can be read.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Host {
    /// Settings by the names that the advice uses.
    pub(super) present: Present,
    /// Network device that was read.
    pub(super) device: Option<String>,
    /// Memory in bytes.
    pub(super) memory: Option<u64>,
    /// Transmit queues of the device.
    pub(super) queues: usize,
    /// Source of the LNet settings, for display.
    pub(super) lnet: String,
}

/// Files read below /proc/sys.
const SYSCTLS: [&str; 14] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
];

const KSOCKLND: [&str; 8] = [
    "peer_credits",
    "credits",
    "peer_buffer_credits",
    "conns_per_peer",
    "nscheds",
    "zc_min_payload",
    "tx_buffer_size",
    "rx_buffer_size",
];

const LNET: [&str; 3] = ["tiny_router_buffers", "small_router_buffers", "large_router_buffers"];

impl Host {
    /// Reads all available settings; missing ones are left out.
    pub(super) fn read(device: Option<&str>, whose: Whose, which: &NodeArgs) -> Self {
        let mut host = Self::of_files(Path::new("/"), device);
        host.qdisc();
        match whose {
            Whose::Kernel => host.modules(Path::new("/sys/module")),
            Whose::Fulmar => host.node(which),
        }
        host
    }

    /// Reads the files below `root`.
    pub(super) fn of_files(root: &Path, device: Option<&str>) -> Self {
        let mut host = Self::default();
        for name in SYSCTLS {
            host.take(name, root.join("proc/sys").join(name.replace('.', "/")));
        }
        host.memory = std::fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
        });
        host.device = device.map(str::to_owned).or_else(|| default_device(root));
        if let Some(device) = host.device.clone() {
            let directory = root.join("sys/class/net").join(device);
            host.take("mtu", directory.join("mtu"));
            host.take("txqueuelen", directory.join("tx_queue_len"));
            host.present.device_bits = speed(&directory);
            host.queues = queues(&directory);
        }
        host
    }

    fn take(&mut self, name: &str, path: PathBuf) {
        if let Ok(text) = std::fs::read_to_string(path) {
            self.present.set(name, text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }

    /// Reads the queueing discipline of the device with `ip`, since no file has it.
    fn qdisc(&mut self) {
        let Some(device) = &self.device else { return };
        let output = Command::new("ip").args(["-o", "link", "show", "dev", device]).output();
        let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = output.unwrap_or_default();
        let mut words = text.split_whitespace().skip_while(|word| *word != "qdisc");
        if let Some(qdisc) = words.nth(1) {
            self.present.set("qdisc", qdisc);
        }
    }

    /// Reads the parameters of the kernel's LNet, if it is loaded.
    pub(super) fn modules(&mut self, modules: &Path) {
        let of = |module: &str, name: &str| modules.join(module).join("parameters").join(name);
        if !modules.join("ksocklnd").is_dir() {
            self.lnet = "defaults: the kernel's LNet is not loaded here".into();
            return;
        }
        for name in KSOCKLND {
            self.take(name, of("ksocklnd", name));
        }
        for name in LNET {
            self.take(name, of("lnet", name));
        }
        self.lnet = "parameters of the kernel's LNet".into();
    }

    /// Reads the first interface of a running Fulmar node.
    fn node(&mut self, which: &NodeArgs) {
        let client = which.client_of_running();
        let nets = client.call(&NetShow::default()).unwrap_or_default();
        let real = nets.iter().filter(|net| net.net != Net::LOOPBACK).flat_map(|net| &net.nis);
        let Some(ni) = real.into_iter().next() else {
            self.lnet = "defaults: no Fulmar node runs here".into();
            return;
        };
        self.lnet = format!("the running Fulmar node, interface {}", ni.view.nid);
        let present = &mut self.present;
        present.set("peer_credits", ni.view.tunables.peer_credits);
        present.set("credits", ni.view.tunables.credits);
        present.set("peer_buffer_credits", ni.view.tunables.peer_buffer_credits);
        if let Some(lnd) = &ni.lnd {
            present.set("conns_per_peer", lnd.conns_per_peer);
        }
        if let Ok(routing) = client.call(&RoutingShow {})
            && let Some(buffers) = BuffersConf::of(&routing)
        {
            let counts = [buffers.tiny, buffers.small, buffers.large];
            for (name, count) in LNET.iter().zip(counts) {
                if let Some(count) = count {
                    present.set(name, count);
                }
            }
        }
    }
}

/// Returns the speed of a device in bits per second, as LNet finds it. Some virtual devices tell -1.
fn speed(directory: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(directory.join("speed")).ok()?;
    let megabits = text.trim().parse::<u64>().ok().filter(|megabits| *megabits > 0)?;
    megabits.checked_mul(1_000_000)
}

/// Returns the number of transmit queues of a device.
fn queues(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory.join("queues")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("tx-")).count()
}

/// Returns the device of the default route, else the first that is up and not loopback.
fn default_device(root: &Path) -> Option<String> {
    let routes = std::fs::read_to_string(root.join("proc/net/route")).unwrap_or_default();
    let default = routes.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let device = words.next()?;
        (words.next()? == "00000000").then(|| device.to_owned())
    });
    default.or_else(|| {
        let mut names: Vec<String> = std::fs::read_dir(root.join("sys/class/net"))
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let is_up = |name: &String| {
            let path = root.join("sys/class/net").join(name).join("operstate");
            std::fs::read_to_string(path).is_ok_and(|state| state.trim() == "up")
        };
        names.into_iter().find(|name| name != "lo" && is_up(name))
    })
}
