//! TCP connections: what an LND over byte streams requests of its host.

use std::net::{IpAddr, SocketAddr};

use fulmar_base::{ConnId, Errno, Payload, Sink};

/// An operation on a byte stream, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Open a TCP connection, bound to `local` and, if allowed, to a privileged port (1023
    /// downwards); then report the result.
    Dial {
        /// The identifier of the attempt.
        conn: ConnId,
        /// The address to bind.
        local: IpAddr,
        /// The address to connect to.
        remote: SocketAddr,
    },
    /// Append the head, then the payload, to the connection's output.
    Write {
        /// Which connection.
        conn: ConnId,
        /// Headers.
        head: Vec<u8>,
        /// The bytes after them.
        payload: Payload,
        /// Compute the checksum of head and payload and put it into the head first.
        checksum: bool,
    },
    /// Close the connection; then report at once how many bytes the socket accepted, and nothing
    /// else about the connection.
    Close {
        /// Which connection.
        conn: ConnId,
        /// Write the pending output first.
        flush: bool,
    },
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialError(pub Errno);

/// How a connection ended, as the socket reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// The peer closed it.
    Eof,
    /// Reading failed.
    ReadError(Errno),
    /// Writing failed.
    WriteError(Errno),
}

/// What an LND needs next from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Bytes. At most so many complete the current header (or inline payload); fewer may suffice.
    Bytes(usize),
    /// Payload, to be stored in the sink.
    Payload {
        /// Where; its length is the missing rest. Never [`Sink::Inline`].
        sink: Sink,
        /// If the payload has a checksum: the CRC state, to be continued over these bytes and
        /// returned.
        crc: Option<u32>,
    },
    /// The verdict on a received header.
    Verdict,
    /// Nothing now: the owner of the message is not ready. Leave the bytes in the socket.
    Wait,
    /// Nothing: the connection is being dialled, or closed, or unknown.
    Nothing,
}
