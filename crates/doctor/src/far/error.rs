//! Why a far end is no help.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// What went wrong between both ends. Every variant says who the other end is.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum FarError {
    /// The connection could not be opened, or broke.
    #[error("the far end at {who}: {what}: {error}")]
    Io { who: SocketAddr, what: &'static str, error: io::Error },
    /// It has closed the connection.
    #[error(
        "the far end at {who} has ended the connection; is \"fulmar doctor serve\" still running \
             there?"
    )]
    Gone { who: SocketAddr },
    /// It does not answer.
    #[error("the far end at {who} does not answer within {seconds} s")]
    Silent { who: SocketAddr, seconds: u64 },
    /// It announces more than is taken.
    #[error(
        "the far end at {who} announces a message of {len} bytes, and {max} are the most: \
             is it \"fulmar doctor serve\" that listens there?"
    )]
    TooLong { who: SocketAddr, len: u64, max: usize },
    /// What it says is no message.
    #[error(
        "the far end at {who} says what is not understood ({why}): is it \"fulmar doctor \
             serve\" that listens there, of the same release?"
    )]
    Garbled { who: SocketAddr, why: String },
    /// It says something else than what was asked.
    #[error(
        "the far end at {who} answers {got} where {wanted} was asked: are both ends of the same \
             release?"
    )]
    Unexpected { who: SocketAddr, got: &'static str, wanted: &'static str },
    /// It speaks another version.
    #[error(
        "the far end at {who} speaks version {theirs} of this protocol, and we {ours}: install \
             the same release of Fulmar at both ends"
    )]
    Version { who: SocketAddr, theirs: u32, ours: u32 },
    /// It is at work for somebody else.
    #[error(
        "the far end at {who} is examining with {with} just now: try again when that has ended"
    )]
    Busy { who: SocketAddr, with: String },
    /// It refuses.
    #[error("the far end at {who} refuses: {why}")]
    Refused { who: SocketAddr, why: String },
}
