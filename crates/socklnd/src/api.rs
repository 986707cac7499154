//! The words in which the machine and its owner talk.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fulmar_base::{ConnId, Errno, MessageId, PathNews, Payload, Sink, Time};
use fulmar_lnet_wire::socklnd::{ACCEPT_PORT, ConnKind, Version};
use fulmar_lnet_wire::{Header, Nid, ProcessId};
use fulmar_wire::DecodeError;

/// Whose calls the acceptor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptMode {
    /// Only from a privileged source port, 1023 or lower.
    Secure,
    /// From any port. A peer on an unprivileged port whose NID has another address than itself
    /// gets an identity of its own.
    All,
    /// Nobody's.
    None,
}

/// Settings that all network interfaces share. Defaults are those of a 2.17 node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whose calls are taken.
    pub accept: AcceptMode,
    /// The TCP port that peers listen on, and we too.
    pub accept_port: u16,
    /// How long a caller may take for its request, and again for its hello.
    pub accept_timeout: Duration,
    /// How long anything else may stall: an answer, a message half read or half written.
    #[doc(alias = "sock_timeout")]
    pub timeout: Duration,
    /// The first delay before a failed peer is dialled again.
    #[doc(alias = "min_reconnectms")]
    pub reconnect_min: Duration,
    /// The longest such delay.
    #[doc(alias = "max_reconnectms")]
    pub reconnect_max: Duration,
    /// After how much silence a keepalive is sent; zero for never.
    pub keepalive: Duration,
    /// The smallest message, headers included, that prefers a bulk connection.
    pub min_bulk: u32,
    /// The least payload for which the peer is asked to acknowledge the message, which is `Sent`,
    /// and gives its credits back, only then. A kernel does so from 16 KiB. `None`: never, so that
    /// credits are not held for a round trip. Spec: lnet-wire §6.3.
    pub zc_min_payload: Option<u32>,
    /// Send checksums on version 2 connections.
    pub enable_csum: bool,
    /// The version offered first over IPv4; tests and old peers ask for less than 3.
    pub version: Version,
    /// How many connections may be in their handshake at once; further callers are refused.
    pub handshakes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            accept: AcceptMode::Secure,
            accept_port: ACCEPT_PORT,
            accept_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(50),
            reconnect_min: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(60),
            keepalive: Duration::from_secs(30),
            min_bulk: 1024,
            zc_min_payload: None,
            enable_csum: false,
            version: Version::V3,
            handshakes_max: 4096,
        }
    }
}

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// Its NID; the address is what connections are bound to.
    pub nid: Nid,
    /// Constant for the life of the interface and never used again: nanoseconds of wall clock.
    pub incarnation: u64,
    /// How many connections of each bulk kind are opened to a peer; at least 1.
    pub conns_per_peer: u32,
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialError(pub Errno);

/// How a connection ended, as the socket tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed it.
    Eof,
    /// Reading failed.
    ReadError(Errno),
    /// Writing failed.
    WriteError(Errno),
}

/// What the machine needs of a connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Bytes for [`handle_bytes`](crate::Socklnd::handle_bytes). At most so many complete the
    /// header (or the inline payload) at hand; fewer may do.
    Bytes(usize),
    /// Payload, to be put where the sink says, then
    /// [`handle_payload`](crate::Socklnd::handle_payload).
    Payload {
        /// Where; its length is what is still missing. Never [`Sink::Inline`].
        sink: Sink,
        /// If the payload is checked: the CRC state so far, to be continued over these bytes by
        /// [`checksum::update`](crate::checksum::update) and handed back.
        crc: Option<u32>,
    },
    /// [`Output::Received`] has not been answered yet.
    Verdict,
    /// The owner of the message is not ready: leave the bytes in the socket.
    Wait,
    /// The connection is being dialled, or closed, or unknown.
    Nothing,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Its name in [`Output::Sent`].
    pub message: MessageId,
    /// Our NID whose connections carry it.
    pub ni: Nid,
    /// The peer at the other end of the connection: the target, or a router.
    pub next_hop: Nid,
    /// The LNet header.
    pub header: Header,
    /// As many bytes as the header says.
    pub payload: Payload,
}

/// Why a message was not sent, in the classes of LNet health. Spec: lnet-behaviour §11.3, §11.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Something here broke, and would again.
    Local(Errno),
    /// Our own link is down; the message was not delivered.
    LocalDropped(Errno),
    /// The peer did not take the message; it was not delivered.
    RemoteDropped(Errno),
    /// The peer cannot be reached that way at all.
    RemoteError(Errno),
    /// Nobody answered our call.
    NetworkTimeout,
}

