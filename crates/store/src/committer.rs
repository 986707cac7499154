//! The threads that commit the batches of a store, and free what they have made unnecessary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
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
    threads: Vec<JoinHandle<()>>,
}

impl Committer {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system has none.
    pub fn start(store: Arc<Store>) -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (committed, commits) = mpsc::channel();
        let mut committer =
            Self { store: store.clone(), stopping: stopping.clone(), threads: vec![] };
        let of_sweeper = store.clone();
        let sweep = move || commits.iter().for_each(|()| of_sweeper.sweep());
        let commit = move || store.commit_until(&stopping, &committed);
        committer.threads.push(thread::Builder::new().name("commit".to_owned()).spawn(commit)?);
        committer.threads.push(thread::Builder::new().name("sweep".to_owned()).spawn(sweep)?);
        Ok(committer)
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
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Store {
    fn commit_until(&self, stopping: &AtomicBool, committed: &mpsc::Sender<()>) {
        let epoch = Instant::now();
        let now = || Time::ZERO + epoch.elapsed();
        loop {
            let due = self.due(now());
            if due.is_some_and(|due| due <= now()) {
                // An error has ended the store, and all who wait have got it.
                if self.commit_batch().is_ok() {
                    let _ = committed.send(());
                }
                continue;
            }
            let front = self.front();
            if stopping.load(Ordering::Acquire) || self.ended().is_some() {
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
