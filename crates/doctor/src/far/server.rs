//! The end that serves: its doors, and who is let in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::frame;
use super::session::Session;
use super::{GREETING_LEN_MAX, GREETING_MAX, GREETINGS_FROM_ONE_MAX, GREETINGS_MAX};
use super::{Greeting, PORT, Reply, STREAMS_MAX, VERSION};

/// How a far end serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Our address; all of them if there is none.
    pub bind: Option<IpAddr>,
    /// The TCP and UDP port; 0 for one that is free.
    pub port: u16,
    /// Who may examine; everybody if the list is empty.
    pub from: Vec<IpAddr>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { bind: None, port: PORT, from: Vec::new() }
    }
}

/// What happens at a server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody has begun to examine.
    Began(SocketAddr),
    /// That has ended.
    Ended(SocketAddr, Duration),
    /// Somebody was sent away.
    Refused(SocketAddr, String),
}

/// A far end that serves until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

pub(super) struct Shared {
    stop: AtomicBool,
    session: Mutex<Option<Arc<Session>>>,
    /// Callers that have not yet said who they are.
    greetings: Mutex<Vec<IpAddr>>,
    from: Vec<IpAddr>,
    notify: Box<dyn Fn(Notice) + Send + Sync>,
}

/// How often threads look whether they are to stop.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Room for datagrams that arrive while we look elsewhere, if the host grants it.
const UDP_ROOM: usize = 8 << 20;

impl Server {
    /// Opens the doors.
    ///
    /// # Errors
    /// Which address cannot be had, and why.
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
                // A host without IPv6 is served over IPv4.
                let _ = server.open((Ipv6Addr::UNSPECIFIED, port).into());
            }
        }
        Ok(server)
    }

    /// Returns where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn open(&mut self, address: SocketAddr) -> Result<(), String> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "port {} of {} is in use: is a \"fulmar doctor serve\" running already? Else choose \
                 another with --port, at both ends",
                address.port(),
                address.ip()
            ),
            _ => format!("cannot listen on {address}: {error}"),
        };
        let listener = listen(address).map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        let strays = datagrams(at).map_err(refused)?;
        strays.set_nonblocking(true).map_err(refused)?;
        let shared = self.shared.clone();
        self.threads.push(std::thread::spawn(move || shared.accept(&listener, &strays)));
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

/// Opens a socket whose datagrams are never cut on their way. A port that is named is shared: the
/// server keeps it, and each examination has a socket of its own there, which takes what is for the
/// address that it was called at.
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
    // What the host grants is enough, or what is lost here is told as such.
    let _ = socket.set_recv_buffer_size(UDP_ROOM);
    let _ = socket.set_send_buffer_size(UDP_ROOM / 4);
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

    /// Takes callers, and throws away datagrams that are for no examination.
    fn accept(self: &Arc<Self>, listener: &TcpListener, strays: &UdpSocket) {
        while !self.stopped() {
            let mut doors =
                [PollFd::new(listener, PollFlags::IN), PollFd::new(strays, PollFlags::IN)];
            let ready = poll(&mut doors, Some(&GLANCE));
            let _ = strays.recv(&mut []);
            if ready.is_err() || doors[0].revents().is_empty() {
                continue;
            }
            let Ok((stream, who)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            // Nothing is read of who may not examine, and nothing is told.
            if !self.from.is_empty() && !self.from.contains(&who.ip()) {
                let why = format!("{} is not among those that --from names there", who.ip());
                self.refuse(&stream, who, why);
            } else if self.may_greet(who.ip()) {
                let shared = self.clone();
                std::thread::spawn(move || shared.greet(stream, who));
            }
        }
    }

    /// Counts a caller that will say who it is. Returns false if it is one too many: those that are
    /// counted have five seconds, so this one may try again.
    fn may_greet(&self, who: IpAddr) -> bool {
        // All connections of a load may come at once.
        let examines = self.session().as_ref().is_some_and(|session| session.who().ip() == who);
        let mut greetings = self.greetings();
        let from_one = greetings.iter().filter(|other| **other == who).count();
        let may = match examines {
            true => from_one < STREAMS_MAX as usize,
            false => from_one < GREETINGS_FROM_ONE_MAX && greetings.len() < GREETINGS_MAX,
        };
        if may {
            greetings.push(who);
        }
        may
    }

    fn greetings(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.greetings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, stream: &TcpStream, who: SocketAddr, why: String) {
        // The caller may be gone.
        let _ = frame::send(stream, &Reply::Refused { why: why.clone() });
        (self.notify)(Notice::Refused(who, why));
    }

    /// Hears what a caller wants.
    fn greet(&self, stream: TcpStream, who: SocketAddr) {
        let greeting = frame::receive_within(&stream, who, GREETING_MAX, GREETING_LEN_MAX);
        let mut greetings = self.greetings();
        if let Some(at) = greetings.iter().position(|other| *other == who.ip()) {
            greetings.swap_remove(at);
        }
        drop(greetings);
        match greeting {
            Err(error) => self.refuse(&stream, who, error.to_string()),
            Ok(Greeting::Examine { version, .. }) if version != VERSION => {
                let program = env!("CARGO_PKG_VERSION").to_owned();
                let _ =
                    frame::send(&stream, &Reply::Welcome { version: VERSION, program, token: 0 });
                (self.notify)(Notice::Refused(who, format!("it speaks version {version}")));
            }
            Ok(Greeting::Examine { .. }) => self.examine(&stream, who),
            Ok(Greeting::Attach { token }) => {
                let session = self.session().clone();
                match session.filter(|session| session.owns(who.ip(), token)) {
                    Some(session) => session.attach(stream, STREAMS_MAX as usize),
                    None => {
                        self.refuse(&stream, who, "no examination has this token".to_owned());
                    }
                }
            }
        }
    }

    /// Has somebody examine, unless somebody else does.
    fn examine(&self, stream: &TcpStream, who: SocketAddr) {
        let session = {
            let mut place = self.session();
            if self.stopped() {
                return;
            }
            if let Some(other) = &*place {
                let with = other.who().ip().to_string();
                drop(place);
                let _ = frame::send(stream, &Reply::Busy { with: with.clone() });
                return (self.notify)(Notice::Refused(who, format!("{with} is examining")));
            }
            match Session::new(who, stream) {
                Ok(session) => place.insert(Arc::new(session)).clone(),
                Err(why) => {
                    drop(place);
                    return self.refuse(stream, who, why);
                }
            }
        };
        (self.notify)(Notice::Began(who));
        let begun = Instant::now();
        let place = Place(self);
        session.run(stream);
        drop(place);
        (self.notify)(Notice::Ended(who, begun.elapsed()));
    }
}

/// The place of the one who examines, which is free again whatever happens.
struct Place<'a>(&'a Shared);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.session() = None;
    }
}

/// Has small writes leave at once.
pub(super) fn hurry(stream: &TcpStream) {
    // It is only slower without.
    let _ = SockRef::from(stream).set_tcp_nodelay(true);
}
