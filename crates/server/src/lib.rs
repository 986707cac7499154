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
//!
//! # Operations
//!
//! The machine polls the operations in the order in which they became ready, and does what they
//! want:
//!
//! | an operation | by its `Context` |
//! |---|---|
//! | waits for a lock of its own, which ends when it is dropped | `lock` |
//! | lets the lock manager answer a client's enqueue, also with a lock of the operation (intents) | `enqueue`, `replace` |
//! | moves bulk data between the client and memory that is bounded for all and for each node (`Memories`) | `transfer` |
//! | works with its storage, which may wait for a disk | `run` |
//! | reads or changes a few keys of its store, which takes microseconds | `run_on_keys` |
//! | reads some pages of an object, whose bytes go with the reply | `run_to_read` |
//! | returns its answer: a reply, a reply whose change locks protect until the client has it (*difficult*), or none | |
//!
//! `Serving` opens the directories of the targets of a node, restores the exports of known clients
//! and begins their recovery, and stops it all. A directory has the label that `mkfs` gave it
//! (`storage`); that of `mkfs --mgs --mdt` has a directory for each of both. An MDT and an OST have
//! a thread that makes them a part of their file system (`join`): it registers with the MGS and
//! reports the start; an OST connects to MDT0000 for sequences of objects; an MDT follows the OSTs
//! in the configuration. The networks whose NIDs are registered, and the other nodes that may run
//! the target, are kept in its store (`placement`). It begins again when something is missing.
//! Clients are served meanwhile.
//!
//! # Failures
//!
//! A failure concerns its target alone. A directory that cannot be used (missing, foreign, in use,
//! of another version, damaged, read-only) is passed over; the node ends with status 1 only if no
//! target is left. A store that ends takes its target with it: new requests get ENODEV, those under
//! way no answer, so clients wait and replay as after a crash, until the target is stopped and
//! started again, or the node is. `server::Devices` says what is served and why not, for the log,
//! the service manager, `lctl dl` and `health_check`. A full disk ends nothing: what needs room
//! gets ENOSPC, removals and the start of a target do not need any. `fulmar up` does not make a
//! missing part of its directory again: that is an error. Its `--mount` is a client on the node of
//! the servers, in a thread that tries until the targets have registered; it unmounts before they
//! stop, so that what is cached reaches them.
//!
//! # Recorded conversations
//!
//! What kernel clients have sent to kernel servers is sent to the machine again, in its order and
//! in virtual time, with the handles that ours gave. Each reply, callback and bulk transfer is
//! compared with the recorded one, field by field (`tests/serving/recorded`); `known` lists what
//! may be different and why, and an entry that explains nothing fails the tests. One recording is
//! of an OST that joins: its MGS and MDT are ours, and ours is the OST that the recorded MDT
//! connects to. `tests/serving/joining` is the other direction: an OST of ours joins the recorded
//! MGS and MDT.
// Targets have directories.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod administration;
mod changelogs;
mod context;
mod debug_log;
mod devices;
mod groups;
mod join;
mod live;
mod locks;
mod mdt;
mod memory;
mod mgs;
mod nodemaps;
mod open_target;
mod ost;
mod osts;
mod parameters;
mod placement;
mod pool;
mod recovery;
mod roster;
mod run;
mod serve;
mod settings;
mod silent;
mod stop_signal;
mod storage;
mod target;
mod targets;
mod timing;
mod transfers;

pub use administration::Administration;
pub use changelogs::Changelogs;
pub use context::{Context, Lock, LockAnswer, LockRequest, Work};
pub use devices::{Device, Devices, UnservedDirectory};
pub use fulmar_mdt::ChangelogUserId;
pub use fulmar_mgs::{PoolChange, Pools, TargetName};
pub use fulmar_nodemap::{Change as NodemapChange, IdKind, Nodemaps, NotUnderstood, Property};
pub use live::ChangeError;
pub use locks::enqueue;
pub use mdt::MdtTarget;
pub use memory::{Memories, Memory, OperationMemory, Part};
pub use mgs::{MgsError, MgsTarget};
pub use open_target::with_locks;
pub use ost::OstTarget;
pub use osts::Osts;
pub use parameters::{NamedValue, Parameters, Unset};
pub use placement::{NodeError, Partners, Placement, nodes_of};
pub use run::{RunningTargets, TargetHost};
pub use serve::{ServeError, ServeOptions, Serving};
pub use storage::{
    Label, StorageError, TargetLabel, complete, file_system_of, format, format_both, ost_of,
    parts_of, place, verify,
};
pub use target::{Answer, Operation, Target, TargetsConfig};
pub use targets::Targets;
