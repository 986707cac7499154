//! Round trips of messages of many sizes on one connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fulmar_wire::{Order, Writer};
use serde::{Deserialize, Serialize};

use super::Spread;
use crate::remote::{Examiner, RemoteError, Reply, Request, unexpected};

/// Result of one message size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Size of a message, in bytes.
    pub size: u32,
    /// One-way time: half of the round trip.
    pub one_way: Spread,
    /// Bits per second, with one message at a time.
    pub rate: f64,
}

/// The sizes, in bytes.
pub const SIZES: [u32; 11] =
    [1, 8, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Least and most exchanges of one size.
const TURNS: (usize, usize) = (4, 2000);
/// Exchanges before measuring, so that the congestion window grows.
const WARM_UP: usize = 2;
/// Longest time of an exchange.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Measures every size for an equal share of `time`, with a minimum number of exchanges.
///
/// # Errors
/// Why the remote host did not answer as expected.
pub fn measure(examiner: &Examiner, time: Duration) -> Result<Vec<LatencyRow>, RemoteError> {
    let (peer, what) = (examiner.peer(), "the latency test failed");
    let broken = |error| RemoteError::Io { peer, what, error };
    let stream = examiner.attach(1)?.pop().ok_or(RemoteError::Closed { peer })?;
    let millis =
        (time * 4).clamp(Duration::from_secs(20), crate::remote::LOAD_MAX).as_millis() as u64;
    examiner.send(&Request::Echo { millis })?;
    examiner.ready(TIMEOUT)?;
    stream.set_nodelay(true).map_err(broken)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(broken)?;
    let each = time / SIZES.len() as u32;
    let rows: io::Result<Vec<LatencyRow>> =
        SIZES.iter().map(|size| row(&stream, *size, each)).collect();
    let rows = rows.map_err(broken)?;
    drop(stream);
    match examiner.receive(TIMEOUT)? {
        Reply::Ended => Ok(rows),
        other => Err(unexpected(peer, "an end notice", other)),
    }
}

fn row(mut stream: &TcpStream, size: u32, time: Duration) -> io::Result<LatencyRow> {
    let mut message = Vec::with_capacity(4 + size as usize);
    let mut writer = Writer::new(&mut message, Order::Big);
    writer.u32(size);
    writer.zeros(size as usize);
    let mut answer = vec![0; size as usize];
    let mut times = Vec::new();
    let start = Instant::now();
    for turn in 0..TURNS.1 {
        if turn >= WARM_UP + TURNS.0 && start.elapsed() >= time {
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
