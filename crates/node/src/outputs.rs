//! What a node wants done.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use fulmar_base::{BufferId, ConnId, Errno, MessageId, Payload, Sink};
use fulmar_lnet::views::RoutingState;
use fulmar_lnet::{CopyId, Event, PingReply, QueryId};
use fulmar_lnet_wire::{Header, Nid};
use fulmar_selftest::console::Answer;
use fulmar_selftest::{CommandId, SessionEnd, Task};

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a TCP connection, bound to `local` and, if it can be had, to a privileged port.
    Dial {
        /// Names the attempt.
        conn: ConnId,
        /// The address to bind.
        local: IpAddr,
        /// The address to connect to.
        remote: SocketAddr,
    },
    /// Append to what is written on the connection: the head, then the payload.
    Write {
        /// Where.
        conn: ConnId,
        /// Headers.
        head: Vec<u8>,
        /// What follows them.
        payload: Payload,
        /// Compute the checksum of head and payload and put it into the head first.
        checksum: bool,
    },
    /// Close the connection, then [`handle_stopped`](crate::Node::handle_stopped).
    Close {
        /// Which.
        conn: ConnId,
        /// Write first what was asked for before.
        flush: bool,
    },
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
        /// Its name: not among those of the application's buffers.
        buffer: BufferId,
        /// Its length.
        len: u32,
    },
    /// Free a router buffer.
    Release {
        /// Which.
        buffer: BufferId,
    },
    /// For the application.
    Event(Event),
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
    /// Do something for the selftest that LNet has no part in.
    Task(Task),
    /// A command to the selftest's console has ended.
    Answer {
        /// Which.
        command: CommandId,
        /// How.
        answer: Answer,
    },
    /// Something for the log.
    Notice(Notice),
    /// A message passes between the core and an LND: told if
    /// [`tell_crossings`](crate::Node::tell_crossings) was asked to.
    Crossing(Crossing),
}

/// A message at the border between the core and an LND, for those who watch a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// The core hands it to the LND: it has its credits.
    Handed {
        /// Its name; the same when it is sent again.
        message: MessageId,
        /// Our NID whose connections carry it.
        ni: Nid,
        /// The peer at the other end of them: the target, or a router.
        peer: Nid,
        /// Its header.
        header: Header,
        /// What follows that.
        payload: Payload,
    },
    /// The LND has done with it.
    Returned {
        /// Which.
        message: MessageId,
        /// Whether it may be on its way.
        sent: bool,
    },
    /// Its header has been received.
    Received {
        /// On which connection.
        conn: ConnId,
        /// Our NID that the connection was made to.
        ni: Nid,
        /// The NID at the other end.
        peer: Nid,
        /// The header.
        header: Header,
    },
}

/// Something worth a line in the log and a count, from any layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    Lnet(fulmar_lnet::Notice),
    Socklnd(fulmar_socklnd::Notice),
    Selftest(fulmar_selftest::Notice),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lnet(notice) => write_lnet(f, notice),
            Self::Socklnd(notice) => write_socklnd(f, notice),
            Self::Selftest(notice) => write_selftest(f, notice),
        }
    }
}

fn write_lnet(f: &mut fmt::Formatter<'_>, notice: &fulmar_lnet::Notice) -> fmt::Result {
    use fulmar_lnet::Notice as N;
    match notice {
        N::ProtocolError { from, reason } => {
            write!(f, "{from} broke the LNet protocol ({reason}): its connections are closed")
        }
        N::Dropped { from, reason } => write!(f, "dropped a message from {from}: {reason}"),
        N::BadPingInfo { from, reason } => {
            write!(f, "{from} describes itself in a way that cannot be understood: {reason}")
        }
        N::ResponseTimeout { peer } => write!(f, "{peer} has not answered in time"),
        N::Discovered { primary, nids } => write!(f, "discovered {primary}: it has {nids} NIDs"),
        N::DiscoveryFailed { peer, errno } => write!(f, "cannot discover {peer}: {errno}"),
        N::GatewayUp { gateway } => write!(f, "gateway {gateway} answers again: its routes are up"),
        N::GatewayDown { gateway } => {
            write!(f, "gateway {gateway} does not answer: its routes are down until it does")
        }
        N::Routing { state } => f.write_str(match state {
            RoutingState::Disabled => "no longer forwards messages",
            RoutingState::Enabled => "forwards messages",
            RoutingState::Starting => "forwards messages, and will soon tell its peers so",
            RoutingState::Stopping => "will soon forward no more messages: peers are being told",
            RoutingState::Draining => {
                "sends its peers elsewhere, and stops when what is here has been forwarded"
            }
        }),
    }
}

