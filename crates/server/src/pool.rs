//! The threads that do the work of operations, which may wait for a disk.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};

use crate::context::Work;

/// Some threads. Dropping it ends them, when they have done what they have.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// Work for the threads. What comes after their end is dropped.
#[derive(Debug)]
pub(crate) struct Queue(Mutex<Option<mpsc::Sender<Work>>>);

impl Queue {
    pub(crate) fn send(&self, work: Work) {
        if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // The threads end after the queue.
            let _ = sender.send(work);
        }
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
        let (sender, receiver) = mpsc::channel::<Work>();
        let receiver = Arc::new(Mutex::new(receiver));
        let queue = Arc::new(Queue(Mutex::new(Some(sender))));
        let mut pool = Self { queue, threads: Vec::new() };
        for _ in 0..threads {
            let (receiver, done) = (receiver.clone(), done.clone());
            let run = move || {
                loop {
                    // One thread waits for work, and the others for it.
                    let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(work) = next else { return };
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
        *self.queue.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
