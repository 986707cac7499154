//! The files of `/sys/kernel/debug/lnet` of a kernel node, as parameters of the node. Spec: lnet-admin §20.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fulmar_base::Errno;
use fulmar_control::api::{Admin, AdminError, GlobalShow, StatsReset, resident_bytes, table};
use fulmar_control::config::{Cores, GlobalKey, Module, Parameters};
use fulmar_control::masks::Masks;
use fulmar_text::integer;

use super::{Log, MEGABYTE, MEGABYTES_MAX, Mask};
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
    File::set(
        "debug",
        |node| shown(Masks::Types, &node.log.debug),
        |node, text| node.set_mask(Masks::Types, &node.log.debug, text),
    ),
    File { name: "debug_marker", read: None, write: Some(mark) },
    File::set("debug_mb", |node| Ok(format!("{}\n", node.log.megabytes())), set_megabytes),
    File::shown("lnet_lnd_timeout", lnd_timeout),
    File::shown("lnet_memused", |_| Ok(format!("{}\n", resident_bytes().unwrap_or(0)))),
    File::set("nis", |node| table(node, "nis"), |node, _| changed(node.node.reset_ni_minima())),
    File::set(
        "peers",
        |node| table(node, "peers"),
        |node, _| changed(node.node.reset_peer_minima()),
    ),
    File::set("portal_rotor", |node| Ok(node.rotor.text()), |node, text| node.rotor.set(text)),
    File::set(
        "printk",
        |node| shown(Masks::Types, &node.log.printk),
        |node, text| node.set_mask(Masks::Types, &node.log.printk, text),
    ),
    File::shown("routers", |node| table(node, "routers")),
    File::shown("routes", |node| table(node, "routes")),
    File::set("stats", |node| table(node, "stats"), |node, _| node.stats_reset(StatsReset {})),
    File::set(
        "subsystem_debug",
        |node| shown(Masks::Subsystems, &node.log.subsystem_debug),
        |node, text| node.set_mask(Masks::Subsystems, &node.log.subsystem_debug, text),
    ),
    File::set(
        "subsystem_printk",
        |node| shown(Masks::Subsystems, &node.log.subsystem_printk),
        |node, text| node.set_mask(Masks::Subsystems, &node.log.subsystem_printk, text),
    ),
];

fn shown(masks: Masks, mask: &Mask) -> Result<String> {
    Ok(masks.text(mask.get()) + "\n")
}

fn changed(result: std::result::Result<(), Errno>) -> Result<()> {
    result.map_err(|errno| AdminError::new(errno, "cannot reset the lowest credits"))
}

fn invalid(what: impl Into<String>) -> AdminError {
    AdminError::new(Errno::EINVAL, what)
}

fn mark(node: &Daemon, text: &str) -> Result<()> {
    match text.trim_end_matches('\n') {
        "clear" => drop(node.log.take()),
        text => Log::mark(text),
    }
    Ok(())
}

fn set_megabytes(node: &Daemon, text: &str) -> Result<()> {
    let wanted = integer(text.trim()).ok_or_else(|| invalid("debug_mb is a number of MB"))?;
    node.log.set_megabytes(usize::try_from(wanted).unwrap_or(usize::MAX));
    Ok(())
}

fn lnd_timeout(node: &Daemon) -> Result<String> {
    let globals = node.global_show(GlobalShow {})?;
    let timeout = globals.iter().find(|(key, _)| *key == GlobalKey::LndTimeout);
    Ok(format!("{}\n", timeout.map_or(0, |(_, seconds)| *seconds)))
}

impl Log {
    /// Returns how much memory lines may take, in MiB.
    fn megabytes(&self) -> usize {
        self.ring().limit() / MEGABYTE
    }

    /// Changes that, within its limits.
    fn set_megabytes(&self, wanted: usize) {
        let set = wanted.clamp(1, MEGABYTES_MAX);
        if set != wanted {
            tracing::warn!(
                "the debug log has {set} MB, since {wanted} is not 1 to {MEGABYTES_MAX}"
            );
        }
        self.ring().set_limit(set * MEGABYTE);
    }
}

impl Daemon {
    /// Changes a mask of the log, and who observes the node.
    fn set_mask(&self, masks: Masks, mask: &Mask, text: &str) -> Result<()> {
        let value = masks.parse(text, mask.get()).map_err(|error| invalid(error.to_string()))?;
        self.log.set(mask, value);
        self.node
            .observe(self.log.observer())
            .map_err(|errno| AdminError::new(errno, "cannot observe the node"))
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
