//! All targets of a node, served from their directories.

use std::path::PathBuf;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_ldlm::server::Config as LockConfig;
use fulmar_lustre_wire::{Opcode, Uuid, portal};
use fulmar_mgs::Mgs;
use fulmar_net::{Buffer, Node, Running, wall_clock};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{PartitionConfig, Server, ServerConfig, TargetConfig, TargetState};
use fulmar_rpc::timeouts::Limits;
use fulmar_store::{Committer, Store};
use thiserror::Error;

use crate::memory::Memories;
use crate::mgs::{MgsError, MgsTarget};
use crate::run::{self, TargetHost};
use crate::storage::{self, Label, StorageError};
use crate::targets::{Targets, TargetsConfig};

/// The targets of a node, until they are stopped or dropped.
pub struct Serving {
    running: Running<TargetHost>,
    targets: Vec<String>,
    /// They commit what is left when they are dropped, after the service has ended.
    _committers: Vec<Committer>,
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

impl Serving {
    /// Serves the targets in these directories on a node.
    ///
    /// # Errors
    /// Why not; then nothing is served.
    pub fn start(node: &Node, directories: &[PathBuf]) -> Result<Self, ServeError> {
        let memories = Memories::new(MOVING_MAX, Buffer::new);
        let key = random().map_err(ServeError::Random)?;
        let (mut configs, mut targets) = (Vec::new(), Vec::new());
        let (mut names, mut committers) = (Vec::new(), Vec::new());
        for directory in directories {
            let (label, store) = storage::open(directory)?;
            if names.contains(&label.to_string()) {
                let (directory, what) = (directory.clone(), label.to_string());
                return Err(ServeError::Twice { directory, what });
            }
            names.push(label.to_string());
            committers.push(Committer::start(store.clone()).map_err(ServeError::Thread)?);
            match label {
                Label::Mgs => {
                    configs.push(mgs_config());
                    targets.push(mgs(store, memories.clone(), key)?);
                }
            }
        }
        let server = server(key, configs);
        let targets = Targets::new(server, targets);
        let running = run::start(node, targets, memories).map_err(ServeError::Portals)?;
        Ok(Self { running, targets: names, _committers: committers })
    }

    /// Returns the names of the targets, such as `mgs`.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// Stops the targets: their clients look for them elsewhere. What is in memory is committed.
    pub fn stop(self) {
        let count = self.targets.len() as u32;
        // A node that has failed serves nothing any more.
        let _ = self.running.call(|targets, now| {
            targets.with_server(now, |server| {
                for target in 0..count {
                    server.set_state(TargetId(target), TargetState::Stopping);
                }
            });
        });
        self.running.close();
    }
}

fn server(key: u128, targets: Vec<TargetConfig>) -> Server {
    let count = targets.len() as u32;
    let mut server = Server::new(ServerConfig {
        key,
        partitions: vec![
            PartitionConfig::mgs(),
            PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], CANCEL_MAX),
        ],
        targets,
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    for target in 0..count {
        server.set_state(TargetId(target), TargetState::Open);
    }
    server
}

/// What clients know of a management service.
fn mgs_config() -> TargetConfig {
    let name = Uuid::new("MGS").expect("it is short");
    TargetConfig {
        kind: TargetKind::Mgs,
        name,
        uuid: name,
        operations: with_locks(Mgs::OPERATIONS),
    }
}

/// Returns the operations of a target with those of its locks. They are those of the process.
pub fn with_locks(own: &[Opcode]) -> &'static [Opcode] {
    let locks = [Opcode::LDLM_ENQUEUE, Opcode::LDLM_CONVERT, Opcode::LDLM_CANCEL];
    Vec::leak([own, &locks].concat())
}

fn mgs(
    store: Arc<Store>,
    memories: Arc<Memories<Buffer>>,
    key: u128,
) -> Result<TargetsConfig, MgsError> {
    let target = MgsTarget::open(store, memories, seconds)?;
    Ok(TargetsConfig { target, kind: TargetKind::Mgs, locks: LockConfig::mgs(), key: !key })
}

/// Returns a number that nobody can guess: the key of the handles that clients get.
fn random() -> std::io::Result<u128> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().fold(0, |key, byte| key << 8 | u128::from(*byte)))
}

/// Returns the seconds since 1970.
fn seconds() -> i64 {
    i64::try_from(wall_clock() / 1_000_000_000).unwrap_or(i64::MAX)
}
