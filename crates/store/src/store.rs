//! The store: what is committed, what is on its way there, and reads over both.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::ops::Bound;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use fulmar_base::Time;

use crate::batch::Batch;
use crate::keys::{Bounds, Changes, Entries, Key, Keys, Value, View};
use crate::medium::{Medium, Room};
use crate::objects::Objects;
use crate::pace::Pace;
use crate::records::{Numbers, ObjectId, RemovedFile, Row, Space};
use crate::reserve::Reserve;
use crate::versions::Versions;
use crate::{Policy, StoreError, Transaction};

/// How many keys are read at once by those who read all.
const PAGE: usize = 1024;

/// Receives the number of the last committed transaction after each commit, or why the store ended.
pub type OnCommit = Box<dyn Fn(Result<u64, StoreError>) + Send + Sync>;

/// The storage of one target. It is shared by reference between threads.
///
/// Dropping it loses what is not committed, as a crash does.
pub struct Store {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) keys: Box<dyn Keys>,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) policy: Policy,
    pub(crate) label: Vec<u8>,
    pub(crate) objects: Objects,
    pub(crate) front: Mutex<Front>,
    /// Signals that `committed` has moved, or that the store has ended.
    pub(crate) moved: Condvar,
    /// Signals to the committer that a batch may be due.
    pub(crate) work: Condvar,
    /// Held during a commit: there is one at a time.
    pub(crate) commits: Mutex<()>,
    pub(crate) on_commit: OnceLock<OnCommit>,
    /// Why the store has ended. It is set with `front` held.
    pub(crate) fenced: OnceLock<StoreError>,
    /// How many transactions with data of objects are being applied.
    pub(crate) changing_data: AtomicU32,
    /// How the reads of objects go.
    pub(crate) pace: Pace,
}

/// What changes with each transaction.
pub(crate) struct Front {
    /// The number of the next transaction.
    pub(crate) next: u64,
    /// The number of the next object's file.
    pub(crate) next_file: u64,
    /// Files of transactions that are being applied, and whether a batch has noted that they are to
    /// be removed after a crash.
    pub(crate) creating: BTreeMap<u64, bool>,
    pub(crate) versions: Versions,
    /// Transactions since the last commit began.
    pub(crate) running: Batch,
    /// The commit under way; an empty batch if there is none.
    pub(crate) committing: Arc<Batch>,
    /// The keys without both.
    pub(crate) view: Arc<dyn View>,
    pub(crate) committed: u64,
    /// The highest number that a caller waits for.
    pub(crate) wanted: u64,
    /// When the running batch was first seen by [`Store::due`].
    pub(crate) opened: Option<Time>,
    /// What committed batches have made unnecessary.
    pub(crate) leftovers: Leftovers,
}

/// Files without an object, and objects whose files are longer than they are.
#[derive(Default)]
pub(crate) struct Leftovers {
    pub(crate) removed: Vec<RemovedFile>,
    pub(crate) shrunk: Vec<ObjectId>,
}

impl Front {
    pub(crate) fn new(numbers: Numbers, view: Arc<dyn View>) -> Self {
        Self {
            next: numbers.last + 1,
            next_file: numbers.next_file,
            creating: BTreeMap::new(),
            versions: Versions::new(),
            running: Batch::default(),
            committing: Arc::default(),
            view,
            committed: numbers.last,
            wanted: 0,
            opened: None,
            leftovers: Leftovers::default(),
        }
    }

    /// Ends the creation of a file: it has an object now, or was removed.
    pub(crate) fn created(&mut self, file: u64) {
        if self.creating.remove(&file) == Some(true) {
            self.running.change(RemovedFile(file).key(), None);
        }
    }

