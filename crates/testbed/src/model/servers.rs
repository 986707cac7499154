//! The servers of a file system in this process, and clients of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{
    Address, Caller, ClientNode, FileSystem, MountOptions, OpenOptions, SessionOptions, blocking,
};
use fulmar_lnet_wire::Nid;
use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, ServeOptions, Serving, TargetLabel, Unset};
use fulmar_socklnd::AcceptMode;

use super::operation::{Operation, Step};
use super::outcome::Outcome;
use super::visit::visit;
use super::words::{Layout, Target};
use crate::kill::Net;

/// A client that tries whether targets have recovered.
const SPARE: u8 = 150;
/// How many OSTs there are: stripes are on all of them.
const OSTS: u16 = 3;
/// The last byte of the address of the first client.
const FIRST: u8 = 100;
/// What clients do not get of a target that is to be full, in MiB: more than any disk has.
const ALL_MB: u32 = u32::MAX;
/// How long servers may need for anything.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An MGS with an MDT, and OSTs.
pub(super) struct Servers {
    address: Address,
    net: Net,
    directories: Vec<PathBuf>,
    scratch: PathBuf,
    serving: Option<Serving>,
    /// Whether targets may wait for clients that they know.
    is_restarted: bool,
    /// What clients do not get of the targets that were filled, by the names of their parameters, when they are not full.
    filled: BTreeMap<String, String>,
    /// The OSTs that were filled since the MDT has last been asked: it may take them for full.
    stale: BTreeSet<Target>,
    node: Node,
    nid: Nid,
    runtime: Runtime,
}

