//! The protocol between both hosts of a path.
//!
//! The remote host runs the [`Server`], the local host is the [`Examiner`]. They use one TCP
//! connection for control: JSON frames with a length prefix; each request has a reply. Connections
//! for loads go to the same port and start with the token of the examination; datagrams carry it
//! too and go to the UDP port of the same number.
//!
//! Neither host trusts the other. All requested values have a limit here: lengths, durations,
//! rates, streams and timeouts. The server runs one examination at a time, and sends datagrams only
//! to the address that opened the control connection.

mod clean;
mod datagram;
mod error;
mod examiner;
mod flood;
mod frame;
mod greetings;
mod learned;
mod message;
mod server;
mod session;
mod stream;

pub(crate) use datagram::{Datagram, DatagramKind, HEADER_LEN, headers, on_wire};
pub use error::RemoteError;
pub use examiner::Examiner;
pub(crate) use examiner::unexpected;
pub(crate) use flood::{Tally, flood};
pub(crate) use learned::learned;
pub use message::{FloodStats, StreamStats};
pub(crate) use message::{Greeting, Reply, Request};
pub use server::{Notice, Server, ServerOptions};
pub(crate) use session::is_too_long;
pub(crate) use stream::{receive_all, send_all};

use std::time::Duration;

/// The default TCP and UDP port of the server.
pub const PORT: u16 = 7988;
/// The version of the protocol; both hosts must have the same.
pub const VERSION: u32 = 2;
/// Longest JSON frame, in bytes.
pub const FRAME_MAX: usize = 256 << 10;
/// Longest load.
pub const LOAD_MAX: Duration = Duration::from_secs(60);
/// Most streams at once.
pub const STREAMS_MAX: u32 = 64;
/// Highest rate of datagrams, in bits per second on Ethernet.
pub const RATE_MAX: u64 = 400_000_000_000;
/// Longest datagram: the maximum payload of UDP over IPv4, in bytes.
pub const DATAGRAM_MAX: usize = 65_507;
/// Longest message whose round trip is measured, in bytes.
pub const ECHO_MAX: u32 = 4 << 20;
/// Most probes of one request.
pub const PROBES_MAX: u32 = 16;
/// Longest time to wait for an ICMP error after a packet that is too large.
pub const LEARN_MAX: Duration = Duration::from_secs(1);
/// After this time without a request, the server ends the examination.
pub const IDLE_MAX: Duration = Duration::from_secs(90);
/// Longest examination.
pub const SESSION_MAX: Duration = Duration::from_secs(1800);
/// Timeout of the greeting and of its answer.
pub const GREETING_MAX: Duration = Duration::from_secs(5);
/// Longest greeting, in bytes.
pub const GREETING_LEN_MAX: usize = 512;
/// Most connections without a greeting, not counting those of the examiner. For a further one, the
/// oldest of the address with the most of them is closed.
pub const GREETINGS_MAX: usize = 64;
/// Most such connections from one address; for a further one, its oldest is closed.
pub const GREETINGS_FROM_ONE_MAX: usize = 4;

/// Parses a rate of datagrams, from 1 kbit/s to [`RATE_MAX`]: `1Gbit`, `200M`, `64000`.
///
/// # Errors
/// Why the text is not valid.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match fulmar_base::quantity::rate(text)? {
        bits @ 1_000..=RATE_MAX => Ok(bits),
        _ => {
            let most = RATE_MAX / 1_000_000_000;
            Err(format!("{text:?}: the rate must be between 1 kbit/s and {most} Gbit/s"))
        }
    }
}

#[cfg(test)]
mod tests;
