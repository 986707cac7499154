//! Sends datagrams at a given rate, and counts received ones.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Datagram, DatagramKind, FloodStats, on_wire};

/// Longest burst when the sender is late. Longer ones would distort the measurement.
const BURST_TIME_MAX: Duration = Duration::from_millis(5);

/// Sends datagrams of `size` bytes at a rate in bits per second on Ethernet for `time`, or until
/// `stop`, and returns their number. Those for which the host has no buffer are neither sent nor
/// counted.
pub(crate) fn flood(
    socket: &UdpSocket,
    to: SocketAddr,
    (token, size): (u64, usize),
    bits_per_second: u64,
    time: Duration,
    stop: &AtomicBool,
) -> io::Result<u64> {
    let start = Instant::now();
    let each = f64::from(on_wire(size as u32, to.ip())) * 8.0 / bits_per_second as f64;
    let burst = (BURST_TIME_MAX.as_secs_f64() / each).max(1.0);
    let (mut sent, mut skipped) = (0_u64, 0.0_f64);
    let mut bytes = Vec::with_capacity(size);
    loop {
        let elapsed = start.elapsed();
        if elapsed >= time || stop.load(Ordering::Relaxed) {
            return Ok(sent);
        }
        let due = elapsed.as_secs_f64() / each - skipped;
        let behind = due - sent as f64;
        if behind < 1.0 {
            let pause = Duration::from_secs_f64(((1.0 - behind) * each).clamp(0.0, 0.1));
            std::thread::sleep(pause.min(time - elapsed));
            continue;
        }
        skipped += (behind - burst).max(0.0);
        for _ in 0..behind.min(burst) as u64 {
            let elapsed = start.elapsed();
            if elapsed >= time {
                break;
            }
            let (kind, at) = (DatagramKind::Flood, elapsed.as_nanos() as u64);
            let datagram = Datagram { kind, token, number: sent, time: at };
            datagram.encode(size, &mut bytes);
            match socket.send_to(&bytes, to) {
                Ok(_) => sent += 1,
                Err(error) if is_temporary(&error) => skipped += 1.0,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether an error is temporary, so that the datagram may be skipped: the buffer was full,
/// or an earlier datagram was refused.
pub(crate) fn is_temporary(error: &io::Error) -> bool {
    let full = error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error());
    full || matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

/// Counts received datagrams.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    seen: FloodStats,
    first: Option<Instant>,
    last: Option<Instant>,
    highest: Option<u64>,
    /// When the last one arrived, and its time of sending by the sender's clock, in microseconds.
    before: Option<(f64, f64)>,
    overrun_before: u64,
}

impl Tally {
    /// Starts to count.
    pub(crate) fn new() -> Self {
        Self { overrun_before: overruns(), ..Self::default() }
    }

    /// Counts a datagram.
    pub(crate) fn count(&mut self, datagram: &Datagram, now: Instant) {
        let first = *self.first.get_or_insert(now);
        self.last = Some(now);
        self.seen.received += 1;
        match self.highest {
            Some(highest) if datagram.number < highest => self.seen.reordered += 1,
            _ => self.highest = Some(datagram.number),
        }
        let arrived = now.duration_since(first).as_secs_f64() * 1e6;
        let sent = datagram.time as f64 / 1e3;
        if let Some((arrived_before, sent_before)) = self.before {
            let change = ((arrived - arrived_before) - (sent - sent_before)).abs();
            self.seen.jitter_us += (change - self.seen.jitter_us) / 16.0;
        }
        self.before = Some((arrived, sent));
    }

    /// Returns the time of the last datagram.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Returns the statistics.
    pub(crate) fn seen(&self) -> FloodStats {
        let time = self.first.zip(self.last).map(|(first, last)| last.duration_since(first));
        let overrun = overruns().saturating_sub(self.overrun_before);
        FloodStats { micros: time.unwrap_or_default().as_micros() as u64, overrun, ..self.seen }
    }
}

/// Returns how many datagrams the host dropped because a receive buffer was full, of all sockets.
fn overruns() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    counter(&text, "Udp:", "RcvbufErrors").unwrap_or(0)
}

/// Parses a counter of `/proc/net/snmp`: a line of names, then one of values.
fn counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let names = lines.next()?.split_whitespace();
    let mut pairs = names.zip(lines.next()?.split_whitespace());
    pairs.find(|(key, _)| *key == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_after_stop() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, long) = (socket.local_addr().unwrap(), Duration::from_secs(60));
        let stop = AtomicBool::new(true);
        assert_eq!(flood(&socket, to, (7, 100), 1_000_000, long, &stop).unwrap(), 0);
        let stop = AtomicBool::new(false);
        assert_eq!(flood(&socket, to, (7, 100), 1_000_000, Duration::ZERO, &stop).unwrap(), 0);
    }

    #[test]
    fn reordering_and_jitter_are_measured() {
        let mut tally = Tally::new();
        let start = Instant::now();
        for (number, arrives) in [(0, 0), (1, 1000), (3, 3000), (2, 3100), (4, 4000)] {
            let kind = DatagramKind::Flood;
            let datagram = Datagram { kind, token: 0, number, time: number * 1_000_000 };
            tally.count(&datagram, start + Duration::from_micros(arrives));
        }
        let seen = tally.seen();
        assert_eq!((seen.received, seen.reordered, seen.micros), (5, 1, 4000));
        // Number 3 arrives 1 ms late, and number 2 after it, out of order.
        assert!(seen.jitter_us > 100.0 && seen.jitter_us < 200.0, "{}", seen.jitter_us);
    }

    #[test]
    fn a_counter_is_found_by_name() {
        let text = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 5 6 7\n";
        assert_eq!(counter(text, "Udp:", "RcvbufErrors"), Some(7));
        assert_eq!(counter(text, "Udp:", "Nothing"), None);
    }
}
