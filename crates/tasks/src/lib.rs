//! The operations that a machine has under way, as futures. They go on in the order in which they became
//! ready, so a run of the simulator is the same each time.
//!
//! The machine spawns and polls them where it handles its inputs: there is no thread and no clock.
//!
//! ```text
//! machine   handle_input ──► spawn(operation) ──► poll until nothing is ready ──► poll_output
//!                                 ▲                        │
//!                                 └── wake ◄── reply, lock, work of a thread
//! ```
//!
//! An operation is an async function over the state of its machine, which it uses between two
//! awaits. It is woken by what the machine does (a reply, a lock) or by a thread that has done a
//! work for it. `client` runs the operations of its users so, and `server` the requests to its
//! targets. Which executor a program uses does not matter, since nothing but [`Tasks`] polls them.
#![forbid(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::stream::{FuturesUnordered, Stream};

/// An operation.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The operations that are under way.
pub struct Tasks {
    tasks: FuturesUnordered<Task>,
    ready: Arc<Ready>,
    waker: Waker,
}

/// Whether an operation can go on. Threads that work for operations say so.
struct Ready(AtomicBool);

impl Tasks {
    /// Returns none.
    pub fn new() -> Self {
        let ready = Arc::new(Ready(AtomicBool::new(false)));
        let waker = Waker::from(ready.clone());
        Self { tasks: FuturesUnordered::new(), ready, waker }
    }

    /// Begins an operation with the next [`Tasks::poll`].
    pub fn spawn(&mut self, task: Task) {
        self.tasks.push(task);
        self.ready.0.store(true, Ordering::Release);
    }

    /// Lets operations go on. Returns whether there was one.
    pub fn poll(&mut self) -> bool {
        if !self.ready.0.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut context = Context::from_waker(&self.waker);
        while let Poll::Ready(Some(())) = Pin::new(&mut self.tasks).poll_next(&mut context) {}
        true
    }

    /// Returns how many operations are under way.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether no operation is under way.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations", self.tasks.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_channel::oneshot;

    use super::*;

    #[test]
    fn operations_go_on_in_the_order_of_what_they_wait_for() {
        let mut tasks = Tasks::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut senders = Vec::new();
        for n in 0..3 {
            let (sender, waiting) = oneshot::channel();
            let seen = seen.clone();
            senders.push(sender);
            tasks.spawn(Box::pin(async move {
                let value: Option<u32> = waiting.await.ok();
                seen.lock().unwrap().push((n, value));
            }));
        }
        while tasks.poll() {}
        assert_eq!((tasks.len(), seen.lock().unwrap().len()), (3, 0));
        // One whose answer will never come goes on too.
        drop(senders.pop());
        senders.pop().unwrap().send(7).unwrap();
        senders.pop().unwrap().send(8).unwrap();
        while tasks.poll() {}
        assert_eq!(*seen.lock().unwrap(), [(2, None), (1, Some(7)), (0, Some(8))]);
        assert_eq!(tasks.len(), 0);
    }
}
