//! What keeps a stream with data from sending.

use super::sender::Sender;
use super::stream::Stream;

/// What keeps a stream with data from sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendLimit {
    /// The congestion window.
    Congestion,
    /// The window of the receiver.
    Receiver,
    /// The send buffer: all that is in it is in flight.
    Buffer,
    /// The pace, or the turn at the interface.
    Line,
}

impl Stream {
    /// Returns what keeps data of this stream from being sent, if it has any.
    pub(crate) fn held(&self) -> Option<SendLimit> {
        self.sender.held(self.taken()).or_else(|| self.has_unsent().then_some(SendLimit::Buffer))
    }
}

impl Sender {
    /// Returns what keeps data up to `taken` from being sent, if there are any.
    fn held(&self, taken: u64) -> Option<SendLimit> {
        let lost = self.missing();
        let left = taken.saturating_sub(self.next());
        if lost == 0 && left == 0 {
            return None;
        }
        let burst = self.longest(self.window());
        if lost == 0 && self.receiver_room() < left.min(burst) {
            return Some(SendLimit::Receiver);
        }
        let wanted = if lost > 0 { lost } else { left };
        let room = self.window().saturating_sub(self.in_flight());
        Some(if room < wanted.min(burst) { SendLimit::Congestion } else { SendLimit::Line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Tcp;

    const PLENTY: u64 = 1 << 30;

    fn sender(tcp: Tcp) -> Sender {
        let mut sender = Sender::new(&tcp, 0);
        while sender.burst(fulmar_base::Time::ZERO, PLENTY, u64::MAX).is_some() {}
        sender
    }

    #[test]
    fn the_smaller_window_holds_data_back() {
        let narrow = sender(Tcp { read_buffer: 5_000, ..Tcp::default() });
        assert_eq!(narrow.held(PLENTY), Some(SendLimit::Receiver));
        let new = sender(Tcp::default());
        assert_eq!(new.held(PLENTY), Some(SendLimit::Congestion));
        assert_eq!(new.held(new.next()), None);
    }
}
