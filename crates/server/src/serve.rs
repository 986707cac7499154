//! All targets of a node, served from their directories.

use std::path::PathBuf;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::portal;
use fulmar_net::{Buffer, Node};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    PartitionConfig, Server, ServerConfig, TargetConfig, TargetState, Window,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_store::Committer;
use thiserror::Error;
use tracing::{error, info};

use crate::administration::Administration;
use crate::changelogs::Changelogs;
use crate::devices::{Devices, Unserved};
use crate::join::{Joiner, Joining, Member};
use crate::memory::Memories;
use crate::opened::{Opened, random};
use crate::parameters::Parameters;
use crate::run::Served;
use crate::storage::{self, Label};
use crate::targets::Targets;

/// The targets of a node, until they are stopped or dropped.
pub struct Serving {
    joining: Vec<Joining>,
    served: Served,
    devices: Arc<Devices>,
    administration: Option<Administration>,
    changelogs: Changelogs,
    parameters: Arc<Parameters>,
    /// They commit what is left when they are dropped, after the service has ended.
    committers: Vec<Committer>,
}

/// Why no target is served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// No directory can be used. Why was logged for each.
    #[error("none of them can be served:{}", list(.0))]
    None(Vec<Unserved>),
    /// A thread cannot be started.
    #[error("cannot start a thread that commits: {0}")]
    Thread(std::io::Error),
    /// There are no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(std::io::Error),
    /// A portal cannot be opened.
    #[error(
        "cannot open the portals of the targets: {0}. Does another service of the node use them?"
    )]
    Portals(Errno),
}

fn list(unserved: &[Unserved]) -> String {
    unserved.iter().map(|one| format!("\n  {one}")).collect()
}

/// The most bytes of bulk data under way.
const MOVING_MAX: usize = 1 << 30;
/// The longest request to cancel locks. Spec: ptlrpc-ldlm-mgs §2.2.
const CANCEL_MAX: u32 = 5 << 10;
/// The longest requests to an OST, and those with data or many ranges, also to an MDT.
const OST_MAX: u32 = 16 << 10;
const OST_IO_MAX: u32 = 64 << 10;
/// The longest requests to an MDT: with a layout, or an extended attribute.
const MDT_MAX: u32 = 128 << 10;
/// How many tenths of its usual window a target recovers: clients know from the management service
/// that it is back. Spec: ptlrpc-ldlm-mgs §15.1.
const IR_FACTOR: u8 = 5;

/// Where targets are served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The directories of the targets.
    pub directories: Vec<PathBuf>,
    /// The NIDs of the node, at which clients reach the targets.
    pub nids: Vec<Nid>,
    /// The TCP port of all nodes.
    pub port: u16,
}

impl Serving {
    /// Serves targets on a node. One that cannot be served does not keep the others from it: the log and
    /// [`Devices`] say why.
    ///
    /// # Errors
    /// Why not; then nothing is served.
    pub fn start(node: &Node, options: &ServeOptions) -> Result<Self, ServeError> {
        let memories = Memories::new(MOVING_MAX, Buffer::new);
        let key = random().map_err(ServeError::Random)?;
        let (opened, unserved) = open_all(&options.directories, &memories)?;
        let configs = opened.iter().map(Opened::config).collect();
        let parts = (1..).zip(&opened).map(|(place, one)| one.part(&memories, key ^ place));
        let targets = Targets::new(server(key, configs), parts.collect::<Vec<_>>());
        let served = Served::start(node, targets, memories).map_err(ServeError::Portals)?;
        let running = served.running().clone();
        let places = || (0..).map(TargetId).zip(&opened);
        let administration = places()
            .find_map(|(place, one)| one.mgs().map(|mgs| Administration::new(mgs, &served, place)));
        let members = places().filter_map(|(place, one)| one.named(place));
        let changelogs = Changelogs::new(opened.iter().filter_map(Opened::mdt));
        let parameters = Arc::new(Parameters::new(running.clone(), members, changelogs.clone()));
        let devices = Arc::new(Devices::new(running, places(), unserved));
        let (joining, committers) = (vec![], vec![]);
        let mut this =
            Self { joining, served, devices, administration, changelogs, parameters, committers };
        for (target, one) in places() {
            this.parameters.apply(target, &one.settings);
            this.begin(target, one)?;
        }
        for (target, one) in (0..).map(TargetId).zip(opened) {
            let Some(member) = one.member().cloned() else { continue };
            let Label::Target(label) = one.label else { continue };
            let joiner = Joiner {
                node: node.clone(),
                nids: options.nids.clone(),
                port: options.port,
                label,
                placement: one.placement,
                member,
                store: one.store,
                target,
                parameters: this.parameters.clone(),
            };
            this.joining.push(Joining::start(joiner).map_err(ServeError::Thread)?);
        }
        Ok(this)
    }

