//! What an LND wants done or known.

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

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Something for the host's sockets.
    Stream(Stream),
    /// A header has arrived; [`handle_verdict`](crate::Lnd::handle_verdict) says what becomes of its
    /// payload.
    Received(Received),
    /// The payload of a message has gone where the verdict said, or never will.
    Completed {
        /// Which message.
        rx: RxId,
        /// The bytes of an inline sink (empty for another), or why they did not come.
        result: Result<Vec<u8>, Errno>,
    },
    /// The message was written whole (and acknowledged, where that was asked for), or was not.
    Sent {
        /// Which.
        message: MessageId,
        /// How it ended.
        result: Result<(), SendError>,
    },
    /// The state of the path to a peer has changed.
    Path {
        /// From which of our NIDs.
        ni: Nid,
        /// To whom.
        peer: Nid,
        /// The new state.
        state: PathState,
    },
    /// Something for the log.
    Notice(Notice),
}

/// Something worth a line in the log and a count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    /// A caller was refused because its source port is not privileged.
    UnprivilegedPort { remote: SocketAddr },
    /// Too many connections are in their handshake.
    TooManyHandshakes { remote: SocketAddr },
    /// A caller asked for a NID that is not ours.
    NotOurNid { remote: SocketAddr, asked: Nid },
    /// The bytes on a connection break the protocol.
    Malformed { remote: SocketAddr, error: DecodeError },
    /// A caller, or a peer that was called, said nothing in time.
    Silent { remote: SocketAddr },
    /// A zero-copy acknowledgement names a message that never asked for one, or has had it.
    UnknownCookie { remote: SocketAddr, cookie: u64 },
    /// The checksum of a message is wrong.
    Checksum { remote: SocketAddr, expected: u32, got: u32 },
    /// Another node answered where we dialled a peer.
    WrongPeer { wanted: Nid, got: ProcessId },
    /// A peer could not be reached; it is tried again after `retry`.
    Unreachable { peer: Nid, errno: Errno, retry: Duration },
    /// The peer has restarted, or speaks another version now: its old connections are closed.
    Restarted { peer: Nid },
    /// TCP windows limit what is sent to a peer: so many connections are to carry it.
    WindowLimited { peer: Nid, conns: u32 },
    /// The first connection with a peer is open.
    PeerUp { ni: Nid, peer: ProcessId },
    /// The last connection with a peer is closed.
    PeerDown { ni: Nid, peer: ProcessId, errno: Errno },
    /// What is sent to a peer does not arrive: its connections are left, and new ones tried.
    Stalled { ni: Nid, peer: ProcessId },
    /// The link of an interface has come up or gone down.
    Link { ni: Nid, up: bool },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnprivilegedPort { remote } => write!(
                f,
                "refused {remote}: it calls from an unprivileged port and this node's `accept` is \
                 \"secure\" (run the caller with CAP_NET_BIND_SERVICE, or set accept=all here)"
            ),
            Self::TooManyHandshakes { remote } => {
                write!(f, "refused {remote}: too many connections are in their handshake")
            }
            Self::NotOurNid { remote, asked } => write!(
                f,
                "refused {remote}: it asks for {asked}, which is not a NID of this node (see \
                 `lnetctl net show`)"
            ),
            Self::Malformed { remote, error } => {
                write!(f, "{remote} sent what is not LNet: {error}")
            }
            Self::Silent { remote } => write!(f, "{remote} connected and said nothing in time"),
            Self::UnknownCookie { remote, cookie } => {
                write!(f, "{remote} acknowledged message {cookie:#x}, which did not ask for it")
            }
            Self::Checksum { remote, expected, got } => write!(
                f,
                "a message from {remote} was damaged on its way: checksum {got:#010x}, expected \
                 {expected:#010x}"
            ),
            Self::WrongPeer { wanted, got } => {
                write!(f, "{got} answered where {wanted} was called: is an address used twice?")
            }
            Self::WindowLimited { peer, conns } => write!(
                f,
                "TCP windows limit what is sent to {peer}: opening {conns} connections (larger \
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
                "nothing that {ni} sends to {} arrives: trying new connections (is a link down, or \
                 a firewall in between?)",
                peer.nid
            ),
            Self::Link { ni, up: true } => write!(f, "the link of {ni} is up"),
            Self::Link { ni, up: false } => write!(
                f,
                "the link or the address of {ni} has gone: other interfaces are used until it \
                 returns"
            ),
        }
    }
}
