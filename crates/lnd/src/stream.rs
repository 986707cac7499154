//! What an LND over byte streams needs of its host: TCP connections.

use std::net::{IpAddr, SocketAddr};

use fulmar_base::{ConnId, Errno, Payload, Sink};

/// What the host does with byte streams, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Open a TCP connection, bound to `local` and, where that is allowed, to a privileged port
    /// (1023 downwards); then report the outcome.
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
    /// Close the connection; then report at once how many bytes the socket had taken. Nothing else
    /// is to be reported about it.
    Close {
        /// Which.
        conn: ConnId,
        /// Write first what was asked for before.
        flush: bool,
    },
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialError(pub Errno);

/// How a connection ended, as the socket reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed it.
    Eof,
    /// Reading failed.
    ReadError(Errno),
    /// Writing failed.
    WriteError(Errno),
}

/// What an LND needs of a connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Bytes. At most so many complete the header (or the inline payload) at hand; fewer may do.
    Bytes(usize),
    /// Payload, to be put where the sink says.
    Payload {
        /// Where; its length is what is still missing. Never [`Sink::Inline`].
        sink: Sink,
        /// If the payload is checked: the CRC state so far, to be continued over these bytes and
        /// handed back.
        crc: Option<u32>,
    },
    /// A received header has not been judged yet.
    Verdict,
    /// The owner of the message is not ready: leave the bytes in the socket.
    Wait,
    /// The connection is being dialled, or closed, or unknown.
    Nothing,
}
