//! Datagrams at a chosen rate, and what is seen of them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Datagram, DatagramKind, FloodSeen, on_wire};

/// A sender that is behind catches up by no more than this: it is no burst that is measured.
const BURST_TIME_MAX: Duration = Duration::from_millis(5);

/// Sends datagrams of `size` bytes at a rate in bits per second on the wire, for a time, and returns how many.
/// What the host itself has no room for is not counted and not sent. It breaks off when it is `over`.
pub(crate) fn flood(
    socket: &UdpSocket,
    to: SocketAddr,
    (token, size): (u64, usize),
    bits_per_second: u64,
    time: Duration,
    over: &AtomicBool,
) -> io::Result<u64> {
    let begun = Instant::now();
    let each = f64::from(on_wire(size as u32, to.ip())) * 8.0 / bits_per_second as f64;
    let burst = (BURST_TIME_MAX.as_secs_f64() / each).max(1.0);
    let (mut sent, mut forgone) = (0_u64, 0.0_f64);
    let mut bytes = Vec::with_capacity(size);
    loop {
        let elapsed = begun.elapsed();
        if elapsed >= time || over.load(Ordering::Relaxed) {
            return Ok(sent);
        }
        let due = elapsed.as_secs_f64() / each - forgone;
        let behind = due - sent as f64;
        if behind < 1.0 {
            let pause = Duration::from_secs_f64(((1.0 - behind) * each).clamp(0.0, 0.1));
            std::thread::sleep(pause.min(time - elapsed));
            continue;
        }
        forgone += (behind - burst).max(0.0);
        for _ in 0..behind.min(burst) as u64 {
            let elapsed = begun.elapsed();
            if elapsed >= time {
                break;
            }
            let (kind, at) = (DatagramKind::Flood, elapsed.as_nanos() as u64);
            let datagram = Datagram { kind, token, number: sent, time: at };
            datagram.encode(size, &mut bytes);
            match socket.send_to(&bytes, to) {
                Ok(_) => sent += 1,
                Err(error) if is_passing(&error) => forgone += 1.0,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether a datagram may be forgone and the next one tried: there was no room, or an
/// earlier one was refused.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    let full = error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error());
    full || matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

/// Counts datagrams that arrive.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    seen: FloodSeen,
    first: Option<Instant>,
    last: Option<Instant>,
    highest: Option<u64>,
    /// When the last one arrived, and when it was sent by its sender's clock, in microseconds.
    before: Option<(f64, f64)>,
    overrun_before: u64,
}

impl Tally {
    /// Begins to count.
    pub(crate) fn new() -> Self {
        Self { overrun_before: overruns(), ..Self::default() }
    }

    /// Counts one.
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

    /// Returns when the last one came.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Returns what was seen.
    pub(crate) fn seen(&self) -> FloodSeen {
        let time = self.first.zip(self.last).map(|(first, last)| last.duration_since(first));
        let overrun = overruns().saturating_sub(self.overrun_before);
        FloodSeen { micros: time.unwrap_or_default().as_micros() as u64, overrun, ..self.seen }
    }
}

/// Returns how many datagrams found no room in their socket, of all sockets here.
fn overruns() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    counter(&text, "Udp:", "RcvbufErrors").unwrap_or(0)
}

/// Reads a counter of `/proc/net/snmp`: a line of names, then one of values.
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
    fn nothing_is_sent_when_it_is_over() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, long) = (socket.local_addr().unwrap(), Duration::from_secs(60));
        let over = AtomicBool::new(true);
        assert_eq!(flood(&socket, to, (7, 100), 1_000_000, long, &over).unwrap(), 0);
        let over = AtomicBool::new(false);
        assert_eq!(flood(&socket, to, (7, 100), 1_000_000, Duration::ZERO, &over).unwrap(), 0);
    }

    #[test]
    fn what_overtakes_and_what_varies_is_seen() {
        let mut tally = Tally::new();
        let begun = Instant::now();
        for (number, arrives) in [(0, 0), (1, 1000), (3, 3000), (2, 3100), (4, 4000)] {
            let kind = DatagramKind::Flood;
            let datagram = Datagram { kind, token: 0, number, time: number * 1_000_000 };
            tally.count(&datagram, begun + Duration::from_micros(arrives));
        }
        let seen = tally.seen();
        assert_eq!((seen.received, seen.reordered, seen.micros), (5, 1, 4000));
        // The third came 1.1 ms later than its time of sending says, the fourth as much earlier.
        assert!(seen.jitter_us > 100.0 && seen.jitter_us < 200.0, "{}", seen.jitter_us);
    }

    #[test]
    fn a_counter_is_found_under_its_name() {
        let text = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 5 6 7\n";
        assert_eq!(counter(text, "Udp:", "RcvbufErrors"), Some(7));
        assert_eq!(counter(text, "Udp:", "Nothing"), None);
    }
}
