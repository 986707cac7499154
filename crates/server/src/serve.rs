//! All targets of a node, served from their directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::server::Config as LockConfig;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::{Opcode, Uuid, portal};
use fulmar_mdt::Mdt;
use fulmar_mgs::Mgs;
use fulmar_net::{Buffer, Node, wall_clock};
use fulmar_ost::{Ost, Settings};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    PartitionConfig, Server, ServerConfig, TargetConfig, TargetState, Window,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_store::{Committer, Store};
use thiserror::Error;
use tracing::info;

use crate::administration::Administration;
use crate::changelogs::Changelogs;
use crate::join::{Joiner, Joining, Member};
use crate::mdt::MdtTarget;
use crate::memory::Memories;
use crate::mgs::{MgsError, MgsTarget};
use crate::nodemaps;
use crate::ost::OstTarget;
use crate::osts::Osts;
use crate::parameters::Parameters;
use crate::placement::Placement;
use crate::run::Served;
use crate::settings;
use crate::storage::{self, Label, StorageError, TargetLabel};
use crate::targets::{Targets, TargetsConfig};

/// The targets of a node, until they are stopped or dropped.
pub struct Serving {
    joining: Vec<Joining>,
    served: Served,
    targets: Vec<String>,
    administration: Option<Administration>,
    changelogs: Changelogs,
    parameters: Arc<Parameters>,
    /// They commit what is left when they are dropped, after the service has ended.
    committers: Vec<Committer>,
}

