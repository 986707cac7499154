//! Accepting connections at the address of a network interface.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fulmar_base::Time;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::{Domain, Protocol, Socket, Type};
use tracing::Level;

use crate::conn::{Conn, NO_SLOT};
use crate::descriptors::Descriptors;
use crate::dial::{adapt, set_options};
use crate::error::StartError;
use crate::interfaces;
use crate::runtime::Message;
use crate::shared::Shared;

/// A listening socket.
pub(crate) struct Listener {
    socket: Socket,
    pub(crate) address: SocketAddr,
    /// Its index in the tables of the accepting thread, set only by it.
    pub(crate) slot: AtomicUsize,
}

/// Why accepting stopped.
pub(crate) enum Stop {
    /// There are no more connections.
    Empty,
    /// Other descriptors must be served too.
    Yield,
    /// The next connection is to be accepted then.
    Later(Time),
    /// There are too many descriptors, or too little memory.
    Exhausted(io::Error),
}

/// Whether there are descriptors for more connections.
enum Room {
    Free,
    Full,
    /// There will be then.
    Later(Time),
}

impl Listener {
    /// Listens on `port` of `address`.
    pub(crate) fn open(address: IpAddr, port: u16) -> Result<Self, StartError> {
        let socket = SocketAddr::new(address, port);
        let listen = || {
            let listener =
                Socket::new(Domain::for_address(socket), Type::STREAM, Some(Protocol::TCP))?;
            listener.set_nonblocking(true)?;
            listener.set_reuse_address(true)?;
            if address.is_ipv6() {
                listener.set_only_v6(true)?;
            }
            listener.bind(&socket.into())?;
            listener.listen(BACKLOG)?;
            Ok(listener)
        };
        let socket: Socket = listen().map_err(|error: io::Error| match error.raw_os_error() {
            Some(libc::EADDRNOTAVAIL) => {
                StartError::AddressNotHere { address, known: interfaces::addresses() }
            }
            Some(libc::EADDRINUSE) => StartError::PortInUse { address, port },
            Some(libc::EACCES | libc::EPERM) => StartError::Privilege { port },
            _ => StartError::system(format!("listen on {socket}"))(error),
        })?;
        let address = socket.local_addr().ok().and_then(|address| address.as_socket());
        let address = address.unwrap_or(SocketAddr::new(IpAddr::from([0; 4]), port));
        Ok(Self { socket, address, slot: AtomicUsize::new(NO_SLOT) })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Stops accepting and frees the port, even if other threads still hold the descriptor.
    pub(crate) fn close(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    /// Accepts connections.
    pub(crate) fn accept(&self, node: &Arc<Shared>) -> Stop {
        for _ in 0..BATCH {
            match self.accept_one(node) {
                Ok(Room::Free) => {}
                // Those that give way are closed by their threads, this one among them.
                Ok(Room::Full) => return Stop::Yield,
                Ok(Room::Later(at)) => return Stop::Later(at),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Stop::Empty,
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        return Stop::Exhausted(error);
                    }
                    // The connection or its network has failed meanwhile.
                    _ => {}
                },
            }
        }
        Stop::Yield
    }

    /// Reports a connection that would take one of the last descriptors; it is closed.
    fn refuse(&self, node: &Shared, remote: SocketAddr) {
        node.counters.accept_refusals.add(1);
        let line = format_args!(
            "refused {remote} at {}: connections use all file descriptors that they may use (raise \
             the limit of open files: `ulimit -n`, LimitNOFILE=)",
            self.address
        );
        node.log.write(node.runtime.now(), Level::WARN, &line, &node.counters);
    }

    fn accept_one(&self, node: &Arc<Shared>) -> io::Result<Room> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, remote) = acceptfrom_with(&self.socket, flags)?;
        let remote = remote.and_then(|address| SocketAddr::try_from(address).ok());
        let Some(remote) = remote else { return Ok(Room::Free) };
        let socket = Socket::from(socket);
        let limits = Descriptors::of_process();
        if !limits.may_keep(&socket) {
            self.refuse(node, remote);
            let next = node.turn(|core, now, _| {
                let next = core.machine.handle_no_place(now);
                (next > now).then_some(next)
            });
            return Ok(next.ok().flatten().map_or(Room::Full, Room::Later));
        }
        set_options(&socket, remote.ip(), node.tos_at(self.address.ip()))?;
        adapt(socket.as_fd());
        let full = limits.is_full(&socket);
        let accepted = node.turn(|core, now, _| {
            core.machine.limit_incoming(limits.incoming_max(), full);
            let id = core.machine.handle_accepted(now, self.address, remote)?;
            let thread = node.assign(self.address.ip());
            let conn = Arc::new(Conn::new(id, remote, thread, &node.runtime));
            conn.set_socket(socket.into());
            core.conns.insert(id, conn.clone());
            let next = core.machine.accepts_at(now);
            Some((conn, (next > now).then_some(next)))
        });
        let mut later = None;
        if let Ok(Some((conn, next))) = accepted {
            later = next;
            let thread = conn.thread;
            let node = node.clone();
            let message = Message::Register { node: node.clone(), conn, dialling: false };
            node.runtime.post(thread, message);
        }
        Ok(match later {
            Some(at) => Room::Later(at),
            None if full => Room::Full,
            None => Room::Free,
        })
    }
}

/// As that of the kernel's acceptor.
const BACKLOG: i32 = 127;
/// The most connections that are accepted in a row.
const BATCH: usize = 64;
