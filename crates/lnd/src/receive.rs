//! A received message.

use fulmar_base::{ConnId, Sink};
use fulmar_lnet_wire::{Header, Nid};

/// LNet's identifier of a message that an LND is receiving. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RxId(pub u64);

/// A header that an LND has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The connection, which LNet names in its answer.
    pub conn: ConnId,
    /// The local NID of the connection.
    pub ni: Nid,
    /// The remote NID of the connection.
    pub from: Nid,
    /// The header.
    pub header: Header,
}

/// LNet's decision about a message whose header was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store the first bytes of the payload there, and discard those beyond its length.
    Receive(Sink),
    /// Leave the payload unread until the next verdict.
    Wait,
    /// The header violates the protocol: close the connections of this peer.
    Reject,
}
