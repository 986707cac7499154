//! What no node of ours would say: lies about itself, and messages that it never made.

use fulmar_base::Payload;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::socklnd::FrameHeader;
use fulmar_lnet_wire::{Body, Header};
use fulmar_wire::Order;

use super::{HostId, World};
use crate::tcp::{EndState, Segment};

/// How ping info is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// It does not begin with the magic number.
    Magic,
    /// It does not say that its entries have a status.
    NoStatus,
    /// It has no entry, not even that of the loopback.
    NoEntries,
    /// Its first entry is not that of the loopback.
    NoLoopback,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Magic, Self::NoStatus, Self::NoEntries, Self::NoLoopback];

    /// Spoils info as it is on the wire.
    fn spoil(self, bytes: &mut [u8]) {
        let field = match self {
            Self::Magic => 0..4,
            Self::NoStatus => 4..8,
            Self::NoEntries => 12..16,
            Self::NoLoopback => 16..24,
        };
        for byte in &mut bytes[field] {
            *byte = 0;
        }
    }
}

impl World {
    /// Lets the next answer of a node to a ping be a lie.
    pub fn lie(&mut self, host: HostId, lie: Lie) {
        self.note(host, "-", format_args!("FAULT lies: {lie:?}"));
        self.host_mut(host).lie = Some(lie);
    }

    /// Returns a payload as the node writes it that may be lying.
    pub(super) fn spoilt(&mut self, host: HostId, header: &Header, payload: Payload) -> Payload {
        match (self.host(host).lie, payload) {
            (Some(lie), Payload::Inline(bytes))
                if matches!(header.body, Body::Reply { .. })
                    && PingInfo::decode(&bytes).is_ok() =>
            {
                self.host_mut(host).lie = None;
                let mut bytes = bytes.to_vec();
                lie.spoil(&mut bytes);
                Payload::Inline(bytes.into())
            }
            (_, payload) => payload,
        }
    }

    /// Sends a message without payload that the node of `host` never made, on a connection with
    /// `peer` that has nothing to write. Returns whether there is one.
    pub fn forge(&mut self, host: HostId, peer: HostId, header: &Header) -> bool {
        let mut all = self.host(host).connections.values();
        let found = all.find(|(tcp, side)| {
            self.connections[tcp.0].as_ref().is_some_and(|connection| {
                let end = connection.end(*side);
                let idle = end.state == EndState::Open && !end.stream.has_unsent();
                idle && connection.end(side.other()).host == peer
            })
        });
        let Some(&(tcp, side)) = found else { return false };
        self.note(host, &peer.to_string(), format_args!("FAULT forges {header:?}"));
        let mut bytes = Vec::new();
        FrameHeader::lnet().encode(Order::Little, &mut bytes);
        header.encode(HeaderForm::Small, &mut bytes);
        if let Some(connection) = &mut self.connections[tcp.0] {
            connection.end_mut(side).stream.put(Segment::Bytes(bytes));
        }
        self.kick(tcp, side);
        true
    }
}
