//! A client of a Lustre file system: what the management service says of it, connections to its
//! targets, and its files.
//!
//! # Files
//!
//! A [`ClientNode`] is an LNet node that mounts file systems. A [`FileSystem`] has the operations of a kernel's file
//! system as async functions: they wait, and nothing but the node's threads works for them, so any
//! executor will do. [`blocking`] has the same for programs that wait, with paths:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use fulmar_client::{Address, OpenOptions, SessionOptions, blocking};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: Address = "10.0.0.1@tcp:/lv".parse()?;
//! let options = SessionOptions { interface: None, port: 988, timeout: Duration::from_secs(30) };
//! let lv = blocking::FileSystem::mount(&address, options)?;
//! lv.mkdir("results", 0o755)?;
//! let file = lv.open("results/first", OpenOptions::create(0o644))?;
//! file.write(0, *b"42")?;
//! file.sync()?;
//! file.close()?;
//! for item in lv.list("results")? {
//!     println!("{} is {}", String::from_utf8_lossy(&item.name), item.fid);
//! }
//! lv.unmount();
//! # Ok(()) }
//! ```
//!
//! Names, attributes, layouts, sizes, extended attributes and data are cached as long as locks
//! protect them. A cache above this one, such as a kernel's, has a [`Watcher`], which is called to
//! drop them before another client gets the lock. The documentation of an operation says how many
//! round trips it has when nothing is cached. What was written is seen by others at once, is at the
//! servers after some seconds, and on their disks after [`File::sync`].
//!
//! # The configuration
//!
//! ```text
//! Address       "10.0.0.1@tcp:/lv"             the NIDs of the MGS, and a file system
//! Session       an LNet node and its imports   connect, request, wait
//! logs          the logs "lv-client", "params" read from the MGS
//! Configuration the targets                    from the records of the logs
//! Members       the connections to the targets statfs, ping
//! usage         the size and the use           of each target and of the whole
//! ```
//!
//! Functions of [`Session`] wait; [`Address`], [`Configuration`] and [`Usage`] are pure.
//!
//! # Sessions
//!
//! A `Session` is an LNet node with the machine `rpc::client`, until it is dropped. The management
//! service (MGS) has two logs for a client: `lv-client` says which targets the file system has,
//! with the NIDs of each and of its failover nodes; `params` has parameters for all clients, of
//! which only those count here that switch targets off. Reading a log (`logs`) and understanding
//! its records (`config`) are pure.
//!
//! The session waits for all servers together until its deadline, and gives up a target earlier
//! when it was found at none of its NIDs. Its connections are light: targets keep no record of them
//! and do not wait for them when they recover. To the MGS it says that it takes part in imperative
//! recovery, since one client that does not would switch that off for the whole file system.
//!
//! The node of a session listens on the port of LNet if it may, so that no two nodes of a machine
//! have the same NID: the second one does not start. Without the privilege it does not listen
//! there, and servers distinguish it by its own port.
//!
//! # What is cached
//!
//! A `ClientNode` is an LNet node with the machine `Mounts`, which has the imports, the locks
//! (`ldlm::client::Namespace`) and the callbacks of all mounts of the node: callbacks arrive at one
//! portal, so mounts of a node share a service. Operations of users are async functions over a
//! `Context`; the machine polls them where it handles its inputs (`tasks`, as the targets of a
//! server do). They use the machine's state between two awaits, so what is cached needs no command
//! and no thread. A future of the interface only waits; dropping it does not end the operation.
//!
//! | cached | as long as | dropped by |
//! |---|---|---|
//! | a name, and its file | the file's `LOOKUP` bit | a blocking callback, or a request of this client that carries the lock (early cancel) |
//! | a name that does not exist | the directory's `UPDATE` bit, if it was not lost while the MDT was asked | the same |
//! | a name that is not in a striped directory | the `UPDATE` bits of the directory and of the stripe of the name | the same |
//! | names as they were read from a directory or a stripe of it, for who has read them; 32 MiB at most | its `UPDATE` bit, if it was not lost meanwhile | the same |
//! | attributes and ACL | `UPDATE` and `PERM`; those of a striped directory also those of its stripes | the same |
//! | the layout | `LAYOUT` | the same |
//! | extended attributes | `XATTR` | the same |
//! | an open for reading, without a user | the file's `OPEN`, `LOOKUP` and `PERM` | the same; then its handle is closed |
//! | the size and the times of an object | a lock on its data up to the end | the same; beyond what is left of it the size is unknown |
//! | the data of an object, also those not written yet | a lock on them | the same, after what is dirty was written |
//!
//! Dirty data are written when they are 5 s old, and 1 s after the last close of their file.
//!
//! A lock is given up only after what it protected is dropped here, and by the `Watcher` of the
//! mount, which caches it further: it is called without any lock of the machine, and may wait. The
//! size of a file is asked of all objects at once (glimpse), except those with such locks; a client
//! that has just created the file gets the locks to write it with that. The holder of such a lock
//! answers a glimpse with what was written there, and writes nothing.
//!
//! After a restart of a target the imports replay opens, changes and writes with their data, and
//! the locks; an open names its new handle, also in a close that is under way. An eviction drops
//! everything of that target; files that were open at it fail, others do not notice.
#![forbid(unsafe_code)]
// Functions that wait use clocks and sockets.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod address;
mod api;
mod config;
mod connect;
mod data;
mod error;
mod files;
mod follow;
mod inbox;
mod logs;
mod machine;
mod members;
mod mounting;
mod networks;
mod nodemaps;
mod parameters;
mod quota;
#[cfg(test)]
mod recorded;
mod session;
mod usage;
mod watch;

pub use address::{Address, AddressError};
pub use api::{ClientNode, File, FileSystem, MountOptions, Process, blocking};
pub use config::{Configuration, FsTarget};
pub use data::{Allocate, Seek};
pub use error::Error;
pub use files::accesses::AccessTimes;
pub use files::attributes::{Attributes, Change, Entry, SetTime, file_of_inode, inode};
pub use files::caller::Caller;
pub use files::directory::DirectoryItem;
pub use files::flock::FileLock;
pub use files::known::Protection;
pub use files::layout::{FileComponent, FileLayout, Piece};
pub use files::open::OpenOptions;
pub use files::special;
pub use files::xattrs::{ACL_ACCESS, ACL_DEFAULT};
pub use fulmar_data::{Settings as DataSettings, Stability};
pub use fulmar_lustre_wire::mdt::XattrFlags;
pub use inbox::Reply;
pub use machine::requester::Requester;
pub use members::{Member, Members};
pub use networks::{networks_of, route};
pub use parameters::Setting;
pub use quota::{QuotaOwner, QuotaQuestion};
pub use session::{Interrupter, Session, SessionOptions};
pub use usage::Usage;
pub use watch::{Stale, StaleGuard, Watcher};
