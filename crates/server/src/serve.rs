//! All targets of a node, served from their directories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::portal;
use fulmar_net::{Buffer, Node, Running};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{PartitionConfig, Server, ServerConfig, TargetState, Window};
use fulmar_rpc::timeouts::Limits;
use fulmar_store::{Committer, Store};
use thiserror::Error;
use tracing::{error, info};

use crate::administration::Administration;
use crate::changelogs::Changelogs;
use crate::devices::{Devices, UnservedDirectory};
use crate::join::{JoinThread, Joiner, Member};
use crate::memory::Memories;
use crate::open_target::{OpenError, OpenTarget, random};
use crate::parameters::Parameters;
use crate::roster::{Roster, Service};
use crate::run::{RunningTargets, Starter, TargetHost};
use crate::storage::{self, Label};
use crate::targets::Targets;

/// The targets of a node, until they are stopped or the last handle is dropped. Clones are handles to the
/// same ones.
#[derive(Clone)]
pub struct Serving(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    node: Node,
    /// Those of the node, for targets that are started from now on.
    nids: Mutex<Vec<Nid>>,
    port: u16,
    memories: Arc<Memories<Buffer>>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) running: Running<TargetHost>,
    starter: Starter,
    parameters: Arc<Parameters>,
    devices: Arc<Devices>,
    /// Held while targets are started or stopped. `None` after the end.
    state: Mutex<Option<State>>,
}

/// What the targets have beside the machine.
pub(crate) struct State {
    served: RunningTargets,
    /// Their committers commit what is left when they are dropped, after the service has ended.
    pub(crate) hosted: BTreeMap<TargetId, TargetResources>,
}

/// What one target has beside the machine.
pub(crate) struct TargetResources {
    pub(crate) store: Weak<Store>,
    pub(crate) joining: Option<JoinThread>,
    pub(crate) committer: Committer,
}

/// Why no target is served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// No directory can be used. Why was logged for each.
    #[error("none of them can be served:{}", list(.0))]
    None(Vec<UnservedDirectory>),
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

fn list(unserved: &[UnservedDirectory]) -> String {
    unserved.iter().map(|one| format!("\n  {one}")).collect()
}

/// The most bytes of bulk data under way.
const MOVING_MAX: usize = 1 << 30;
/// The longest request to cancel locks. Spec: ptlrpc-ldlm-mgs §2.2.
const CANCEL_MAX: u32 = 5 << 10;
/// The longest requests to an OST, and those with data or many ranges, also to an MDT.
const OST_MAX: u32 = 16 << 10;
const OST_IO_MAX: u32 = 64 << 10;
/// The longest batch without its bulk data, and how many are executed at the same time: each may have 1 MiB of requests,
/// and as much of replies.
const BATCH_MAX: u32 = 8 << 10;
const BATCHES_MAX: u32 = 64;
/// The longest requests to an MDT: with a layout, or an extended attribute.
const MDT_MAX: u32 = 128 << 10;
/// How many tenths of its usual window a target recovers: clients know from the management service
/// that it is back. Spec: ptlrpc-ldlm-mgs §15.1.
const IR_FACTOR: u8 = 5;