    /// Removes the running batch, which becomes the committing one.
    pub(crate) fn rotate(&mut self) -> Arc<Batch> {
        let mut batch = std::mem::take(&mut self.running);
        let numbers = Numbers { last: batch.last, next_file: self.next_file };
        batch.changes.insert(Numbers::key(), Some(numbers.encode()));
        for (file, noted) in &mut self.creating {
            if !std::mem::replace(noted, true) {
                batch.change(RemovedFile(*file).key(), Some(Arc::default()));
            }
        }
        self.opened = None;
        self.committing = Arc::new(batch);
        self.committing.clone()
    }

    /// Returns what a transaction that is not committed did to a key.
    fn pending(&self, key: &[u8]) -> Option<&Option<Value>> {
        self.running.changes.get(key).or_else(|| self.committing.changes.get(key))
    }

    /// Returns the first pending changes of a range, at least `limit` if there are so many, and the
    /// last key up to which they are complete if there are more.
    fn pending_in(&self, bounds: Bounds<'_>, limit: usize) -> (Changes, Option<Vec<u8>>) {
        let mut found = Changes::new();
        let mut end: Option<&Vec<u8>> = None;
        for changes in [&self.committing.changes, &self.running.changes] {
            let mut count = 0;
            for (key, value) in changes.range::<[u8], _>(bounds).take(limit) {
                found.insert(key.clone(), value.clone());
                count += 1;
                if count == limit {
                    end = Some(end.map_or(key, |end| end.min(key)));
                }
            }
        }
        (found, end.cloned())
    }
}

impl Store {
    /// Returns what the store was created with.
    pub fn label(&self) -> &[u8] {
        &self.label
    }

    /// Checks that the store was created with this label.
    ///
    /// # Errors
    /// [`StoreError::Label`] if it was not.
    pub fn check_label(&self, expected: &[u8]) -> Result<(), StoreError> {
        if self.label == expected {
            return Ok(());
        }
        let text = |label| String::from_utf8_lossy(label).escape_debug().to_string();
        let (found, expected) = (text(&self.label), text(expected));
        Err(StoreError::Label { place: self.medium.place(), found, expected })
    }

