//! Exports: what a server keeps for each client of each of its targets.
//!
//! ```text
//! CONNECT, no export of the client   -> Admission, a new export --+
//! CONNECT, one of the same client    -> Admission, reconnect -----+--> target answers --> connected
//! CONNECT, not possible now          -> errno                     |
//!                                                refused: a new export is removed, an old one stays
//! connected --> DISCONNECT, or an Eviction --> removed
//! ```
//!
//! An export is known to its client by a [`Handle`] that is never used again, and to the server by its
//! target and the UUID of the client. A target that starts restores the exports of the clients that it
//! knows from its disk; they are expected to connect while it recovers.

mod connect;
mod imports;
mod offer;
mod replies;
mod requests;
mod table;
#[cfg(test)]
mod tests;

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::message::Flavor;
use fulmar_lustre_wire::{Handle, Uuid};

pub use connect::{Admission, Connect};
pub use offer::Offer;
use replies::{Replies, SlotCheck};
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
    /// How messages of the connection are protected.
    pub flavor: Flavor,
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
    /// How it takes part in the recovery of its target.
    part: Part,
    /// Whether a CONNECT is in progress.
    is_connecting: bool,
    /// Whether it is an import of this node, whose server sends callbacks.
    is_import: bool,
    /// Replies that may be lost.
    replies: Replies,
}

impl Export {
    /// Returns the export of a client that is not connected.
    fn new(now: Time, target: TargetId, client: Uuid, peer: ProcessId) -> Self {
        Self {
            target,
            client,
            connection: Handle::NONE,
            peer,
            flavor: Flavor::NULL,
            flags: ConnectFlags::NONE,
            flags2: ConnectFlags2::default(),
            connection_count: 0,
            last_xid: 0,
            last_request: now,
            is_used: false,
            part: Part::None,
            is_connecting: false,
            is_import: false,
            replies: Replies::default(),
        }
    }
}

/// How a client takes part in the recovery of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It is expected to connect: it was known before the restart.
    Expected,
    /// It has connected during the recovery.
    Present,
    /// The target does not recover.
    None,
}

/// Why an export was removed although its client did not disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// An administrator requested it.
    Administrator,
    /// The client kept a lock that others wait for. Spec: ptlrpc-ldlm-mgs §22.6.
    NotCancelled,
    /// The client did not answer a callback about a lock, or with an error.
    /// Spec: ptlrpc-ldlm-mgs §22.5.
    NotAnswered,
    /// Nothing came from the client for too long. Spec: ptlrpc-ldlm-mgs §16.3.
    Silence,
    /// The client repeated requests of an earlier start of a target that does not recover.
    Replay,
    /// The recovery of the target ended without the client, or its replays did not fit.
    Recovery,
    /// The client is a server that was restarted, and connects again.
    Replaced,
}
