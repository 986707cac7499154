//! Frames: a big-endian length of four bytes, then JSON of that length.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fulmar_wire::{Order, Reader, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FRAME_MAX, RemoteError, clean};

/// Sends one frame.
pub(super) fn send<T: Serialize>(mut stream: &TcpStream, value: &T) -> io::Result<()> {
    let body = serde_json::to_vec(value)?;
    if body.len() > FRAME_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "the message is longer than the limit"));
    }
    let mut frame = Vec::with_capacity(4 + body.len());
    let mut writer = Writer::new(&mut frame, Order::Big);
    writer.u32(body.len() as u32);
    writer.bytes(&body);
    stream.set_write_timeout(Some(super::GREETING_MAX))?;
    stream.write_all(&frame)
}

/// Receives one frame within `timeout`.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &TcpStream,
    peer: SocketAddr,
    timeout: Duration,
) -> Result<T, RemoteError> {
    receive_within(stream, peer, timeout, FRAME_MAX)
}

/// Like [`receive`], with at most `max` bytes of JSON.
pub(super) fn receive_within<T: DeserializeOwned>(
    stream: &TcpStream,
    peer: SocketAddr,
    timeout: Duration,
    max: usize,
) -> Result<T, RemoteError> {
    let deadline = Instant::now() + timeout;
    let mut head = [0; 4];
    fill(stream, &mut head, deadline).map_err(|error| receive_error(peer, timeout, error))?;
    let len = Reader::new(&head, Order::Big).u32("length").unwrap_or(u32::MAX);
    if len as usize > max {
        return Err(RemoteError::TooLong { peer, len: len.into(), max });
    }
    let mut body = vec![0; len as usize];
    fill(stream, &mut body, deadline).map_err(|error| receive_error(peer, timeout, error))?;
    // The error quotes remote text.
    let garbled = |error: serde_json::Error| clean::words(&error.to_string());
    serde_json::from_slice(&body)
        .map_err(|error| RemoteError::Invalid { peer, why: garbled(error) })
}

/// Returns the error for a frame that was not received.
fn receive_error(peer: SocketAddr, timeout: Duration, error: io::Error) -> RemoteError {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            RemoteError::Timeout { peer, seconds: timeout.as_secs() }
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            RemoteError::Closed { peer }
        }
        _ => RemoteError::Io { peer, what: "the connection failed", error },
    }
}

/// Reads all of `bytes` before the deadline.
pub(super) fn fill(
    mut stream: &TcpStream,
    mut bytes: &mut [u8],
    deadline: Instant,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
