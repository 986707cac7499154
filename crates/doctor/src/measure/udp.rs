//! Loss, order and jitter of datagrams at a given rate, in both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::remote::{Datagram, DatagramKind, Examiner, FloodStats, RemoteError, Reply, Request};
use crate::remote::{Tally, flood, on_wire, unexpected};

/// The result of datagrams at a given rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpResult {
    /// The requested rate, in bits per second on Ethernet.
    pub wanted: u64,
    /// Payload of a datagram, in bytes.
    pub size: u32,
    /// Bytes of a datagram on Ethernet, with all headers.
    pub on_wire: u32,
    /// To the remote host.
    pub out: UdpDirection,
    /// From the remote host.
    pub back: UdpDirection,
}

/// The result in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpDirection {
    /// Sent datagrams.
    pub sent: u64,
    /// Duration of sending, in microseconds.
    pub micros: u64,
    /// Statistics of the receiver.
    pub seen: FloodStats,
}

impl UdpDirection {
    /// Returns the share of lost datagrams.
    pub fn loss(&self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => sent.saturating_sub(self.seen.received) as f64 / sent as f64,
        }
    }

    /// Returns the rate of sending in bits per second, with `on_wire` bytes for each datagram.
    pub fn rate(&self, on_wire: u32) -> f64 {
        match self.micros {
            0 => 0.0,
            micros => self.sent as f64 * f64::from(on_wire) * 8.0 / (micros as f64 / 1e6),
        }
    }
}

/// Longest time of a reply, in addition to the duration of the load.
const TIMEOUT: Duration = Duration::from_secs(15);
/// After this time without a datagram, none is in flight.
const QUIET: Duration = Duration::from_millis(300);
/// Longest time to wait for datagrams in flight.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Sends datagrams of `size` bytes at `rate` bits per second on Ethernet, for `time` in each
/// direction.
///
/// # Errors
/// Why the remote host did not answer as expected.
pub fn measure(
    examiner: &Examiner,
    rate: u64,
    size: u32,
    time: Duration,
) -> Result<UdpResult, RemoteError> {
    let out = out(examiner, rate, size, time)?;
    let back = back(examiner, rate, size, time)?;
    Ok(UdpResult { wanted: rate, size, on_wire: on_wire(size, examiner.peer().ip()), out, back })
}

fn out(
    examiner: &Examiner,
    rate: u64,
    size: u32,
    time: Duration,
) -> Result<UdpDirection, RemoteError> {
    examiner.send(&Request::FloodStart)?;
    examiner.ready(TIMEOUT)?;
    let (start, what) = (Instant::now(), (examiner.token(), size as usize));
    let sent = flood(examiner.udp(), examiner.peer(), what, rate, time, &AtomicBool::new(false));
    let (peer, what) = (examiner.peer(), "datagrams cannot be sent");
    let sent = sent.map_err(|error| RemoteError::Io { peer, what, error })?;
    let micros = start.elapsed().as_micros() as u64;
    match examiner.call(&Request::FloodEnd, TIMEOUT)? {
        Reply::Seen(seen) => Ok(UdpDirection { sent, micros, seen }),
        other => Err(unexpected(peer, "datagram statistics", other)),
    }
}

fn back(
    examiner: &Examiner,
    rate: u64,
    size: u32,
    time: Duration,
) -> Result<UdpDirection, RemoteError> {
    let (peer, what) = (examiner.peer(), "datagrams cannot be received");
    let udp = examiner.udp().try_clone().map_err(|error| RemoteError::Io { peer, what, error })?;
    let over = Arc::new(AtomicBool::new(false));
    let (told, token) = (over.clone(), examiner.token());
    let counter = std::thread::spawn(move || {
        let mut tally = Tally::new();
        let mut bytes = vec![0; 1 << 16];
        let _ = udp.set_read_timeout(Some(QUIET));
        let mut ended: Option<Instant> = None;
        loop {
            let is_over = told.load(Ordering::Relaxed);
            // A remote host may continue to send after its reply: stop anyway.
            if is_over && ended.get_or_insert_with(Instant::now).elapsed() > DRAIN_MAX {
                return tally.seen();
            }
            match udp.recv(&mut bytes) {
                Ok(len) => {
                    let now = Instant::now();
                    let datagram = Datagram::decode(&bytes[..len]);
                    let ours =
                        datagram.filter(|d| d.kind == DatagramKind::Flood && d.token == token);
                    if let Some(datagram) = ours {
                        tally.count(&datagram, now);
                    }
                }
                Err(_) if is_over => return tally.seen(),
                Err(_) => {}
            }
        }
    });
    let millis = time.as_millis() as u64;
    let reply =
        examiner.call(&Request::Flood { bits_per_second: rate, size, millis }, time + TIMEOUT);
    over.store(true, Ordering::Relaxed);
    let seen = counter.join().unwrap_or_default();
    match reply? {
        Reply::Flooded { sent, micros } => Ok(UdpDirection { sent, micros, seen }),
        other => Err(unexpected(peer, "a count of sent datagrams", other)),
    }
}
