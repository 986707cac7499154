//! How batches become durable, and how others learn of it.

use std::io;
use std::sync::{Arc, PoisonError};

use fulmar_base::Time;

use crate::batch::Batch;
use crate::keys::View;
use crate::medium::Name;
use crate::objects::State;
use crate::store::OnCommit;
use crate::{Store, StoreError};

impl Store {
    /// Commits everything that was applied before, and returns the number of the last committed
    /// transaction.
    ///
    /// # Errors
    /// If the medium failed. The store has then ended: what is on the medium is unknown, and a
    /// second attempt could succeed without the data of the first.
    pub fn commit(&self) -> Result<u64, StoreError> {
        let committed = self.commit_batch()?;
        self.sweep();
        Ok(committed)
    }

    pub(crate) fn commit_batch(&self) -> Result<u64, StoreError> {
        let _one = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = {
            let mut front = self.running()?;
            if front.running.is_empty() {
                return Ok(front.committed);
            }
            front.rotate()
        };
        let view = self.write_batch(&batch)?;
        {
            let mut front = self.front();
            front.view = view;
            front.committed = batch.last;
            front.committing = Arc::default();
            front.leftovers.removed.extend(&batch.removed);
            front.leftovers.shrunk.extend(&batch.shrunk);
        }
        self.moved.notify_all();
        self.report(Ok(batch.last));
        self.reserve.refill();
        Ok(batch.last)
    }

    /// Writes a batch: first the data of objects, then the keys that speak of them.
    fn write_batch(&self, batch: &Batch) -> Result<Arc<dyn View>, StoreError> {
        let fence = |what| move |error: io::Error| self.fence(what, &error);
        for file in batch.unsynced.values() {
            file.sync().map_err(fence("write the data of objects"))?;
        }
        self.medium.sync_names().map_err(fence("write the names of objects"))?;
        self.keys.commit(&batch.changes).map_err(fence("write keys"))?;
        self.keys.view().map_err(fence("read keys"))
    }

    /// Frees what committed batches have made unnecessary, which may take long where files are
    /// large. What fails here is done when the store is opened again, or the object is used.
    pub(crate) fn sweep(&self) {
        let leftovers = std::mem::take(&mut self.front().leftovers);
        for removed in leftovers.removed {
            match self.medium.remove(Name::Object(removed.0)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => continue,
                _ => {}
            }
            self.front().running.change(removed.key(), None);
        }
        for id in leftovers.shrunk {
            let object = self.objects.get(id);
            if let Ok(guard) = self.lock_object(&object) {
                let _ = self.trim(id, guard.as_ref().unwrap_or(&State::default()));
            }
        }
    }

    /// Ends the store.
    fn fence(&self, what: &str, error: &io::Error) -> StoreError {
        let why = StoreError::Fenced {
            place: self.medium.place(),
            what: what.to_owned(),
            why: error.to_string().into(),
        };
        {
            // Under the lock, so that no thread misses it before it waits.
            let _front = self.front();
            let _ = self.fenced.set(why.clone());
        }
        let _ = self.medium.create(Name::Fenced);
        self.moved.notify_all();
        self.work.notify_all();
        self.report(Err(why.clone()));
        why
    }

    fn report(&self, committed: Result<u64, StoreError>) {
        if let Some(on_commit) = self.on_commit.get() {
            on_commit(committed);
        }
    }

    /// Sets what is called after each commit, and once if the store ends. It is called by the thread
    /// that commits, in order; it may use the store, but must not commit or wait.
    ///
    /// # Panics
    /// If it was set before.
    pub fn on_commit(&self, call: OnCommit) {
        assert!(self.on_commit.set(call).is_ok(), "the store has one owner");
    }

    /// Says that a caller waits for a transaction, whose batch is then due at once. A number that
    /// was not given yet stands for the last one.
    pub fn want(&self, number: u64) {
        let mut front = self.front();
        front.wanted = front.wanted.max(number.min(front.next - 1));
        self.work.notify_all();
    }

    /// Waits until a transaction is committed, which another thread must do.
    ///
    /// # Errors
    /// If the store ends before.
    pub fn wait(&self, number: u64) -> Result<(), StoreError> {
        self.want(number);
        let mut front = self.running()?;
        let number = number.min(front.next - 1);
        while front.committed < number {
            front = self.moved.wait(front).unwrap_or_else(PoisonError::into_inner);
            if let Some(why) = self.ended() {
                return Err(why.clone());
            }
        }
        Ok(())
    }

    /// Returns when [`Store::commit`] is to be called: `now`, if a caller waits or a batch is full;
    /// later, if there is a batch; `None`, if there is none or the store has ended.
    ///
    /// The interval of a batch begins with the first call after its first transaction.
    pub fn due(&self, now: Time) -> Option<Time> {
        let mut front = self.running().ok()?;
        if front.running.is_empty() {
            return None;
        }
        let opened = *front.opened.get_or_insert(now);
        let waiting = front.wanted > front.committing.last.max(front.committed);
        Some(if waiting || self.is_full(&front) { now } else { opened + self.policy.interval })
    }
}
