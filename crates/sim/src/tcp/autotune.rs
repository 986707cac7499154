//! Buffers that grow with what a connection carries, as Linux sizes them unless a program does.

use std::time::Duration;

use fulmar_base::Time;

/// The window of a receive buffer, which grows to twice what the application reads in a round trip.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    window: u64,
    most: u64,
    segment: u64,
    /// The most that was read in a round trip.
    space: u64,
    /// The start of this round trip, and what was read since.
    round: Option<Time>,
    read: u64,
}

impl ReceiveBuffer {
    /// Returns a window of `most` bytes, or if it grows one of the initial size.
    pub(crate) fn new(most: u64, segment: u64, grows: bool) -> Self {
        let window = if grows { most.min(FIRST_WINDOW) } else { most };
        let space = window.min(FIRST_PACKETS * segment) / 2;
        Self { window, most, segment, space, round: None, read: 0 }
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Notes that the application has read `len` bytes.
    pub(crate) fn handle_read(&mut self, now: Time, len: u64, round_trip: Duration) {
        if self.window >= self.most {
            return;
        }
        self.read += len;
        let start = *self.round.get_or_insert(now);
        if now.since(start) < round_trip {
            return;
        }
        let copied = std::mem::take(&mut self.read);
        self.round = Some(now);
        if copied <= self.space {
            return;
        }
        let wanted = 2 * copied + 16 * self.segment;
        // The sender still speeds up: leave room for as much again.
        let growth = wanted as f64 * (copied - self.space) as f64 / self.space.max(1) as f64;
        let wanted = wanted.saturating_add(2 * growth as u64);
        self.window = wanted.clamp(self.window, self.most);
        self.space = copied;
    }
}

/// Returns the send buffer for a congestion window: twice as much, within its limits.
pub(crate) fn send_buffer(most: u64, congestion_window: u64) -> u64 {
    congestion_window.saturating_mul(2).clamp(FIRST_BUFFER.min(most), most)
}

/// Half of the default of `tcp_rmem`.
const FIRST_WINDOW: u64 = 64 << 10;
/// The send buffer of a new connection in Linux.
const FIRST_BUFFER: u64 = 85 << 10;
/// What a sender may send in the first round trip, in packets.
const FIRST_PACKETS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    /// Reads `len` bytes in each of some round trips, and returns the window after each.
    fn windows(buffer: &mut ReceiveBuffer, reads: &[u64]) -> Vec<u64> {
        let mut now = Time::ZERO;
        reads
            .iter()
            .map(|len| {
                buffer.handle_read(now, len / 2, RTT);
                now = now + RTT;
                buffer.handle_read(now, len / 2, RTT);
                buffer.window()
            })
            .collect()
    }

    #[test]
    fn the_window_keeps_ahead_of_a_sender_that_doubles_each_round_trip() {
        let mut buffer = ReceiveBuffer::new(64 << 20, 1448, true);
        assert_eq!(buffer.window(), 64 << 10);
        let reads: Vec<u64> = (0..10).map(|n| (16 << 10) << n).collect();
        let windows = windows(&mut buffer, &reads);
        assert!(
            windows.iter().zip(&reads).all(|(window, read)| *window >= 2 * read),
            "{windows:?}"
        );
        assert!(windows.is_sorted() && windows.iter().all(|window| *window <= 64 << 20));
    }

    #[test]
    fn a_steady_reader_keeps_its_window_and_a_fixed_buffer_never_grows() {
        let mut buffer = ReceiveBuffer::new(64 << 20, 1448, true);
        let windows = windows(&mut buffer, &[1 << 20; 8]);
        assert_eq!(windows[2], windows[7]);
        let mut fixed = ReceiveBuffer::new(1 << 20, 1448, false);
        fixed.handle_read(Time::ZERO, 1 << 20, RTT);
        assert_eq!(fixed.window(), 1 << 20);
    }

    #[test]
    fn a_send_buffer_is_two_congestion_windows_within_its_limits() {
        assert_eq!(send_buffer(4 << 20, 10 * 1448), 85 << 10);
        assert_eq!(send_buffer(4 << 20, 1 << 20), 2 << 20);
        assert_eq!(send_buffer(4 << 20, 8 << 20), 4 << 20);
    }
}
