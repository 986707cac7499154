//! One examination, on the server.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulmar_wire::{Order, Reader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::flood::is_temporary;
use super::message::may_echo;
use super::server::{datagrams, set_nodelay};
use super::{Datagram, DatagramKind, GREETING_MAX, HEADER_LEN, IDLE_MAX, SESSION_MAX};
use super::{RemoteError, Reply, Request, StreamStats, Tally, VERSION, flood, frame, learned};
use crate::evidence;

/// A running examination.
pub(super) struct Session {
    peer: SocketAddr,
    local: IpAddr,
    token: u64,
    /// The control connection, to shut it down from outside.
    control: TcpStream,
    udp: UdpSocket,
    over: AtomicBool,
    /// Attached connections without a load.
    streams: Mutex<Vec<TcpStream>>,
    /// Those with a load.
    loaded: Mutex<Vec<TcpStream>>,
    attached: Condvar,
    datagrams: Mutex<Datagrams>,
}

/// State of the examiner's datagrams.
#[derive(Default)]
struct Datagrams {
    /// Their source address.
    from: Option<SocketAddr>,
    /// The counters, while they are counted.
    tally: Option<Tally>,
}

/// Longest time that ending the streams may add to a load.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// After this time without a datagram, none is in flight.
const QUIET: Duration = Duration::from_millis(250);
/// How often the receiver of datagrams checks whether the examination is over.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

