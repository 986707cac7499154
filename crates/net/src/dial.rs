//! Opening connections, from privileged ports where that is allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fulmar_base::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::{errno_of, sys};

/// Begins to connect `local` with `remote`. The socket is writable when the outcome is known.
///
/// A node tells a peer that is privileged by its source port, so the ports from 1023 downwards are
/// tried. `unprivileged` remembers that they are forbidden. Spec: lnet-wire §3.1.
pub(crate) fn dial(
    local: IpAddr,
    remote: SocketAddr,
    unprivileged: &AtomicBool,
) -> Result<OwnedFd, Errno> {
    let mut port = if unprivileged.load(Ordering::Relaxed) { ANY } else { PORT_FIRST };
    loop {
        match dial_from(SocketAddr::new(local, port), remote) {
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

fn dial_from(local: SocketAddr, remote: SocketAddr) -> Result<OwnedFd, Errno> {
    let connect = || {
        let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // One port serves connections to many peers.
        socket.set_reuse_address(true)?;
        set_options(&socket)?;
        socket.bind(&local.into())?;
        match socket.connect(&remote.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    };
    connect().map(OwnedFd::from).map_err(|error: io::Error| errno_of(&error))
}

/// Returns how an attempt that [`dial`] began has ended: our address, or why there is none.
pub(crate) fn outcome(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    let socket = SockRef::from(&socket);
    if let Some(error) = socket.take_error().map_err(|error| errno_of(&error))? {
        return Err(errno_of(&error));
    }
    let local = socket.local_addr().map_err(|error| errno_of(&error))?;
    local.as_socket().ok_or(Errno::EADDRNOTAVAIL)
}

/// Sets what the kernel's LND sets on every connection, and has TCP bridge a failure of the way.
/// Spec: lnet-wire §12.3.
pub(crate) fn set_options(socket: &Socket) -> io::Result<()> {
    // After how many tries keepalives give up is not said: GIVE_UP takes the place of any count.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(5));
    socket.set_tcp_nodelay(true)?;
    sys::try_again_often(socket.as_fd(), TRIES_APART);
    socket.set_tcp_user_timeout(Some(GIVE_UP))?;
    socket.set_tcp_keepalive(&keepalive)
}

/// The highest privileged port, which is tried first.
const PORT_FIRST: u16 = 1023;
/// The last one that is tried.
const PORT_LAST: u16 = 512;
/// When the way returns, what was on it is sent again within this time.
const TRIES_APART: Duration = Duration::from_secs(2);
/// TCP gives up after this time and not after so many tries; LNet does before.
const GIVE_UP: Duration = Duration::from_secs(200);
/// Whichever the kernel chooses.
const ANY: u16 = 0;
