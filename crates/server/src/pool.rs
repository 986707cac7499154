//! The threads that do the work of operations, which may wait for a disk.
//!
//! A thread that has done a work takes the next one. Another thread is woken only for work that no
//! awake thread takes.
//!
//! What an operation asks of its storage is a `Work` for the machine's owner; the simulator does it
//! at once. In the driver these threads do what may wait. Changing threads twice costs more than a
//! few keys, so work on keys is a job of the thread that called the machine (`net::Job`): without
//! the machine's lock, all of a batch of events in a row, and their replies are one batch too. That
//! thread also reads connections and must not wait; the check of a write, before its data are
//! fetched, is one of these. So before each such work the store says whether it is quick
//! (`Store::is_quick`): the last reads of its tree came from memory, and the running batch is not
//! far behind the commits. If it is not, or if an MDT is changing data, the work goes to the
//! threads. A read of up to 16 KiB is such a work too, if also the last short reads of objects came
//! from memory and no data are being changed (`Store::is_quick_to_read`). One read that took long
//! is forgotten after a few others, since a thread also loses its core now and then; reads that
//! take long one after the other are remembered (`store`, `pace`). A reply that needs the disk
//! waits for the commit of its batch (`durable`), and no thread does.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::context::Work;

/// Some threads. Dropping it ends them, when they have done what they have.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// Work for the threads. What comes after their end is dropped.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: VecDeque<Work>,
    /// Threads that have nothing to do.
    idle: usize,
    /// One of them has been woken, and has not looked for work yet.
    is_waking: bool,
    has_ended: bool,
}

impl Queue {
    pub(crate) fn send(&self, work: Work) {
        let mut state = self.state();
        if !state.has_ended {
            state.work.push_back(work);
            self.wake(state);
        }
    }

    /// Waits for the next work. `None`: it has ended, and all is done.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if let Some(work) = state.work.pop_front() {
                self.wake(state);
                return Some(work);
            }
            if state.has_ended {
                return None;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.is_waking = false;
        }
    }

    /// Wakes a thread if there is work left. It wakes the next one, so that no more threads are woken than
    /// get a core.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if state.is_waking || state.idle == 0 || state.work.is_empty() {
            return;
        }
        state.is_waking = true;
        drop(state);
        self.work.notify_one();
    }

    fn end(&self) {
        self.state().has_ended = true;
        self.work.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts threads. `done` is called after each work.
    ///
    /// # Errors
    /// If the system has none.
    pub(crate) fn start(
        threads: usize,
        done: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let mut pool = Self { queue: Arc::default(), threads: Vec::new() };
        for _ in 0..threads {
            let (queue, done) = (pool.queue.clone(), done.clone());
            let run = move || {
                while let Some(work) = queue.next() {
                    work.run();
                    done();
                }
            };
            pool.threads.push(Builder::new().name("target".to_owned()).spawn(run)?);
        }
        Ok(pool)
    }

    /// Returns the queue.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        self.queue.clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_work_is_done_and_reported_before_the_end() {
        let [ran, reported] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let count = |counter: &Arc<AtomicUsize>| {
            let counter = counter.clone();
            move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let pool = Pool::start(4, count(&reported)).unwrap();
        let queue = pool.queue();
        for _ in 0..1000 {
            queue.send(Work::new(count(&ran)));
        }
        drop(pool);
        queue.send(Work::new(count(&ran)));
        let counts = [ran, reported].map(|counter| counter.load(Ordering::Relaxed));
        assert_eq!(counts, [1000, 1000]);
    }

    #[test]
    fn work_that_waits_leaves_the_other_threads_for_others() {
        let pool = Pool::start(4, || {}).unwrap();
        // No work gets through the barrier unless all run at the same time.
        for _ in 0..50 {
            let barrier = Arc::new(Barrier::new(4));
            for _ in 0..4 {
                let barrier = barrier.clone();
                pool.queue().send(Work::new(move || {
                    barrier.wait();
                }));
            }
        }
        drop(pool);
    }
}
