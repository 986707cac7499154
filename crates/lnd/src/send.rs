//! A message to send, and the failures of sending.

use fulmar_base::{Errno, MessageId, Payload};
use fulmar_lnet_wire::{Header, Nid};

/// A message for an LND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Its identifier.
    pub message: MessageId,
    /// The local interface.
    pub ni: Nid,
    /// The peer of the connection: the target, or a router.
    pub next_hop: Nid,
    /// The LNet header.
    pub header: Header,
    /// The payload, with the length that the header has.
    pub payload: Payload,
}

/// The classes of a failed send. Spec: lnet-behaviour §11.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum FailureClass {
    LocalInterrupt = 1,
    LocalDropped,
    LocalAborted,
    LocalNoRoute,
    LocalError,
    LocalTimeout,
    RemoteError,
    RemoteDropped,
    RemoteTimeout,
    NetworkTimeout,
}

/// Why a message was not sent. Spec: lnet-behaviour §11.3, §11.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError {
    /// Which side is responsible, and whether the message may have been delivered.
    pub class: FailureClass,
    /// The error number for the event.
    pub errno: Errno,
}

impl SendError {
    /// A local failure that a retry does not change.
    pub const fn local_error(errno: Errno) -> Self {
        Self { class: FailureClass::LocalError, errno }
    }

    /// The local link is down; the message was not delivered.
    pub const fn local_dropped(errno: Errno) -> Self {
        Self { class: FailureClass::LocalDropped, errno }
    }

    /// The peer did not accept the message; it was not delivered.
    pub const fn remote_dropped(errno: Errno) -> Self {
        Self { class: FailureClass::RemoteDropped, errno }
    }

    /// The peer cannot be reached on this path.
    pub const fn remote_error(errno: Errno) -> Self {
        Self { class: FailureClass::RemoteError, errno }
    }
}
