//! Loss, order and jitter of datagrams at a chosen rate, both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::far::{Datagram, DatagramKind, Examiner, FarError, FloodSeen, Reply, Request};
use crate::far::{Tally, flood, on_wire, unexpected};

/// What came of datagrams at a chosen rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSeen {
    /// The rate that was wanted, in bits per second on the wire of Ethernet.
    pub wanted: u64,
    /// Bytes of each datagram.
    pub size: u32,
    /// Bytes that each takes on the wire of Ethernet.
    pub on_wire: u32,
    /// To the far end.
    pub out: UdpWay,
    /// From it.
    pub back: UdpWay,
}

/// What came of datagrams one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpWay {
    /// Datagrams that were sent.
    pub sent: u64,
    /// How long that took, in microseconds.
    pub micros: u64,
    /// What was seen of them.
    pub seen: FloodSeen,
}

impl UdpWay {
    /// Returns the share that did not arrive.
    pub fn loss(&self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => sent.saturating_sub(self.seen.received) as f64 / sent as f64,
        }
    }

    /// Returns the rate that was sent, in bits per second, of datagrams that take `on_wire` bytes each.
    pub fn rate(&self, on_wire: u32) -> f64 {
        match self.micros {
            0 => 0.0,
            micros => self.sent as f64 * f64::from(on_wire) * 8.0 / (micros as f64 / 1e6),
        }
    }
}

/// A reply that takes longer than the load does not come.
const PATIENCE: Duration = Duration::from_secs(15);
/// After so long without a datagram no more are on their way.
const QUIET: Duration = Duration::from_millis(300);
/// No datagram is on its way for so long.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Sends datagrams of `size` bytes at a rate in bits per second on the wire, `time` each way.
///
/// # Errors
/// Why the far end is no help.
pub fn measure(far: &Examiner, rate: u64, size: u32, time: Duration) -> Result<UdpSeen, FarError> {
    let out = out(far, rate, size, time)?;
    let back = back(far, rate, size, time)?;
    Ok(UdpSeen { wanted: rate, size, on_wire: on_wire(size, far.who().ip()), out, back })
}

fn out(far: &Examiner, rate: u64, size: u32, time: Duration) -> Result<UdpWay, FarError> {
    far.tell(&Request::FloodStart)?;
    far.ready(PATIENCE)?;
    let (begun, what) = (Instant::now(), (far.token(), size as usize));
    let sent = flood(far.udp(), far.who(), what, rate, time, &AtomicBool::new(false));
    let (who, what) = (far.who(), "datagrams cannot be sent");
    let sent = sent.map_err(|error| FarError::Io { who, what, error })?;
    let micros = begun.elapsed().as_micros() as u64;
    match far.ask(&Request::FloodEnd, PATIENCE)? {
        Reply::Seen(seen) => Ok(UdpWay { sent, micros, seen }),
        other => Err(unexpected(who, "what it has seen", other)),
    }
}

fn back(far: &Examiner, rate: u64, size: u32, time: Duration) -> Result<UdpWay, FarError> {
    let (who, what) = (far.who(), "datagrams cannot be received");
    let udp = far.udp().try_clone().map_err(|error| FarError::Io { who, what, error })?;
    let over = Arc::new(AtomicBool::new(false));
    let (told, token) = (over.clone(), far.token());
    let counter = std::thread::spawn(move || {
        let mut tally = Tally::new();
        let mut bytes = vec![0; 1 << 16];
        let _ = udp.set_read_timeout(Some(QUIET));
        let mut ended: Option<Instant> = None;
        loop {
            let is_over = told.load(Ordering::Relaxed);
            // A far end that says it has ended and goes on is not listened to for ever.
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
    let reply = far.ask(&Request::Flood { bits_per_second: rate, size, millis }, time + PATIENCE);
    over.store(true, Ordering::Relaxed);
    let seen = counter.join().unwrap_or_default();
    match reply? {
        Reply::Flooded { sent, micros } => Ok(UdpWay { sent, micros, seen }),
        other => Err(unexpected(who, "what it has sent", other)),
    }
}
