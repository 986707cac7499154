//! Objects that are in use, and what changes do to their files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Instant;

use crate::data::Sink;
use crate::medium::{File, Name, Seek};
use crate::records::{ObjectId, Row};
use crate::transaction::DataChange;
use crate::{Store, StoreError};

/// The unit in which file systems allocate at least.
const BLOCK: u64 = 4096;
/// A read of so many bytes takes long only if it comes from the medium.
const SHORT: usize = 16 << 10;

/// The objects in use, each once, so that its lock is the lock of the object.
pub(crate) struct Objects {
    table: Mutex<Table>,
    /// How many unused ones are kept.
    max: usize,
}

#[derive(Default)]
struct Table {
    objects: BTreeMap<ObjectId, (Arc<Object>, u64)>,
    /// Counts uses: the second part of an entry is its last one.
    uses: u64,
}

/// An object in use. Readers share it; a transaction has it alone until it is applied.
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    /// `None` until it was read.
    pub(crate) state: RwLock<Option<State>>,
}

/// What an object is now, with its open file. An object that was never written has no row.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) row: Option<Row>,
    pub(crate) file: Option<Arc<dyn File>>,
}

impl Objects {
    pub(crate) fn new(max: usize) -> Self {
        Self { table: Mutex::default(), max }
    }

    pub(crate) fn get(&self, id: ObjectId) -> Arc<Object> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.uses += 1;
        let uses = table.uses;
        if table.objects.len() > self.max && !table.objects.contains_key(&id) {
            table.evict(self.max);
        }
        let new = || (Arc::new(Object { id, state: RwLock::new(None) }), uses);
        let (object, used) = table.objects.entry(id).or_insert_with(new);
        *used = uses;
        object.clone()
    }
}

impl Table {
    /// Drops the older half of the unused objects.
    fn evict(&mut self, max: usize) {
        let idle = self.objects.values().filter(|(object, _)| Arc::strong_count(object) == 1);
        let mut uses: Vec<u64> = idle.map(|(_, used)| *used).collect();
        uses.sort_unstable();
        let Some(last) = uses.get(uses.len().min(max / 2 + 1).saturating_sub(1)) else { return };
        self.objects.retain(|_, (object, used)| Arc::strong_count(object) > 1 || *used > *last);
    }
}

