//! Errors of the protocol with a remote host.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// An error of the protocol, with the address of the remote host.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum RemoteError {
    /// The connection could not be opened, or failed.
    #[error("remote host {peer}: {what}: {error}")]
    Io { peer: SocketAddr, what: &'static str, error: io::Error },
    /// The remote host closed the connection.
    #[error(
        "remote host {peer} closed the connection: check that \"fulmar doctor serve\" still runs \
        there"
    )]
    Closed { peer: SocketAddr },
    /// The remote host does not answer.
    #[error("remote host {peer} did not answer within {seconds} s")]
    Timeout { peer: SocketAddr, seconds: u64 },
    /// The remote host announced a message above the limit.
    #[error(
        "remote host {peer} announced a message of {len} bytes, above the limit of {max}: check \
        that \"fulmar doctor serve\" listens there"
    )]
    TooLong { peer: SocketAddr, len: u64, max: usize },
    /// The message is not valid.
    #[error(
        "remote host {peer} sent an invalid message ({why}): check that \"fulmar doctor serve\" of \
        the same release listens there"
    )]
    Invalid { peer: SocketAddr, why: String },
    /// The reply does not match the request.
    #[error(
        "remote host {peer} sent {got} instead of {wanted}: install the same release of Fulmar on \
        both hosts"
    )]
    Unexpected { peer: SocketAddr, got: &'static str, wanted: &'static str },
    /// The versions of the protocol differ.
    #[error(
        "remote host {peer} uses version {theirs} of the protocol, and this host version {ours}: \
        install the same release of Fulmar on both hosts"
    )]
    Version { peer: SocketAddr, theirs: u32, ours: u32 },
    /// The server is busy with another examination.
    #[error(
        "remote host {peer} is busy with an examination from {with}: try again when it has ended"
    )]
    Busy { peer: SocketAddr, with: String },
    /// The remote host refused the request.
    #[error("remote host {peer} refused: {why}")]
    Refused { peer: SocketAddr, why: String },
}