/// Where targets are served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The directories of the first targets.
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
        let ServeOptions { directories, nids, port } = options;
        let this = Self::new(node, nids.clone(), *port)?;
        let parts: Vec<PathBuf> =
            directories.iter().flat_map(|one| storage::parts_of(one)).collect();
        let (opened, failed) = this.0.open(&parts);
        let unserved: Vec<UnservedDirectory> =
            failed.into_iter().map(|(unserved, _)| unserved).collect();
        if opened.is_empty() {
            return Err(ServeError::None(unserved));
        }
        for one in unserved {
            error!("a target is not served: {one}");
            this.0.roster.add_unserved(one);
        }
        if let Some(state) = &mut *this.0.state() {
            this.0.install(state, opened)?;
        }
        Ok(this)
    }

    /// Prepares to serve targets on a node, which are started later.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn new(node: &Node, nids: Vec<Nid>, port: u16) -> Result<Self, ServeError> {
        let memories = Memories::new(MOVING_MAX, Buffer::new);
        let key = random().map_err(ServeError::Random)?;
        let (exports, timeouts) = (ExportLimits::default(), Limits::default());
        let (partitions, targets) = (vec![], vec![]);
        let server = Server::new(ServerConfig { key, partitions, targets, exports, timeouts });
        let mut none = Targets::new(server, []);
        nids.first().into_iter().for_each(|nid| none.set_local(*nid));
        let served = RunningTargets::start(node, none, memories.clone());
        let served = served.map_err(ServeError::Portals)?;
        let (running, starter) = (served.running().clone(), served.starter());
        let roster = Arc::<Roster>::default();
        let parameters = Arc::new(Parameters::new(running.clone(), roster.clone()));
        let devices = Arc::new(Devices::new(running.clone(), roster.clone()));
        let (node, hosted) = (node.clone(), BTreeMap::new());
        let (state, nids) = (Mutex::new(Some(State { served, hosted })), Mutex::new(nids));
        Ok(Self(Arc::new(Inner {
            node,
            nids,
            port,
            memories,
            roster,
            running,
            starter,
            parameters,
            devices,
            state,
        })))
    }

    /// Says at which NIDs clients reach the targets that are started from now on: the networks of a node
    /// change.
    pub fn set_nids(&self, nids: Vec<Nid>) {
        if let Some(first) = nids.first().copied() {
            // A node that has failed serves nothing any more.
            let _ = self.0.running.call(|targets, _| targets.set_local(first));
        }
        *self.0.nids() = nids;
    }

    /// Returns the management service for its administrator, if the node serves one now.
    pub fn administration(&self) -> Option<Administration> {
        self.0.roster.served().into_iter().find_map(|(target, listed)| match listed.service {
            Service::Mgs(mgs) if mgs.strong_count() > 0 => {
                Some(Administration::new(mgs, target, self.0.starter.clone()))
            }
            _ => None,
        })
    }

    /// Returns the changelogs of the MDTs for their administrator.
    pub fn changelogs(&self) -> Changelogs {
        Changelogs::new(self.0.roster.clone())
    }

    /// Returns the targets, also those that are not served.
    pub fn devices(&self) -> Arc<Devices> {
        self.0.devices.clone()
    }

    /// Returns the parameters of the targets.
    pub fn parameters(&self) -> Arc<Parameters> {
        self.0.parameters.clone()
    }

    /// Stops all targets: their clients look for them elsewhere. What is in memory is committed. None is
    /// started after that.
    pub fn stop(&self) {
        let Some(mut state) = self.0.state().take() else { return };
        state.leave();
        // A node that has failed serves nothing any more.
        let _ = self.0.running.call(|machine, now| {
            machine.with_server(now, |server| {
                for target in state.hosted.keys() {
                    server.set_state(*target, TargetState::Stopping);
                }
            });
        });
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nids(&self) -> MutexGuard<'_, Vec<Nid>> {
        self.nids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the targets in directories, as far as that is possible.
    pub(crate) fn open(
        &self,
        directories: &[PathBuf],
    ) -> (Vec<OpenTarget>, Vec<(UnservedDirectory, OpenError)>) {
        let served = self.roster.served().into_iter();
        let mut names: Vec<String> = served.map(|(_, listed)| listed.device.name).collect();
        let (mut opened, mut failed) = (vec![], vec![]);
        for directory in directories {
            match OpenTarget::open(directory, &names, &self.memories) {
                Ok(one) => {
                    info!("serving {} from {}", one.label, directory.display());
                    names.push(one.label.to_string());
                    opened.push(one);
                }
                Err(error) => {
                    let (directory, why) = (directory.clone(), error.to_string());
                    failed.push((UnservedDirectory { directory, why }, error));
                }
            }
        }
        (opened, failed)
    }

    /// Serves targets that were opened. After an error none of those after it is served.
    pub(crate) fn install(
        &self,
        state: &mut State,
        opened: Vec<OpenTarget>,
    ) -> Result<(), ServeError> {
        let keys: Result<Vec<u128>, _> = opened.iter().map(|_| random()).collect();
        let keys = keys.map_err(ServeError::Random)?;
        // All at once: clients of a target that starts wait, those of one that is not there look elsewhere.
        let added = self.running.call(|targets, now| {
            let add = |(one, key): (&OpenTarget, u128)| {
                targets.with_server(now, |server| open_partitions(server, one.kind()));
                targets.add(one.config(), one.part(&self.memories, key))
            };
            opened.iter().zip(keys).map(add).collect::<Vec<TargetId>>()
        });
        let added = added.map_err(ServeError::Portals)?;
        for (target, one) in added.iter().zip(&opened) {
            self.roster.add(*target, one);
            self.parameters.apply(*target, &one.settings);
        }
        let mut result = Ok(());
        for (target, one) in added.into_iter().zip(opened) {
            if result.is_ok() {
                result = self.begin(state, target, one);
            }
            if result.is_err() {
                self.remove(target);
            }
        }
        result
    }

    /// Removes a target from what is served.
    pub(crate) fn remove(&self, target: TargetId) {
        // A node that has failed serves nothing.
        let _ = self.running.call(|targets, now| targets.remove(now, target));
        self.roster.remove(target);
    }

    /// Begins to serve a target, which recovers if it has known clients, and joins its file system.
    fn begin(
        &self,
        state: &mut State,
        target: TargetId,
        opened: OpenTarget,
    ) -> Result<(), ServeError> {
        opened.store.on_commit(state.served.on_commit(target));
        if let Some(Member::Mdt(_, osts)) = opened.member() {
            osts.on_change(state.served.resume());
        }
        let begun = self.running.call(|targets, now| recover(targets, now, target, &opened));
        begun.map_err(ServeError::Portals)?;
        let committer = Committer::start(opened.store.clone()).map_err(ServeError::Thread)?;
        let store = Arc::downgrade(&opened.store);
        let joining = self.joiner(target, opened).map(JoinThread::start).transpose();
        let joining = joining.map_err(ServeError::Thread)?;
        state.hosted.insert(target, TargetResources { store, joining, committer });
        Ok(())
    }

    /// Returns what makes a target a part of its file system, if it has one.
    fn joiner(&self, target: TargetId, opened: OpenTarget) -> Option<Joiner> {
        let member = opened.member().cloned()?;
        let Label::Target(label) = opened.label else { return None };
        Some(Joiner {
            node: self.node.clone(),
            nids: self.nids().clone(),
            port: self.port,
            label,
            placement: opened.placement,
            member,
            store: opened.store,
            target,
            parameters: self.parameters.clone(),
        })
    }
}

