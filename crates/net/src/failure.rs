//! The failure of a node, and waiting for its end.
//!
//! A node fails when one of its own invariants does not hold: its machine, the driver or a service
//! that is a machine panics. It is closed then, and does nothing more.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, PoisonError};

use crate::lock::Lock;

/// Why a node has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The violated invariant: the message of the panic.
    pub what: String,
    /// The name of the thread.
    pub thread: String,
    /// The place in the sources, if [`note_panics`] was called before.
    pub place: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (thread {}", self.what, self.thread)?;
        match &self.place {
            Some(place) => write!(f, ", {place})"),
            None => f.write_str(")"),
        }
    }
}

thread_local! {
    /// The place of the last panic of this thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes the place of each panic of this process, for [`Failure::place`]. Panics are also handled as
/// before.
pub fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string);
        // The storage of a thread that ends may be gone.
        let _ = PLACE.try_with(|last| last.replace(place));
        before(info);
    }));
}

/// Calls `f`, and turns a panic into a failure.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Failure::of(&*payload))
}

impl Failure {
    /// Returns the failure that a panic of this thread has caused.
    fn of(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let thread = std::thread::current();
        Self {
            what: text.unwrap_or("a panic without a message").to_owned(),
            thread: thread.name().unwrap_or("without a name").to_owned(),
            place: PLACE.take(),
        }
    }
}

/// How a node has ended, if it has.
#[derive(Default)]
pub(crate) struct End {
    how: Lock<Option<Result<(), Failure>>>,
    ended: Condvar,
}

impl End {
    /// Sets how the node has ended; later calls change nothing.
    pub(crate) fn set(&self, how: Result<(), Failure>) {
        self.how.lock().get_or_insert(how);
        self.ended.notify_all();
    }

    /// Returns whether the node has ended.
    pub(crate) fn is_set(&self) -> bool {
        self.how.lock().is_some()
    }

    /// Returns why the node has failed, if it has.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.how.lock().clone()?.err()
    }

    /// Waits until the node has ended.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        let mut how = self.how.lock();
        loop {
            match &*how {
                Some(how) => return how.clone(),
                None => how = self.ended.wait(how).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fulmar_base::{Errno, Time};

    use super::*;
    use crate::runtime::Message;
    use crate::shared::Shared;
    use crate::thread::TimeoutHandler;
    use crate::{Node, Options, Runtime};

    /// Panics in its I/O thread.
    struct PanickingService(Arc<Shared>);

    impl TimeoutHandler for PanickingService {
        fn key(&self) -> u64 {
            u64::MAX
        }

        fn node(&self) -> &Shared {
            &self.0
        }

        fn handle_timeout(self: Arc<Self>) {
            panic!("a test of thread {}", 0);
        }
    }

    #[test]
    fn a_panic_of_an_io_thread_fails_its_nodes_and_they_can_be_stopped() {
        note_panics();
        let runtime = Runtime::new(Some(1)).unwrap();
        let [a, b] = [(); 2].map(|()| Node::start(&runtime, Options::default()).unwrap());
        let broken = Message::Arm(Arc::new(PanickingService(a.0.clone())), Time::ZERO);
        runtime.shared.post(0, broken);
        for node in [&a, &b] {
            let failure = node.wait().unwrap_err();
            assert_eq!(failure.what, "a test of thread 0");
            assert_eq!(failure.thread, "fulmar-io-0");
            assert!(failure.place.as_ref().unwrap().contains("net/src/failure.rs:"), "{failure}");
            assert_eq!(node.admin().failure(), Some(failure));
            assert_eq!(node.admin().reset_stats(), Err(Errno::EIO));
        }
        a.stop();
        let other = Node::start(&runtime, Options::default()).unwrap();
        assert_eq!(other.admin().failure(), None, "the thread continues");
        other.stop();
        assert_eq!(other.wait(), Ok(()));
        drop((a, b, runtime));
    }
}