fn write_socklnd(f: &mut fmt::Formatter<'_>, notice: &fulmar_socklnd::Notice) -> fmt::Result {
    use fulmar_socklnd::Notice as N;
    match notice {
        N::UnprivilegedPort { remote } => write!(
            f,
            "refused {remote}: it calls from an unprivileged port and this node's `accept` is \
             \"secure\" (run the caller with CAP_NET_BIND_SERVICE, or set accept=all here)"
        ),
        N::TooManyHandshakes { remote } => {
            write!(f, "refused {remote}: too many callers have not said yet who they are")
        }
        N::NotOurNid { remote, asked } => write!(
            f,
            "refused {remote}: it asks for {asked}, which is not a NID of this node (see \
             `lnetctl net show`)"
        ),
        N::Malformed { remote, error } => {
            write!(f, "{remote} sent what is not LNet: {error}")
        }
        N::Silent { remote } => write!(f, "{remote} connected and said nothing in time"),
        N::UnknownCookie { remote, cookie } => {
            write!(f, "{remote} acknowledged message {cookie:#x}, which it was not asked to")
        }
        N::Checksum { remote, expected, got } => write!(
            f,
            "a message from {remote} was damaged on its way: checksum {got:#010x}, not \
             {expected:#010x}"
        ),
        N::WrongPeer { wanted, got } => {
            write!(f, "{got} answered where {wanted} was called: is an address used twice?")
        }
        N::Unreachable { peer, errno, retry } => {
            write!(
                f,
                "cannot connect to {peer}: {errno}; trying again in {retry:?} at the earliest"
            )
        }
        N::Restarted { peer } => {
            write!(f, "{peer} has restarted or changed its version: its old connections are closed")
        }
        N::PeerUp { ni, peer } => write!(f, "connected to {} from {ni}", peer.nid),
        N::PeerDown { ni, peer, errno } => {
            write!(f, "lost the connections between {ni} and {}: {errno}", peer.nid)
        }
        N::Stalled { ni, peer } => write!(
            f,
            "nothing that {ni} sends to {} arrives: trying new connections (is there a link down \
             or a filter on the way?)",
            peer.nid
        ),
        N::Link { ni, up: true } => write!(f, "the link of {ni} is up"),
        N::Link { ni, up: false } => write!(
            f,
            "the link or the address of {ni} has gone: other interfaces are used until it returns"
        ),
    }
}

fn write_selftest(f: &mut fmt::Formatter<'_>, notice: &fulmar_selftest::Notice) -> fmt::Result {
    use fulmar_selftest::Notice as N;
    match notice {
        N::SessionBegun { name, console } => {
            write!(f, "in selftest session \"{name}\" of {console}")
        }
        N::SessionEnded { name, console, why } => {
            let why = match why {
                SessionEnd::Removed => "its console ended it",
                SessionEnd::Expired => "its console has not been heard of for too long",
                SessionEnd::Replaced => "another console took this node by force",
            };
            write!(f, "left selftest session \"{name}\" of {console}: {why}")
        }
        N::Corrupted { peer, offset, got } => write!(
            f,
            "selftest data from {peer} are not what was sent: the word at {offset} is {got:#018x}"
        ),
        N::BadRequest { from, reason } => {
            write!(f, "{from} sent what is no selftest request: {reason}")
        }
        N::RpcFailed { peer, service, errno } => {
            write!(f, "selftest {service} with {peer} failed: {errno}")
        }
    }
}
