//! A simulated TCP connection: two ordered streams, each with buffers, windows and a congestion
//! control.
//!
//! ```text
//! Write -> queue --(write buffer)--> socket --(windows, pace)--> lanes --> inbox --(Need)--> node
//!                      |                                                    |
//!                      +-> handle_sent      room again <-- acknowledgement <-+-> window
//! ```
//!
//! Options of [`Tcp`](crate::options::Tcp), as Linux has them without settings: a smaller window after an
//! idle time, HyStart, buffers that grow, and delayed acknowledgements. Not modelled, because it
//! matters little on long links: the bandwidth of acknowledgements, Nagle's algorithm, and ECN.
//! Packets of a connection are never reordered, so that losses are detected without a reordering
//! window.
//!
//! Bytes are in the write buffer from when the socket takes them until they are acknowledged, and
//! in the read buffer until the node reads them.
//!
//! A connection moves bursts, not packets: a burst is what a socket gives its link at once, limited
//! by window, congestion window and pacing. It passes its NIC, trunks and the remote NIC as a
//! fluid, with separate times of head and tail, so that a megabyte is not stored and forwarded.
//! Loss affects bursts with the probability of their packets; the window reacts as Reno, CUBIC or
//! BBR do. What Linux adds without settings are options (`Tcp::linux`), each a small machine: a
//! smaller window after an idle time, HyStart by delay and by trains of acknowledgements, buffers
//! that grow (`autotune`), delayed acknowledgements (`delay`), and writers that wait until a third
//! of a full send buffer is free. Swarms run without them, `sim path` with them. A burst is at most
//! an eighth of the window and of the shortest queue, and a sixteenth of a round trip: there are
//! few events on a long path, and acknowledgements are still frequent enough.

mod autotune;
mod congestion;
mod delay;
mod held;
mod receiver;
mod round_trip;
mod sender;
mod stream;

use std::net::SocketAddr;

use fulmar_base::{ConnId, Span, Time};

use crate::{HostId, Port};

pub(crate) use delay::LONGEST as ACK_DELAY;
pub use held::SendLimit;
pub(crate) use sender::Ack;
pub(crate) use stream::Stream;

/// A part of a stream. Bulk data refers to its source memory.
#[derive(Debug)]
pub(crate) enum Segment {
    Bytes(Vec<u8>),
    Bulk(Span),
    Fin,
}

/// One side of a connection.
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
    /// The TCP handshake is in progress, or the node has not accepted yet.
    Waiting,
    Open,
    /// The node has closed it; remaining data are still written.
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
    /// The node's ID of the connection, once it has one.
    pub(crate) id: Option<ConnId>,
    pub(crate) state: EndState,
    /// The stream that this side writes.
    pub(crate) stream: Stream,
    /// Bytes that the socket has taken and that were not reported to the node yet.
    pub(crate) unreported: u64,
    /// A delayed read of a slow reader is scheduled.
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

    /// Returns the stream that `side` reads.
    pub(crate) fn incoming(&mut self, side: Side) -> &mut Stream {
        &mut self.end_mut(side.other()).stream
    }

    pub(crate) fn is_over(&self) -> bool {
        Side::BOTH.iter().all(|side| self.end(*side).state == EndState::Closed)
    }
}
