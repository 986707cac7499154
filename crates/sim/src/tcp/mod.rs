//! A virtual TCP connection: two ordered streams, each with buffers, windows and a control.
//!
//! ```text
//! Write -> queue --(write buffer)--> socket --(windows, pace)--> lanes --> inbox --(Need)--> node
//!                      |                                                    |
//!                      +-> handle_sent      room again <-- acknowledgement <-+-> window
//! ```
//!
//! Not modelled, because it matters little where pipes are long: delayed acknowledgements and the
//! rate that acknowledgements take, Nagle's algorithm, buffers that grow by and by, and ECN. Every
//! arrival is acknowledged; nothing overtakes within a connection, so that losses are told from
//! delays without a reordering window. A connection that was idle goes on with the window that it
//! had: hosts are assumed to have `tcp_slow_start_after_idle=0`, which is what `fulmar tune` advises.
//!
//! Bytes are in the write buffer from the moment in which the socket takes them until they are
//! acknowledged, and in the read buffer until the node reads them.

mod congestion;
mod receiver;
mod sender;
mod stream;

use std::net::SocketAddr;

use fulmar_base::{ConnId, Span, Time};

use crate::{HostId, Port};

pub(crate) use sender::Ack;
pub(crate) use stream::Stream;

/// What travels on a connection. Bulk names the memory that it was written from.
#[derive(Debug)]
pub(crate) enum Segment {
    Bytes(Vec<u8>),
    Bulk(Span),
    Fin,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Dialler,
    Acceptor,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Dialler, Self::Acceptor];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Dialler => Self::Acceptor,
            Self::Acceptor => Self::Dialler,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndState {
    /// The handshake of TCP is under way, or the node has not accepted yet.
    Waiting,
    Open,
    /// The node has closed it; what was to be written is still being written.
    Flushing,
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) host: HostId,
    /// The interface whose link it uses.
    pub(crate) port: Port,
    pub(crate) addr: SocketAddr,
    /// The node's name for the connection, once it has one.
    pub(crate) id: Option<ConnId>,
    pub(crate) state: EndState,
    /// What this end writes.
    pub(crate) stream: Stream,
    /// How many bytes the socket has taken that the node was not told of.
    pub(crate) unreported: u64,
    /// A slow reader looks again later.
    pub(crate) read_pending: bool,
}

/// A connection, or an attempt at one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) dialler: End,
    pub(crate) acceptor: End,
    pub(crate) dialled: Time,
}

impl Connection {
    pub(crate) fn end(&self, side: Side) -> &End {
        match side {
            Side::Dialler => &self.dialler,
            Side::Acceptor => &self.acceptor,
        }
    }

    pub(crate) fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Dialler => &mut self.dialler,
            Side::Acceptor => &mut self.acceptor,
        }
    }

    /// The stream that `side` reads.
    pub(crate) fn incoming(&mut self, side: Side) -> &mut Stream {
        &mut self.end_mut(side.other()).stream
    }

    pub(crate) fn is_over(&self) -> bool {
        Side::BOTH.iter().all(|side| self.end(*side).state == EndState::Closed)
    }
}
