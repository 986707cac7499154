//! Waiting for events and conditions.

use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind};
use fulmar_net::exchange;

/// Timeout of all operations.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The events of a descriptor.
pub(crate) struct Events(pub(crate) exchange::Events);

impl Events {
    /// Returns the next event, which must be of `kind` and successful.
    #[track_caller]
    pub(crate) fn wait(&self, kind: EventKind) -> Event {
        let (event, status) = self.wait_for_end(kind);
        assert_eq!(status, Ok(()), "{event:?}");
        event
    }

    /// Returns the next event of `kind` with its status. Others stay for later calls.
    #[track_caller]
    pub(crate) fn wait_for_end(&self, kind: EventKind) -> (Event, Result<(), Errno>) {
        let Some(event) = self.0.next_of(kind, TIMEOUT) else { panic!("no {kind:?}") };
        let status = event.status;
        (event, status)
    }

    /// Returns the next event of any kind.
    #[track_caller]
    pub(crate) fn next(&self) -> Event {
        self.0.next(TIMEOUT).expect("an event arrives")
    }

    pub(crate) fn unlink(&self) {
        self.0.unlink();
    }

    /// Returns the events that have arrived and were not taken yet.
    pub(crate) fn rest(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.0.next(Duration::ZERO)).collect()
    }
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "timeout before: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
