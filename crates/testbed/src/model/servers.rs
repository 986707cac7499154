//! The servers of a file system in this process, and clients of it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_client::{Address, ClientNode, FileSystem, MountOptions, SessionOptions, blocking};
use fulmar_lnet_wire::Nid;
use fulmar_net::{NiOptions, Node, Options, Runtime};
use fulmar_rpc::import::TargetKind;
use fulmar_server::{Label, ServeOptions, Serving, TargetLabel};
use fulmar_socklnd::AcceptMode;

use super::operation::Operation;
use super::outcome::Outcome;
use super::words::Target;
use crate::kill::Net;

/// How many OSTs there are: stripes are on all of them.
const OSTS: u16 = 3;
/// How long servers may need for anything.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An MGS with an MDT, and OSTs.
pub(super) struct Servers {
    address: Address,
    net: Net,
    nodes: u8,
    directories: Vec<PathBuf>,
    scratch: PathBuf,
    serving: Option<Serving>,
    node: Node,
    nid: Nid,
    runtime: Runtime,
}

impl Servers {
    /// Formats targets in a directory, and serves them.
    pub(super) fn start(scratch: &Path, net: Net) -> Result<Self, String> {
        let runtime = Runtime::new(Some(2)).map_err(|error| error.to_string())?;
        let (node, nid) = start_node(&runtime, net, 0)?;
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
        let (scratch, serving) = (scratch.to_owned(), None);
        let mut this =
            Self { address, net, nodes: 1, directories, scratch, serving, node, nid, runtime };
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
    pub(super) fn perform(&mut self, fault: &Operation) -> Outcome {
        let done = match fault {
            Operation::Restart { target } => self.restart(*target),
            other => panic!("{other} is not a fault"),
        };
        done.unwrap_or_else(|error| panic!("{fault} failed: {error}"));
        Outcome::Done
    }

    /// Stops targets, and serves them again.
    fn restart(&mut self, target: Target) -> Result<(), String> {
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

    /// Returns what is mounted.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Mounts the file system on a node of its own.
    pub(super) fn mount(&mut self) -> Result<(FileSystem, Node), String> {
        let (node, own) = start_node(&self.runtime, self.net, self.nodes)?;
        self.nodes += 1;
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
fn start_node(runtime: &Runtime, net: Net, place: u8) -> Result<(Node, Nid), String> {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, net.third, place + 1));
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = net.port;
    options.nis.push(NiOptions::at(address));
    let nid = format!("{address}@tcp").parse().map_err(|error| format!("{address}: {error}"))?;
    let node = Node::start(runtime, options).map_err(|error| error.to_string())?;
    Ok((node, nid))
}
