//! The server side of RPC: requests arrive at the portals of partitions, are checked, wait their
//! turn, are executed by the host, and are answered.
//!
//! ```text
//! PUT --> checked --> queued --> begun --> running (host) --> replying --> gone
//!            |           |    ^    | \                           ^
//!            |           |    |    |  +-- held, in recovery      |
//!            |           |    +----|-------+ its turn            |
//!            |           |         +-- pings, errors ------------+
//!            +-----------+---- dropped: the client sends it again
//! ```
//!
//! A [`Server`] is all services of a node, as a machine over [`fulmar_lnet::Service`]. A partition is
//! a part of it with portals, queues and bounds of its own, so that one kind of request does not
//! delay another. The exports are those of all partitions, since a client connects at one portal and
//! uses others.
//!
//! The host executes requests, and answers each once, with [`Server::reply`] or
//! [`Server::discard`]. Before that it may move bulk data, with [`Server::transfer`]. A CONNECT is
//! executed by the host too: what it grants is in its reply.
//!
//! A server checks a request in the order of a kernel node (Spec: ptlrpc-ldlm-mgs §6.3). Some
//! checks come at arrival: whether it is a request, of the present connection, with time to answer,
//! and not in progress. The others come when its turn has come, since a reconnect or an eviction
//! may have happened in between. The host executes it and answers once. A CONNECT goes to the host
//! too, since a target may have to write down its clients. Pings, connects, cancels and recovery go
//! first. Each request holds a place from its arrival to the end of its reply, and each node has
//! its share of the places (SECURITY.md): when there is none, the request is dropped and counted,
//! and its client sends it again. Nodes take turns in the queue, and one node has at most half of
//! what is executed at once, a sixteenth while half of that is taken: a node whose bulk data never
//! move leaves room for others.
//!
//! A reply with a transaction number, or to a request with a tag, is saved whole in the slot of its
//! tag until the client says that it has it; a resent request is answered from there.
//!
//! **Targets and partitions** of a server come and go (`service::targets`); "The targets of a
//! server" has the whole.

mod arrive;
mod begin;
mod bulk;
mod calls;
mod check;
mod difficult;
mod imports;
mod queue;
mod recovery;
mod replays;
mod reply;
mod server;
mod shares;
mod stats;
mod targets;
#[cfg(test)]
mod tests;

use fulmar_base::Errno;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Uuid, portal};

pub use recovery::Window;
pub use replays::{KnownClient, SavedReply};
pub use server::Server;
pub use shares::Bounds;
pub use stats::{DropReason, Stats};

use crate::export::{Eviction, ExportLimits, TargetId};
use crate::import::TargetKind;
use crate::reverse::CallId;
use crate::timeouts::Limits;

/// How a server begins.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// A random number that is new at each start: the key of the handles.
    pub key: u128,
    /// The first partitions. No portal is in two.
    pub partitions: Vec<PartitionConfig>,
    /// The first targets. Their places are their [`TargetId`]s.
    pub targets: Vec<TargetConfig>,
    /// How many clients there may be.
    pub exports: ExportLimits,
    /// The limits of the estimates of service times.
    pub timeouts: Limits,
}

/// A part of a server with portals and bounds of its own.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// Its name, such as `mgs`.
    pub name: &'static str,
    /// Where its requests arrive.
    pub portals: Vec<u32>,
    /// The longest request in bytes, at most 1 MiB; LNet drops longer ones.
    pub request_max: u32,
    /// How many requests the host executes at once, one of them urgent.
    pub running_max: u32,
    /// What may wait.
    pub bounds: Bounds,
}

impl PartitionConfig {
    /// Returns a partition with the usual bounds.
    pub fn new(name: &'static str, portals: &[u32], request_max: u32) -> Self {
        let bounds = Bounds::default();
        Self { name, portals: portals.to_vec(), request_max, running_max: 512, bounds }
    }

    /// Returns the partition of the callbacks of a client node. Spec: ptlrpc-ldlm-mgs §2.2.
    pub fn callbacks() -> Self {
        Self::new("callbacks", &[portal::LDLM_CALLBACK_REQUEST], 5 << 10)
    }

    /// Returns the partition of a management service. Spec: ptlrpc-ldlm-mgs §2.2.
    pub fn mgs() -> Self {
        Self::new("mgs", &[portal::MGS_REQUEST], 7 << 10)
    }
}

/// A target as clients know it.
#[derive(Clone, Copy, Debug)]
pub struct TargetConfig {
    /// What it is.
    pub kind: TargetKind,
    /// Its name, such as `fs-OST0001`.
    pub name: Uuid,
    /// Its UUID, such as `fs-OST0001_UUID`.
    pub uuid: Uuid,
    /// The operations that its host executes, without connect, disconnect and ping.
    pub operations: &'static [Opcode],
}

/// Whether a target takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It starts: clients try again.
    Starting,
    /// It takes requests.
    Open,
    /// It stops: clients look for it elsewhere.
    Stopping,
}

/// A request from its arrival to the end of its reply. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What the host does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Execute this, and answer it.
    Execute(Box<Request>),
    /// The bulk data of a request have been moved, or not: LNet does not use their memory any more.
    /// After a failure the request is to be discarded, so that its client sends it again.
    Transferred {
        /// The request.
        request: RequestId,
        /// The bytes that were moved. Or why not all were: ENOTCONN if the client is gone, ETIMEDOUT
        /// if it took too long or the client has less memory, EPROTO if the client has fewer parts, or
        /// why a message could not be sent.
        result: Result<u64, Errno>,
    },
    /// A request to a client has ended.
    Called {
        /// The export of the client.
        export: Handle,
        /// Which request.
        call: CallId,
        /// The reply, whose status may be an error of the operation. Or the error of a client that did
        /// not process it; ETIMEDOUT if there was no reply in time; ENOTCONN if the client is gone or
        /// does not know the connection; EOVERFLOW or EPROTO if the reply is too long or not valid.
        result: Result<Box<Message<'static>>, Errno>,
    },
    /// A difficult reply ([`Server::reply_difficult`]) needs no protection any more: release its locks.
    Confirmed {
        /// The request.
        request: RequestId,
    },
    /// Forget a client: its locks, its open files.
    Evicted {
        /// The target.
        target: TargetId,
        /// Its export of the client, which is gone.
        export: Handle,
        /// The client.
        client: Uuid,
        /// Why.
        why: Eviction,
    },
    /// A target has recovered: grant the locks that can be granted. New requests follow.
    Recovered {
        /// Which.
        target: TargetId,
    },
    /// A portal cannot be served: an application uses it in another mode.
    PortalFailed {
        /// Which.
        portal: u32,
        /// Why.
        errno: Errno,
    },
}

/// A request that the host executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names it.
    pub id: RequestId,
    /// The target.
    pub target: TargetId,
    /// The client's export. That of a CONNECT is not yet connected.
    pub export: Handle,
    /// Its XID.
    pub xid: u64,
    /// Where it came from, which is where bulk data are.
    pub from: ProcessId,
    /// The primary NID of its node.
    pub peer: ProcessId,
    /// For a replay, whether its versions are compared with those of the objects: it depends perhaps on
    /// changes of a client that is missing. If they differ, it fails with EOVERFLOW. Spec:
    /// ptlrpc-ldlm-mgs §14.6.
    pub checks_versions: bool,
    /// The request.
    pub message: Message<'static>,
}
