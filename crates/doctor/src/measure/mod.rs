//! Measurements between the local host and the server on the remote host.

mod clock;
mod echo;
mod icmp;
mod latency;
mod mtu;
mod tcp;
mod udp;

pub use clock::{ClockResult, measure as clock};
pub use echo::Spread;
pub(crate) use echo::{Pinger, round_trip};
pub use icmp::measure as mtu_by_icmp;
pub use latency::{LatencyRow, SIZES, measure as latency};
pub use mtu::{MtuResult, measure as mtu};
pub use tcp::{Load, TcpRun, measure as tcp};
pub use udp::{UdpDirection, UdpResult, measure as udp};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use serde::{Deserialize, Serialize};

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the local to the remote host.
    Out,
    /// From the remote to the local host.
    In,
}

impl Direction {
    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Out => "outbound",
            Self::In => "inbound",
        }
    }
}

/// Returns the local address of the route to a remote address.
///
/// # Errors
/// Why there is none.
pub fn local_address(remote: SocketAddr) -> Result<IpAddr, String> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: connecting only selects the route.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(remote)?;
        socket.local_addr()
    });
    let ip = remote.ip();
    chosen
        .map(|address| address.ip())
        .map_err(|error| format!("there is no route to {ip}: {error}. Check `ip route get {ip}`"))
}
