//! The largest packet that passes uncut, by datagrams that may not be cut.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::echo;
use crate::far::{Datagram, DatagramKind, Examiner, FarError, HEADER_LEN, Reply, Request};
use crate::far::{headers, is_too_long, learned, unexpected};

/// What passes uncut. All in bytes of an IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuSeen {
    /// What our interface carries.
    pub here: u32,
    /// What the far end's interface carries.
    pub there: u32,
    /// What arrives at the far end; `None` if no datagram does.
    pub out: Option<u32>,
    /// What arrives here; `None` if no datagram does.
    pub back: Option<u32>,
    /// What our kernel takes for the path's MTU after a packet that was too large; `None` if it
    /// could not be asked, or none was too large.
    pub learned: Option<u32>,
    /// The same of the far end's kernel and the way from there.
    pub learned_there: Option<u32>,
}

/// Every path must carry so much: IPv4 asks for 576, IPv6 for 1280.
const LEAST: u32 = 576;
/// No IP packet is longer.
const MOST: u32 = 65_535;
/// A size is tried so often before it counts as lost.
const TRIES: u32 = 3;
/// Packets for the other way, of each size.
const PROBES: u32 = 2;

/// Measures the path's MTU both ways. `there` is what the far end's interface carries.
///
/// # Errors
/// Why the far end is no help.
pub fn measure(far: &Examiner, here: u32, there: u32) -> Result<MtuSeen, FarError> {
    let (here, there) = (here.clamp(LEAST, MOST), there.clamp(LEAST, MOST));
    let mut numbers = 1_u64 << 32;
    let mut next = || {
        numbers += 1;
        numbers
    };
    let round_trips: Vec<f64> =
        (0..5).filter_map(|_| echo::round_trip(far.udp(), far.token(), next())).collect();
    let mut seen = MtuSeen { here, there, ..MtuSeen::default() };
    let Some(slowest) = round_trips.iter().copied().reduce(f64::max) else { return Ok(seen) };
    let patience = Duration::from_secs_f64((slowest / 1e6 * 3.0).clamp(0.06, 1.0));
    seen.out = search(here, |size| Ok(passes_out(far, size, &mut next, patience)))?;
    seen.back = search(there, |size| passes_back(far, size, patience))?;
    if seen.out.is_some_and(|out| out < here) {
        seen.learned = learned(far.local(), far.who(), payload(far, here), patience);
    }
    if seen.back.is_some_and(|back| back < there) {
        seen.learned_there = learned_there(far, there, patience)?;
    }
    Ok(seen)
}

/// Returns the largest size up to `most` that passes; `None` if none does.
fn search(
    most: u32,
    mut passes: impl FnMut(u32) -> Result<bool, FarError>,
) -> Result<Option<u32>, FarError> {
    if passes(most)? {
        return Ok(Some(most));
    }
    if !passes(LEAST)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (LEAST, most);
    // Most paths carry what Ethernet does: that is one question instead of ten.
    if bad > 1500 {
        if passes(1500)? { good = 1500 } else { bad = 1500 }
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle)? { good = middle } else { bad = middle }
    }
    Ok(Some(good))
}

fn payload(far: &Examiner, size: u32) -> usize {
    ((size - headers(far.who().ip())) as usize).clamp(HEADER_LEN, crate::far::DATAGRAM_MAX)
}

fn passes_out(
    far: &Examiner,
    size: u32,
    next: &mut impl FnMut() -> u64,
    patience: Duration,
) -> bool {
    let mut bytes = Vec::new();
    (0..TRIES).any(|_| {
        let number = next();
        let (kind, token) = (DatagramKind::Probe, far.token());
        let datagram = Datagram { kind, token, number, time: 0 };
        datagram.encode(payload(far, size), &mut bytes);
        match far.udp().send(&bytes) {
            Err(error) if is_too_long(&error) => false,
            _ => echo::answer(far.udp(), far.token(), number, Instant::now() + patience).is_some(),
        }
    })
}

fn passes_back(far: &Examiner, size: u32, patience: Duration) -> Result<bool, FarError> {
    let wanted = payload(far, size);
    let request = Request::Probe { size: wanted as u32, count: PROBES };
    for _ in 0..TRIES {
        match far.ask(&request, Duration::from_secs(5))? {
            Reply::Probed { too_long_here: true, .. } => return Ok(false),
            Reply::Probed { .. } => {}
            other => return Err(unexpected(far.who(), "probes", other)),
        }
        if arrives(far, wanted, Instant::now() + patience) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits for a probe of so many bytes.
fn arrives(far: &Examiner, wanted: usize, deadline: Instant) -> bool {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || far.udp().set_read_timeout(Some(left)).is_err() {
            return false;
        }
        let Ok(len) = far.udp().recv(&mut bytes) else { continue };
        let datagram = Datagram::decode(&bytes[..len]);
        if len == wanted && datagram.is_some_and(|d| d.token == far.token()) {
            return true;
        }
    }
}

/// Asks the far end what its kernel takes for the path's MTU after packets of `size` bytes.
fn learned_there(far: &Examiner, size: u32, patience: Duration) -> Result<Option<u32>, FarError> {
    let (size, millis) = (payload(far, size) as u32, patience.as_millis().max(1) as u64);
    match far.ask(&Request::Learned { size, millis }, Duration::from_secs(10))? {
        Reply::Learned { mtu } => Ok(mtu),
        other => Err(unexpected(far.who(), "an MTU", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_that_passes_is_found_in_few_questions() {
        for (most, mtu) in [(9000, 1400), (9000, 8999), (1500, 1500), (65_535, 1500), (9000, 577)] {
            let mut questions = 0;
            let found = search(most, |size| {
                questions += 1;
                Ok(size <= mtu)
            });
            assert_eq!(found.unwrap(), Some(mtu));
            assert!(questions <= 19, "{questions} questions for {mtu}");
        }
        assert_eq!(search(1500, |_| Ok(false)).unwrap(), None);
    }
}
