//! The end that examines.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::server::{datagrams, hurry};
use super::{FarError, GREETING_MAX, Greeting, Reply, Request, VERSION, clean, frame};

/// A far end that serves us.
#[derive(Debug)]
pub struct Examiner {
    control: TcpStream,
    who: SocketAddr,
    local: IpAddr,
    token: u64,
    program: String,
    udp: UdpSocket,
}

impl Examiner {
    /// Calls a far end and begins to examine, from `local` if that is given.
    ///
    /// # Errors
    /// Why it is no help, and who it is.
    pub fn connect(
        who: SocketAddr,
        local: Option<IpAddr>,
        patience: Duration,
    ) -> Result<Self, FarError> {
        let broken = |what| move |error| FarError::Io { who, what, error };
        let control =
            dial(who, local, Some(CONTROL_MSS), patience).map_err(broken("no connection"))?;
        let local = control.local_addr().map_err(broken("no address"))?.ip();
        hurry(&control);
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let greeting = Greeting::Examine { version: VERSION, program };
        frame::send(&control, &greeting).map_err(broken("it takes no greeting"))?;
        let (token, program) = match frame::receive(&control, who, GREETING_MAX)? {
            Reply::Welcome { version, program, token } if version == VERSION => (token, program),
            Reply::Welcome { version: theirs, .. } => {
                return Err(FarError::Version { who, theirs, ours: VERSION });
            }
            Reply::Busy { with } => {
                return Err(FarError::Busy { who, with: clean::words(&with) });
            }
            other => return Err(unexpected(who, "a greeting", other)),
        };
        let udp = datagrams(SocketAddr::new(local, 0)).map_err(broken("no UDP socket"))?;
        udp.connect(who).map_err(broken("no way for UDP"))?;
        let program = clean::words(&program);
        Ok(Self { control, who, local, token, program, udp })
    }

    /// Returns who serves.
    pub fn who(&self) -> SocketAddr {
        self.who
    }

    /// Returns our address towards it.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// Returns its release.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns what its host says of itself, without what no host would say.
    ///
    /// # Errors
    /// Why it is no help.
    pub fn host(&self) -> Result<crate::evidence::Host, FarError> {
        match self.ask(&Request::Host, Duration::from_secs(30))? {
            Reply::Host(host) => Ok(clean::host(*host)),
            other => Err(unexpected(self.who, "its host", other)),
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn udp(&self) -> &UdpSocket {
        &self.udp
    }

    /// Asks, and waits for the reply.
    pub(crate) fn ask(&self, request: &Request, patience: Duration) -> Result<Reply, FarError> {
        self.tell(request)?;
        self.hear(patience)
    }

    /// Asks.
    pub(crate) fn tell(&self, request: &Request) -> Result<(), FarError> {
        let (who, what) = (self.who, "it takes no request");
        frame::send(&self.control, request).map_err(|error| FarError::Io { who, what, error })
    }

    /// Waits for a reply.
    pub(crate) fn hear(&self, patience: Duration) -> Result<Reply, FarError> {
        match frame::receive(&self.control, self.who, patience)? {
            Reply::Refused { why } => {
                Err(FarError::Refused { who: self.who, why: clean::words(&why) })
            }
            reply => Ok(reply),
        }
    }

    /// Waits until the far end is ready.
    pub(crate) fn ready(&self, patience: Duration) -> Result<(), FarError> {
        match self.hear(patience)? {
            Reply::Ready => Ok(()),
            other => Err(unexpected(self.who, "whether it is ready", other)),
        }
    }

    /// Opens connections that will carry load.
    pub(crate) fn attach(&self, count: u32) -> Result<Vec<TcpStream>, FarError> {
        let open = || -> io::Result<TcpStream> {
            let stream = dial(self.who, Some(self.local), None, GREETING_MAX)?;
            frame::send(&stream, &Greeting::Attach { token: self.token })?;
            stream.set_write_timeout(None)?;
            Ok(stream)
        };
        let opened: io::Result<Vec<TcpStream>> = (0..count).map(|_| open()).collect();
        let (who, what) = (self.who, "no further connection");
        opened.map_err(|error| FarError::Io { who, what, error })
    }
}

/// Says that a reply is not what was asked for.
pub(crate) fn unexpected(who: SocketAddr, wanted: &'static str, got: Reply) -> FarError {
    match got {
        Reply::Refused { why } => FarError::Refused { who, why: clean::words(&why) },
        got => FarError::Unexpected { who, got: got.name(), wanted },
    }
}

/// Payload of a packet of the control connection, either way: any path carries it, also one that
/// silently loses large packets, of which somebody has to be told.
const CONTROL_MSS: u32 = 1200;

fn dial(
    who: SocketAddr,
    local: Option<IpAddr>,
    mss: Option<u32>,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(who), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(mss) = mss {
        socket.set_tcp_mss(mss)?;
    }
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    socket.connect_timeout(&who.into(), patience)?;
    Ok(socket.into())
}
