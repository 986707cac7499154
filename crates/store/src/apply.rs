//! How a transaction is applied.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::keys::Value;
use crate::medium::Name;
use crate::objects::{Object, Work};
use crate::records::{ObjectId, Row};
use crate::store::Front;
use crate::transaction::{Change, DataChange, Transaction};
use crate::{Store, StoreError};

/// A running batch of so many times its size stops those who apply transactions.
const BATCHES_MAX: usize = 4;

impl Store {
    /// Changes the data of objects first, holding them, then keys and sizes in one step.
    pub(crate) fn apply(&self, transaction: Transaction<'_>) -> Result<u64, StoreError> {
        self.admit(&transaction)?;
        if transaction.data.is_empty() {
            return self.merge(transaction, &BTreeMap::new());
        }
        self.changing_data.fetch_add(1, Ordering::Relaxed);
        let applied = self.apply_with_data(transaction);
        self.changing_data.fetch_sub(1, Ordering::Relaxed);
        applied
    }

    fn apply_with_data(&self, transaction: Transaction<'_>) -> Result<u64, StoreError> {
        let ids = transaction.data.iter().map(|(id, _)| (*id, ()));
        let objects: BTreeMap<ObjectId, ()> = ids.collect();
        let objects: Vec<Arc<Object>> = objects.keys().map(|id| self.objects.get(*id)).collect();
        // In the order of their ids, as every transaction does.
        let mut locked = vec![];
        let mut works = BTreeMap::new();
        for object in &objects {
            let guard = self.lock_object(object)?;
            works.insert(object.id, Work::new(guard.clone().unwrap_or_default()));
            locked.push((object.id, guard));
        }
        let applied = self
            .change_objects(&transaction.data, &mut works)
            .and_then(|()| self.merge(transaction, &works));
        match applied {
            Ok(_) => {
                for (id, mut guard) in locked {
                    *guard = works.remove(&id).map(|work| work.state);
                }
            }
            // Nothing speaks of these files, so an error changes nothing.
            Err(_) => works.values().flat_map(|work| &work.created).for_each(|file| {
                if self.medium.remove(Name::Object(*file)).is_ok() {
                    self.front().created(*file);
                }
            }),
        }
        applied
    }

    /// Waits while too much is under way, and refuses what a full medium may not take.
    fn admit(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let bytes_max = self.policy.batch_bytes.saturating_mul(BATCHES_MAX);
        let mut front = self.running()?;
        while front.running.bytes >= bytes_max && !front.committing.is_empty() {
            front = self.moved.wait(front).unwrap_or_else(PoisonError::into_inner);
            if let Some(why) = self.ended() {
                return Err(why.clone());
            }
        }
        check_unchanged(&front, transaction)?;
        drop(front);
        if !transaction.releases && !self.reserve.refill() && !self.keys_have_room() {
            return Err(StoreError::Full { place: self.medium.place() });
        }
        Ok(())
    }

    /// Returns whether the file of the keys has room for a batch itself. Half of it may be in pages
    /// that are not empty.
    fn keys_have_room(&self) -> bool {
        self.keys.slack() / 2 > self.policy.reserve
    }

    /// Returns whether keys are read, and transactions that write no data are applied, without waiting for
    /// the medium, as far as can be known. Who must not wait asks before it begins.
    pub fn is_quick(&self) -> bool {
        // What is applied meanwhile by those who have asked is little.
        let is_behind = self.front().running.bytes >= self.policy.batch_bytes.saturating_mul(2);
        !is_behind && self.keys.is_quick()
    }

    /// Returns whether a few pages of an object are read without waiting for the medium or for a change of data, as far
    /// as can be known.
    pub fn is_quick_to_read(&self) -> bool {
        !self.is_changing_data() && self.is_quick() && self.pace.is_quick()
    }

    /// Returns whether data of objects are being changed. Who does that may hold locks of its own meanwhile.
    pub fn is_changing_data(&self) -> bool {
        self.changing_data.load(Ordering::Relaxed) > 0
    }

    fn change_objects(
        &self,
        data: &[(ObjectId, DataChange<'_>)],
        works: &mut BTreeMap<ObjectId, Work>,
    ) -> Result<(), StoreError> {
        for (id, change) in data {
            let work = works.get_mut(id).expect("every object of the transaction is locked");
            work.change(self, change).map_err(|error| self.failed("write an object", &error))?;
        }
        Ok(())
    }

    fn merge(
        &self,
        transaction: Transaction<'_>,
        works: &BTreeMap<ObjectId, Work>,
    ) -> Result<u64, StoreError> {
        let mut front = self.running()?;
        check_unchanged(&front, &transaction)?;
        let number = front.next;
        front.next += 1;
        let was_due = self.is_full(&front);
        let was_empty = front.running.is_empty();
        for (key, change) in transaction.changes {
            let value: Option<Value> = match change {
                Change::Put(value) => Some(value),
                Change::PutNumbered(value) => Some(value(number).into()),
                Change::Delete => None,
            };
            front.versions.changed(&key, number);
            front.running.change(key, value);
        }
        for (space, key, value) in
            transaction.appended.into_iter().flat_map(|entries| entries(number))
        {
            let key = space.key(&key);
            front.versions.changed(&key, number);
            front.running.change(key, Some(value.into()));
        }
        for (id, work) in works {
            self.merge_object(&mut front, *id, work);
        }
        front.running.last = number;
        if was_empty || (!was_due && self.is_full(&front)) {
            self.work.notify_all();
        }
        Ok(number)
    }

    fn merge_object(&self, front: &mut MutexGuard<'_, Front>, id: ObjectId, work: &Work) {
        work.created.iter().for_each(|file| front.created(*file));
        let batch = &mut front.running;
        if work.row_changed {
            batch.change(Row::key(id), work.state.row.map(Row::encode));
        }
        if let (true, Some(row), Some(file)) = (work.written, work.state.row, &work.state.file) {
            batch.unsynced.insert(row.file, file.clone());
        }
        if work.shrunk {
            batch.shrunk.push(id);
        }
        // A file that was created and removed by the same transaction is among these too.
        work.removed.iter().for_each(|file| batch.remove_file(*file));
    }

    /// Returns whether the running batch is to be committed at once because of its size.
    pub(crate) fn is_full(&self, front: &Front) -> bool {
        front.running.bytes >= self.policy.batch_bytes
            || front.running.unsynced.len() >= self.policy.batch_objects
    }
}

fn check_unchanged(front: &Front, transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let changed = |group| front.versions.changed_since(group, transaction.began);
    if transaction.read.iter().copied().any(changed) {
        return Err(StoreError::Conflict);
    }
    Ok(())
}