/// Why targets are not served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A directory cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The configurations cannot be used.
    #[error(transparent)]
    Mgs(#[from] MgsError),
    /// Two directories are for the same.
    #[error("{} is that of a second {what}: a node has one", directory.display())]
    Twice {
        /// The second one.
        directory: PathBuf,
        /// What it is for.
        what: String,
    },
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

/// A target that was opened.
struct Opened {
    label: Label,
    store: Arc<Store>,
    member: Option<Member>,
}

impl Serving {
    /// Serves targets on a node.
    ///
    /// # Errors
    /// Why not; then nothing is served.
    pub fn start(node: &Node, options: &ServeOptions) -> Result<Self, ServeError> {
        let memories = Memories::new(MOVING_MAX, Buffer::new);
        let key = random().map_err(ServeError::Random)?;
        let (mut configs, mut targets, mut opened) = (Vec::new(), Vec::new(), Vec::new());
        let mut mgs = None;
        for directory in options.directories.iter().flat_map(|one| storage::parts_of(one)) {
            let one = Opened::open(&directory, &opened)?;
            info!("serving {} from {}", one.label, directory.display());
            configs.push(one.config()?);
            let place = targets.len() as u32;
            let key = key ^ (u128::from(place) + 1);
            targets.push(match &one.member {
                Some(member) => one.target(member, &memories, key),
                None => {
                    let opened = MgsTarget::open(one.store.clone(), memories.clone(), seconds)?;
                    mgs = Some((TargetId(place), opened.clone()));
                    let (kind, locks) = (TargetKind::Mgs, LockConfig::mgs());
                    let name = one.label.to_string();
                    TargetsConfig { name, target: opened, kind, locks, key }
                }
            });
            opened.push(one);
        }
        let targets = Targets::new(server(key, configs), targets);
        let served = Served::start(node, targets, memories).map_err(ServeError::Portals)?;
        let administration = mgs.map(|(place, mgs)| Administration::new(&mgs, &served, place));
        let members = (0..).zip(&opened).filter_map(|(place, one)| one.named(TargetId(place)));
        let changelogs = Changelogs::new(opened.iter().filter_map(Opened::mdt));
        let running = served.running().clone();
        let parameters = Arc::new(Parameters::new(running, members, changelogs.clone()));
        let (joining, targets, committers) = (vec![], vec![], vec![]);
        let mut this =
            Self { joining, served, targets, administration, changelogs, parameters, committers };
        for (place, one) in (0..).zip(&opened) {
            let known = settings::load(&one.store).map_err(StorageError::from)?;
            this.parameters.apply(TargetId(place), &known);
            if let Some(member) = &one.member {
                nodemaps::restore(&one.store, member).map_err(StorageError::from)?;
            }
            this.begin(TargetId(place), one)?;
        }
        for (place, one) in (0..).zip(opened) {
            this.targets.push(one.label.to_string());
            if let (Label::Target(label), Some(member)) = (one.label, one.member) {
                let (node, nids, port) = (node.clone(), options.nids.clone(), options.port);
                let placement = Placement::load(&one.store).map_err(StorageError::from)?;
                let (target, parameters) = (TargetId(place), this.parameters.clone());
                let store = one.store;
                let joiner = Joiner {
                    node,
                    nids,
                    port,
                    label,
                    placement,
                    member,
                    store,
                    target,
                    parameters,
                };
                this.joining.push(Joining::start(joiner).map_err(ServeError::Thread)?);
            }
        }
        Ok(this)
    }

    /// Begins to serve a target, which recovers if it has known clients.
    fn begin(&mut self, target: TargetId, opened: &Opened) -> Result<(), ServeError> {
        opened.store.on_commit(self.served.on_commit(target));
        if let Some(Member::Mdt(_, osts)) = &opened.member {
            osts.on_change(self.served.resume());
        }
        let running = self.served.running();
        let begun = running.call(|targets, now| {
            targets.committed(now, target, Some(opened.store.committed()));
            let known = match &opened.member {
                Some(Member::Mdt(mdt, _)) => mdt.known_clients(),
                Some(Member::Ost(ost)) => ost.known_clients(),
                None => &[],
            };
            let window = Window::of(targets.server().timeouts().base).imperative(IR_FACTOR);
            let exports = targets.recover(now, target, known, window);
            for (export, known) in exports.into_iter().zip(known) {
                let restored = match &opened.member {
                    Some(Member::Mdt(mdt, _)) => mdt.restore(export, known.client),
                    Some(Member::Ost(ost)) => ost.restore(export, known.client),
                    None => Ok(()),
                };
                restored.map_err(StorageError::from)?;
            }
            targets.with_server(now, |server| server.set_state(target, TargetState::Open));
            Ok::<(), ServeError>(())
        });
        begun.map_err(ServeError::Portals)??;
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

    /// Returns the names of the targets, such as `MGS`.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// Returns the parameters of the targets.
    pub fn parameters(&self) -> Arc<Parameters> {
        self.parameters.clone()
    }

    /// Stops the targets: their clients look for them elsewhere. What is in memory is committed.
    pub fn stop(self) {
        let Self { joining, served, targets, administration, committers, .. } = self;
        drop(administration);
        // They disconnect from other servers.
        drop(joining);
        // A node that has failed serves nothing any more.
        let _ = served.running().call(|machine, now| {
            machine.with_server(now, |server| {
                for target in 0..targets.len() as u32 {
                    server.set_state(TargetId(target), TargetState::Stopping);
                }
            });
        });
        drop((served, committers));
    }
}

impl Opened {
    /// Opens the target in a directory.
    fn open(directory: &Path, others: &[Self]) -> Result<Self, ServeError> {
        let (label, store) = storage::open(directory)?;
        let is_twice = |other: &Self| other.label.to_string() == label.to_string();
        if others.iter().any(is_twice) {
            let (directory, what) = (directory.to_owned(), label.to_string());
            return Err(ServeError::Twice { directory, what });
        }
        let member = match &label {
            Label::Mgs => None,
            Label::Target(label) => Some(member(label, &store)?),
        };
        Ok(Self { label, store, member })
    }

    /// Returns what clients know of it.
    fn config(&self) -> Result<TargetConfig, ServeError> {
        let uuid = |text: &str| Uuid::new(text).expect("names are short");
        let name = self.label.to_string();
        let kind = self.kind();
        let (id, operations) = match kind {
            TargetKind::Mdt => (format!("{name}_UUID"), Mdt::OPERATIONS),
            TargetKind::Ost => (format!("{name}_UUID"), Ost::OPERATIONS),
            _ => (name.clone(), Mgs::OPERATIONS),
        };
        let operations = with_locks(operations);
        Ok(TargetConfig { kind, name: uuid(&name), uuid: uuid(&id), operations })
    }

    /// Returns the MDT or OST with its name, if it is one.
    fn named(&self, target: TargetId) -> Option<(TargetId, String, Member)> {
        match (&self.label, &self.member) {
            (Label::Target(label), Some(member)) => {
                Some((target, label.name().to_string(), member.clone()))
            }
            _ => None,
        }
    }

    /// Returns the MDT with its name, if it is one.
    fn mdt(&self) -> Option<(String, Arc<Mdt>)> {
        match (&self.label, &self.member) {
            (Label::Target(label), Some(Member::Mdt(mdt, _))) => {
                Some((label.name().to_string(), mdt.clone()))
            }
            _ => None,
        }
    }

    fn kind(&self) -> TargetKind {
        match &self.label {
            Label::Mgs => TargetKind::Mgs,
            Label::Target(label) => label.kind,
        }
    }

    fn target(
        &self,
        member: &Member,
        memories: &Arc<Memories<Buffer>>,
        key: u128,
    ) -> TargetsConfig {
        let (store, memories) = (self.store.clone(), memories.clone());
        let (kind, name) = (self.kind(), self.label.to_string());
        match member {
            Member::Mdt(mdt, osts) => {
                let parts = (mdt.clone(), osts.clone(), store);
                let target = MdtTarget::new(parts, memories, now);
                TargetsConfig { name, target, kind, locks: LockConfig::mdt(), key }
            }
            Member::Ost(ost) => {
                let target = OstTarget::new(ost.clone(), store, memories, now);
                TargetsConfig { name, target, kind, locks: LockConfig::ost(), key }
            }
        }
    }
}

/// Starts the MDT or the OST of a store.
fn member(label: &TargetLabel, store: &Arc<Store>) -> Result<Member, ServeError> {
    if label.kind == TargetKind::Mdt {
        let key = random().map_err(ServeError::Random)?;
        let random = [key as u64, (key >> 64) as u64];
        let settings = fulmar_mdt::Settings { index: label.index, random, ..Default::default() };
        let osts = Osts::load(store, seconds()).map_err(StorageError::from)?;
        let mdt = Mdt::start(store.clone(), settings, osts.clone(), seconds());
        return Ok(Member::Mdt(Arc::new(mdt.map_err(StorageError::from)?), osts));
    }
    let settings = Settings { index: label.index, ..Settings::default() };
    let ost = Ost::start(store.clone(), settings).map_err(StorageError::from)?;
    Ok(Member::Ost(Arc::new(ost)))
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

/// Returns the operations of a target with those of its locks. They are those of the process.
pub fn with_locks(own: &[Opcode]) -> &'static [Opcode] {
    let locks = [Opcode::LDLM_ENQUEUE, Opcode::LDLM_CONVERT, Opcode::LDLM_CANCEL];
    Vec::leak([own, &locks].concat())
}

/// Returns a number that nobody can guess: the key of the handles that clients get.
fn random() -> std::io::Result<u128> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().fold(0, |key, byte| key << 8 | u128::from(*byte)))
}

/// Returns the time since 1970.
fn now() -> Duration {
    Duration::from_nanos(wall_clock())
}

/// Returns the seconds since 1970.
fn seconds() -> i64 {
    i64::try_from(wall_clock() / 1_000_000_000).unwrap_or(i64::MAX)
}
