//! The administration API of a node: HTTP and JSON on a Unix socket.
//!
//! A node implements [`Admin`] and gives it to a [`Server`]; the command line calls it with a
//! [`Client`]. By hand: `curl --unix-socket /run/fulmar/control.sock -X POST
//! http://node/v1/net/show`.

mod changes;
mod client;
mod connections;
mod error;
mod import;
mod live;
mod metrics;
mod operations;
mod page;
mod place;
mod places;
mod routing;
mod running;
mod server;
mod tables;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub use changes::{NodemapChange, PoolChange};
pub use client::{CallError, Client};
pub use error::AdminError;
pub use import::import;
pub use metrics::resident_bytes;
pub use operations::*;
pub use page::PAGE;
pub use place::Place;
pub use server::{BindError, Server, ServerHandle, remove_socket};
pub use tables::{TABLES, table};

/// The maximum length of a request in bytes: a configuration with 50,000 peers.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;
/// The most requests that run at the same time; others wait for them.
pub const REQUESTS_MAX: usize = 32;
/// The most concurrent requests that ask other nodes, which may take minutes; others are refused.
pub const QUERIES_MAX: usize = 32;
/// The most scrapes of the metrics port that run at the same time; others wait for them.
pub const SCRAPES_MAX: usize = 2;
/// The most connections of the control socket. A further client gets the place of the one that has
/// not sent its request, or read its reply, for longest.
pub const CONNECTIONS_MAX: usize = 64;
/// The same of the metrics port. Each may hold all metrics in memory.
pub const SCRAPERS_MAX: usize = 8;
/// The timeout of a request, from the start of its connection.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a sample, which may come from another machine.
pub const SAMPLE_BYTES_MAX: usize = 8 << 20;
/// The longest time in which a client reads nothing of its reply.
pub const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest time in which a client reads its whole reply.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

// Not all clients may wait for other nodes.
const _: () = assert!(QUERIES_MAX < CONNECTIONS_MAX);

/// The default socket of a node of root.
const SYSTEM_SOCKET: &str = "/run/fulmar/control.sock";

/// Returns the default paths of the socket: in the system's directory, or if that is not allowed in
/// the user's.
pub fn default_sockets() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR");
    let own = own.map(|directory| PathBuf::from(directory).join("fulmar/control.sock"));
    [PathBuf::from(SYSTEM_SOCKET)].into_iter().chain(own).collect()
}
