//! The client side of the protocol.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::server::{datagrams, set_nodelay};
use super::{GREETING_MAX, Greeting, RemoteError, Reply, Request, VERSION, clean, frame};

/// A connection to the server on a remote host.
#[derive(Debug)]
pub struct Examiner {
    control: TcpStream,
    peer: SocketAddr,
    local: IpAddr,
    token: u64,
    program: String,
    udp: UdpSocket,
}

impl Examiner {
    /// Connects to a remote host, from the address `local` if given, and starts an examination.
    ///
    /// # Errors
    /// Why that failed, with the address of the remote host.
    pub fn connect(
        peer: SocketAddr,
        local: Option<IpAddr>,
        timeout: Duration,
    ) -> Result<Self, RemoteError> {
        let broken = |what| move |error| RemoteError::Io { peer, what, error };
        let control =
            dial(peer, local, Some(CONTROL_MSS), timeout).map_err(broken("cannot connect"))?;
        let local = control.local_addr().map_err(broken("no local address"))?.ip();
        set_nodelay(&control);
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let greeting = Greeting::Examine { version: VERSION, program };
        frame::send(&control, &greeting).map_err(broken("cannot send the greeting"))?;
        let (token, program) = match frame::receive(&control, peer, GREETING_MAX)? {
            Reply::Welcome { version, program, token } if version == VERSION => (token, program),
            Reply::Welcome { version: theirs, .. } => {
                return Err(RemoteError::Version { peer, theirs, ours: VERSION });
            }
            Reply::Busy { with } => {
                return Err(RemoteError::Busy { peer, with: clean::words(&with) });
            }
            other => return Err(unexpected(peer, "a welcome", other)),
        };
        let udp =
            datagrams(SocketAddr::new(local, 0)).map_err(broken("cannot open a UDP socket"))?;
        udp.connect(peer).map_err(broken("cannot connect the UDP socket"))?;
        let program = clean::words(&program);
        Ok(Self { control, peer, local, token, program, udp })
    }

    /// Returns the address of the remote host.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the local address of the connection.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// Returns the release of Fulmar on the remote host.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns the evidence of the remote host, without invalid values.
    ///
    /// # Errors
    /// Why the remote host did not answer as expected.
    pub fn host(&self) -> Result<crate::evidence::Host, RemoteError> {
        match self.call(&Request::Host, Duration::from_secs(30))? {
            Reply::Host(host) => Ok(clean::host(*host)),
            other => Err(unexpected(self.peer, "host evidence", other)),
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn udp(&self) -> &UdpSocket {
        &self.udp
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call(&self, request: &Request, timeout: Duration) -> Result<Reply, RemoteError> {
        self.send(request)?;
        self.receive(timeout)
    }

    /// Sends a request.
    pub(crate) fn send(&self, request: &Request) -> Result<(), RemoteError> {
        let (peer, what) = (self.peer, "cannot send a request");
        frame::send(&self.control, request).map_err(|error| RemoteError::Io { peer, what, error })
    }

    /// Waits for a reply.
    pub(crate) fn receive(&self, timeout: Duration) -> Result<Reply, RemoteError> {
        match frame::receive(&self.control, self.peer, timeout)? {
            Reply::Refused { why } => {
                Err(RemoteError::Refused { peer: self.peer, why: clean::words(&why) })
            }
            reply => Ok(reply),
        }
    }

    /// Waits until the remote host is ready.
    pub(crate) fn ready(&self, timeout: Duration) -> Result<(), RemoteError> {
        match self.receive(timeout)? {
            Reply::Ready => Ok(()),
            other => Err(unexpected(self.peer, "a ready notice", other)),
        }
    }

    /// Opens connections for a load.
    pub(crate) fn attach(&self, count: u32) -> Result<Vec<TcpStream>, RemoteError> {
        let open = || -> io::Result<TcpStream> {
            let stream = dial(self.peer, Some(self.local), None, GREETING_MAX)?;
            frame::send(&stream, &Greeting::Attach { token: self.token })?;
            stream.set_write_timeout(None)?;
            Ok(stream)
        };
        let opened: io::Result<Vec<TcpStream>> = (0..count).map(|_| open()).collect();
        let (peer, what) = (self.peer, "cannot open another connection");
        opened.map_err(|error| RemoteError::Io { peer, what, error })
    }
}

/// Returns the error for a reply that does not match the request.
pub(crate) fn unexpected(peer: SocketAddr, wanted: &'static str, got: Reply) -> RemoteError {
    match got {
        Reply::Refused { why } => RemoteError::Refused { peer, why: clean::words(&why) },
        got => RemoteError::Unexpected { peer, got: got.name(), wanted },
    }
}

/// Largest segment of the control connection, in bytes. It fits every path, so the connection also
/// works on a path that loses large packets, and can report that.
const CONTROL_MSS: u32 = 1200;

fn dial(
    peer: SocketAddr,
    local: Option<IpAddr>,
    mss: Option<u32>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(mss) = mss {
        socket.set_tcp_mss(mss)?;
    }
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    socket.connect_timeout(&peer.into(), timeout)?;
    Ok(socket.into())
}
