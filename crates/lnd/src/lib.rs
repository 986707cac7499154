//! The interface between LNet and its network drivers (LNDs): the values that they exchange, and
//! the trait that an LND implements.
//!
//! ```text
//! LNet → LND   send(SendRequest)            → Output::Sent, once for each
//!              report_waiting(ni)           → Output::Waiting for those that do not move
//! LND → LNet   Output::Received             → handle_verdict, once or, after Verdict::Wait, again
//!              Output::Completed              after Verdict::Receive or Wait, once
//!              Output::Path                   the new state of the path to a peer
//! LND → host   Output::Stream               → I/O on byte streams
//! ```
//!
//! LNet identifies each message: a sent one by [`MessageId`](fulmar_base::MessageId), a received
//! one by [`RxId`]. An LND may receive any number of messages on one connection at the same time.
//!
//! Spec: lnet-behaviour §5, §11.3.
//!
//! # Rules
//!
//! * The core names a message and not its connection. An LND chooses the connection, by kind, size
//!   and load.
//! * A sent message ends once, with [`Output::Sent`]: written, or failed with a [`FailureClass`].
//!   It failed as *dropped* only if its last byte was not handed to a socket; then LNet may send it
//!   again on another path.
//! * A received message waits for its [`Verdict`] before its payload is read, so the payload goes
//!   directly into the memory that LNet has matched.
//! * What an LND keeps for a peer has a bound. Messages that do not move are reported when LNet
//!   asks, so that others get the credits of the interface.
#![forbid(unsafe_code)]

mod ni;
mod output;
mod path;
mod receive;
mod send;
mod stream;

use std::fmt;
use std::time::Duration;

use fulmar_base::{ConnId, Time};
use fulmar_lnet_wire::{NetType, Nid};

pub use ni::{NiConfig, NiTunables};
pub use output::{Notice, Output};
pub use path::PathState;
pub use receive::{Received, RxId, Verdict};
pub use send::{FailureClass, SendError, SendRequest};
pub use stream::{CloseCause, DialError, Need, Stream};

/// A network driver, as a pure machine. After each call its owner drains [`Lnd::poll_output`], in
/// order.
pub trait Lnd: fmt::Debug + Send {
    /// Returns the type of the networks that this LND serves.
    fn net_type(&self) -> NetType;

    /// Returns how long the LND waits at most for a peer, where an interface has no time of its own.
    /// LNet computes the deadlines of messages from it. Spec: lnet-behaviour §11.2.
    fn timeout(&self) -> Duration;

    /// Adds a network interface, or changes the settings of the one with the same NID.
    fn add_ni(&mut self, now: Time, ni: &NiConfig);

    /// Removes a network interface: closes its connections and fails the messages that wait for
    /// one.
    fn remove_ni(&mut self, now: Time, nid: Nid);

    /// Sends a message; [`Output::Sent`] reports the result.
    fn send(&mut self, now: Time, request: SendRequest);

    /// Reports the messages of an interface that do not move, by [`Output::Waiting`]: LNet has no
    /// credit of the interface left. The LND goes on with that while there may be more of them.
    fn report_waiting(&mut self, now: Time, nid: Nid);

    /// Handles the answer to [`Output::Received`]. [`Verdict::Reject`] ends the message without an
    /// [`Output::Completed`].
    fn handle_verdict(&mut self, now: Time, conn: ConnId, rx: RxId, verdict: Verdict);

    /// Handles the new state of the link and the address of an interface.
    fn handle_link(&mut self, now: Time, nid: Nid, up: bool);

    /// Closes the connections with a peer, or with all if `peer` is [`Nid::ANY`].
    fn close_peer(&mut self, now: Time, peer: Nid);

    /// Handles the deadlines that have passed.
    fn handle_timeout(&mut self, now: Time);

    /// Returns when to call [`Lnd::handle_timeout`] next, if there is a deadline.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the next output, if any.
    fn poll_output(&mut self) -> Option<Output>;
}
