//! A message on its way in.

use fulmar_base::{ConnId, Sink};
use fulmar_lnet_wire::{Header, Nid};

/// A message that an LND is receiving, as LNet names it. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RxId(pub u64);

/// A header that an LND has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The connection, by which LNet answers.
    pub conn: ConnId,
    /// Our NID that the connection was made to.
    pub ni: Nid,
    /// The NID at the other end of the connection.
    pub from: Nid,
    /// The header.
    pub header: Header,
}

/// What LNet wants done with a message whose header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Put the first bytes of the payload there, and discard those beyond its length.
    Receive(Sink),
    /// Leave the payload unread until another verdict comes.
    Wait,
    /// The header breaks the protocol: close the connections of this peer.
    Reject,
}
