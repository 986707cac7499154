//! The socket LND, as a pure machine: every TCP connection of a node and what is said on it.
//!
//! Bytes and times go in, [`Output`]s come out; the owner has the sockets and the clock. After
//! each `handle_*` and each [`Socklnd::send`] the owner drains [`Socklnd::poll_output`].
//!
//! Reading one connection goes like this:
//!
//! ```text
//! loop {
//!     match socklnd.need(conn) {
//!         Need::Bytes(n)      => read at least 1 byte (at most n complete the header; more
//!                                may be offered), handle_bytes(now, conn, bytes) -> used
//!         Need::Payload {..}  => read up to `sink.len()` bytes into `sink`, handle_payload(.., n)
//!         Need::Verdict       => an Output::Received is being judged: handle_verdict
//!         Need::Wait          => do not read; handle_verdict resumes the connection
//!         Need::Nothing       => the connection is being dialled or is closed
//!     }
//! }
//! ```
//!
//! `handle_bytes` stops at the end of each header, so that the rest can be read straight to
//! where it belongs.
//!
//! A connection ends once: when the owner says so, by [`Socklnd::handle_closed`] or a failed
//! [`Socklnd::handle_dialled`], or when the machine says so, by [`Stream::Close`]. After that
//! neither speaks of it again, but for the owner's answer to the latter,
//! [`Socklnd::handle_stopped`]; what the owner says too late is ignored.
//!
//! Whether a message may be sent again by another way depends on whether its last byte was handed
//! to a socket. So the owner first reports by [`Socklnd::handle_sent`] all that it has handed over,
//! then the end of the connection; and when the machine ends one, it waits for that figure before
//! it says what has become of the messages.
//!
//! A connection is *retired* when its way is not to be trusted: the link of our interface is down,
//! or TCP sends the same bytes again and again ([`Socklnd::handle_stalled`]). No new message is put
//! on it. What was written stays, for TCP delivers it if the way returns, and what comes is read.
//! New messages wait for new connections, which are tried every few seconds at first.
//!
//! One deliberate departure from Lustre: under [`AcceptMode::All`] a kernel gives every caller
//! with an unprivileged source port an invented identity, and then cannot match its messages with
//! the node that it dials itself. We do so only if the NID in the caller's hello has another
//! address than the caller: a node that says where it really is may be believed whatever its port.
//! Unprivileged nodes, in containers and tests, can talk to each other that way.
//!
//! Spec: lnet-wire §3 to §6.
#![forbid(unsafe_code)]

mod api;
pub mod checksum;
mod conn;
mod endpoint;
mod handshake;
mod peer;
mod rx;
#[cfg(test)]
mod tests;
mod zero_copy;

#[cfg(doc)]
use fulmar_lnd::{Lnd, Output, Stream};

pub use api::{AcceptMode, Config, ConnInfo, Counters, PeerInfo};
pub use endpoint::Socklnd;
