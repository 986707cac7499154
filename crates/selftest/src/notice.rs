//! Notices of the machine for the log.

use std::fmt;

use fulmar_base::Errno;
use fulmar_lnet_wire::{Nid, ProcessId};

/// A notice for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    /// A console has added this node to its session.
    SessionBegun { name: String, console: Nid },
    /// The session has ended.
    SessionEnded { name: String, console: Nid, why: SessionEnd },
    /// Received data differs from the sent data; has the first wrong word.
    Corrupted { peer: ProcessId, offset: usize, got: u64 },
    /// An invalid request.
    BadRequest { from: ProcessId, reason: &'static str },
    /// An RPC of a test failed.
    RpcFailed { peer: ProcessId, service: &'static str, errno: Errno },
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its console ended it.
    Removed,
    /// Its console was silent for too long.
    Expired,
    /// Another console took the node by force.
    Replaced,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionBegun { name, console } => {
                write!(f, "in selftest session \"{name}\" of {console}")
            }
            Self::SessionEnded { name, console, why } => {
                let why = match why {
                    SessionEnd::Removed => "its console ended it",
                    SessionEnd::Expired => "its console was silent for too long",
                    SessionEnd::Replaced => "another console took this node by force",
                };
                write!(f, "left selftest session \"{name}\" of {console}: {why}")
            }
            Self::Corrupted { peer, offset, got } => write!(
                f,
                "selftest data from {peer} is damaged: the word at {offset} is \
                 {got:#018x}"
            ),
            Self::BadRequest { from, reason } => {
                write!(f, "{from} sent an invalid selftest request: {reason}")
            }
            Self::RpcFailed { peer, service, errno } => {
                write!(f, "selftest {service} with {peer} failed: {errno}")
            }
        }
    }
}