impl Session {
    /// Starts an examination for a control connection.
    ///
    /// # Errors
    /// Why no token or no UDP socket is available.
    pub(super) fn new(peer: SocketAddr, control: &TcpStream) -> Result<Self, String> {
        // The token must not be guessable.
        let mut token = [0; 8];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut token))
            .map_err(text)?;
        set_nodelay(control);
        let local = control.local_addr().map_err(text)?;
        // Datagrams arrive at the address of the control connection, and must be answered from it.
        let udp = datagrams(local)
            .map_err(|error| format!("cannot open a UDP socket at {local}: {error}"))?;
        udp.set_read_timeout(Some(STOP_INTERVAL)).map_err(text)?;
        Ok(Self {
            peer,
            local: local.ip(),
            token: u64::from_ne_bytes(token),
            control: control.try_clone().map_err(text)?,
            udp,
            over: AtomicBool::new(false),
            streams: Mutex::default(),
            loaded: Mutex::default(),
            attached: Condvar::new(),
            datagrams: Mutex::default(),
        })
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns whether this is the address of the examiner, with its token.
    pub(super) fn owns(&self, address: IpAddr, token: u64) -> bool {
        address == self.peer.ip() && token == self.token
    }

    /// Adds a connection for a load, unless there are `max` already.
    pub(super) fn attach(&self, stream: TcpStream, max: usize) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() < max {
            streams.push(stream);
            self.attached.notify_all();
        }
    }

    /// Ends the examination and its loads.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        // Errors mean that the peer has closed them already.
        let _ = self.control.shutdown(Shutdown::Both);
        for stream in &*self.loaded() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns whether the control connection is closed or broken.
    fn is_closed(&self) -> bool {
        let mut control = [PollFd::new(&self.control, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut control, Some(&now)).is_ok_and(|count| count > 0)
    }

    fn loaded(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn datagrams(&self) -> MutexGuard<'_, Datagrams> {
        self.datagrams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives datagrams until the examination is over, and ends it when the examiner disconnects.
    fn receive(&self) {
        let mut bytes = vec![0; 1 << 16];
        let mut checked = Instant::now();
        while !self.is_over() {
            let received = self.udp.recv_from(&mut bytes);
            let now = Instant::now();
            if let Ok((len, from)) = received {
                self.datagram(&bytes[..len], from, now);
            }
            if now.duration_since(checked) >= STOP_INTERVAL {
                checked = now;
                if self.is_closed() {
                    self.end();
                }
            }
        }
    }

    /// Handles a datagram; one that is not from the examiner is ignored. The answer is not longer
    /// than the datagram, so that the server cannot amplify traffic.
    fn datagram(&self, bytes: &[u8], from: SocketAddr, now: Instant) {
        let Some(datagram) = Datagram::decode(bytes) else { return };
        if !self.owns(from.ip(), datagram.token) {
            return;
        }
        let mut known = self.datagrams();
        known.from = Some(from);
        match datagram.kind {
            DatagramKind::Flood => {
                if let Some(tally) = &mut known.tally {
                    tally.count(&datagram, now);
                }
            }
            DatagramKind::Echo | DatagramKind::Probe => {
                drop(known);
                let mut answer = Vec::with_capacity(HEADER_LEN);
                Datagram { kind: DatagramKind::Echoed, ..datagram }.encode(HEADER_LEN, &mut answer);
                // If this one is lost, the examiner asks again.
                let _ = self.udp.send_to(&answer, from);
            }
            DatagramKind::Echoed => {}
        }
    }

    /// Receives datagrams and answers requests until the control connection ends.
    pub(super) fn run(&self, control: &TcpStream) {
        std::thread::scope(|scope| {
            let _over = Over(&self.over);
            scope.spawn(|| self.receive());
            self.answer_all(control);
        });
    }

    fn answer_all(&self, control: &TcpStream) {
        let (version, program) = (VERSION, env!("CARGO_PKG_VERSION").to_owned());
        let welcome = Reply::Welcome { version, program, token: self.token };
        let deadline = Instant::now() + SESSION_MAX;
        let mut sent = frame::send(control, &welcome);
        while sent.is_ok() && Instant::now() < deadline {
            let reply = match frame::receive::<Request>(control, self.peer, IDLE_MAX) {
                Ok(request) => request.check().and_then(|()| self.answer(control, request)),
                Err(RemoteError::Invalid { why, .. }) => Err(why),
                Err(_) => break,
            };
            sent = frame::send(control, &reply.unwrap_or_else(|why| Reply::Refused { why }));
        }
    }

    fn answer(&self, control: &TcpStream, request: Request) -> Result<Reply, String> {
        match request {
            Request::Host => Ok(Reply::Host(Box::new(evidence::gather(Some(self.local))))),
            Request::Clock => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(Reply::Clock { unix_ns: now.as_nanos() as u64 })
            }
            Request::Probe { size, count } => self.probe(size as usize, count),
            Request::Learned { size, millis } => {
                let (to, timeout) = (self.examiner()?, Duration::from_millis(millis));
                Ok(Reply::Learned { mtu: learned(self.local, to, size as usize, timeout) })
            }
            Request::FloodStart => {
                self.datagrams().tally = Some(Tally::new());
                Ok(Reply::Ready)
            }
            Request::FloodEnd => self.count(),
            Request::Flood { bits_per_second, size, millis } => {
                let (to, start) = (self.examiner()?, Instant::now());
                let time = Duration::from_millis(millis);
                let what = (self.token, size as usize);
                let sent = flood(&self.udp, to, what, bits_per_second, time, &self.over);
                let micros = start.elapsed().as_micros() as u64;
                Ok(Reply::Flooded { sent: sent.map_err(text)?, micros })
            }
            Request::Receive { streams, millis } => {
                let timeout = Duration::from_millis(millis) + DRAIN_MAX;
                let arrived =
                    self.load(control, streams, |streams| super::receive_all(streams, timeout))?;
                Ok(Reply::Streams(StreamStats {
                    received: arrived.bytes,
                    micros: arrived.time.as_micros() as u64,
                    settled: arrived.settled,
                    ..StreamStats::default()
                }))
            }
            Request::Send { streams, millis } => {
                let time = Duration::from_millis(millis);
                let sent = self.load(control, streams, |streams| super::send_all(streams, time))?;
                Ok(Reply::Streams(sent))
            }
            Request::Echo { millis } => {
                let deadline = Instant::now() + Duration::from_millis(millis);
                self.load(control, 1, |streams| {
                    streams.iter().for_each(|one| echo(one, deadline))
                })?;
                Ok(Reply::Ended)
            }
        }
    }

    /// Returns the address to which the examiner's datagrams go.
    fn examiner(&self) -> Result<SocketAddr, String> {
        let from = self.datagrams().from;
        from.ok_or_else(|| "no datagram from you has arrived".to_owned())
    }

    fn probe(&self, size: usize, count: u32) -> Result<Reply, String> {
        let to = self.examiner()?;
        let mut bytes = Vec::new();
        let mut sent = 0;
        for number in 0..count {
            let number = number.into();
            let datagram =
                Datagram { kind: DatagramKind::Probe, token: self.token, number, time: 0 };
            datagram.encode(size, &mut bytes);
            match self.udp.send_to(&bytes, to) {
                Ok(_) => sent += 1,
                Err(error) if is_too_long(&error) => {
                    return Ok(Reply::Probed { sent, too_long_here: true });
                }
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(text(error)),
            }
        }
        Ok(Reply::Probed { sent, too_long_here: false })
    }

    /// Waits until no datagram is in flight, and returns the statistics.
    fn count(&self) -> Result<Reply, String> {
        let start = Instant::now();
        loop {
            let last = match &self.datagrams().tally {
                Some(tally) => tally.last().unwrap_or(start).max(start),
                None => return Err("no count of datagrams was started".to_owned()),
            };
            if last.elapsed() >= QUIET || start.elapsed() >= DRAIN_MAX || self.is_over() {
                break;
            }
            std::thread::sleep(QUIET / 10);
        }
        let tally = self.datagrams().tally.take();
        Ok(Reply::Seen(tally.map(|tally| tally.seen()).unwrap_or_default()))
    }

    /// Waits for connections and runs a load on them; the load stops when the examination ends.
    fn load<T>(
        &self,
        control: &TcpStream,
        count: u32,
        carry: impl FnOnce(Vec<TcpStream>) -> T,
    ) -> Result<T, String> {
        let streams = self.streams(control, count)?;
        let same: io::Result<Vec<TcpStream>> = streams.iter().map(TcpStream::try_clone).collect();
        *self.loaded() = same.map_err(text)?;
        if self.is_over() {
            self.end();
        }
        let carried = carry(streams);
        self.loaded().clear();
        Ok(carried)
    }

    /// Waits for connections, and sends the ready notice.
    fn streams(&self, control: &TcpStream, count: u32) -> Result<Vec<TcpStream>, String> {
        let count = count as usize;
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let few = |streams: &mut Vec<TcpStream>| streams.len() < count;
        let waited = self.attached.wait_timeout_while(streams, GREETING_MAX, few);
        let mut streams = waited.unwrap_or_else(PoisonError::into_inner).0;
        let taken = std::mem::take(&mut *streams);
        drop(streams);
        if taken.len() != count {
            return Err(format!("{} connections were opened instead of {count}", taken.len()));
        }
        frame::send(control, &Reply::Ready).map_err(text)?;
        Ok(taken)
    }
}

/// Marks the examination as over when dropped, also on a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends messages back until the connection or the time ends.
fn echo(mut stream: &TcpStream, deadline: Instant) {
    set_nodelay(stream);
    let mut bytes = Vec::new();
    let mut turn = || -> io::Result<()> {
        let mut head = [0; 4];
        frame::fill(stream, &mut head, deadline)?;
        let len = Reader::new(&head, Order::Big).u32("length").unwrap_or(0);
        if !may_echo(len) {
            return Err(ErrorKind::InvalidData.into());
        }
        bytes.resize(len as usize, 0);
        frame::fill(stream, &mut bytes, deadline)?;
        stream.set_write_timeout(Some(GREETING_MAX))?;
        stream.write_all(&bytes)
    };
    while turn().is_ok() {}
}

/// Returns whether the error means that a datagram is too long for the host's own interface.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

fn text(error: io::Error) -> String {
    error.to_string()
}
