//! The server: listens for examiners and admits one at a time.

use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::frame;
use super::greetings::Greetings;
use super::session::Session;
use super::{GREETING_LEN_MAX, GREETING_MAX, Greeting, PORT, Reply, STREAMS_MAX, VERSION};

/// Options of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// The local address; all addresses if `None`.
    pub bind: Option<IpAddr>,
    /// The TCP and UDP port; 0 for any free port.
    pub port: u16,
    /// The addresses that may examine; all if empty.
    pub from: Vec<IpAddr>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { bind: None, port: PORT, from: Vec::new() }
    }
}

/// Events of a server, for its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An examination has started.
    Began(SocketAddr),
    /// It has ended.
    Ended(SocketAddr, Duration),
    /// A connection was refused.
    Refused(SocketAddr, String),
}

/// A server that runs until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

pub(super) struct Shared {
    stop: AtomicBool,
    session: Mutex<Option<Arc<Session>>>,
    /// The connections without a greeting so far.
    greetings: Mutex<Greetings<Arc<TcpStream>>>,
    from: Vec<IpAddr>,
    notify: Box<dyn Fn(Notice) + Send + Sync>,
}

/// How often threads check whether to stop.
const STOP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Receive buffer of the UDP socket, if the host allows it, in bytes.
const UDP_BUFFER: usize = 8 << 20;

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// Which address cannot be used, and why.
    pub fn start(
        options: &ServerOptions,
        notify: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            session: Mutex::new(None),
            greetings: Mutex::default(),
            from: options.from.clone(),
            notify: Box::new(notify),
        });
        let mut server = Self { shared, threads: Vec::new(), addresses: Vec::new() };
        match options.bind {
            Some(address) => server.open(SocketAddr::new(address, options.port))?,
            None => {
                server.open((Ipv4Addr::UNSPECIFIED, options.port).into())?;
                let port = server.addresses[0].port();
                // A host may lack IPv6; IPv4 is enough.
                let _ = server.open((Ipv6Addr::UNSPECIFIED, port).into());
            }
        }
        Ok(server)
    }

    /// Returns the addresses on which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn open(&mut self, address: SocketAddr) -> Result<(), String> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "port {} of {} is in use: stop the other \"fulmar doctor serve\", or choose \
                 another port with --port on both hosts",
                address.port(),
                address.ip()
            ),
            _ => format!("cannot listen on {address}: {error}"),
        };
        let listener = listen(address).map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        let unclaimed = datagrams(at).map_err(refused)?;
        unclaimed.set_nonblocking(true).map_err(refused)?;
        let shared = self.shared.clone();
        self.threads.push(std::thread::spawn(move || shared.accept(&listener, &unclaimed)));
        self.addresses.push(at);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(session) = &*self.shared.session() {
            session.end();
        }
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// Opens a socket whose datagrams are never fragmented. A nonzero port is shared: the server keeps
/// a socket on it, and each examination has its own, bound to the address of its connection.
pub(super) fn datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    use rustix::net::sockopt;
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
        sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
    } else {
        sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
    }
    socket.set_reuse_address(address.port() != 0)?;
    // The host may grant less; drops for lack of buffer are counted and reported.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    let _ = socket.set_send_buffer_size(UDP_BUFFER / 4);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl Shared {
    fn session(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Accepts connections, and discards datagrams that belong to no examination.
    fn accept(self: &Arc<Self>, listener: &TcpListener, unclaimed: &UdpSocket) {
        while !self.stopped() {
            let mut sockets =
                [PollFd::new(listener, PollFlags::IN), PollFd::new(unclaimed, PollFlags::IN)];
            let ready = poll(&mut sockets, Some(&STOP_INTERVAL));
            let _ = unclaimed.recv(&mut []);
            if ready.is_err() || sockets[0].revents().is_empty() {
                continue;
            }
            let Ok((stream, peer)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            // Nothing is read from an address that is not allowed, and it learns nothing else.
            if !self.from.is_empty() && !self.from.contains(&peer.ip()) {
                let why = format!("{} is not in the list of --from", peer.ip());
                self.refuse(&stream, peer, why);
            } else {
                self.admit(stream, peer);
            }
        }
    }

    /// Receives the greeting of a connection in a thread of its own.
    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let examiner = self.session().as_ref().map(|session| session.peer().ip());
        let stream = Arc::new(stream);
        let added = self.greetings().add(peer.ip(), stream.clone(), examiner);
        let Some((number, replaced)) = added else { return };
        if let Some(replaced) = replaced {
            // Its thread ends. The peer may have closed it already.
            let _ = replaced.shutdown(Shutdown::Both);
        }
        let shared = self.clone();
        let thread = std::thread::Builder::new();
        if thread.spawn(move || shared.greet(number, stream, peer)).is_err() {
            // The system has no threads left: the connection is closed.
            self.greetings().remove(number);
        }
    }

    fn greetings(&self) -> MutexGuard<'_, Greetings<Arc<TcpStream>>> {
        self.greetings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, stream: &TcpStream, peer: SocketAddr, why: String) {
        // The peer may have closed the connection.
        let _ = frame::send(stream, &Reply::Refused { why: why.clone() });
        (self.notify)(Notice::Refused(peer, why));
    }

    /// Receives the greeting and acts on it.
    fn greet(&self, number: u64, stream: Arc<TcpStream>, peer: SocketAddr) {
        let greeting = frame::receive_within(&stream, peer, GREETING_MAX, GREETING_LEN_MAX);
        if !self.greetings().remove(number) {
            return;
        }
        let Some(stream) = Arc::into_inner(stream) else { return };
        match greeting {
            Err(error) => self.refuse(&stream, peer, error.to_string()),
            Ok(Greeting::Examine { version, .. }) if version != VERSION => {
                let program = env!("CARGO_PKG_VERSION").to_owned();
                let _ =
                    frame::send(&stream, &Reply::Welcome { version: VERSION, program, token: 0 });
                (self.notify)(Notice::Refused(
                    peer,
                    format!("it uses version {version} of the protocol"),
                ));
            }
            Ok(Greeting::Examine { .. }) => self.examine(&stream, peer),
            Ok(Greeting::Attach { token }) => {
                let session = self.session().clone();
                match session.filter(|session| session.owns(peer.ip(), token)) {
                    Some(session) => session.attach(stream, STREAMS_MAX as usize),
                    None => {
                        self.refuse(&stream, peer, "no examination has this token".to_owned());
                    }
                }
            }
        }
    }

    /// Runs an examination, unless another one is running.
    fn examine(&self, stream: &TcpStream, peer: SocketAddr) {
        let session = {
            let mut slot = self.session();
            if self.stopped() {
                return;
            }
            if let Some(other) = &*slot {
                let with = other.peer().ip().to_string();
                drop(slot);
                let _ = frame::send(stream, &Reply::Busy { with: with.clone() });
                return (self.notify)(Notice::Refused(
                    peer,
                    format!("an examination from {with} is running"),
                ));
            }
            match Session::new(peer, stream) {
                Ok(session) => slot.insert(Arc::new(session)).clone(),
                Err(why) => {
                    drop(slot);
                    return self.refuse(stream, peer, why);
                }
            }
        };
        (self.notify)(Notice::Began(peer));
        let start = Instant::now();
        let slot = Slot(self);
        session.run(stream);
        drop(slot);
        (self.notify)(Notice::Ended(peer, start.elapsed()));
    }
}

/// Frees the slot of the running examination when dropped, also on a panic.
struct Slot<'a>(&'a Shared);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.session() = None;
    }
}

/// Disables Nagle's algorithm, so that small messages are sent at once.
pub(super) fn set_nodelay(stream: &TcpStream) {
    // A failure only adds latency.
    let _ = SockRef::from(stream).set_tcp_nodelay(true);
}
