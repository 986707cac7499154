//! Exports: what a server keeps for each client of each of its targets.
//!
//! ```text
//! CONNECT, no export of the client   -> Admission, a new export --+
//! CONNECT, one of the same client    -> Admission, reconnect -----+--> target answers --> connected
//! CONNECT, not possible now          -> errno                     |
//!                                                refused: a new export is removed, an old one stays
//! connected --> DISCONNECT, eviction by an administrator or by silence --> removed
//! ```
//!
//! An export is known to its client by a [`Handle`] that is never used again, and to the server by its
//! target and the UUID of the client. A target here has no recovery: what it knew of its clients
//! ended with it.

mod connect;
mod offer;
mod replies;
mod requests;
mod table;
#[cfg(test)]
mod tests;

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::{Handle, Uuid};

pub use connect::{Admission, Connect};
pub use offer::Offer;
use replies::{Replies, Seen};
pub use requests::Verdict;
pub use table::{ExportLimits, Exports};

/// A target of a server: its place in the server's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u32);

/// What a server keeps for one client of one target.
#[derive(Debug)]
pub struct Export {
    /// The target.
    pub target: TargetId,
    /// The client.
    pub client: Uuid,
    /// The client's handle for the connection, which callbacks carry.
    pub connection: Handle,
    /// The client's node: the primary NID.
    pub peer: ProcessId,
    /// What was granted.
    pub flags: ConnectFlags,
    /// More of what was granted.
    pub flags2: ConnectFlags2,
    /// The client's attempt to connect that succeeded last; 0 before the first.
    pub connection_count: u32,
    /// The client has the replies to all requests up to this XID.
    pub last_xid: u64,
    /// When the last request came.
    pub last_request: Time,
    /// Whether a request came after the connect.
    is_used: bool,
    /// Whether a CONNECT is in progress.
    is_connecting: bool,
    /// Replies that may be lost.
    replies: Replies,
}

/// Why an export was removed although its client did not disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// An administrator requested it.
    Administrator,
    /// Nothing came from the client for too long. Spec: ptlrpc-ldlm-mgs §16.3.
    Silence,
    /// The client repeated requests of an earlier start of a target that has no recovery.
    Replay,
    /// The client is a server that was restarted, and connects again.
    Replaced,
}