impl Store {
    /// Returns the size of an object in bytes. An object that does not exist is empty.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn size(&self, object: ObjectId) -> Result<u64, StoreError> {
        Ok(self.row(object)?.map_or(0, |row| row.size))
    }

    /// Returns all objects that are not empty: for examinations, since there may be many.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn objects(&self) -> Result<BTreeSet<ObjectId>, StoreError> {
        let mut found = BTreeSet::new();
        self.each_key(Row::all(), |key, _| {
            found.insert(Row::object(key).map_err(|error| self.damaged(&error))?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns how many bytes of the medium an object occupies.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn allocated(&self, object: ObjectId) -> Result<u64, StoreError> {
        self.with_object(object, |state| state.file.as_ref().map_or(Ok(0), |file| file.allocated()))
    }

    /// Reads bytes of an object into segments. Returns how many there were; fewer than the segments
    /// have at the end of the object only.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn read(
        &self,
        object: ObjectId,
        offset: u64,
        segments: &mut [IoSliceMut<'_>],
    ) -> Result<usize, StoreError> {
        self.with_object(object, |state| {
            let (Some(row), Some(file)) = (state.row, &state.file) else { return Ok(0) };
            let mut left = row.size.saturating_sub(offset);
            let mut parts = vec![];
            for segment in segments {
                let len = (segment.len() as u64).min(left);
                left -= len;
                parts.push(IoSliceMut::new(&mut segment[..len as usize]));
            }
            let wanted = parts.iter().map(|part| part.len()).sum();
            let begun = Instant::now();
            let read = file.read(offset, &mut parts)?;
            if wanted <= SHORT {
                self.pace.note(begun.elapsed());
            }
            if read == wanted { Ok(read) } else { Err(too_short()) }
        })
    }

    /// The same, for memory that reads itself.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn read_into(
        &self,
        object: ObjectId,
        offset: u64,
        sink: &mut dyn Sink,
    ) -> Result<u64, StoreError> {
        self.with_object(object, |state| {
            let (Some(row), Some(file)) = (state.row, &state.file) else { return Ok(0) };
            let len = row.size.saturating_sub(offset).min(sink.size());
            let read = match file.descriptor() {
                Some(descriptor) => sink.read_from(descriptor, offset, len)?,
                None => {
                    let mut bytes = vec![0; len as usize];
                    let read = file.read(offset, &mut [IoSliceMut::new(&mut bytes)])?;
                    sink.fill(&bytes[..read]);
                    read as u64
                }
            };
            if read == len { Ok(read) } else { Err(too_short()) }
        })
    }

    /// Returns the first byte of data, or of a hole, from `offset` on; `None` if there is none
    /// before the end. The end itself counts as a hole.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn seek(
        &self,
        object: ObjectId,
        offset: u64,
        what: Seek,
    ) -> Result<Option<u64>, StoreError> {
        self.with_object(object, |state| {
            let (Some(row), Some(file)) = (state.row, &state.file) else { return Ok(None) };
            if offset >= row.size {
                return Ok(None);
            }
            let found = file.seek(offset, what)?;
            Ok(match what {
                Seek::Data => found.filter(|found| *found < row.size),
                Seek::Hole => Some(found.map_or(row.size, |found| found.min(row.size))),
            })
        })
    }

    pub(crate) fn row(&self, object: ObjectId) -> Result<Option<Row>, StoreError> {
        let value = self.get_key(&Row::key(object))?;
        value.map(|value| Row::decode(&value)).transpose().map_err(|error| self.damaged(&error))
    }

    fn with_object<T>(
        &self,
        id: ObjectId,
        read: impl FnOnce(&State) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.check_running()?;
        let object = self.objects.get(id);
        loop {
            let guard = object.state.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(state) = &*guard {
                return read(state).map_err(|error| self.failed("read an object", &error));
            }
            drop(guard);
            drop(self.lock_object(&object)?);
        }
    }

    /// Locks an object. Its state is present.
    pub(crate) fn lock_object<'o>(
        &self,
        object: &'o Object,
    ) -> Result<RwLockWriteGuard<'o, Option<State>>, StoreError> {
        let mut guard = object.state.write().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(self.load(object.id)?);
        }
        Ok(guard)
    }

    fn load(&self, object: ObjectId) -> Result<State, StoreError> {
        let Some(row) = self.row(object)? else { return Ok(State::default()) };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => self.damaged(&format!("file {} is missing", row.file)),
            _ => self.failed("open an object", &error),
        };
        let file = self.medium.open(Name::Object(row.file)).map_err(failed)?;
        let state = State { row: Some(row), file: Some(file) };
        self.trim(object, &state)?;
        Ok(state)
    }

    /// Frees what is behind the end of an object, unless it would be part of the object after a crash.
    pub(crate) fn trim(&self, object: ObjectId, state: &State) -> Result<(), StoreError> {
        let (Some(row), Some(file)) = (state.row, &state.file) else { return Ok(()) };
        let rows = self.rows_anywhere(object)?;
        let sizes = rows.iter().filter(|other| other.file == row.file).map(|other| other.size);
        let end = sizes.max().unwrap_or(0).max(row.size);
        let trim = || if file.len()? > end { file.set_len(end) } else { Ok(()) };
        trim().map_err(|error| self.failed("cut an object", &error))
    }
}