impl State {
    /// Has all targets disconnect from other servers.
    fn leave(&mut self) {
        self.hosted.values().filter_map(|one| one.joining.as_ref()).for_each(JoinThread::stop);
        self.hosted.values_mut().for_each(|one| drop(one.joining.take()));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Restores the exports of the known clients of a target, and opens it.
fn recover(targets: &mut Targets, now: Time, target: TargetId, opened: &OpenTarget) {
    targets.committed(now, target, Ok(opened.store.committed()));
    let known = opened.known_clients();
    let window = Window::of(targets.server().timeouts().base).imperative(IR_FACTOR);
    let exports = targets.recover(now, target, known, window);
    let restored =
        exports.into_iter().zip(known).try_for_each(|(export, known)| match opened.member() {
            Some(Member::Mdt(mdt, _)) => mdt.restore(export, known.client),
            Some(Member::Ost(ost)) => ost.restore(export, known.client),
            None => Ok(()),
        });
    match restored {
        Ok(()) => targets.with_server(now, |server| server.set_state(target, TargetState::Open)),
        Err(why) => targets.stop(now, target, &why),
    }
}

/// Opens the portals of a kind of targets, if it is the first one.
fn open_partitions(server: &mut Server, kind: TargetKind) {
    for partition in partitions_of(kind) {
        if !server.has_portal(partition.portals[0]) {
            server.add_partition(partition);
        }
    }
}

fn partitions_of(kind: TargetKind) -> Vec<PartitionConfig> {
    let objects = [portal::OST_REQUEST, portal::OST_CREATE, portal::SEQ_DATA];
    let sequences = [portal::SEQ_METADATA, portal::SEQ_CONTROLLER, portal::FLD_REQUEST];
    let metadata = [&[portal::MDS_REQUEST][..], &sequences].concat();
    let batches = PartitionConfig::new("mdt_batch", &[portal::OUT], BATCH_MAX);
    let cancels = PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], CANCEL_MAX);
    let own = match kind {
        TargetKind::Mdt => vec![
            PartitionConfig::new("mdt", &metadata, MDT_MAX),
            PartitionConfig::new("mdt_readpage", &[portal::MDS_READPAGE], OST_MAX),
            PartitionConfig { running_max: BATCHES_MAX, ..batches },
            // Operations that wait for locks do not keep data waiting that are written for them.
            PartitionConfig::new("mdt_io", &[portal::MDS_IO], OST_IO_MAX),
        ],
        TargetKind::Ost => vec![
            PartitionConfig::new("ost", &objects, OST_MAX),
            PartitionConfig::new("ost_io", &[portal::OST_IO], OST_IO_MAX),
        ],
        _ => vec![PartitionConfig::mgs()],
    };
    [vec![cancels], own].concat()
}
