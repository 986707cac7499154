//! The management service of Lustre file systems: which targets and settings each has.
//!
//! Pure: the requests of clients go in, replies come out. Locks on configurations are those of the
//! lock manager.
//!
//! # Logs
//!
//! A configuration is a log of records, in groups between two markers: create a device, start it,
//! add a target (Spec: ptlrpc-ldlm-mgs §29 to §31). A target that registers (`Mgs::register`, §33)
//! is written into the log of clients, those of all MDTs, and its own, with the records and in the
//! order of a kernel MGS (`records`); groups that are replaced are cancelled in place. `Log` gives
//! its readers the header and chunks of 8 KiB; a record never crosses one. `Table` has the latest
//! start of each target: clients that read it reconnect at once (imperative recovery, §32.2).
//!
//! An administrator changes the same logs (`parameters`, `pools`): a parameter is a group of its
//! own in each log whose readers it concerns. A new value cancels the old group in place; the same
//! value again changes nothing. Pools are in the logs of clients and MDTs. The commands come over
//! the control socket of the node (`server::Administration`, `daemon::mgs`), as those of a kernel
//! MGS come by ioctl. An MDT of ours reads its pools with the OSTs (`server::join`). Rules of the
//! security (`srpc.*`) and `failover.node` are refused.
//!
//! The crate is pure. What is to be stored comes out as keys (`Mgs::take_changes`, `keep`), one for
//! each record, target and file system. `server::MgsTarget` works on a clone, stores the keys with
//! a commit, and only then uses the clone and replies. Then it takes the lock of what has changed
//! and gives it back at once: every client that has read it is called back, and reads it again.
#![forbid(unsafe_code)]

mod keep;
mod log;
mod nodemap;
mod parameters;
mod pools;
mod records;
mod register;
mod service;
mod table;
mod target;

pub use keep::{Change, DamagedKeys};
pub use log::{Block, Log};
pub use pools::{PoolChange, Pools};
pub use register::{ConfigurationChange, Registration, split_nodes};
pub use service::Mgs;
pub use table::{Start, Table};
pub use target::{Target, TargetName, is_file_system_name};
