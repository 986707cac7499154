//! One connection of an attacker, whose bytes it chooses.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use fulmar_lnet_wire::acceptor::ConnRequest;
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::socklnd::{ACCEPT_PORT, ConnKind, FrameHeader, FrameKind, Hello, Version};
use fulmar_lnet_wire::{Header, Nid, ProcessId};
use fulmar_wire::Order;
use socket2::{Domain, SockRef, Socket, Type};

/// Timeout of a connection and of a hello.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A connection after the hellos. Reads and writes do not wait.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    /// The NID in the hello.
    pub(super) nid: Nid,
    form: HeaderForm,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    closed: bool,
}

/// Opens a TCP connection with the acceptor of `target`, from a privileged port if `port` is one,
/// from any port if it is 0.
pub(super) fn dial(from: IpAddr, port: u16, target: Nid) -> io::Result<TcpStream> {
    let ip = target.ip().ok_or(ErrorKind::AddrNotAvailable)?;
    let socket = Socket::new(Domain::for_address(SocketAddr::new(ip, 0)), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::new(from, port).into())?;
    socket.connect_timeout(&SocketAddr::new(ip, ACCEPT_PORT).into(), TIMEOUT)?;
    socket.set_tcp_nodelay(true)?;
    // Closed by a reset, so that its port is free at once.
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    Ok(socket.into())
}

/// Returns the bytes of the initiator's handshake: the acceptor's request and the hello.
pub(super) fn handshake(source: Nid, target: Nid, kind: ConnKind, incarnation: u64) -> Vec<u8> {
    let large = source.is_large() || target.is_large();
    let mut bytes = Vec::new();
    ConnRequest { target }.encode(&mut bytes);
    let hello = Hello {
        version: if large { Version::V4 } else { Version::V3 },
        source: ProcessId::lustre(source),
        target: ProcessId::lustre(target),
        source_incarnation: incarnation,
        target_incarnation: 0,
        kind,
        ips: Vec::new(),
    };
    hello.encode(Order::Little, &mut bytes);
    bytes
}

impl Line {
    /// Exchanges hellos on a new connection.
    pub(super) fn open(mut stream: TcpStream, nid: Nid, handshake: &[u8]) -> io::Result<Self> {
        stream.write_all(handshake)?;
        let mut input = Vec::new();
        let used = loop {
            let mut bytes = [0; 256];
            match stream.read(&mut bytes)? {
                0 => return Err(ErrorKind::ConnectionReset.into()),
                n => input.extend(&bytes[..n]),
            }
            if let Some((_, _, used)) = Hello::decode(&input).map_err(io::Error::other)? {
                break used;
            }
        };
        input.drain(..used);
        stream.set_nonblocking(true)?;
        let form = if nid.is_large() { HeaderForm::Large } else { HeaderForm::Small };
        Ok(Self { stream, nid, form, out: Vec::new(), written: 0, input, closed: false })
    }

    /// Makes the kernel keep little of what the node sends.
    pub(super) fn narrow(&self) {
        let _ = SockRef::from(&self.stream).set_recv_buffer_size(4096);
    }

    /// Returns whether the node has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether everything was written.
    pub(super) fn is_drained(&self) -> bool {
        self.written == self.out.len()
    }

    /// Appends bytes to be written.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        if self.is_drained() {
            self.out.clear();
            self.written = 0;
        }
        self.out.extend(bytes);
    }

    /// Appends a message to be written.
    pub(super) fn send(&mut self, header: &Header, payload: &[u8]) {
        self.send_as(FrameHeader::lnet(), header, payload);
    }

    /// The same with a header of the frame.
    pub(super) fn send_as(&mut self, frame: FrameHeader, header: &Header, payload: &[u8]) {
        let bytes = self.encoded(frame, header, payload);
        self.queue(&bytes);
    }

    /// Returns the bytes of a message on this connection.
    pub(super) fn encoded(&self, frame: FrameHeader, header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FrameHeader::LEN + Header::LEN_MAX + payload.len());
        frame.encode(Order::Little, &mut bytes);
        let header = Header { payload_len: payload.len() as u32, ..*header };
        header.encode(self.form, &mut bytes);
        bytes.extend(payload);
        bytes
    }

    /// Writes what the socket accepts, at most `limit` bytes; returns how many.
    pub(super) fn flush(&mut self, limit: usize) -> usize {
        let end = self.out.len().min(self.written.saturating_add(limit));
        if self.closed || self.written == end {
            return 0;
        }
        match self.stream.write(&self.out[self.written..end]) {
            Ok(n) => {
                self.written += n;
                n
            }
            Err(error) => {
                self.closed |= error.kind() != ErrorKind::WouldBlock;
                0
            }
        }
    }

    /// Reads at most `limit` bytes; returns how many.
    pub(super) fn read(&mut self, limit: usize) -> usize {
        let mut bytes = vec![0; limit.min(1 << 16)];
        match self.stream.read(&mut bytes) {
            Ok(0) if limit > 0 => self.closed = true,
            Ok(n) => {
                self.input.extend(&bytes[..n]);
                return n;
            }
            Err(error) => self.closed |= error.kind() != ErrorKind::WouldBlock,
        }
        0
    }

    /// Returns the next message that was read completely, without NOOPs.
    pub(super) fn next(&mut self) -> Option<(Header, Vec<u8>)> {
        loop {
            let frame = self.input.get(..FrameHeader::LEN)?;
            let frame = FrameHeader::decode(frame, Order::Little).ok()?;
            if frame.kind != FrameKind::LNET {
                self.input.drain(..FrameHeader::LEN);
                continue;
            }
            let start = FrameHeader::LEN + self.form.len();
            let header = Header::decode(self.input.get(FrameHeader::LEN..start)?, self.form);
            let header = header.ok()?;
            let end = start + header.payload_len as usize;
            let payload = self.input.get(start..end)?.to_vec();
            self.input.drain(..end);
            return Some((header, payload));
        }
    }
}
