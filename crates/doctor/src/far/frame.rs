//! Frames: a length of four bytes, big end first, and so much JSON.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fulmar_wire::{Order, Reader, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FRAME_MAX, FarError, clean};

/// Sends one frame.
pub(super) fn send<T: Serialize>(mut stream: &TcpStream, value: &T) -> io::Result<()> {
    let body = serde_json::to_vec(value)?;
    if body.len() > FRAME_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "there is more to say than is allowed"));
    }
    let mut frame = Vec::with_capacity(4 + body.len());
    let mut writer = Writer::new(&mut frame, Order::Big);
    writer.u32(body.len() as u32);
    writer.bytes(&body);
    stream.set_write_timeout(Some(super::GREETING_MAX))?;
    stream.write_all(&frame)
}

/// Receives one frame, however slowly it comes, within `patience`.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &TcpStream,
    who: SocketAddr,
    patience: Duration,
) -> Result<T, FarError> {
    receive_within(stream, who, patience, FRAME_MAX)
}

/// As [`receive`], with at most `max` bytes of JSON.
pub(super) fn receive_within<T: DeserializeOwned>(
    stream: &TcpStream,
    who: SocketAddr,
    patience: Duration,
    max: usize,
) -> Result<T, FarError> {
    let deadline = Instant::now() + patience;
    let mut head = [0; 4];
    fill(stream, &mut head, deadline).map_err(|error| told(who, patience, error))?;
    let len = Reader::new(&head, Order::Big).u32("length").unwrap_or(u32::MAX);
    if len as usize > max {
        return Err(FarError::TooLong { who, len: len.into(), max });
    }
    let mut body = vec![0; len as usize];
    fill(stream, &mut body, deadline).map_err(|error| told(who, patience, error))?;
    // It quotes what came.
    let garbled = |error: serde_json::Error| clean::words(&error.to_string());
    serde_json::from_slice(&body).map_err(|error| FarError::Garbled { who, why: garbled(error) })
}

/// Says why a frame did not come.
fn told(who: SocketAddr, patience: Duration, error: io::Error) -> FarError {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            FarError::Silent { who, seconds: patience.as_secs() }
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            FarError::Gone { who }
        }
        _ => FarError::Io { who, what: "the connection broke", error },
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
