//! Round trips of small datagrams.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::remote::{Datagram, DatagramKind, Examiner, HEADER_LEN};

/// The distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Spread {
    pub count: u64,
    pub min_us: f64,
    pub median_us: f64,
    pub p95_us: f64,
    pub max_us: f64,
}

impl Spread {
    /// Returns the distribution of times in microseconds; `None` if there are none.
    pub fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get(((times.len() - 1) as f64 * share).round() as usize);
        let (first, last) = (*times.first()?, *times.last()?);
        Some(Self {
            count: times.len() as u64,
            min_us: first,
            median_us: *at(0.5)?,
            p95_us: *at(0.95)?,
            max_us: last,
        })
    }
}

/// After this time without an answer, a datagram counts as lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the round trip of one datagram in microseconds; `None` if it is lost.
pub(crate) fn round_trip(udp: &UdpSocket, token: u64, number: u64) -> Option<f64> {
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    Datagram { kind: DatagramKind::Echo, token, number, time: 0 }.encode(HEADER_LEN, &mut bytes);
    let start = Instant::now();
    // The first error may belong to an earlier datagram, so try once more.
    if udp.send(&bytes).is_err() {
        udp.send(&bytes).ok()?;
    }
    answer(udp, token, number, start + TIMEOUT)
        .map(|at| at.duration_since(start).as_secs_f64() * 1e6)
}

/// Waits for the answer to a datagram.
pub(super) fn answer(
    udp: &UdpSocket,
    token: u64,
    number: u64,
    deadline: Instant,
) -> Option<Instant> {
    let mut bytes = [0; 2 * HEADER_LEN];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        udp.set_read_timeout(Some(left)).ok()?;
        match udp.recv(&mut bytes) {
            Ok(len) => {
                let datagram = Datagram::decode(&bytes[..len]);
                let wanted = datagram.is_some_and(|datagram| {
                    datagram.kind == DatagramKind::Echoed
                        && (datagram.token, datagram.number) == (token, number)
                });
                if wanted {
                    return Some(Instant::now());
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return None;
            }
            // An ICMP error for an earlier datagram; this one may still be answered.
            Err(_) => {}
        }
    }
}

/// Measures round trips in the background.
pub(crate) struct Pinger {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<f64>>,
}

/// Pause between an answer and the next datagram.
const PAUSE: Duration = Duration::from_millis(10);
/// First number of these datagrams, so that they differ from others.
const NUMBER_FIRST: u64 = 1 << 40;

impl Pinger {
    /// Starts after `delay`. Returns `None` if the socket cannot be duplicated.
    pub(crate) fn start(examiner: &Examiner, delay: Duration) -> Option<Self> {
        let udp = examiner.udp().try_clone().ok()?;
        let (token, stop) = (examiner.token(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(delay);
            let mut times = Vec::new();
            for number in NUMBER_FIRST.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                times.extend(round_trip(&udp, token, number));
                std::thread::sleep(PAUSE);
            }
            times
        });
        Some(Self { stop, thread })
    }

    /// Stops, and returns the distribution of round trips.
    pub(crate) fn finish(self) -> Option<Spread> {
        self.stop.store(true, Ordering::Relaxed);
        Spread::of(self.thread.join().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_minimum_median_percentile_and_maximum() {
        let spread = Spread::of((1..=101).rev().map(f64::from).collect()).unwrap();
        assert_eq!(
            (spread.min_us, spread.median_us, spread.p95_us, spread.max_us),
            (1.0, 51.0, 96.0, 101.0)
        );
        assert_eq!(Spread::of(vec![]), None);
    }
}
