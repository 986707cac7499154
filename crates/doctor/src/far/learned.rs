//! What a kernel believes of a path.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt;

/// Packets that are lost are sent so often.
const TRIES: u32 = 3;

/// Sends datagrams of `len` bytes, which are too large for the path, as TCP would, and returns what
/// the kernel then takes for its MTU; `None` if it cannot be asked. Takes three times `patience`,
/// which is for the path's answer.
pub(crate) fn learned(from: IpAddr, to: SocketAddr, len: usize, patience: Duration) -> Option<u32> {
    let udp = UdpSocket::bind((from, 0)).ok()?;
    if from.is_ipv4() {
        sockopt::set_ip_mtu_discover(&udp, sockopt::Ipv4PathMtuDiscovery::DO).ok()?;
    } else {
        sockopt::set_ipv6_mtu_discover(&udp, sockopt::Ipv6PathMtuDiscovery::DO).ok()?;
    }
    udp.connect(to).ok()?;
    let bytes = vec![0; len];
    for _ in 0..TRIES {
        // It is refused when the kernel has learned already.
        let _ = udp.send(&bytes);
        std::thread::sleep(patience);
    }
    let mtu = if from.is_ipv4() { sockopt::ip_mtu(&udp) } else { sockopt::ipv6_mtu(&udp) };
    mtu.ok()
}
