//! TCP connections under load.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::StreamStats;

/// Size of one read or write, in bytes.
const CHUNK: usize = 256 << 10;
/// How often a receiver checks whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(200);
/// How often the counter of received bytes is sampled.
const SAMPLE: Duration = Duration::from_millis(20);

/// The data that arrived on all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Arrivals {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    /// Rate of the second half of the time, in bits per second.
    pub(crate) settled: f64,
}

/// Writes to all connections for `time`, closes them, and returns the counters of the kernel.
pub(crate) fn send_all(streams: Vec<TcpStream>, time: Duration) -> StreamStats {
    let deadline = Instant::now() + time;
    let threads: Vec<_> = streams
        .into_iter()
        .map(|stream| std::thread::spawn(move || send(&stream, deadline)))
        .collect();
    let mut sum = StreamStats::default();
    for thread in threads {
        let Ok(one) = thread.join() else { continue };
        sum.segments = sum.segments.saturating_add(one.segments);
        sum.retransmits = sum.retransmits.saturating_add(one.retransmits);
        sum.busy_us = sum.busy_us.saturating_add(one.busy_us);
        sum.receiver_limited_us = sum.receiver_limited_us.saturating_add(one.receiver_limited_us);
        sum.buffer_limited_us = sum.buffer_limited_us.saturating_add(one.buffer_limited_us);
        sum.window = sum.window.saturating_add(one.window);
        sum.segment_size = sum.segment_size.max(one.segment_size);
        sum.round_trip_min_us = match (sum.round_trip_min_us, one.round_trip_min_us) {
            (0, min) | (min, 0) => min,
            (a, b) => a.min(b),
        };
    }
    sum
}

fn send(mut stream: &TcpStream, deadline: Instant) -> StreamStats {
    let bytes = vec![0x5a; CHUNK];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_write_timeout(Some(left)).is_err() {
            break;
        }
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let state = fulmar_net::tcp_state(stream).unwrap_or_default();
    // An error means that the peer has closed the connection.
    let _ = stream.shutdown(Shutdown::Write);
    StreamStats {
        segments: state.segments.into(),
        retransmits: state.retransmits.into(),
        busy_us: state.busy.as_micros() as u64,
        receiver_limited_us: state.receiver_limited.as_micros() as u64,
        buffer_limited_us: state.buffer_limited.as_micros() as u64,
        window: state.window,
        round_trip_min_us: state.round_trip_min.as_micros() as u64,
        segment_size: state.segment_size,
        ..StreamStats::default()
    }
}

/// Reads from all connections to their end, for at most `timeout`.
pub(crate) fn receive_all(streams: Vec<TcpStream>, timeout: Duration) -> Arrivals {
    let (total, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let mut samples = vec![(Duration::ZERO, 0)];
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.iter().map(|stream| scope.spawn(|| receive(stream, &total, &stop))).collect();
        loop {
            std::thread::sleep(SAMPLE);
            let (elapsed, bytes) = (start.elapsed(), total.load(Ordering::Relaxed));
            samples.push((elapsed, bytes));
            if threads.iter().all(|thread| thread.is_finished()) {
                break;
            }
            if elapsed >= timeout {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    settle(&samples)
}

fn receive(mut stream: &TcpStream, total: &AtomicU64, stop: &AtomicBool) {
    let mut bytes = vec![0; CHUNK];
    if stream.set_read_timeout(Some(STOP_INTERVAL)).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => {
                total.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                _ => return,
            },
        }
    }
}

/// Computes the time from the first to the last byte, and the rate of its second half, from samples
/// of time and received bytes.
fn settle(samples: &[(Duration, u64)]) -> Arrivals {
    let bytes = samples.last().map_or(0, |(_, bytes)| *bytes);
    // A sample is taken after bytes arrive, so the last one without any marks the start.
    let first = samples.iter().rfind(|(_, seen)| *seen == 0).map_or(Duration::ZERO, |s| s.0);
    let last = samples.iter().find(|(_, seen)| *seen == bytes).map_or(first, |s| s.0);
    let time = last.saturating_sub(first);
    let middle = samples.iter().find(|(at, _)| *at >= first + time / 2);
    let settled = middle.map_or(0.0, |(at, seen)| {
        let rest = last.saturating_sub(*at).as_secs_f64();
        if rest > 0.0 { (bytes - seen) as f64 * 8.0 / rest } else { 0.0 }
    });
    Arrivals { bytes, time, settled }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settled_rate_excludes_the_start() {
        let at = |ms| Duration::from_millis(ms);
        let samples = [
            (at(0), 0),
            (at(100), 0),
            (at(200), 10),
            (at(600), 100),
            (at(1100), 600),
            (at(1200), 600),
        ];
        let arrived = settle(&samples);
        assert_eq!((arrived.bytes, arrived.time), (600, at(1000)));
        assert!((arrived.settled - 8000.0).abs() < 1e-6, "{}", arrived.settled);
        assert_eq!(settle(&[(at(0), 0), (at(20), 0)]), Arrivals::default());
    }
}
