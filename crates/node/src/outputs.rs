//! What a node wants done.

use std::fmt;

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Sink};
use fulmar_lnd::{Received, SendRequest, Stream};
use fulmar_lnet::{CopyId, Event, PingReply, QueryId, ServiceId};

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Something for a TCP connection.
    Stream(Stream),
    /// What is to be read from the connection next has changed.
    Resume {
        /// Which.
        conn: ConnId,
    },
    /// Copy bytes within this node.
    Copy {
        /// Names the copy.
        copy: CopyId,
        /// From there; never inline.
        from: Payload,
        /// To there; never inline.
        to: Sink,
    },
    /// Make a router buffer of so many bytes, whatever they are.
    Allocate {
        /// Its name: not among those of services.
        buffer: BufferId,
        /// Its length.
        len: u32,
    },
    /// Free a router buffer.
    Release {
        /// Which.
        buffer: BufferId,
    },
    /// For the queue of a service.
    Event {
        /// Which service.
        service: ServiceId,
        /// What happened.
        event: Event,
        /// What came, if the memory of the descriptor is inline.
        bytes: Vec<u8>,
    },
    /// A ping has ended.
    Pinged {
        /// Which.
        query: QueryId,
        /// How.
        result: Result<PingReply, Errno>,
    },
    /// A discovery has ended.
    Discovered {
        /// Which.
        query: QueryId,
        /// How.
        result: Result<PingReply, Errno>,
    },
    /// Something for the log.
    Notice(Notice),
    /// A message passes between the core and an LND: reported if
    /// [`report_crossings`](crate::Node::report_crossings) was asked to.
    Crossing(Crossing),
}

/// A message at the border between the core and an LND, for those who watch a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// The core hands it to the LND: it has its credits. It has the same name when it is sent again.
    Handed(SendRequest),
    /// The LND has done with it.
    Returned {
        /// Which.
        message: MessageId,
        /// Whether it may be on its way.
        sent: bool,
    },
    /// Its header has been received.
    Received(Received),
}

/// Something worth a line in the log and a count, from any layer.
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
