//! Signals from the world to checkers and applications.

use fulmar_base::{Errno, Span};
use fulmar_lnet::{Event, EventDone, PingReply, QueryId};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Header, Nid};
use fulmar_node::Notice;
use fulmar_selftest::CommandId;
use fulmar_selftest::console::Answer as ConsoleAnswer;

use crate::{HostId, TcpId};

/// An action of a node, or an event at a node.
#[derive(Clone, Debug)]
pub enum Signal {
    /// An event handler is called.
    Event {
        /// The node.
        host: HostId,
        /// The event.
        event: Event,
    },
    /// An event handler has returned; the node is notified next.
    Handled {
        /// The node.
        host: HostId,
        /// The event.
        done: EventDone,
    },
    /// A ping or a discovery has ended.
    Answered {
        /// The node.
        host: HostId,
        /// The query.
        query: QueryId,
        /// Its result.
        result: Result<PingReply, Errno>,
    },
    /// A command of the selftest console has ended.
    Commanded {
        /// The node.
        host: HostId,
        /// The command.
        command: CommandId,
        /// Its answer.
        answer: ConsoleAnswer,
    },
    /// A notice for the log of the node.
    Notice {
        /// The node.
        host: HostId,
        /// The notice.
        notice: Notice,
    },
    /// A notice for the log of the node's selftest.
    SelftestNotice {
        /// The node.
        host: HostId,
        /// The notice.
        notice: fulmar_selftest::Notice,
    },
    /// The node writes an LNet message on a connection.
    Wrote {
        /// The node.
        host: HostId,
        /// The remote node.
        peer: HostId,
        /// The local interface.
        ni: Nid,
        /// The remote interface.
        peer_ni: Nid,
        /// The connection.
        tcp: TcpId,
        /// The header.
        header: Header,
        /// The ping info of the node in the message, if any.
        info: Option<PingInfo>,
    },
    /// The socket has taken the last byte of the oldest message written on the connection.
    Taken {
        /// The node.
        host: HostId,
        /// The connection.
        tcp: TcpId,
    },
    /// The connection has ended for this node.
    Ended {
        /// The node.
        host: HostId,
        /// The connection.
        tcp: TcpId,
    },
    /// Bulk data were stored in memory of an application.
    Stored {
        /// The node.
        host: HostId,
        /// The destination.
        sink: Span,
        /// The memory from which the data were written.
        source: Span,
    },
    /// The node has crashed and lost its state.
    Crashed {
        /// The node.
        host: HostId,
    },
    /// A node violated its contract with the driver.
    Broken {
        /// The node.
        host: HostId,
        /// The violation.
        what: String,
    },
}

impl Signal {
    /// Returns the node.
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
