//! What the near end measures with a far end that serves.

mod clock;
mod echo;
mod latency;
mod mtu;
mod tcp;
mod udp;

pub use clock::{ClockSeen, measure as clock};
pub use echo::Spread;
pub(crate) use echo::{Pinger, round_trip};
pub use latency::{LatencyRow, SIZES, measure as latency};
pub use mtu::{MtuSeen, measure as mtu};
pub use tcp::{Load, TcpRun, measure as tcp};
pub use udp::{UdpSeen, UdpWay, measure as udp};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use serde::{Deserialize, Serialize};

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From here to the far end.
    Out,
    /// From the far end to here.
    Back,
}

impl Way {
    /// Returns it for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Out => "to the far end",
            Self::Back => "from the far end",
        }
    }
}

/// Returns the address from which this host reaches another.
///
/// # Errors
/// Why it does not, for people.
pub fn local_address(remote: SocketAddr) -> Result<IpAddr, String> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: the system only chooses the way.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(remote)?;
        socket.local_addr()
    });
    let ip = remote.ip();
    chosen
        .map(|address| address.ip())
        .map_err(|error| format!("this host has no way to {ip}: {error}. See `ip route get {ip}`"))
}
