//! Keys in a file: a copy-on-write tree of redb, whose pages have checksums.

use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use redb::{
    Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend,
    StorageError, TableDefinition,
};

use super::{Bounds, Changes, Entries, Keys, Value, View};
use crate::medium::File;
use crate::pace::Pace;
use crate::reserve::Reserve;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("keys");

/// Keys in a file.
pub(crate) struct TreeKeys {
    database: Database,
    /// The bytes of keys and values, compared with when it was opened, and the most there were.
    bytes: AtomicI64,
    most_bytes: AtomicI64,
    pace: Arc<Pace>,
}

/// What to do with the file of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Trust it, unless it was not closed.
    Trust,
    /// Read all of it, and compare it with its checksums.
    Check,
}

impl TreeKeys {
    /// Opens the keys in a file, or creates them in an empty one. Returns whether they are as they
    /// were written; if not, they have been repaired.
    pub(crate) fn open(
        file: Arc<dyn File>,
        reserve: Arc<Reserve>,
        cache: usize,
        opening: Opening,
    ) -> io::Result<(Self, bool)> {
        let pace = Arc::new(Pace::default());
        let open = || -> io::Result<_> {
            let backend = Backend { file, reserve, pace: pace.clone() };
            let builder = Builder::new().set_cache_size(cache).create_with_backend(backend);
            let mut database = builder.map_err(of_redb)?;
            let good = opening == Opening::Trust || database.check_integrity().map_err(of_redb)?;
            Ok((database, good))
        };
        // redb panics where a damaged file contradicts itself.
        let opened = catch_unwind(AssertUnwindSafe(open));
        let (database, good) = opened.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the keys contradict themselves"))
        })?;
        let (bytes, most_bytes) = (AtomicI64::new(0), AtomicI64::new(0));
        let keys = Self { database, bytes, most_bytes, pace };
        if keys.view().is_err() {
            keys.commit(&Changes::new())?;
        }
        Ok((keys, good))
    }
}

impl Keys for TreeKeys {
    fn view(&self) -> io::Result<Arc<dyn View>> {
        let transaction = self.database.begin_read().map_err(of_redb)?;
        Ok(Arc::new(TreeView(transaction.open_table(TABLE).map_err(of_redb)?)))
    }

    fn commit(&self, changes: &Changes) -> io::Result<()> {
        let mut transaction = self.database.begin_write().map_err(of_redb)?;
        transaction.set_durability(Durability::Immediate).map_err(of_redb)?;
        // Without this, opening the file after a crash reads all of it.
        transaction.set_quick_repair(true);
        let mut added = 0;
        {
            let mut table = transaction.open_table(TABLE).map_err(of_redb)?;
            for (key, value) in changes {
                let old = match value {
                    Some(value) => table.insert(&key[..], &value[..]).map_err(of_redb)?,
                    None => table.remove(&key[..]).map_err(of_redb)?,
                };
                let len = |value_len: usize| (key.len() + value_len) as i64;
                added += value.as_ref().map_or(0, |value| len(value.len()));
                added -= old.map_or(0, |old| len(old.value().len()));
            }
        }
        transaction.commit().map_err(of_redb)?;
        let bytes = self.bytes.fetch_add(added, Ordering::AcqRel) + added;
        self.most_bytes.fetch_max(bytes, Ordering::AcqRel);
        Ok(())
    }

    fn slack(&self) -> u64 {
        let most_bytes = self.most_bytes.load(Ordering::Acquire);
        u64::try_from(most_bytes - self.bytes.load(Ordering::Acquire)).unwrap_or(0)
    }

    fn is_quick(&self) -> bool {
        self.pace.is_quick()
    }
}

struct TreeView(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl View for TreeView {
    fn get(&self, key: &[u8]) -> io::Result<Option<Value>> {
        Ok(ReadableTable::get(&self.0, key).map_err(of_redb)?.map(|value| value.value().into()))
    }

    fn range(&self, bounds: Bounds<'_>, limit: usize) -> io::Result<Entries> {
        let range = ReadableTable::range::<&[u8]>(&self.0, bounds).map_err(of_redb)?;
        let entry = |entry: Result<_, StorageError>| {
            let (key, value): (redb::AccessGuard<'_, &[u8]>, redb::AccessGuard<'_, &[u8]>) =
                entry.map_err(of_redb)?;
            Ok((key.value().to_vec(), value.value().into()))
        };
        range.take(limit).map(entry).collect()
    }
}

/// The file under a tree. When the medium is full, the tree gets what was reserved.
#[derive(Debug)]
struct Backend {
    file: Arc<dyn File>,
    reserve: Arc<Reserve>,
    pace: Arc<Pace>,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (len, begun) = (out.len(), Instant::now());
        let read = self.file.read(offset, &mut [IoSliceMut::new(out)])?;
        self.pace.note(begun.elapsed());
        if read == len {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the file of the keys ends too early"))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.reserve.spend_if_full(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.reserve.spend_if_full(|| self.file.write(offset, &[IoSlice::new(data)]))
    }
}

/// Damage becomes [`io::ErrorKind::InvalidData`].
fn of_redb(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        redb::Error::Corrupted(what) => io::Error::new(io::ErrorKind::InvalidData, what),
        error => io::Error::other(error.to_string()),
    }
}
