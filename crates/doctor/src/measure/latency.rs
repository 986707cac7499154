//! Messages of many sizes, to and fro on one connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fulmar_wire::{Order, Writer};
use serde::{Deserialize, Serialize};

use super::Spread;
use crate::far::{Examiner, FarError, Reply, Request, unexpected};

/// Messages of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Bytes of a message.
    pub size: u32,
    /// How long it takes one way, half of there and back.
    pub one_way: Spread,
    /// Bits per second, of one message after the other.
    pub rate: f64,
}

/// The sizes, in bytes.
pub const SIZES: [u32; 11] =
    [1, 8, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Exchanges of one size: at least, and at most.
const TURNS: (usize, usize) = (4, 2000);
/// Exchanges that are not counted, so that the window has grown.
const WARM_UP: usize = 2;
/// An exchange takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures every size for a share of `time`, or for as long as it takes to have a few.
///
/// # Errors
/// Why the far end is no help.
pub fn measure(far: &Examiner, time: Duration) -> Result<Vec<LatencyRow>, FarError> {
    let (who, what) = (far.who(), "the messages broke off");
    let broken = |error| FarError::Io { who, what, error };
    let stream = far.attach(1)?.pop().ok_or(FarError::Gone { who })?;
    let millis = (time * 4).clamp(Duration::from_secs(20), crate::far::LOAD_MAX).as_millis() as u64;
    far.tell(&Request::Echo { millis })?;
    far.ready(PATIENCE)?;
    stream.set_nodelay(true).map_err(broken)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
    let each = time / SIZES.len() as u32;
    let rows: io::Result<Vec<LatencyRow>> =
        SIZES.iter().map(|size| row(&stream, *size, each)).collect();
    let rows = rows.map_err(broken)?;
    drop(stream);
    match far.hear(PATIENCE)? {
        Reply::Ended => Ok(rows),
        other => Err(unexpected(who, "the end of messages", other)),
    }
}

fn row(mut stream: &TcpStream, size: u32, time: Duration) -> io::Result<LatencyRow> {
    let mut message = Vec::with_capacity(4 + size as usize);
    let mut writer = Writer::new(&mut message, Order::Big);
    writer.u32(size);
    writer.zeros(size as usize);
    let mut answer = vec![0; size as usize];
    let mut times = Vec::new();
    let begun = Instant::now();
    for turn in 0..TURNS.1 {
        if turn >= WARM_UP + TURNS.0 && begun.elapsed() >= time {
            break;
        }
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        if turn >= WARM_UP {
            times.push(sent.elapsed().as_secs_f64() * 1e6 / 2.0);
        }
    }
    let one_way = Spread::of(times).unwrap_or_default();
    let rate = if one_way.median_us > 0.0 {
        f64::from(size) * 8.0 / (one_way.median_us / 1e6)
    } else {
        0.0
    };
    Ok(LatencyRow { size, one_way, rate })
}
