//! A message on its way out, and how sending fails.

use fulmar_base::{Errno, MessageId, Payload};
use fulmar_lnet_wire::{Header, Nid};

/// A message for an LND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Its name.
    pub message: MessageId,
    /// The interface that carries it.
    pub ni: Nid,
    /// The peer at the other end of the connection: the target, or a router.
    pub next_hop: Nid,
    /// The LNet header.
    pub header: Header,
    /// As many bytes as the header says.
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
    /// Who is to blame, and whether the message may have been delivered.
    pub class: FailureClass,
    /// The error number that an event carries.
    pub errno: Errno,
}

impl SendError {
    /// Something here failed, and would fail again.
    pub const fn local_error(errno: Errno) -> Self {
        Self { class: FailureClass::LocalError, errno }
    }

    /// Our own link is down; the message was not delivered.
    pub const fn local_dropped(errno: Errno) -> Self {
        Self { class: FailureClass::LocalDropped, errno }
    }

    /// The peer did not take the message; it was not delivered.
    pub const fn remote_dropped(errno: Errno) -> Self {
        Self { class: FailureClass::RemoteDropped, errno }
    }

    /// The peer cannot be reached on this path at all.
    pub const fn remote_error(errno: Errno) -> Self {
        Self { class: FailureClass::RemoteError, errno }
    }
}