    /// Returns how large the medium is. What is free is shared with its other users.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn room(&self) -> Result<Room, StoreError> {
        self.medium.room().map_err(|error| self.failed("read the free space", &error))
    }

    /// Returns why the store has ended, if a commit has failed. It does not wait.
    pub fn ended(&self) -> Option<&StoreError> {
        self.fenced.get()
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction<'_> {
        let began = self.front().next - 1;
        Transaction::new(self, began)
    }

    /// Returns the value of a key after all transactions that were applied.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, StoreError> {
        space.with_key(key, |key| self.get_key(key))
    }

    /// Returns the first `limit` keys of a range of a space, in order, with their values.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Value)>, StoreError> {
        let from = match from.map(|key| space.key(key)) {
            Bound::Unbounded => Bound::Included(space.key(&[])),
            from => from,
        };
        let to = match to.map(|key| space.key(key)) {
            Bound::Unbounded => Bound::Excluded(space.end()),
            to => to,
        };
        let mut entries = self.scan_keys(from, to, limit)?;
        for (key, _) in &mut entries {
            key.remove(0);
        }
        Ok(entries)
    }

    /// Returns the number of the last transaction that no crash can take away. All before it are
    /// committed too.
    pub fn committed(&self) -> u64 {
        self.front().committed
    }

    /// Returns the number of the last transaction that was applied.
    pub fn applied(&self) -> u64 {
        self.front().next - 1
    }

    /// Sets the number of the next transaction. Numbers never go back: one that was given already
    /// changes nothing.
    pub fn continue_from(&self, number: u64) {
        let mut front = self.front();
        front.next = front.next.max(number);
    }

    pub(crate) fn get_key(&self, key: &[u8]) -> Result<Option<Value>, StoreError> {
        let front = self.running()?;
        if let Some(value) = front.pending(key) {
            return Ok(value.clone());
        }
        let view = front.view.clone();
        drop(front);
        view.get(key).map_err(|error| self.failed("read a key", &error))
    }

    pub(crate) fn scan_keys(
        &self,
        mut from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        limit: usize,
    ) -> Result<Entries, StoreError> {
        let mut found = vec![];
        while found.len() < limit {
            let wanted = limit - found.len();
            let bounds = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
            if is_empty(&bounds) {
                break;
            }
            let (page, end) = self.scan_page(bounds, wanted)?;
            found.extend(page.into_iter().take(wanted));
            match end {
                Some(end) => from = Bound::Excluded(end),
                None => break,
            }
        }
        Ok(found)
    }

    /// Calls `each` for the keys of a range, in order, and stops at the first error.
    pub(crate) fn each_key(
        &self,
        (from, to): (Key, Key),
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut from = Bound::Included(from);
        loop {
            let page = self.scan_keys(from, Bound::Excluded(to.clone()), PAGE)?;
            page.iter().try_for_each(|(key, value)| each(key, value))?;
            match page.last() {
                Some((last, _)) => from = Bound::Excluded(last.clone()),
                None => return Ok(()),
            }
        }
    }

    /// Returns entries of a range as they were at one time, and up to which key it has looked if
    /// not to the end.
    fn scan_page(
        &self,
        bounds: Bounds<'_>,
        limit: usize,
    ) -> Result<(Entries, Option<Vec<u8>>), StoreError> {
        loop {
            let front = self.running()?;
            let (pending, mut end) = front.pending_in(bounds, limit);
            let (view, committed) = (front.view.clone(), front.committed);
            drop(front);
            let base = view.range(bounds, limit);
            let base = base.map_err(|error| self.failed("read keys", &error))?;
            // A view of keys in memory has seen a commit that ended meanwhile.
            if self.committed() != committed {
                continue;
            }
            if let Some((last, _)) = base.last().filter(|_| base.len() == limit) {
                end = Some(end.map_or_else(|| last.clone(), |end| end.min(last.clone())));
            }
            let base = base.into_iter().map(|(key, value)| (key, Some(value)));
            let mut merged: Changes = base.collect();
            merged.extend(pending);
            let within =
                merged.into_iter().filter(|(key, _)| end.as_ref().is_none_or(|end| key <= end));
            let page = within.filter_map(|(key, value)| Some((key, value?))).collect();
            return Ok((page, end));
        }
    }

    /// Returns the rows that an object has in the batches and on the medium.
    pub(crate) fn rows_anywhere(&self, object: ObjectId) -> Result<Vec<Row>, StoreError> {
        let key = Row::key(object);
        let front = self.running()?;
        let pending = [&front.running, &*front.committing].map(|batch| batch.changes.get(&key));
        let mut values: Vec<Value> = pending.into_iter().flatten().flatten().cloned().collect();
        let view = front.view.clone();
        drop(front);
        values.extend(view.get(&key).map_err(|error| self.failed("read a key", &error))?);
        let rows = values.iter().map(|value| Row::decode(value));
        rows.collect::<Result<_, _>>().map_err(|error| self.damaged(&error))
    }

    pub(crate) fn take_file_number(&self) -> u64 {
        let mut front = self.front();
        let number = front.next_file;
        front.next_file += 1;
        front.creating.insert(number, false);
        number
    }

    pub(crate) fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the front of a store that has not ended.
    pub(crate) fn running(&self) -> Result<MutexGuard<'_, Front>, StoreError> {
        let front = self.front();
        match self.ended() {
            Some(why) => Err(why.clone()),
            None => Ok(front),
        }
    }

    pub(crate) fn check_running(&self) -> Result<(), StoreError> {
        self.running().map(drop)
    }

    pub(crate) fn failed(&self, what: &str, error: &io::Error) -> StoreError {
        StoreError::of_io(&self.medium.place(), what, error)
    }

    pub(crate) fn damaged(&self, what: &dyn Display) -> StoreError {
        StoreError::Damaged { place: self.medium.place(), what: what.to_string() }
    }
}

fn is_empty(bounds: &Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}
