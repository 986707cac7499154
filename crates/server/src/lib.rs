//! The targets of a server: what their clients request, executed under locks.
//!
//! ```text
//!  LNet ── events ──► rpc::Server ── requests ──► operations (async) ── Work ──► threads: storage
//!    ▲                    ▲                          │    ▲
//!    └────── posts ───────┴── replies, bulk data ────┘    │
//!                                                    ldlm::Namespace of each target
//! ```
//!
//! [`Targets`] is a machine of [`fulmar_lnet::Service`]. Each request becomes an operation, an async function
//! that locks what it needs, works on its target, moves bulk data and returns the reply. The machine owns
//! the RPC service and the locks, and polls the operations: there are no threads and no clock. What
//! may wait for a disk is a [`Work`], which the owner of the machine runs where it likes; the simulator runs
//! it at once.
//!
//! A [`Target`] is one kind of server: it gets a [`Context`], through which its operations reach all
//! of that.
// Targets have directories.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod administration;
mod changelogs;
mod context;
mod devices;
mod join;
mod live;
mod locks;
mod mdt;
mod memory;
mod mgs;
mod nodemaps;
mod opened;
mod ost;
mod osts;
mod parameters;
mod placement;
mod pool;
mod recovering;
mod roster;
mod run;
mod serve;
mod settings;
mod stopping;
mod storage;
mod target;
mod targets;
mod timing;
mod traced;
mod transfers;

pub use administration::Administration;
pub use changelogs::Changelogs;
pub use context::{Context, Lock, LockAnswer, LockWanted, Work};
pub use devices::{Device, Devices, Unserved};
pub use fulmar_mdt::ChangelogUserId;
pub use fulmar_mgs::{PoolChange, Pools, TargetName};
pub use fulmar_nodemap::{Change as NodemapChange, IdKind, Nodemaps, NotUnderstood, Property};
pub use live::ChangeError;
pub use locks::enqueue;
pub use mdt::MdtTarget;
pub use memory::{Memories, Memory, Moved, Part};
pub use mgs::{MgsError, MgsTarget};
pub use opened::with_locks;
pub use ost::OstTarget;
pub use osts::Osts;
pub use parameters::{Named, Parameters, Unset};
pub use placement::{NodeError, Partners, Placement, nodes_of};
pub use run::{Served, TargetHost};
pub use serve::{ServeError, ServeOptions, Serving};
pub use storage::{
    Label, StorageError, TargetLabel, complete, file_system_of, format, format_both, ost_of,
    parts_of, place, verify,
};
pub use target::{Answer, Operation, Target};
pub use targets::{Targets, TargetsConfig};
