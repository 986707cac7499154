//! Events that wait until a caller takes them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fulmar_lnet::Event;

/// The events of a descriptor, in order of arrival. What is not asked for stays for a later call:
/// an ACK may arrive before the SEND of the same PUT.
#[derive(Debug)]
pub(super) struct Inbox {
    receiver: Receiver<Event>,
    passed: RefCell<VecDeque<Event>>,
}

impl Inbox {
    pub(super) fn new(receiver: Receiver<Event>) -> Self {
        Self { receiver, passed: RefCell::default() }
    }

    /// Waits for the next event that is `wanted`; `None` if none comes in time.
    pub(super) fn take(&self, wanted: impl Fn(&Event) -> bool, timeout: Duration) -> Option<Event> {
        let mut passed = self.passed.borrow_mut();
        if let Some(at) = passed.iter().position(&wanted) {
            return passed.remove(at);
        }
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.receiver.recv_timeout(left).ok()?;
            if wanted(&event) {
                return Some(event);
            }
            passed.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use fulmar_lnet::{EventKind, MdId};

    use super::*;

    #[test]
    fn an_event_that_was_passed_over_is_found_later() {
        let (sender, receiver) = channel();
        let inbox = Inbox::new(receiver);
        for kind in [EventKind::Ack, EventKind::Send, EventKind::Unlink] {
            sender.send(Event { kind, ..Event::unlinked(MdId(1), 1) }).unwrap();
        }
        drop(sender);
        let take = |kind| inbox.take(|event| event.kind == kind, Duration::ZERO);
        let next = || inbox.take(|_| true, Duration::ZERO);
        assert_eq!(take(EventKind::Send).map(|event| event.kind), Some(EventKind::Send));
        assert_eq!(take(EventKind::Ack).map(|event| event.kind), Some(EventKind::Ack));
        assert_eq!(take(EventKind::Put), None);
        assert_eq!(next().map(|event| event.kind), Some(EventKind::Unlink));
        assert_eq!(next(), None);
    }
}
