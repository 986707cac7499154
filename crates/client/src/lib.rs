//! A client of a Lustre file system: what the management service says of it, and connections to its
//! targets.
//!
//! ```text
//! Address    "10.0.0.1@tcp:/lv"             the NIDs of the MGS, and a file system
//! Session    an LNet node and its imports   connect, request, wait
//! logs       the logs "lv-client", "params" read from the MGS
//! FileSystem the targets                    from the records of the logs
//! Members    the connections to the targets statfs, ping
//! usage      the size and the use           of each target and of the whole
//! ```
//!
//! Functions of [`Session`] wait; [`Address`], [`FileSystem`] and [`Usage`] are pure.
#![forbid(unsafe_code)]
// Functions that wait use clocks and sockets.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod address;
mod connect;
mod error;
mod file_system;
mod inbox;
mod logs;
mod members;
mod networks;
mod nodemaps;
mod parameters;
#[cfg(test)]
mod recorded;
mod session;
mod usage;

pub use address::{Address, AddressError};
pub use error::Error;
pub use file_system::{FileSystem, FsTarget};
pub use inbox::Reply;
pub use members::{Member, Members};
pub use networks::{networks_of, route};
pub use parameters::Setting;
pub use session::{Session, SessionOptions};
pub use usage::Usage;