/// An object in the hands of a transaction.
pub(crate) struct Work {
    pub(crate) state: State,
    /// Whether the row differs from that of the object.
    pub(crate) row_changed: bool,
    /// Whether the bytes in the file changed.
    pub(crate) written: bool,
    pub(crate) shrunk: bool,
    /// The files that it does not need any more.
    pub(crate) removed: Vec<u64>,
    /// The files that it has created.
    pub(crate) created: Vec<u64>,
}

impl Work {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            row_changed: false,
            written: false,
            shrunk: false,
            removed: vec![],
            created: vec![],
        }
    }

    /// Makes a change, except that of the row, which is that of the transaction.
    pub(crate) fn change(&mut self, store: &Store, change: &DataChange<'_>) -> io::Result<()> {
        match change {
            DataChange::Write(offset, data) => {
                let len = data.size();
                if len == 0 {
                    return Ok(());
                }
                let end = end_of(*offset, len)?;
                let file = self.file(store)?;
                self.clear_gap(&*file, *offset)?;
                self.written = true;
                data.write_to(&*file, *offset)?;
                self.grow(end);
            }
            DataChange::Punch(range) => {
                let end = range.end.min(self.size());
                if let Some(file) = self.state.file.as_ref().filter(|_| range.start < end) {
                    self.written = true;
                    file.punch(range.start, end - range.start)?;
                }
            }
            DataChange::Truncate(0) | DataChange::Remove => {
                if let Some(row) = self.state.row.take() {
                    self.state.file = None;
                    self.removed.push(row.file);
                    self.row_changed = true;
                }
            }
            DataChange::Truncate(size) => self.truncate(store, *size)?,
            DataChange::Allocate(range) => self.allocate(store, range)?,
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.state.row.map_or(0, |row| row.size)
    }

    fn grow(&mut self, end: u64) {
        if let Some(row) = self.state.row.as_mut().filter(|row| row.size < end) {
            row.size = end;
            self.row_changed = true;
        }
    }

    fn truncate(&mut self, store: &Store, size: u64) -> io::Result<()> {
        end_of(size, 0)?;
        if size < self.size() {
            self.state.row = self.state.row.map(|row| Row { size, ..row });
            self.row_changed = true;
            self.shrunk = true;
            return Ok(());
        }
        let file = self.file(store)?;
        self.clear_gap(&*file, size)?;
        if file.len()? < size {
            file.set_len(size)?;
        }
        self.written = true;
        self.grow(size);
        Ok(())
    }

    fn allocate(&mut self, store: &Store, range: &Range<u64>) -> io::Result<()> {
        let Some(len) = range.end.checked_sub(range.start).filter(|len| *len > 0) else {
            return Ok(());
        };
        end_of(range.start, len)?;
        self.written = true;
        self.file(store)?.allocate(range.start, len)
    }

    /// Returns the file, which is created for the first byte.
    fn file(&mut self, store: &Store) -> io::Result<Arc<dyn File>> {
        if let Some(file) = &self.state.file {
            return Ok(file.clone());
        }
        let number = store.take_file_number();
        let file = store.medium.create(Name::Object(number))?;
        self.created.push(number);
        self.state = State { row: Some(Row { file: number, size: 0 }), file: Some(file.clone()) };
        self.row_changed = true;
        Ok(file)
    }

    /// Makes zeros from the end of the object to `offset`: what the file has there was cut off
    /// earlier, or was written by a transaction that did not survive a crash. A block that is in part behind `offset` is
    /// cleared whole: as zeros it would be data.
    fn clear_gap(&self, file: &dyn File, offset: u64) -> io::Result<()> {
        let size = self.size();
        if offset > size {
            let end = file.len()?.min(offset).next_multiple_of(BLOCK);
            if end > size {
                file.punch(size, end - size)?;
            }
        }
        Ok(())
    }
}

fn too_short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file of an object is too short")
}

/// Returns where a range ends, which must be a size that files can have.
fn end_of(offset: u64, len: u64) -> io::Result<u64> {
    let end = offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}
