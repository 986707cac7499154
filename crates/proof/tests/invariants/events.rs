//! Waiting for events, and for what they bring about.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind};
use fulmar_net::{Handler, Node};

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The events of a descriptor, to wait for.
pub(crate) struct Events(Receiver<Event>);

/// Returns a handler, and where its events can be waited for.
pub(crate) fn recorder() -> (Arc<dyn Handler>, Events) {
    let (sender, receiver) = channel();
    let handler = move |_: &Node, event: &Event| {
        // The story may be over.
        let _ = sender.send(*event);
    };
    (Arc::new(handler), Events(receiver))
}

impl Events {
    /// Returns the next event, which must be of `kind` and tell of success.
    #[track_caller]
    pub(crate) fn wait(&self, kind: EventKind) -> Event {
        let (event, status) = self.wait_for_end(kind);
        assert_eq!(status, Ok(()), "{event:?}");
        event
    }

    /// Returns the next event of `kind`, passing over others, and its status.
    #[track_caller]
    pub(crate) fn wait_for_end(&self, kind: EventKind) -> (Event, Result<(), Errno>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(left) {
                Ok(event) if event.kind == kind => return (event, event.status),
                Ok(_) => {}
                Err(error) => panic!("no {kind:?}: {error}"),
            }
        }
    }

    /// Returns the next event, whatever it is.
    #[track_caller]
    pub(crate) fn next(&self) -> Event {
        self.0.recv_timeout(PATIENCE).expect("an event comes")
    }

    /// Returns the events that have come and nobody has waited for.
    pub(crate) fn rest(&self) -> Vec<Event> {
        self.0.try_iter().collect()
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never comes to be that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
