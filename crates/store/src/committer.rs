//! The thread that commits the batches of a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{io, thread};

use fulmar_base::Time;

use crate::Store;

/// Commits the batches of a store when they are due. Dropping it commits what is left.
///
/// A simulator has none: it calls [`Store::due`] and [`Store::commit`] itself.
pub struct Committer {
    store: Arc<Store>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has none.
    pub fn start(store: Arc<Store>) -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (of_thread, stop) = (store.clone(), stopping.clone());
        let run = move || of_thread.commit_until(&stop);
        let thread = thread::Builder::new().name("commit".to_owned()).spawn(run)?;
        Ok(Self { store, stopping, thread: Some(thread) })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        {
            // Under the lock, so that the thread does not miss it before it waits.
            let _front = self.store.front();
            self.stopping.store(true, Ordering::Release);
        }
        self.store.work.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Store {
    fn commit_until(&self, stopping: &AtomicBool) {
        let epoch = Instant::now();
        let now = || Time::ZERO + epoch.elapsed();
        loop {
            let due = self.due(now());
            if due.is_some_and(|due| due <= now()) {
                // An error has ended the store, and all who wait have got it.
                let _ = self.commit();
                continue;
            }
            let front = self.front();
            if stopping.load(Ordering::Acquire) || front.fenced.is_some() {
                break;
            }
            // What has happened since `due` may need a commit at once.
            let news = front.wanted > front.committing.last.max(front.committed)
                || self.is_full(&front)
                || (due.is_none() && !front.running.is_empty());
            if news {
                continue;
            }
            match due {
                Some(due) => drop(
                    self.work
                        .wait_timeout(front, due.since(now()))
                        .unwrap_or_else(PoisonError::into_inner),
                ),
                None => drop(self.work.wait(front).unwrap_or_else(PoisonError::into_inner)),
            }
        }
        let _ = self.commit();
    }
}
