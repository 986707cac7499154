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
//! Names, attributes, layouts, sizes, extended attributes and data are cached as long as locks protect them. Somebody who
//! caches them further, such as a kernel, is told by a [`Watcher`] when to drop what; it does so
//! before another client gets the lock. The documentation of an operation says how many round trips it has
//! when nothing is cached. What was written is seen by others at once, is at the servers after some
//! seconds, and on their disks after [`File::sync`].
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
pub use files::attributes::{Attributes, Change, Entry, SetTime, inode};
pub use files::caller::Caller;
pub use files::directory::DirectoryItem;
pub use files::flock::FileLock;
pub use files::known::Protected;
pub use files::layout::{FileComponent, FileLayout, Piece};
pub use files::open::OpenOptions;
pub use files::special;
pub use files::xattrs::{ACL_ACCESS, ACL_DEFAULT};
pub use fulmar_data::Settings as DataSettings;
pub use fulmar_lustre_wire::mdt::XattrFlags;
pub use inbox::Reply;
pub use members::{Member, Members};
pub use networks::{networks_of, route};
pub use parameters::Setting;
pub use quota::{QuotaOwner, QuotaQuestion};
pub use session::{Interrupter, Session, SessionOptions};
pub use usage::Usage;
pub use watch::{Dropped, Stale, Watcher};
