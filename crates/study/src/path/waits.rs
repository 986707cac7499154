//! What data and messages wait for, and what bounds the throughput.

use std::ops::Range;

use fulmar_sim::{Flow, HostId, SendLimit, World};
use serde::Serialize;

/// Samples in which something waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// All samples.
    pub samples: u32,
    /// Data for the congestion window.
    pub congestion_window: u32,
    /// Data for the receiver's window.
    pub receive_window: u32,
    /// Data for the send buffer.
    pub send_buffer: u32,
    /// Messages at routers for buffers or credits.
    pub routers: u32,
    /// Messages for credits of their peer.
    pub peer_credits: u32,
    /// Messages for credits of their interface.
    pub credits: u32,
}

/// The bound of the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// A link is full.
    Link,
    /// The interfaces of nodes are full.
    Interfaces,
    /// Congestion windows: they still grow, or losses keep them small.
    CongestionWindow,
    /// The receive buffers of TCP.
    ReceiveWindow,
    /// The send buffers of TCP.
    SendBuffer,
    /// Buffers or credits of routers.
    Routers,
    /// `peer_credits` of the senders.
    PeerCredits,
    /// `credits` of the senders.
    Credits,
    /// RPCs in flight.
    Concurrency,
}

impl Bottleneck {
    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Interfaces => "interfaces",
            Self::CongestionWindow => "congestion window",
            Self::ReceiveWindow => "receive buffer of TCP",
            Self::SendBuffer => "send buffer of TCP",
            Self::Routers => "router buffers or credits",
            Self::PeerCredits => "peer_credits",
            Self::Credits => "credits",
            Self::Concurrency => "RPCs in flight",
        }
    }
}

impl Waits {
    /// Adds a sample: the flows that carry data, the nodes that send them, and the routers.
    pub(super) fn add(
        &mut self,
        world: &World,
        flows: &[Flow],
        senders: &[Range<u32>],
        routers: &[Range<u32>],
    ) {
        self.samples += 1;
        let held = |why| u32::from(flows.iter().any(|flow| flow.held == Some(why)));
        self.congestion_window += held(SendLimit::Congestion);
        self.receive_window += held(SendLimit::Receiver);
        self.send_buffer += held(SendLimit::Buffer);
        self.routers += u32::from(nodes(routers).any(|router| holds_back(world, router)));
        let waits = |short: fn(&World, HostId) -> bool| {
            u32::from(nodes(senders).any(|host| short(world, host)))
        };
        self.credits += waits(lacks_credits);
        self.peer_credits += waits(lacks_peer_credits);
    }

    /// Returns what most limits the throughput if no line is full: windows come first, because
    /// messages behind them keep their credits.
    pub(super) fn bound(&self) -> Bottleneck {
        let windows = [
            (self.congestion_window, Bottleneck::CongestionWindow),
            (self.receive_window, Bottleneck::ReceiveWindow),
            (self.send_buffer, Bottleneck::SendBuffer),
        ];
        let often = |count: u32| 3 * count >= self.samples && count > 0;
        let window = windows.into_iter().filter(|(count, _)| often(*count));
        if let Some((_, window)) = window.max_by_key(|(count, _)| *count) {
            return window;
        }
        let rest = [
            (self.routers, Bottleneck::Routers),
            (self.credits, Bottleneck::Credits),
            (self.peer_credits, Bottleneck::PeerCredits),
        ];
        let found = rest.into_iter().find(|(count, _)| often(*count));
        found.map_or(Bottleneck::Concurrency, |(_, bound)| bound)
    }
}

fn nodes(ranges: &[Range<u32>]) -> impl Iterator<Item = HostId> {
    ranges.iter().flat_map(Clone::clone).map(HostId)
}

/// Returns whether messages of a node wait for credits of an interface.
pub(crate) fn lacks_credits(world: &World, host: HostId) -> bool {
    let Some(node) = world.node(host) else { return false };
    node.lnet().nis().into_iter().any(|ni| ni.credits < 0)
}

/// Returns whether messages of a node wait for credits of a peer.
pub(crate) fn lacks_peer_credits(world: &World, host: HostId) -> bool {
    let Some(node) = world.node(host) else { return false };
    let mut peers = node.lnet().peers().into_iter().flat_map(|peer| peer.nis);
    peers.any(|ni| ni.credits < 0)
}

/// Returns whether messages wait at a router for a buffer or for credits.
pub(crate) fn holds_back(world: &World, router: HostId) -> bool {
    let Some(node) = world.node(router) else { return false };
    let pools = node.lnet().routing().pools;
    let mut peers = node.lnet().peers().into_iter().flat_map(|peer| peer.nis);
    pools.iter().any(|pool| pool.credits < 0)
        || peers.any(|ni| ni.router_credits < 0 || ni.credits < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_come_before_the_credits_that_wait_behind_them() {
        let all = Waits { samples: 90, send_buffer: 80, peer_credits: 90, ..Waits::default() };
        assert_eq!(all.bound(), Bottleneck::SendBuffer);
        let few = Waits { send_buffer: 20, ..all };
        assert_eq!(few.bound(), Bottleneck::PeerCredits);
        let routed = Waits { routers: 40, ..few };
        assert_eq!(routed.bound(), Bottleneck::Routers);
        let none = Waits { peer_credits: 20, ..few };
        assert_eq!(none.bound(), Bottleneck::Concurrency);
    }
}
