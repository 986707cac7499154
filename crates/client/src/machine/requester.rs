//! Whom an operation is for, and whether that program still waits for it.
//!
//! A request that was sent may be executed, so its reply is waited for. But an operation whose requester has gone
//! away begins nothing more: a file that is removed or cut an hour after its program was killed may be another
//! one by then.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::oneshot;

/// Whoever waits for operations of a mount, such as a process. See [`FileSystem::interrupt`].
///
/// [`FileSystem::interrupt`]: crate::FileSystem::interrupt
#[derive(Clone, Debug, Default)]
pub struct Requester(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_interrupted: AtomicBool,
    /// The waits that end with it.
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

thread_local! {
    /// The requester of the operation that this thread polls.
    static CURRENT: RefCell<Option<Requester>> = const { RefCell::new(None) };
}

impl Requester {
    /// Runs an operation for this requester, with all operations of the mount that it awaits.
    pub async fn run<T>(&self, operation: impl Future<Output = T>) -> T {
        run_for(Some(self), operation).await
    }

    /// Runs a part of an operation to its end, also if the requester of the operation goes away: without that part, what
    /// the operation has changed already would not be right.
    pub(crate) async fn finish<T>(operation: impl Future<Output = T>) -> T {
        run_for(None, operation).await
    }

    /// Returns the requester of the operation that this thread polls.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The requester does not wait any more.
    pub(crate) fn interrupt(&self) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.is_interrupted.store(true, Ordering::Release);
        for waiting in waiting.drain(..) {
            let _ = waiting.send(());
        }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.0.is_interrupted.load(Ordering::Acquire)
    }

    /// Returns when the requester does not wait any more.
    pub(crate) async fn interrupted(&self) {
        let interrupted = {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_interrupted() {
                return;
            }
            waiting.retain(|one| !one.is_canceled());
            let (sender, interrupted) = oneshot::channel();
            waiting.push(sender);
            interrupted
        };
        let _ = interrupted.await;
    }
}

async fn run_for<T>(requester: Option<&Requester>, operation: impl Future<Output = T>) -> T {
    let mut operation = pin!(operation);
    poll_fn(|context| {
        let before = CURRENT.replace(requester.cloned());
        let polled = operation.as_mut().poll(context);
        CURRENT.set(before);
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn operations_know_their_requester_while_they_are_polled() {
        let (one, other) = (Requester::default(), Requester::default());
        let is_interrupted = || Requester::current().map(|current| current.is_interrupted());
        let mut waits = pin!(one.run(async {
            let before = is_interrupted();
            if let Some(current) = Requester::current() {
                current.interrupted().await;
            }
            let finished = Requester::finish(async { is_interrupted() }).await;
            (before, is_interrupted(), other.run(async { is_interrupted() }).await, finished)
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(is_interrupted(), None);
        one.interrupt();
        let found = (Some(false), Some(true), Some(false), None);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(found));
        // Whoever begins to wait later does not.
        let mut late = pin!(one.interrupted());
        assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