impl Servers {
    /// Formats targets in a directory, and serves them.
    pub(super) fn start(scratch: &Path, net: Net) -> Result<Self, String> {
        let runtime = Runtime::new(Some(2)).map_err(|error| error.to_string())?;
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, net.third, 1));
        let (node, nid) = start_node(&runtime, address, net.port)?;
        let address: Address =
            format!("{nid}:/lv").parse().map_err(|error| format!("{nid}: {error}"))?;
        let label = |kind, index| TargetLabel { kind, index, address: address.clone() };
        let mdt = scratch.join("mdt");
        fulmar_server::format_both(&mdt, &label(TargetKind::Mdt, 0))
            .map_err(|error| error.to_string())?;
        let mut directories = vec![mdt];
        for index in 0..OSTS {
            let directory = scratch.join(format!("ost{index}"));
            let label = Label::Target(label(TargetKind::Ost, index));
            fulmar_server::format(&directory, &label).map_err(|error| error.to_string())?;
            directories.push(directory);
        }
        let mut this = Self {
            address,
            net,
            directories,
            scratch: scratch.to_owned(),
            serving: None,
            is_restarted: false,
            filled: BTreeMap::new(),
            stale: BTreeSet::new(),
            node,
            nid,
            runtime,
        };
        this.serve()?;
        Ok(this)
    }

    fn serve(&mut self) -> Result<(), String> {
        let (directories, nids) = (self.directories.clone(), vec![self.nid]);
        let options = ServeOptions { directories, nids, port: self.net.port };
        let serving = Serving::start(&self.node, &options).map_err(|error| error.to_string())?;
        self.serving = Some(serving);
        Ok(())
    }

    /// Performs a fault.
    pub(super) fn perform(&mut self, step: &Step) -> Outcome {
        let fault = &step.operation;
        let done = match fault {
            Operation::Restart { target } => self.restart(*target),
            Operation::Disconnect { after } => {
                self.disconnect(step.client, Duration::from_millis(*after))
            }
            Operation::Evict {} => self.evict(step.client),
            Operation::Fill { target } => self.fill(*target),
            Operation::Drain { target } => self.drain(*target),
            other => panic!("{other} is not a fault"),
        };
        done.unwrap_or_else(|error| panic!("{fault} failed: {error}"));
        Outcome::Done
    }

    /// Closes the connections with a client after a time. That goes on beside the next operations.
    fn disconnect(&self, client: u8, after: Duration) -> Result<(), String> {
        let (admin, nid) = (self.node.admin(), nid_of(Self::address_of(self.net, client))?);
        std::thread::spawn(move || {
            std::thread::sleep(after);
            // A node that was stopped has none.
            let _ = admin.close_peer(nid);
        });
        Ok(())
    }

    /// Has all targets that know a client evict it.
    pub(super) fn evict(&self, client: u8) -> Result<(), String> {
        let parameters = self.serving.as_ref().ok_or("nothing is served")?.parameters();
        let nid = nid_of(Self::address_of(self.net, client))?;
        for pattern in ["mdt.*.evict_client", "obdfilter.*.evict_client"] {
            match parameters.set(pattern, &nid.to_string()) {
                // It is not connected.
                Ok(_) | Err(Unset::Invalid { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Has targets have no more room for clients than what these were granted.
    fn fill(&mut self, target: Target) -> Result<(), String> {
        let serving = self.serving.as_ref().ok_or("nothing is served")?;
        let parameters = serving.parameters();
        for one in target.each() {
            let name = reserved_of(one);
            let found = parameters.selected(|parts| parts.join(".") == name);
            let (_, before) = found.into_iter().next().ok_or_else(|| format!("no {name}"))?;
            parameters.set(&name, &ALL_MB.to_string()).map_err(|error| error.to_string())?;
            self.filled.entry(name).or_insert(before);
        }
        self.stale.extend(target.each().into_iter().filter(|one| Target::OSTS.contains(one)));
        Ok(())
    }

    /// Has targets that are full have room again.
    fn drain(&mut self, target: Target) -> Result<(), String> {
        let serving = self.serving.as_ref().ok_or("nothing is served")?;
        for name in target.each().into_iter().map(reserved_of) {
            if let Some(before) = self.filled.remove(&name) {
                let set = serving.parameters().set(&name, &before);
                set.map_err(|error| error.to_string())?;
            }
        }
        let drained: BTreeSet<Target> = target.each().into_iter().collect();
        if !self.stale.is_disjoint(&drained) {
            self.wait_for_room(&drained)?;
            self.stale.retain(|one| !drained.contains(one));
        }
        Ok(())
    }

    /// Returns when the MDT knows that OSTs have room. It asks them now and then.
    fn wait_for_room(&self, osts: &BTreeSet<Target>) -> Result<(), String> {
        let (mounted, node) = self.mount(SPARE)?;
        let begun = Instant::now();
        let is_missing = |used: &[u32]| {
            Target::OSTS
                .iter()
                .zip(0..)
                .any(|(ost, index)| osts.contains(ost) && !used.contains(&index))
        };
        let made = loop {
            let made = blocking::wait(stripes_of_new_file(&mounted));
            let is_known = made.as_ref().is_ok_and(|used| !is_missing(used));
            let may_change = matches!(made, Ok(_) | Err(Errno::ENOSPC));
            if is_known || !may_change || begun.elapsed() > TIMEOUT {
                break if is_known { Ok(()) } else { Err(made) };
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        blocking::wait(mounted.unmount());
        node.stop();
        made.map_err(|made| format!("new files are not on all OSTs with room: {made:?}"))
    }

    /// Has all targets have room, as another run may have left them.
    pub(super) fn drain_all(&mut self) {
        let drained = self.drain(Target::All);
        drained.unwrap_or_else(|error| panic!("the targets cannot be drained: {error}"));
    }

    /// Returns the address of the node of a client.
    pub(super) fn address_of(net: Net, client: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 0, net.third, FIRST + client))
    }

    /// Stops targets, and serves them again.
    fn restart(&mut self, target: Target) -> Result<(), String> {
        self.is_restarted = true;
        // What was set goes with the target.
        let names: Vec<String> = target.each().into_iter().map(reserved_of).collect();
        self.filled.retain(|name, _| !names.contains(name));
        let Some(serving) = self.serving.take_if(|_| target == Target::All) else {
            return self.restart_one(target);
        };
        serving.stop();
        drop(serving);
        self.serve()
    }

    fn restart_one(&self, target: Target) -> Result<(), String> {
        let (Some(serving), Some(directory)) = (&self.serving, self.directory_of(target)) else {
            return Err("nothing is served".to_owned());
        };
        let stopped = serving.stop_targets(&directory.to_string_lossy(), directory);
        stopped.map_err(|error| error.to_string())?;
        serving.start_targets(directory).map(drop).map_err(|error| error.to_string())
    }

    /// Returns the directory of one of the servers.
    fn directory_of(&self, target: Target) -> Option<&PathBuf> {
        let place = Target::ALL.iter().position(|other| *other == target)?;
        self.directories.get(place.checked_sub(1)?)
    }

    /// Returns how many bytes all OSTs have at least, and fewer of them do not: each has those of the disk.
    pub(super) fn least(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.scratch);
        let bytes = disk.map(|disk| disk.f_blocks * disk.f_frsize).unwrap_or_default();
        (2 * u64::from(OSTS) - 1) * bytes / 2
    }

    /// Returns what is mounted.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns when all targets have recovered. A client that they wait for may not be killed, as they would wait for long.
    pub(super) fn wait_for_recovery(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_restarted) {
            return Ok(());
        }
        // One that recovers serves no new client.
        let (mounted, node) = self.mount(SPARE)?;
        let size = || blocking::wait(mounted.statfs()).ok();
        let visited = visit(self.least(), || size().map(|found| (found.bytes, found.files)));
        blocking::wait(mounted.unmount());
        node.stop();
        match visited {
            Outcome::Done => Ok(()),
            other => Err(format!("the targets do not recover: {other:?}")),
        }
    }

    /// Mounts the file system on a node of its own, as this client.
    pub(super) fn mount(&self, client: u8) -> Result<(FileSystem, Node), String> {
        let address = Self::address_of(self.net, client);
        let (node, own) = start_node(&self.runtime, address, self.net.port)?;
        let port = self.net.port;
        let settings = SessionOptions { interface: None, port, timeout: TIMEOUT };
        let client = ClientNode::on(&node, &[own], settings).map_err(|error| error.to_string())?;
        let begun = Instant::now();
        loop {
            // The targets may not have registered yet.
            match blocking::wait(client.mount(&self.address, MountOptions::default())) {
                Ok(mounted) => return Ok((mounted, node)),
                Err(error) if begun.elapsed() > TIMEOUT => return Err(error.to_string()),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Stops the servers, and returns the damage of what they have stored.
    pub(super) fn stop(mut self) -> Vec<String> {
        if let Some(serving) = self.serving.take() {
            serving.stop();
        }
        self.node.stop();
        let mut damage = Vec::new();
        for part in self.directories.iter().flat_map(|one| fulmar_server::parts_of(one)) {
            match fulmar_server::verify(&part) {
                Ok((_, report)) => damage.extend(report.damage),
                Err(error) => damage.push(error.to_string()),
            }
        }
        let _ = std::fs::remove_dir_all(&self.scratch);
        damage
    }
}

/// Starts a node at a loopback address.
fn start_node(runtime: &Runtime, address: IpAddr, port: u16) -> Result<(Node, Nid), String> {
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = port;
    options.nis.push(NiOptions::at(address));
    let node = Node::start(runtime, options).map_err(|error| error.to_string())?;
    Ok((node, nid_of(address)?))
}

/// Makes a file on all OSTs that take some, and removes it. Returns on which it was.
async fn stripes_of_new_file(mounted: &FileSystem) -> Result<Vec<u32>, Errno> {
    let (root, name) = (mounted.root(), b"room");
    let options = OpenOptions { layout: Layout::Wide.to_bytes(), ..OpenOptions::create(0o600) };
    let file = mounted.open(&Caller::ROOT, root, name, options).await?;
    let layout = mounted.layout(&Caller::ROOT, file.fid()).await?;
    file.close().await?;
    mounted.unlink(&Caller::ROOT, root, name).await?;
    Ok(layout.objects().map(|(_, _, object)| object.ost).collect())
}

/// Returns the parameter that says what clients do not get of a target.
fn reserved_of(target: Target) -> String {
    match Target::OSTS.iter().position(|ost| *ost == target) {
        Some(index) => format!("obdfilter.lv-OST{index:04x}.reserved_mb"),
        None => "mdt.lv-MDT0000.reserved_mb".to_owned(),
    }
}

fn nid_of(address: IpAddr) -> Result<Nid, String> {
    format!("{address}@tcp").parse().map_err(|error| format!("{address}: {error}"))
}
