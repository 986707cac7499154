//! The state of TCP, for reports and pictures.

use super::{HostId, TcpId, World};
use crate::tcp::{SendLimit, Side};

/// The sending side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The connection.
    pub tcp: TcpId,
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// The congestion window, in bytes.
    pub congestion_window: u64,
    /// The window of the receiver, in bytes.
    pub receive_window: u64,
    /// Data that are not acknowledged, in bytes.
    pub in_flight: u64,
    /// All data that were acknowledged, in bytes.
    pub delivered: u64,
    /// All data that were retransmitted, in bytes.
    pub resent: u64,
    /// What keeps data from being sent, if there are any.
    pub held: Option<SendLimit>,
}

impl World {
    /// Returns both directions of every connection.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let open = self.connections.iter().enumerate();
        let open = open.filter_map(|(n, connection)| Some((TcpId(n), connection.as_deref()?)));
        open.flat_map(|(tcp, connection)| {
            Side::BOTH.map(|side| {
                let end = connection.end(side);
                let sender = &end.stream.sender;
                Flow {
                    tcp,
                    from: end.host,
                    to: connection.end(side.other()).host,
                    congestion_window: sender.window(),
                    receive_window: sender.receive_window(),
                    in_flight: sender.in_flight(),
                    delivered: sender.delivered(),
                    resent: sender.resent,
                    held: end.stream.held(),
                }
            })
        })
    }

    /// Returns the bytes that each interface has sent and received, including headers, and its rate in Mbit/s.
    pub fn cables(&self) -> Vec<CableUse> {
        self.host_ids().flat_map(|host| self.fabric.cables(host)).collect()
    }
}

/// Traffic of the cable of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableUse {
    /// The host.
    pub host: HostId,
    /// The rate in each direction, in Mbit/s.
    pub rate_mbps: u64,
    /// Bytes from the host, including all headers.
    pub sent: u64,
    /// Bytes to the host.
    pub received: u64,
}
