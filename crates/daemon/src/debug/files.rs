//! The files of `/sys/kernel/debug/lnet` of a kernel node, as parameters of the node. Spec: lnet-admin §20.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fulmar_base::Errno;
use fulmar_control::api::{Admin, AdminError, GlobalShow, StatsReset, resident_bytes, table};
use fulmar_control::config::{Cores, GlobalKey, Module, Parameters};
use fulmar_text::integer;

use crate::admin::{Daemon, Result};

/// A file of the node.
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) read: Option<fn(&Daemon) -> Result<String>>,
    pub(crate) write: Option<fn(&Daemon, &str) -> Result<()>>,
}

impl File {
    const fn shown(name: &'static str, read: fn(&Daemon) -> Result<String>) -> Self {
        Self { name, read: Some(read), write: None }
    }

    const fn set(
        name: &'static str,
        read: fn(&Daemon) -> Result<String>,
        write: fn(&Daemon, &str) -> Result<()>,
    ) -> Self {
        Self { name, read: Some(read), write: Some(write) }
    }
}

/// All, by their names.
pub(crate) const FILES: &[File] = &[
    File::shown("buffers", |node| table(node, "buffers")),
    // A node that has failed answers nothing.
    File::shown("catastrophe", |_| Ok("0\n".into())),
    File::shown("cpu_partition_distance", |node| node.distances()),
    File::shown("cpu_partition_table", |node| node.partitions()),
    File::set("debug", |node| node.logged("debug"), |node, text| node.set_logged("debug", text)),
    File {
        name: "debug_marker",
        read: None,
        write: Some(|node, text| node.set_logged("debug_marker", text)),
    },
    File::set(
        "debug_mb",
        |node| node.logged("debug_mb"),
        |node, text| node.set_logged("debug_mb", text),
    ),
    File::shown("lnet_lnd_timeout", lnd_timeout),
    File::shown("lnet_memused", |_| Ok(format!("{}\n", resident_bytes().unwrap_or(0)))),
    File::set("nis", |node| table(node, "nis"), |node, _| changed(node.node.reset_ni_minima())),
    File::set(
        "peers",
        |node| table(node, "peers"),
        |node, _| changed(node.node.reset_peer_minima()),
    ),
    File::set("portal_rotor", |node| Ok(node.rotor.text()), |node, text| node.rotor.set(text)),
    File::set("printk", |node| node.logged("printk"), |node, text| node.set_logged("printk", text)),
    File::shown("routers", |node| table(node, "routers")),
    File::shown("routes", |node| table(node, "routes")),
    File::set("stats", |node| table(node, "stats"), |node, _| node.stats_reset(StatsReset {})),
    File::set(
        "subsystem_debug",
        |node| node.logged("subsystem_debug"),
        |node, text| node.set_logged("subsystem_debug", text),
    ),
    File::set(
        "subsystem_printk",
        |node| node.logged("subsystem_printk"),
        |node, text| node.set_logged("subsystem_printk", text),
    ),
];

fn changed(result: std::result::Result<(), Errno>) -> Result<()> {
    result.map_err(|errno| AdminError::new(errno, "cannot reset the lowest credits"))
}

fn invalid(what: impl Into<String>) -> AdminError {
    AdminError::new(Errno::EINVAL, what)
}

fn lnd_timeout(node: &Daemon) -> Result<String> {
    let globals = node.global_show(GlobalShow {})?;
    let timeout = globals.iter().find(|(key, _)| *key == GlobalKey::LndTimeout);
    Ok(format!("{}\n", timeout.map_or(0, |(_, seconds)| *seconds)))
}

impl Daemon {
    fn logged(&self, name: &str) -> Result<String> {
        self.log.read(name).ok_or_else(|| invalid(format!("{name} is only written")))
    }

    fn set_logged(&self, name: &str, text: &str) -> Result<()> {
        self.log.write(&self.node, name, text)
    }

    /// Returns the cores of each CPT, a line for each.
    fn partitions(&self) -> Result<String> {
        let cores = |cores: &Vec<usize>| cores.iter().map(|core| format!(" {core}")).collect();
        Ok(rows(&self.cpts()?, cores))
    }

    /// Returns how far each CPT is from each, by their NUMA nodes.
    fn distances(&self) -> Result<String> {
        let (cpts, nodes) = (self.cpts()?, fulmar_net::numa_nodes());
        let of = |cores: &[usize]| {
            nodes.iter().position(|node| cores.iter().any(|core| node.contains(core)))
        };
        let distance = |from: &[usize], to: &[usize]| match (of(from), of(to)) {
            (Some(from), Some(to)) => numa_distance(from, to).unwrap_or(NEAR),
            _ => NEAR,
        };
        let to_each = |from: &Vec<usize>| {
            let all = cpts.iter().enumerate();
            all.map(|(number, to)| format!(" {number}:{}", distance(from, to))).collect()
        };
        Ok(rows(&cpts, to_each))
    }

    /// Returns the cores of each CPT, of which there is one if none are configured.
    fn cpts(&self) -> Result<Vec<Vec<usize>>> {
        let machine = Cores { usable: fulmar_net::usable_cores(), nodes: fulmar_net::numa_nodes() };
        let cpts = self.networks.parameters.cpts(&machine).map_err(invalid)?;
        Ok(if cpts.is_empty() { vec![machine.usable] } else { cpts })
    }
}

/// The distance within a NUMA node.
const NEAR: u32 = 10;

/// Returns the distance of two NUMA nodes, if the kernel tells it.
fn numa_distance(from: usize, to: usize) -> Option<u32> {
    let path = format!("/sys/devices/system/node/node{from}/distance");
    std::fs::read_to_string(path).ok()?.split_whitespace().nth(to)?.parse().ok()
}

/// Returns a line for each CPT.
fn rows(cpts: &[Vec<usize>], text: impl Fn(&Vec<usize>) -> String) -> String {
    cpts.iter().enumerate().map(|(number, cores)| format!("{number}\t:{}\n", text(cores))).collect()
}

/// How a kernel spreads the messages of a portal over CPTs. A portal of ours has one table, so the value is
/// only kept and shown.
pub(crate) struct Rotor(AtomicUsize);

/// The names with their descriptions.
const ROTORS: [(&str, &str); 4] = [
    ("OFF", "no message is spread"),
    ("ON", "every PUT is for the next CPT in turn"),
    ("RR_RT", "every PUT of a router is for the next CPT in turn"),
    ("HASH_RT", "every PUT of a router is for the CPT that the NID of its source gives"),
];

impl Rotor {
    /// Returns what is configured.
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let configured = parameters.text(Module::Lnet, "portal_rotor");
        let number = configured.and_then(integer).and_then(|number| usize::try_from(number).ok());
        Self(AtomicUsize::new(number.filter(|number| *number < 4).unwrap_or(3)))
    }

    fn text(&self) -> String {
        let (name, description) = ROTORS[self.0.load(Relaxed)];
        format!("{{\n\tportals: all\n\trotor: {name}\n\tdescription: {description}\n}}\n")
    }

    fn set(&self, text: &str) -> Result<()> {
        let wanted = text.trim();
        let place = ROTORS.iter().position(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let place = place
            .ok_or_else(|| invalid(format!("\"{wanted}\" is not OFF, ON, RR_RT or HASH_RT")))?;
        self.0.store(place, Relaxed);
        Ok(())
    }
}
