//! Outputs of a node.

use std::fmt;

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Sink};
use fulmar_lnd::{Received, SendRequest, Stream};
use fulmar_lnet::{CopyId, Event, PingReply, QueryId, ServiceId};

/// Actions and information for the owner, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An action on a TCP connection.
    Stream(Stream),
    /// The next read from the connection has changed.
    Resume {
        /// The connection.
        conn: ConnId,
    },
    /// Copy bytes within this node.
    Copy {
        /// ID of the copy.
        copy: CopyId,
        /// The source; never inline.
        from: Payload,
        /// The destination; never inline.
        to: Sink,
    },
    /// Allocate a router buffer of this length, with any contents.
    Allocate {
        /// Its ID, distinct from those of services.
        buffer: BufferId,
        /// Its length.
        len: u32,
    },
    /// Free a router buffer.
    Release {
        /// ID of the buffer.
        buffer: BufferId,
    },
    /// An event for the queue of a service.
    Event {
        /// The service.
        service: ServiceId,
        /// The event.
        event: Event,
        /// The received data, if the memory of the descriptor is inline.
        bytes: Vec<u8>,
    },
    /// A ping has ended.
    Pinged {
        /// ID of the ping.
        query: QueryId,
        /// The result.
        result: Result<PingReply, Errno>,
    },
    /// A discovery has ended.
    Discovered {
        /// ID of the discovery.
        query: QueryId,
        /// The result.
        result: Result<PingReply, Errno>,
    },
    /// A notice for the log.
    Notice(Notice),
    /// A message passes between the core and an LND: reported if enabled with
    /// [`report_crossings`](crate::Node::report_crossings).
    Crossing(Crossing),
}

/// A message between the core and an LND, for observers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// The core passes it to the LND: it has its credits. A retry has the same ID.
    Handed(SendRequest),
    /// The LND has completed it.
    Returned {
        /// ID of the message.
        message: MessageId,
        /// Whether it may have been delivered.
        sent: bool,
    },
    /// Its header was received.
    Received(Received),
}

/// A notice of any layer, for the log and a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    Lnet(fulmar_lnet::Notice),
    Lnd(fulmar_lnd::Notice),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lnet(notice) => notice.fmt(f),
            Self::Lnd(notice) => notice.fmt(f),
        }
    }
}
