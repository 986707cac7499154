//! What the core reports to the log.

use std::fmt;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

use crate::views::RoutingState;

/// Something worth a line in the log and a count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    /// A header breaks the protocol; its connection is closed.
    ProtocolError { from: Nid, reason: &'static str },
    /// A message was dropped.
    Dropped { from: Nid, reason: &'static str },
    /// Ping info cannot be understood.
    BadPingInfo { from: Nid, reason: &'static str },
    /// No answer came in time.
    ResponseTimeout { peer: Nid },
    /// A peer's NIDs are known.
    Discovered { primary: Nid, nids: usize },
    /// A peer could not be discovered.
    DiscoveryFailed { peer: Nid, errno: Errno },
    /// A gateway answers again.
    GatewayUp { gateway: Nid },
    /// A gateway does not answer: no route goes through it.
    GatewayDown { gateway: Nid },
    /// This node has begun or ceased to forward messages.
    Routing { state: RoutingState },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProtocolError { from, reason } => {
                write!(f, "{from} broke the LNet protocol ({reason}): its connections are closed")
            }
            Self::Dropped { from, reason } => write!(f, "dropped a message from {from}: {reason}"),
            Self::BadPingInfo { from, reason } => {
                write!(f, "cannot use what {from} says of itself: {reason}")
            }
            Self::ResponseTimeout { peer } => write!(f, "{peer} has not answered in time"),
            Self::Discovered { primary, nids } => {
                write!(f, "discovered {primary}: it has {nids} NIDs")
            }
            Self::DiscoveryFailed { peer, errno } => write!(f, "cannot discover {peer}: {errno}"),
            Self::GatewayUp { gateway } => {
                write!(f, "gateway {gateway} answers again: its routes are up")
            }
            Self::GatewayDown { gateway } => {
                write!(f, "gateway {gateway} does not answer: its routes are down until it does")
            }
            Self::Routing { state } => f.write_str(match state {
                RoutingState::Disabled => "no longer forwards messages",
                RoutingState::Enabled => "forwards messages",
                RoutingState::Stopping => "will soon stop forwarding: peers are being notified",
                RoutingState::Draining => {
                    "directs its peers to other routers, and stops when messages in transit are forwarded"
                }
            }),
        }
    }
}
