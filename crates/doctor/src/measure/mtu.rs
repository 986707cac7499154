//! The path MTU, measured with datagrams that may not be fragmented.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::echo;
use crate::remote::{Datagram, DatagramKind, Examiner, HEADER_LEN, RemoteError, Reply, Request};
use crate::remote::{headers, is_too_long, learned, unexpected};

/// The path MTU in both directions, in bytes of an IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuResult {
    /// MTU of the local interface.
    pub local: u32,
    /// MTU of the remote interface.
    pub remote: u32,
    /// Path MTU to the remote host; `None` if no datagram arrives there.
    pub out: Option<u32>,
    /// Path MTU from the remote host; `None` if no datagram arrives here.
    pub back: Option<u32>,
    /// The path MTU that the local kernel assumes after a packet that was too large; `None` if no
    /// packet was too large, or it is unknown.
    pub learned: Option<u32>,
    /// The same for the remote kernel and the other direction.
    pub learned_remote: Option<u32>,
    /// Measured by ICMP echoes from here, without a server on the remote host: only `local`, `out`
    /// and `learned` are known.
    #[serde(default)]
    pub one_way: bool,
}

/// Least path MTU: IPv4 requires 576, IPv6 1280.
pub(super) const LEAST: u32 = 576;
/// Longest IP packet.
pub(super) const MOST: u32 = 65_535;
/// Attempts before a size counts as lost.
pub(super) const TRIES: u32 = 3;
/// Packets that the remote host sends for each attempt.
const PROBES: u32 = 2;

/// Measures the path MTU in both directions. `local` and `remote` are the MTUs of the interfaces.
///
/// # Errors
/// Why the remote host did not answer as expected.
pub fn measure(examiner: &Examiner, local: u32, remote: u32) -> Result<MtuResult, RemoteError> {
    let (local, remote) = (local.clamp(LEAST, MOST), remote.clamp(LEAST, MOST));
    let mut numbers = 1_u64 << 32;
    let mut next = || {
        numbers += 1;
        numbers
    };
    let round_trips: Vec<f64> =
        (0..5).filter_map(|_| echo::round_trip(examiner.udp(), examiner.token(), next())).collect();
    let mut seen = MtuResult { local, remote, ..MtuResult::default() };
    let Some(slowest) = round_trips.iter().copied().reduce(f64::max) else { return Ok(seen) };
    let timeout = Duration::from_secs_f64((slowest / 1e6 * 3.0).clamp(0.06, 1.0));
    seen.out = search(local, |size| Ok(passes_out(examiner, size, &mut next, timeout)))?;
    seen.back = search(remote, |size| passes_back(examiner, size, timeout))?;
    if seen.out.is_some_and(|out| out < local) {
        seen.learned =
            learned(examiner.local(), examiner.peer(), payload(examiner, local), timeout);
    }
    if seen.back.is_some_and(|back| back < remote) {
        seen.learned_remote = learned_remote(examiner, remote, timeout)?;
    }
    Ok(seen)
}

/// Returns the largest size up to `most` that passes; `None` if none does.
pub(super) fn search<E>(
    most: u32,
    mut passes: impl FnMut(u32) -> Result<bool, E>,
) -> Result<Option<u32>, E> {
    if passes(most)? {
        return Ok(Some(most));
    }
    if !passes(LEAST)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (LEAST, most);
    // Most paths have the MTU of Ethernet: one probe then replaces ten.
    if bad > 1500 {
        if passes(1500)? { good = 1500 } else { bad = 1500 }
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle)? { good = middle } else { bad = middle }
    }
    Ok(Some(good))
}

fn payload(examiner: &Examiner, size: u32) -> usize {
    ((size - headers(examiner.peer().ip())) as usize).clamp(HEADER_LEN, crate::remote::DATAGRAM_MAX)
}

fn passes_out(
    examiner: &Examiner,
    size: u32,
    next: &mut impl FnMut() -> u64,
    timeout: Duration,
) -> bool {
    let mut bytes = Vec::new();
    (0..TRIES).any(|_| {
        let number = next();
        let (kind, token) = (DatagramKind::Probe, examiner.token());
        let datagram = Datagram { kind, token, number, time: 0 };
        datagram.encode(payload(examiner, size), &mut bytes);
        match examiner.udp().send(&bytes) {
            Err(error) if is_too_long(&error) => false,
            _ => echo::answer(examiner.udp(), examiner.token(), number, Instant::now() + timeout)
                .is_some(),
        }
    })
}

fn passes_back(examiner: &Examiner, size: u32, timeout: Duration) -> Result<bool, RemoteError> {
    let wanted = payload(examiner, size);
    let request = Request::Probe { size: wanted as u32, count: PROBES };
    for _ in 0..TRIES {
        match examiner.call(&request, Duration::from_secs(5))? {
            Reply::Probed { too_long_here: true, .. } => return Ok(false),
            Reply::Probed { .. } => {}
            other => return Err(unexpected(examiner.peer(), "a probe result", other)),
        }
        if arrives(examiner, wanted, Instant::now() + timeout) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits for a probe of `wanted` bytes.
fn arrives(examiner: &Examiner, wanted: usize, deadline: Instant) -> bool {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || examiner.udp().set_read_timeout(Some(left)).is_err() {
            return false;
        }
        let Ok(len) = examiner.udp().recv(&mut bytes) else { continue };
        let datagram = Datagram::decode(&bytes[..len]);
        if len == wanted && datagram.is_some_and(|d| d.token == examiner.token()) {
            return true;
        }
    }
}

/// Returns the path MTU that the remote kernel assumes after packets of `size` bytes.
fn learned_remote(
    examiner: &Examiner,
    size: u32,
    timeout: Duration,
) -> Result<Option<u32>, RemoteError> {
    let (size, millis) = (payload(examiner, size) as u32, timeout.as_millis().max(1) as u64);
    match examiner.call(&Request::Learned { size, millis }, Duration::from_secs(10))? {
        Reply::Learned { mtu } => Ok(mtu),
        other => Err(unexpected(examiner.peer(), "a path MTU", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_that_passes_is_found_with_few_probes() {
        for (most, mtu) in [(9000, 1400), (9000, 8999), (1500, 1500), (65_535, 1500), (9000, 577)] {
            let mut probes = 0;
            let found = search(most, |size| {
                probes += 1;
                Ok::<_, RemoteError>(size <= mtu)
            });
            assert_eq!(found.unwrap(), Some(mtu));
            assert!(probes <= 19, "{probes} probes for {mtu}");
        }
        assert_eq!(search(1500, |_| Ok::<_, RemoteError>(false)).unwrap(), None);
    }
}
