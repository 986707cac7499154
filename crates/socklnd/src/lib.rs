//! The socket LND as a pure machine: all TCP connections of a node and their protocol.
//!
//! Inputs are bytes and times, outputs are [`Output`]s; the owner has the sockets and the clock.
//! After each `handle_*` and each [`Socklnd::send`] the owner calls [`Socklnd::poll_output`] until
//! it returns nothing.
//!
//! Reading from a connection:
//!
//! ```text
//! loop {
//!     match socklnd.need(conn) {
//!         Need::Bytes(n)      => read at least 1 byte (at most n complete the header; more
//!                                may be offered), handle_bytes(now, conn, bytes) -> used
//!         Need::Payload {..}  => read up to `sink.len()` bytes into `sink`, handle_payload(.., n)
//!         Need::Verdict       => an Output::Received waits for its verdict: handle_verdict
//!         Need::Wait          => do not read; handle_verdict resumes the connection
//!         Need::Nothing       => the connection is being dialled or is closed
//!     }
//! }
//! ```
//!
//! `handle_bytes` stops at the end of each header, so that the rest can be read directly into its
//! buffer.
//!
//! A connection ends once: by the owner, with [`Socklnd::handle_closed`] or a failed
//! [`Socklnd::handle_dialled`], or by the machine, with [`Stream::Close`]. After that neither uses
//! its ID again, except for the answer of the owner to the latter, [`Socklnd::handle_stopped`]. If both
//! end it at the same time, [`Socklnd::handle_closed`] is that answer. Other late inputs of the owner
//! are ignored.
//!
//! A message may be sent again on another path only if its last byte was not passed to a socket. So
//! the owner first reports all passed bytes with [`Socklnd::handle_sent`], then the end of the
//! connection; and when the machine ends a connection, it waits for this number before it reports
//! the results of the messages.
//!
//! A connection is *retired* when its path is unreliable: the local link is down, or TCP
//! retransmits repeatedly ([`Socklnd::handle_stalled`]). It takes no new messages. Written data
//! stays, since TCP delivers it if the path recovers, and received data is read. New messages wait
//! for new connections, which are attempted every few seconds at first.
//!
//! Two deliberate deviations from Lustre. A kernel believes any NID in a hello from a privileged
//! port. Here the NID must have the source address of the connection, unless a rule of
//! [`Config::accept_nid`] allows another; such a connection is refused. With [`AcceptMode::All`], a
//! kernel gives every peer with an unprivileged source port an invented identity, and then cannot
//! match its messages with the node that it dials itself. Here only those get one whose NID has
//! another address, so that unprivileged nodes, in containers and tests, can communicate.
//!
//! Spec: lnet-wire §3 to §6.
//!
//! # How a path fails and recovers
//!
//! A path is a local NID and a NID of a peer, with its connections. `Path` reports to the core that
//! it is up, down or stalled.
//!
//! | event | detected by | effect |
//! |---|---|---|
//! | the local link or address goes down | netlink, within milliseconds | `handle_link`: connections of the NI are *retired*; messages that wait for one fail as locally dropped |
//! | it is up again | the same | back-off is reset; connected peers are dialled at once; after an interruption of less than 2 s connections continue |
//! | packets are lost | `TCP_INFO`, 2 to 3 s after a write | `handle_stalled`: the path's connections are retired, new ones tried every 4 s for a minute |
//! | a connection ends, or accepts nothing for 50 s | the socket, a timer | it and its siblings are closed |
//!
//! No new message is sent on a retired connection. Written messages stay, since they may be in
//! flight, and TCP delivers them if the path recovers: LNet cannot recognise a duplicate. Incoming
//! data is read. The connection is used again when data moves on it while a new connection works.
//! It is closed when neither happens for 200 s.
//!
//! A peer that limits its connections counts the retired ones, and refuses new ones. Its TCP may be
//! silent for as long as the outage has lasted, but 16 s at most are waited for: if it is heard on
//! one of them within that time and 3 s, all of that outage are used again, and nothing that it was
//! sending is lost. Otherwise they are closed.
//!
//! # Long paths
//!
//! A connection that takes 10 ms or longer to open belongs to a long path. There the machine opens
//! four of each bulk kind at once, before there is traffic: default windows carry 3 Gbit/s over 50
//! ms then, and slow start is shorter. A socket there accepts 256 KiB that cannot be sent yet; what
//! waits beyond that waits in the node, and goes by the connection that takes it first, so that a
//! slow one delays no RPC.
#![forbid(unsafe_code)]

mod accept_nid;
mod api;
mod callers;
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

pub use accept_nid::{AcceptNid, AcceptNidError};
pub use api::{AcceptMode, Config, ConnInfo, Counters, PeerInfo};
pub use endpoint::Socklnd;
