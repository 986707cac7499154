//! Outputs of an LND.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_base::{Errno, MessageId};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::DecodeError;

use crate::path::PathState;
use crate::receive::{Received, RxId};
use crate::send::SendError;
use crate::stream::Stream;

/// An action for the owner or information for it, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An operation on the sockets of the host.
    Stream(Stream),
    /// A header was received; [`handle_verdict`](crate::Lnd::handle_verdict) decides about its
    /// payload.
    Received(Received),
    /// The payload of a message was stored as the verdict said, or failed.
    Completed {
        /// Which message.
        rx: RxId,
        /// The bytes of an inline sink (empty for another), or the failure.
        result: Result<Vec<u8>, Errno>,
    },
    /// The message was written completely (and acknowledged, if requested), or failed.
    Sent {
        /// Which message.
        message: MessageId,
        /// The result.
        result: Result<(), SendError>,
    },
    /// The message does not move: it waits for a connection, or behind others that a peer does not
    /// read. It needs no credit of its interface meanwhile. Its result follows.
    Waiting {
        /// Which message.
        message: MessageId,
    },
    /// The state of the path to a peer has changed.
    Path {
        /// The local NID.
        ni: Nid,
        /// The NID of the peer.
        peer: Nid,
        /// The new state.
        state: PathState,
    },
    /// A line for the log.
    Notice(Notice),
}

/// An event that is logged and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    /// A connection request was refused because its source port is not privileged.
    UnprivilegedPort { remote: SocketAddr },
    /// A connection was closed in its handshake: too many are, and it was the oldest.
    TooManyHandshakes { remote: SocketAddr },
    /// An idle connection was closed: others need its place.
    GaveWay { remote: SocketAddr },
    /// A connection request names a NID that this node does not have.
    NotOurNid { remote: SocketAddr, asked: Nid },
    /// A connection was refused: it claims a NID whose address is not its own.
    WrongAddress { remote: SocketAddr, claimed: Nid },
    /// The bytes on a connection violate the protocol.
    Malformed { remote: SocketAddr, error: DecodeError },
    /// The remote side of a connection sent nothing in time.
    Silent { remote: SocketAddr },
    /// A zero-copy acknowledgement names a message that did not request it, or already has it.
    UnknownCookie { remote: SocketAddr, cookie: u64 },
    /// The checksum of a message is wrong.
    Checksum { remote: SocketAddr, expected: u32, got: u32 },
    /// Another node than the dialled peer answered.
    WrongPeer { wanted: Nid, got: ProcessId },
    /// The connection to a peer failed; the next attempt is after `retry`.
    Unreachable { peer: Nid, errno: Errno, retry: Duration },
    /// The peer has restarted or changed its version: its old connections are closed.
    Restarted { peer: Nid },
    /// TCP windows limit the throughput to a peer: the number of connections is raised.
    WindowLimited { peer: Nid, conns: u32 },
    /// The first connection with a peer is open.
    PeerUp { ni: Nid, peer: ProcessId },
    /// The last connection with a peer is closed.
    PeerDown { ni: Nid, peer: ProcessId, errno: Errno },
    /// Sent data do not arrive at a peer: its connections are retired, and new ones are opened.
    Stalled { ni: Nid, peer: ProcessId },
    /// The link of an interface has come up or gone down.
    Link { ni: Nid, up: bool },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnprivilegedPort { remote } => write!(
                f,
                "refused {remote}: it connects from an unprivileged port and this node's `accept` \
                 is \"secure\" (run that node with CAP_NET_BIND_SERVICE, or set accept=all here)"
            ),
            Self::TooManyHandshakes { remote } => {
                write!(f, "closed a connection from {remote}: too many are in their handshake")
            }
            Self::GaveWay { remote } => {
                write!(f, "closed {remote}, which was idle: too many connections (`ulimit -n`)")
            }
            Self::NotOurNid { remote, asked } => write!(
                f,
                "refused {remote}: it requests {asked}, which is not a NID of this node (see \
                 `lnetctl net show`)"
            ),
            Self::WrongAddress { remote, claimed } => write!(
                f,
                "refused {remote}: it claims to be {claimed}, which has another address or network \
                 (if it is behind NAT, set accept_nid=\"{claimed} from {}\" here)",
                remote.ip()
            ),
            Self::Malformed { remote, error } => {
                write!(f, "{remote} sent bytes that are not LNet: {error}")
            }
            Self::Silent { remote } => write!(f, "{remote} sent nothing in time"),
            Self::UnknownCookie { remote, cookie } => {
                write!(f, "{remote} acknowledged message {cookie:#x}, which did not request it")
            }
            Self::Checksum { remote, expected, got } => write!(
                f,
                "a message from {remote} was damaged in transit: checksum {got:#010x}, expected \
                 {expected:#010x}"
            ),
            Self::WrongPeer { wanted, got } => {
                write!(f, "{got} answered instead of {wanted}: is an address used twice?")
            }
            Self::WindowLimited { peer, conns } => write!(
                f,
                "TCP windows limit the throughput to {peer}: opening {conns} connections (a larger \
                 tcp_wmem here and tcp_rmem there need fewer: see `fulmar tune`)"
            ),
            Self::Unreachable { peer, errno, retry } => {
                write!(f, "cannot connect to {peer}: {errno}; next attempt in {retry:?} or later")
            }
            Self::Restarted { peer } => write!(
                f,
                "{peer} has restarted or changed its version: its old connections are closed"
            ),
            Self::PeerUp { ni, peer } => write!(f, "connected to {} from {ni}", peer.nid),
            Self::PeerDown { ni, peer, errno } => {
                write!(f, "lost the connections between {ni} and {}: {errno}", peer.nid)
            }
            Self::Stalled { ni, peer } => write!(
                f,
                "no data from {ni} arrive at {}: trying new connections (is a link down, or a \
                 firewall in between?)",
                peer.nid
            ),
            Self::Link { ni, up: true } => write!(f, "the link of {ni} is up"),
            Self::Link { ni, up: false } => write!(
                f,
                "the link or the address of {ni} is down: other interfaces are used until it is \
                 back"
            ),
        }
    }
}
