//! The path MTU towards a host that runs no server: ICMP echoes that may not be fragmented.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fulmar_wire::{Order, Reader, Writer};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use super::mtu::{LEAST, MOST, MtuResult, TRIES, search};
use crate::remote::{is_too_long, learned};

/// Type, code, check sum, identifier and number.
const HEADER_LEN: usize = 8;
/// Echo request and reply of ICMP and of ICMPv6.
const V4: (u8, u8) = (8, 0);
const V6: (u8, u8) = (128, 129);
/// How long the answer to a small echo may take.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Measures the path MTU from `from` to `to`, an address with any port. `local` is the MTU of the
/// interface.
///
/// # Errors
/// Why no echo can be sent.
pub fn measure(from: IpAddr, to: SocketAddr, local: u32) -> io::Result<MtuResult> {
    let local = local.clamp(LEAST, MOST);
    let mut echoes = Echoes::open(from, to.ip())?;
    let mut seen = MtuResult { local, remote: local, one_way: true, ..MtuResult::default() };
    let start = Instant::now();
    if !(0..TRIES).any(|_| echoes.passes(LEAST, TIMEOUT)) {
        return Ok(seen);
    }
    let timeout = (start.elapsed() * 3).clamp(Duration::from_millis(60), TIMEOUT);
    let passes = |size| Ok::<_, io::Error>((0..TRIES).any(|_| echoes.passes(size, timeout)));
    seen.out = search(local, passes)?;
    if seen.out.is_some_and(|out| out < local) {
        // What the kernel believes is told by a datagram to any port.
        let payload = (local - crate::remote::headers(to.ip())) as usize;
        seen.learned = learned(from, to, payload.min(crate::remote::DATAGRAM_MAX), timeout);
    }
    Ok(seen)
}

/// A socket for echoes to one host.
struct Echoes {
    socket: Socket,
    /// The socket takes whole packets: those of IPv4 begin with its header.
    is_raw: bool,
    is_v6: bool,
    number: u16,
}

impl Echoes {
    /// Opens an unprivileged socket, or if the host allows none a raw one.
    fn open(from: IpAddr, to: IpAddr) -> io::Result<Self> {
        let is_v6 = to.is_ipv6();
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let protocol = if is_v6 { Protocol::ICMPV6 } else { Protocol::ICMPV4 };
        let (socket, is_raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
        };
        // Probes ignore the path MTU that the kernel has learned.
        if is_v6 {
            sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
        } else {
            sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
        }
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket.connect(&SocketAddr::new(to, 0).into())?;
        Ok(Self { socket, is_raw, is_v6, number: 0 })
    }

    /// Returns whether an echo in a packet of `size` bytes is answered.
    fn passes(&mut self, size: u32, timeout: Duration) -> bool {
        self.number = self.number.wrapping_add(1);
        let header = if self.is_v6 { 40 } else { 20 };
        let len = (size as usize).saturating_sub(header).max(HEADER_LEN);
        let echo = echo(if self.is_v6 { V6.0 } else { V4.0 }, identifier(), self.number, len);
        let deadline = Instant::now() + timeout;
        match self.socket.send(&echo) {
            Err(error) if is_too_long(&error) => return false,
            // An ICMP error for an earlier packet: this one was not sent.
            Err(_) if self.socket.send(&echo).is_err() => return false,
            _ => {}
        }
        self.is_answered(len, deadline)
    }

    fn is_answered(&mut self, len: usize, deadline: Instant) -> bool {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.socket.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            let Ok(received) = (&self.socket).read(&mut bytes) else { continue };
            if is_reply(self.without_ip(&bytes[..received]), self.is_v6, self.number, len) {
                return true;
            }
        }
    }

    /// Returns a message without the header of IPv4, which a raw socket delivers too.
    fn without_ip<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match bytes.first() {
            Some(first) if self.is_raw && !self.is_v6 => {
                bytes.get(usize::from(first & 15) * 4..).unwrap_or_default()
            }
            _ => bytes,
        }
    }
}

/// Returns whether a message answers the echo with this number and length. The identifier of an
/// unprivileged socket is chosen by the kernel, which delivers its own replies only.
fn is_reply(message: &[u8], is_v6: bool, number: u16, len: usize) -> bool {
    let kind = if is_v6 { V6.1 } else { V4.1 };
    message.len() == len && read(message) == Some((kind, number))
}

/// Returns the type and the number of a message.
fn read(message: &[u8]) -> Option<(u8, u16)> {
    let mut reader = Reader::new(message, Order::Big);
    let kind = reader.u8("type").ok()?;
    reader.u8("code").ok()?;
    reader.u16("check sum").ok()?;
    reader.u16("identifier").ok()?;
    Some((kind, reader.u16("number").ok()?))
}

/// Returns an echo request of `len` bytes.
fn echo(kind: u8, identifier: u16, number: u16, len: usize) -> Vec<u8> {
    // The kernel replaces the check sum but for raw sockets of IPv4.
    let unsigned = message(kind, 0, identifier, number, len);
    message(kind, check_sum(&unsigned), identifier, number, len)
}

fn message(kind: u8, sum: u16, identifier: u16, number: u16, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    let mut writer = Writer::new(&mut bytes, Order::Big);
    writer.u8(kind);
    writer.u8(0);
    writer.u16(sum);
    writer.u16(identifier);
    writer.u16(number);
    writer.zeros(len.saturating_sub(HEADER_LEN));
    bytes
}

fn identifier() -> u16 {
    std::process::id() as u16
}

/// Returns the check sum of the Internet (RFC 1071).
fn check_sum(bytes: &[u8]) -> u16 {
    // An odd byte at the end counts as the high one of its word.
    let words = bytes.chunks(2).map(|pair| {
        let (high, low) = (pair[0], pair.get(1).copied().unwrap_or_default());
        u32::from(high) << 8 | u32::from(low)
    });
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_has_a_valid_check_sum_and_its_reply_is_known() {
        let mut bytes = echo(V4.0, 7, 9, 101);
        assert_eq!(check_sum(&bytes), 0);
        assert!(!is_reply(&bytes, false, 9, 101), "a request is not a reply");
        bytes[0] = V4.1;
        assert!(is_reply(&bytes, false, 9, 101));
        assert!(!is_reply(&bytes, false, 8, 101) && !is_reply(&bytes, false, 9, 100));
        assert!(!is_reply(&[], false, 9, 0));
    }
}
