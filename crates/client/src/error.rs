//! Why a file system cannot be used, for people.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

/// Why a file system cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The LNet node of this program does not start.
    #[error(transparent)]
    Start(#[from] fulmar_net::StartError),
    /// The node of this program has failed.
    #[error("the LNet node of this program has failed: {0}")]
    Node(Errno),
    /// A NID is on a network that this program cannot use.
    #[error("the network of {nid} is not supported: only tcp is")]
    Network {
        /// The NID.
        nid: Nid,
    },
    /// This machine has no route to a NID.
    #[error(
        "this machine has no route to {nid}: {reason}. Select one of its interfaces with --interface"
    )]
    NoRoute {
        /// The NID.
        nid: Nid,
        /// The error of the system.
        reason: String,
    },
    /// There is no connection to the management service.
    #[error("the MGS at {} does not answer: {errno}", list(nids))]
    Unreachable {
        /// Its NIDs.
        nids: Vec<Nid>,
        /// Why the last attempt failed.
        errno: Errno,
        /// One of the NIDs, at which LNet answers.
        lnet: Option<Nid>,
    },
    /// The management service does not admit this client.
    #[error("the MGS at {} does not admit this client: {errno}", list(nids))]
    Refused {
        /// Its NIDs.
        nids: Vec<Nid>,
        /// Why.
        errno: Errno,
    },
    /// A request has failed.
    #[error("{what}: {errno}")]
    Request {
        /// What was requested.
        what: String,
        /// The result.
        errno: Errno,
    },
    /// There is no such file system.
    #[error(
        "the MGS at {} has no file system {name:?}. On its server, \
         `lctl get_param mgs.MGS.filesystems` shows those that it has",
        list(nids)
    )]
    NoFileSystem {
        /// The name.
        name: String,
        /// Where the MGS is.
        nids: Vec<Nid>,
    },
    /// A server has sent something that is not valid.
    #[error("{what} is not valid: {reason}")]
    Invalid {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Returns the error number, if one is known.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Start(_) => None,
            Self::Node(errno)
            | Self::Unreachable { errno, .. }
            | Self::Refused { errno, .. }
            | Self::Request { errno, .. } => Some(*errno),
            Self::Network { .. } | Self::NoRoute { .. } => Some(Errno::ENETUNREACH),
            Self::NoFileSystem { .. } => Some(Errno::ENOENT),
            Self::Invalid { .. } => Some(Errno::EPROTO),
        }
    }
}

fn list(nids: &[Nid]) -> String {
    nids.iter().map(Nid::to_string).collect::<Vec<_>>().join(", ")
}
