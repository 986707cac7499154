//! The protocol between both ends of a path.
//!
//! One end serves ([`Server`]), the other examines ([`Examiner`]). They talk over one TCP connection:
//! frames of JSON, each with its length in front; a request, then its reply. Connections that carry
//! load are to the same port and begin with the token of the examination; so do datagrams, to the
//! UDP port of the same number.
//!
//! Neither end trusts the other. Whatever one end asks of the other has a bound here: lengths,
//! durations, rates, streams, and how long is waited. The server examines with one at a time, and
//! sends datagrams to nobody but the address that has opened a TCP connection to it.

mod clean;
mod datagram;
mod error;
mod examiner;
mod flood;
mod frame;
mod learned;
mod message;
mod server;
mod session;
mod stream;

pub(crate) use datagram::{Datagram, DatagramKind, HEADER_LEN, headers, on_wire};
pub use error::FarError;
pub use examiner::Examiner;
pub(crate) use examiner::unexpected;
pub(crate) use flood::{Tally, flood};
pub(crate) use learned::learned;
pub use message::{FloodSeen, StreamsSeen};
pub(crate) use message::{Greeting, Reply, Request};
pub use server::{Notice, Server, ServerOptions};
pub(crate) use session::is_too_long;
pub(crate) use stream::{receive_all, send_all};

use std::time::Duration;

/// The TCP and UDP port of a far end that was told nothing else.
pub const PORT: u16 = 7988;
/// What both ends must speak.
pub const VERSION: u32 = 2;
/// Longest frame of JSON, in bytes.
pub const FRAME_MAX: usize = 256 << 10;
/// Longest load.
pub const LOAD_MAX: Duration = Duration::from_secs(60);
/// Most streams at once.
pub const STREAMS_MAX: u32 = 64;
/// Highest rate of datagrams, in bits per second on the wire of Ethernet.
pub const RATE_MAX: u64 = 400_000_000_000;
/// Longest datagram: what UDP carries over IPv4.
pub const DATAGRAM_MAX: usize = 65_507;
/// Longest message whose round trip is measured, in bytes.
pub const ECHO_MAX: u32 = 4 << 20;
/// Most probes of one request.
pub const PROBES_MAX: u32 = 16;
/// How long at most a path may take to say that a packet is too large.
pub const LEARN_MAX: Duration = Duration::from_secs(1);
/// An examiner that asks nothing for so long is gone.
pub const IDLE_MAX: Duration = Duration::from_secs(90);
/// No examination takes longer.
pub const SESSION_MAX: Duration = Duration::from_secs(1800);
/// How long a caller may take to say who it is, and a far end to answer.
pub const GREETING_MAX: Duration = Duration::from_secs(5);
/// Longest first frame of a caller, of whom nothing is known yet, in bytes.
pub const GREETING_LEN_MAX: usize = 512;
/// Callers that have not yet said who they are, beside the examiner's further connections.
pub const GREETINGS_MAX: usize = 16;
/// Such callers from one address.
pub const GREETINGS_FROM_ONE_MAX: usize = 4;

/// Reads a rate of datagrams, from 1 kbit/s to [`RATE_MAX`]: `1Gbit`, `200M`, `64000`.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match fulmar_base::quantity::rate(text)? {
        bits @ 1_000..=RATE_MAX => Ok(bits),
        _ => {
            let most = RATE_MAX / 1_000_000_000;
            Err(format!("{text}: a rate is between 1 kbit/s and {most} Gbit/s"))
        }
    }
}

#[cfg(test)]
mod tests;
