//! Opening connections, from privileged ports where that is allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fulmar_base::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::descriptors::Descriptors;
use crate::{errno_of, sys};

/// Starts to connect `local` with `remote`. The socket is writable when the result is known.
///
/// A peer recognises a privileged node by its source port, so the ports from 1023 downwards are
/// tried. `unprivileged` remembers that they are forbidden. Spec: lnet-wire §3.1.
pub(crate) fn dial(
    local: IpAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    unprivileged: &AtomicBool,
) -> Result<OwnedFd, Errno> {
    let mut port = if unprivileged.load(Ordering::Relaxed) { ANY } else { PORT_FIRST };
    loop {
        match dial_from(SocketAddr::new(local, port), remote, tos) {
            Ok(socket) => return Ok(socket),
            Err(Errno::EACCES | Errno::EPERM) if port != ANY => {
                unprivileged.store(true, Ordering::Relaxed);
                port = ANY;
            }
            // The port, or the connection between just these two ports, is in use.
            Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) if port > PORT_LAST => port -= 1,
            Err(errno) => return Err(errno),
        }
    }
}

fn dial_from(local: SocketAddr, remote: SocketAddr, tos: Option<u8>) -> Result<OwnedFd, Errno> {
    let connect = || {
        let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP))?;
        if !Descriptors::of_process().may_keep(&socket) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        socket.set_nonblocking(true)?;
        // One port serves connections to many peers.
        socket.set_reuse_address(true)?;
        set_options(&socket, remote.ip(), tos)?;
        socket.bind(&local.into())?;
        match socket.connect(&remote.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    };
    connect().map(OwnedFd::from).map_err(|error: io::Error| errno_of(&error))
}

/// Returns the result of an attempt that [`dial`] started: our address, or the error.
pub(crate) fn outcome(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    let socket = SockRef::from(&socket);
    if let Some(error) = socket.take_error().map_err(|error| errno_of(&error))? {
        return Err(errno_of(&error));
    }
    adapt(socket.as_fd());
    let local = socket.local_addr().map_err(|error| errno_of(&error))?;
    local.as_socket().ok_or(Errno::EADDRNOTAVAIL)
}

/// Adapts an open connection to a long path. What waits there in a socket waits for long: the messages of one
/// RPC go by several connections, and the slowest would determine the rate of all. What waits in the node goes
/// by the connection that takes it first.
pub(crate) fn adapt(socket: BorrowedFd<'_>) {
    let round_trip = sys::tcp_info(socket).map(|info| info.limits.round_trip);
    if round_trip.is_some_and(|time| time >= LONG) {
        sys::limit_unsent(socket, UNSENT_MAX);
    }
}

/// Sets the options that the kernel's LND sets on every connection, and the timeouts of TCP for
/// failures of the path. Spec: lnet-wire §12.3.
pub(crate) fn set_options(socket: &Socket, remote: IpAddr, tos: Option<u8>) -> io::Result<()> {
    match tos {
        Some(tos) if remote.is_ipv6() => socket.set_tclass_v6(tos.into())?,
        Some(tos) => socket.set_tos_v4(tos.into())?,
        None => {}
    }
    // The number of keepalives is not set: GIVE_UP replaces any count.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(5));
    socket.set_tcp_nodelay(true)?;
    sys::try_again_often(socket.as_fd(), TRIES_APART);
    socket.set_tcp_user_timeout(Some(GIVE_UP))?;
    socket.set_tcp_keepalive(&keepalive)
}

/// The round trip of a long path.
const LONG: Duration = Duration::from_millis(10);
/// The unsent bytes of a socket there: what 2 Gbit/s carry in a millisecond.
const UNSENT_MAX: u32 = 256 << 10;
/// The highest privileged port, which is tried first.
const PORT_FIRST: u16 = 1023;
/// The lowest one that is tried.
const PORT_LAST: u16 = 512;
/// When the path recovers, lost bytes are retransmitted within this time.
const TRIES_APART: Duration = Duration::from_secs(2);
/// TCP gives up after this time, not after a number of retransmissions; LNet does earlier.
const GIVE_UP: Duration = Duration::from_secs(200);
/// A port that the kernel chooses.
const ANY: u16 = 0;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_has_the_type_of_service_of_its_interface() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        for (tos, wanted) in [(Some(0x28), 0x28), (None, 0)] {
            let unprivileged = AtomicBool::new(true);
            let socket = dial([127, 0, 0, 1].into(), remote, tos, &unprivileged).unwrap();
            assert_eq!(SockRef::from(&socket).tos_v4().unwrap(), wanted);
        }
        let six = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
        set_options(&six, IpAddr::from([0u16; 8]), Some(0x28)).unwrap();
        assert_eq!(six.tclass_v6().unwrap(), 0x28);
    }
}