    /// Begins to serve a target, which recovers if it has known clients.
    fn begin(&mut self, target: TargetId, opened: &Opened) -> Result<(), ServeError> {
        opened.store.on_commit(self.served.on_commit(target));
        if let Some(Member::Mdt(_, osts)) = opened.member() {
            osts.on_change(self.served.resume());
        }
        let running = self.served.running();
        let begun = running.call(|targets, now| {
            targets.committed(now, target, Ok(opened.store.committed()));
            let known = opened.known_clients();
            let window = Window::of(targets.server().timeouts().base).imperative(IR_FACTOR);
            let exports = targets.recover(now, target, known, window);
            let restored = exports.into_iter().zip(known).try_for_each(|(export, known)| {
                match opened.member() {
                    Some(Member::Mdt(mdt, _)) => mdt.restore(export, known.client),
                    Some(Member::Ost(ost)) => ost.restore(export, known.client),
                    None => Ok(()),
                }
            });
            match restored {
                Ok(()) => {
                    targets.with_server(now, |server| server.set_state(target, TargetState::Open));
                }
                Err(why) => targets.stop(now, target, &why),
            }
        });
        begun.map_err(ServeError::Portals)?;
        let committer = Committer::start(opened.store.clone());
        self.committers.push(committer.map_err(ServeError::Thread)?);
        Ok(())
    }

    /// Returns the management service for its administrator, once, if the node has one.
    pub fn administration(&mut self) -> Option<Administration> {
        self.administration.take()
    }

    /// Returns the changelogs of the MDTs for their administrator.
    pub fn changelogs(&self) -> Changelogs {
        self.changelogs.clone()
    }

    /// Returns the targets, also those that are not served.
    pub fn devices(&self) -> Arc<Devices> {
        self.devices.clone()
    }

    /// Returns the parameters of the targets.
    pub fn parameters(&self) -> Arc<Parameters> {
        self.parameters.clone()
    }

    /// Stops the targets: their clients look for them elsewhere. What is in memory is committed.
    pub fn stop(self) {
        let Self { joining, served, devices, administration, committers, .. } = self;
        drop(administration);
        // They disconnect from other servers.
        drop(joining);
        // A node that has failed serves nothing any more.
        let _ = served.running().call(|machine, now| {
            machine.with_server(now, |server| {
                for target in 0..devices.served() as u32 {
                    server.set_state(TargetId(target), TargetState::Stopping);
                }
            });
        });
        drop((served, committers));
    }
}

/// Opens the targets in directories, as far as that is possible.
///
/// # Errors
/// If there is none.
fn open_all(
    directories: &[PathBuf],
    memories: &Arc<Memories<Buffer>>,
) -> Result<(Vec<Opened>, Vec<Unserved>), ServeError> {
    let (mut opened, mut unserved) = (vec![], vec![]);
    for directory in directories.iter().flat_map(|one| storage::parts_of(one)) {
        match Opened::open(&directory, &opened, memories) {
            Ok(one) => {
                info!("serving {} from {}", one.label, directory.display());
                opened.push(one);
            }
            Err(error) => unserved.push(Unserved { directory, why: error.to_string() }),
        }
    }
    if opened.is_empty() {
        return Err(ServeError::None(unserved));
    }
    for one in &unserved {
        error!("a target is not served: {one}");
    }
    Ok((opened, unserved))
}

fn server(key: u128, targets: Vec<TargetConfig>) -> Server {
    let objects = [portal::OST_REQUEST, portal::OST_CREATE, portal::SEQ_DATA];
    let sequences = [portal::SEQ_METADATA, portal::SEQ_CONTROLLER, portal::FLD_REQUEST];
    let metadata = [&[portal::MDS_REQUEST][..], &sequences].concat();
    let has_mdts = targets.iter().any(|target| target.kind == TargetKind::Mdt);
    let has_osts = targets.iter().any(|target| target.kind == TargetKind::Ost);
    let has_mgs = targets.iter().any(|target| target.kind == TargetKind::Mgs);
    let cancels = PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], CANCEL_MAX);
    let mut partitions = vec![cancels];
    if has_mgs {
        partitions.push(PartitionConfig::mgs());
    }
    if has_mdts {
        partitions.push(PartitionConfig::new("mdt", &metadata, MDT_MAX));
        partitions.push(PartitionConfig::new("mdt_readpage", &[portal::MDS_READPAGE], OST_MAX));
        // Operations that wait for locks do not keep data waiting that are written for them.
        partitions.push(PartitionConfig::new("mdt_io", &[portal::MDS_IO], OST_IO_MAX));
    }
    if has_osts {
        partitions.push(PartitionConfig::new("ost", &objects, OST_MAX));
        partitions.push(PartitionConfig::new("ost_io", &[portal::OST_IO], OST_IO_MAX));
    }
    let (exports, timeouts) = (ExportLimits::default(), Limits::default());
    Server::new(ServerConfig { key, partitions, targets, exports, timeouts })
}