impl SendError {
    /// Returns the error number that an event carries.
    pub fn errno(self) -> Errno {
        match self {
            Self::Local(errno)
            | Self::LocalDropped(errno)
            | Self::RemoteDropped(errno)
            | Self::RemoteError(errno) => errno,
            Self::NetworkTimeout => Errno::ETIMEDOUT,
        }
    }
}

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a TCP connection, bound to `local` and, if it can be had, a privileged port
    /// (1023 downwards); then [`handle_dialled`](crate::Socklnd::handle_dialled).
    Dial {
        /// Names the attempt.
        conn: ConnId,
        /// The address to bind.
        local: IpAddr,
        /// The address to connect to.
        remote: SocketAddr,
    },
    /// Append to what is written on the connection: the head, then the payload.
    Write {
        /// Where.
        conn: ConnId,
        /// Headers.
        head: Vec<u8>,
        /// What follows them.
        payload: Payload,
        /// Compute the checksum of head and payload and put it into the head first.
        checksum: bool,
    },
    /// Close the connection; then, at once, [`handle_stopped`](crate::Socklnd::handle_stopped).
    /// Nothing else is to be said to the machine about it.
    Close {
        /// Which.
        conn: ConnId,
        /// Write first what was asked for before.
        flush: bool,
    },
    /// A header has arrived; [`handle_verdict`](crate::Socklnd::handle_verdict) says what becomes
    /// of its payload.
    Received {
        /// The connection.
        conn: ConnId,
        /// Our NID that the connection was made to.
        ni: Nid,
        /// Who is at the other end.
        from: ProcessId,
        /// The LNet header.
        header: Header,
    },
    /// The payload of the message last received has gone where the verdict said, or never will.
    Completed {
        /// The connection.
        conn: ConnId,
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
    /// The way to a peer has become another.
    Path {
        /// From which of our NIDs.
        ni: Nid,
        /// To whom.
        peer: Nid,
        /// What.
        news: PathNews,
    },
    /// Something for the log.
    Notice(Notice),
}

/// Something worth a line in the log and a count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    /// A connection was refused by [`AcceptMode::Secure`].
    UnprivilegedPort { remote: SocketAddr },
    /// Too many connections are in their handshake.
    TooManyHandshakes { remote: SocketAddr },
    /// A caller asked for a NID that is not ours.
    NotOurNid { remote: SocketAddr, asked: Nid },
    /// The bytes on a connection break the protocol.
    Malformed { remote: SocketAddr, error: DecodeError },
    /// A caller or an answerer said nothing in time.
    Silent { remote: SocketAddr },
    /// A zero-copy acknowledgement names a message that never asked for one, or has had it.
    UnknownCookie { remote: SocketAddr, cookie: u64 },
    /// The checksum of a message is wrong.
    Checksum { remote: SocketAddr, expected: u32, got: u32 },
    /// Somebody else answered where we dialled a peer.
    WrongPeer { wanted: Nid, got: ProcessId },
    /// A peer could not be reached; it is tried again after `retry`.
    Unreachable { peer: Nid, errno: Errno, retry: Duration },
    /// The peer has restarted, or speaks another version now: its old connections are closed.
    Restarted { peer: Nid },
    /// The first connection with a peer is open.
    PeerUp { ni: Nid, peer: ProcessId },
    /// The last connection with a peer is closed.
    PeerDown { ni: Nid, peer: ProcessId, errno: Errno },
    /// What is sent to a peer does not arrive: its connections are left, and new ones tried.
    Stalled { ni: Nid, peer: ProcessId },
    /// The link of an interface has come up or gone down.
    Link { ni: Nid, up: bool },
}

/// How often each thing happened since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    pub accepted: u64,
    pub dialled: u64,
    pub dial_failures: u64,
    pub handshake_failures: u64,
    pub refused_unprivileged: u64,
    pub refused_handshakes: u64,
    pub refused_nid: u64,
    pub refused_races: u64,
    pub malformed: u64,
    pub silent: u64,
    pub checksum_errors: u64,
    pub unknown_cookies: u64,
    pub late_cookies: u64,
    pub stalled: u64,
    pub retired: u64,
    pub keepalives_sent: u64,
    pub keepalives_received: u64,
    pub zc_acks_sent: u64,
    pub zc_acks_received: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub payload_sent: u64,
    pub payload_received: u64,
}

/// An open connection, for `lctl conn_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ConnInfo {
    pub conn: ConnId,
    pub ni: Nid,
    pub peer: ProcessId,
    pub kind: ConnKind,
    pub version: Version,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Bytes handed to the owner and not yet taken by the socket.
    pub queued: u64,
    pub opened: Time,
}

/// A peer that we have, or try to have, connections with, for `lctl peer_list`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PeerInfo {
    pub ni: Nid,
    pub peer: ProcessId,
    /// Whether we dial it, and do not only answer.
    pub dials: bool,
    pub remote: Option<SocketAddr>,
    pub conns: usize,
    pub queued_messages: usize,
}
