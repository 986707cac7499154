//! What the world tells those who watch it.

use fulmar_base::{Errno, Span};
use fulmar_lnet::{Event, EventDone, PingReply, QueryId};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Header, Nid};
use fulmar_node::Notice;
use fulmar_selftest::CommandId;
use fulmar_selftest::console::Answer as ConsoleAnswer;

use crate::{HostId, TcpId};

/// Something that a node did, or that was done to it.
#[derive(Clone, Debug)]
pub enum Signal {
    /// The handler of an event is called.
    Event {
        /// The node.
        host: HostId,
        /// What its handler is given.
        event: Event,
    },
    /// The handler of an event has returned, and the node is about to be told.
    Handled {
        /// The node.
        host: HostId,
        /// Which event.
        done: EventDone,
    },
    /// A ping or a discovery has ended.
    Answered {
        /// The node.
        host: HostId,
        /// Which.
        query: QueryId,
        /// How.
        result: Result<PingReply, Errno>,
    },
    /// A command to the selftest's console has ended.
    Commanded {
        /// The node.
        host: HostId,
        /// Which.
        command: CommandId,
        /// How.
        answer: ConsoleAnswer,
    },
    /// Something for the log of the node.
    Notice {
        /// The node.
        host: HostId,
        /// What.
        notice: Notice,
    },
    /// Something for the log of the node's selftest.
    SelftestNotice {
        /// The node.
        host: HostId,
        /// What.
        notice: fulmar_selftest::Notice,
    },
    /// The node has an LNet message written on a connection.
    Wrote {
        /// The node.
        host: HostId,
        /// The node at the other end.
        peer: HostId,
        /// The interface that carries it.
        ni: Nid,
        /// The interface at the other end.
        peer_ni: Nid,
        /// The connection.
        tcp: TcpId,
        /// The header.
        header: Header,
        /// What the node says of itself in it.
        info: Option<PingInfo>,
    },
    /// The socket has taken the last byte of the oldest message written on the connection.
    Taken {
        /// The node.
        host: HostId,
        /// The connection.
        tcp: TcpId,
    },
    /// The connection is no more for this node.
    Ended {
        /// The node.
        host: HostId,
        /// The connection.
        tcp: TcpId,
    },
    /// Bulk has reached memory of an application.
    Stored {
        /// The node.
        host: HostId,
        /// Where it went.
        sink: Span,
        /// What it is: the memory that it was written from.
        source: Span,
    },
    /// The node has died with all its state.
    Crashed {
        /// The node.
        host: HostId,
    },
    /// A node broke its contract with the driver.
    Broken {
        /// The node.
        host: HostId,
        /// How.
        what: String,
    },
}

impl Signal {
    /// Returns the node concerned.
    pub fn host(&self) -> HostId {
        match self {
            Self::Event { host, .. }
            | Self::Handled { host, .. }
            | Self::Answered { host, .. }
            | Self::Commanded { host, .. }
            | Self::Notice { host, .. }
            | Self::SelftestNotice { host, .. }
            | Self::Wrote { host, .. }
            | Self::Taken { host, .. }
            | Self::Ended { host, .. }
            | Self::Stored { host, .. }
            | Self::Crashed { host }
            | Self::Broken { host, .. } => *host,
        }
    }
}
