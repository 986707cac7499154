//! The path MTU that the kernel assumes.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt;

/// Number of datagrams, since some may be lost.
const TRIES: u32 = 3;

/// Sends datagrams of `len` bytes, which are too large for the path, and returns the path MTU that
/// the kernel then assumes; `None` if it is unknown. Takes three times `timeout`, the time for an
/// ICMP error to arrive.
pub(crate) fn learned(from: IpAddr, to: SocketAddr, len: usize, timeout: Duration) -> Option<u32> {
    let udp = UdpSocket::bind((from, 0)).ok()?;
    if from.is_ipv4() {
        sockopt::set_ip_mtu_discover(&udp, sockopt::Ipv4PathMtuDiscovery::DO).ok()?;
    } else {
        sockopt::set_ipv6_mtu_discover(&udp, sockopt::Ipv6PathMtuDiscovery::DO).ok()?;
    }
    udp.connect(to).ok()?;
    let bytes = vec![0; len];
    for _ in 0..TRIES {
        // Sending fails once the kernel knows the path MTU.
        let _ = udp.send(&bytes);
        std::thread::sleep(timeout);
    }
    let mtu = if from.is_ipv4() { sockopt::ip_mtu(&udp) } else { sockopt::ipv6_mtu(&udp) };
    mtu.ok()
}
