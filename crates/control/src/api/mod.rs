//! The administration API of a node: HTTP and JSON on a Unix socket.
//!
//! A node implements [`Admin`] and gives it to a [`Server`]; the command line calls it with a
//! [`Client`]. By hand: `curl --unix-socket /run/fulmar/control.sock -X POST
//! http://node/v1/net/show`.

mod client;
mod metrics;
mod operations;
mod routing;
mod server;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use client::{CallError, Client};
pub use operations::*;
pub use server::{BindError, Server, ServerHandle};

/// The maximum length of a request in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The most concurrent requests; a ping may take minutes.
pub const REQUESTS_MAX: usize = 64;
/// The most connections of each listener; further clients wait.
pub const CONNECTIONS_MAX: usize = 128;

/// The default socket of a node of root.
const SYSTEM_SOCKET: &str = "/run/fulmar/control.sock";

/// Returns the default paths of the socket: in the system's directory, or if that is not allowed in
/// the user's.
pub fn default_sockets() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR");
    let own = own.map(|directory| PathBuf::from(directory).join("fulmar/control.sock"));
    [PathBuf::from(SYSTEM_SOCKET)].into_iter().chain(own).collect()
}
