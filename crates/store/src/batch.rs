//! Transactions that are not on the medium yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keys::{Changes, Key, Value};
use crate::medium::File;
use crate::records::{ObjectId, RemovedFile};

/// What an entry takes beside its key and value, roughly.
const ENTRY_LEN: usize = 64;

/// Transactions that will be committed together.
#[derive(Clone, Default)]
pub(crate) struct Batch {
    /// The number of the last transaction, 0 if there is none.
    pub(crate) last: u64,
    /// The memory that the changes take.
    pub(crate) bytes: usize,
    pub(crate) changes: Changes,
    /// Files whose data must be durable before the changes are, by number.
    pub(crate) unsynced: BTreeMap<u64, Arc<dyn File>>,
    /// Files that no object has any more.
    pub(crate) removed: Vec<RemovedFile>,
    /// Objects that became shorter.
    pub(crate) shrunk: Vec<ObjectId>,
}

impl Batch {
    /// Returns whether no transaction is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Sets or removes a key.
    pub(crate) fn change(&mut self, key: Key, value: Option<Value>) {
        self.bytes += ENTRY_LEN + key.len() + value.as_ref().map_or(0, |value| value.len());
        self.changes.insert(key, value);
    }

    /// Notes that a file has no object any more.
    pub(crate) fn remove_file(&mut self, file: u64) {
        self.unsynced.remove(&file);
        self.removed.push(RemovedFile(file));
        self.change(RemovedFile(file).key(), Some(Arc::default()));
    }
}
