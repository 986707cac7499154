//! Messages that no correct node sends: invalid ping info, and forged messages.

use fulmar_base::Payload;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::socklnd::FrameHeader;
use fulmar_lnet_wire::{Body, Header};
use fulmar_wire::Order;

use super::{HostId, World};
use crate::tcp::{EndState, Segment};
use crate::words;

/// A way to corrupt ping info.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PingCorruption {
    /// The magic number is wrong.
    Magic,
    /// The feature of NI status is missing.
    NoStatus,
    /// It has no entries, not even loopback.
    NoEntries,
    /// The first entry is not loopback.
    NoLoopback,
}

impl PingCorruption {
    /// All corruptions.
    pub const ALL: [Self; 4] = [Self::Magic, Self::NoStatus, Self::NoEntries, Self::NoLoopback];

    /// Returns what is wrong, for the log.
    fn name(self) -> &'static str {
        match self {
            Self::Magic => "a wrong magic number",
            Self::NoStatus => "no NI status",
            Self::NoEntries => "no entries",
            Self::NoLoopback => "no loopback",
        }
    }

    /// Corrupts encoded ping info.
    fn apply(self, bytes: &mut [u8]) {
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
    /// Corrupts the next reply of a node to a ping.
    pub fn corrupt_ping(&mut self, host: HostId, corruption: PingCorruption) {
        self.note(host, "-", format_args!("FAULT corrupt ping: {}", corruption.name()));
        self.host_mut(host).ping_corruption = Some(corruption);
    }

    /// Returns the payload of a message, corrupted if that was requested.
    pub(super) fn corrupted(&mut self, host: HostId, header: &Header, payload: Payload) -> Payload {
        match (self.host(host).ping_corruption, payload) {
            (Some(corruption), Payload::Inline(bytes))
                if matches!(header.body, Body::Reply { .. })
                    && PingInfo::decode(&bytes).is_ok() =>
            {
                self.host_mut(host).ping_corruption = None;
                let mut bytes = bytes.to_vec();
                corruption.apply(&mut bytes);
                Payload::Inline(bytes.into())
            }
            (_, payload) => payload,
        }
    }

    /// Sends a forged message on an idle connection of `host` with `peer`. Returns whether there is
    /// one.
    pub fn send_forged(
        &mut self,
        host: HostId,
        peer: HostId,
        header: &Header,
        payload: &[u8],
    ) -> bool {
        let mut all = self.host(host).connections.values();
        let found = all.find(|(tcp, side)| {
            self.connections[tcp.0].as_ref().is_some_and(|connection| {
                let end = connection.end(*side);
                let idle = end.state == EndState::Open && !end.stream.has_unsent();
                idle && connection.end(side.other()).host == peer
            })
        });
        let Some(&(tcp, side)) = found else { return false };
        self.note(
            host,
            &peer.to_string(),
            format_args!("FAULT forged message: {}", words::header(header)),
        );
        let mut bytes = Vec::new();
        FrameHeader::lnet().encode(Order::Little, &mut bytes);
        header.encode(HeaderForm::Small, &mut bytes);
        bytes.extend(payload);
        if let Some(connection) = &mut self.connections[tcp.0] {
            connection.end_mut(side).stream.put(Segment::Bytes(bytes));
        }
        self.kick(tcp, side);
        true
    }
}
