//! What is to be changed, as a value.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::ops::Range;

use crate::data::{Data, Source};
use crate::keys::{Key, Value};
use crate::records::{ObjectId, Space};
use crate::versions::Group;
use crate::{Store, StoreError};

/// Changes of keys and objects that are applied together, or not at all.
///
/// A transaction is optimistic: what it reads by [`Transaction::get`] is compared when it is
/// applied. If another transaction has changed that since, it fails with [`StoreError::Conflict`],
/// and its owner begins again. Nothing waits and nothing is locked before. Ranges ([`Store::scan`]) are
/// not compared: an owner that depends on one reads a key that changes with it.
#[must_use = "a transaction changes nothing before it is applied"]
pub struct Transaction<'a> {
    store: &'a Store,
    /// The last transaction that was applied when this one began.
    pub(crate) began: u64,
    pub(crate) read: Vec<Group>,
    pub(crate) changes: BTreeMap<Key, Change>,
    pub(crate) appended: Vec<EntriesOfNumber>,
    pub(crate) data: Vec<(ObjectId, DataChange<'a>)>,
    pub(crate) releases: bool,
}

/// What happens to a key.
pub(crate) enum Change {
    Put(Value),
    PutNumbered(ValueOfNumber),
    Delete,
}

/// Makes a value from the number of its transaction.
pub(crate) type ValueOfNumber = Box<dyn FnOnce(u64) -> Vec<u8> + Send>;
/// Makes keys with their values from the number of their transaction.
pub(crate) type EntriesOfNumber = Box<dyn FnOnce(u64) -> Vec<Entry> + Send>;

/// A key of a space with its value.
pub type Entry = (Space, Vec<u8>, Vec<u8>);

/// What happens to an object.
pub(crate) enum DataChange<'a> {
    Write(u64, Data<'a>),
    Punch(Range<u64>),
    Truncate(u64),
    Allocate(Range<u64>),
    Remove,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(store: &'a Store, began: u64) -> Self {
        let (changes, appended) = (BTreeMap::new(), vec![]);
        Self { store, began, read: vec![], changes, appended, data: vec![], releases: false }
    }

    /// Returns the value of a key, as this transaction would leave it.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    ///
    /// # Panics
    /// If the value was set by [`Transaction::put_numbered`]: it does not exist yet.
    pub fn get(&mut self, space: Space, key: &[u8]) -> Result<Option<Value>, StoreError> {
        space.with_key(key, |key| {
            match self.changes.get(key) {
                Some(Change::Put(value)) => return Ok(Some(value.clone())),
                Some(Change::Delete) => return Ok(None),
                Some(Change::PutNumbered(_)) => panic!("this value has no number yet"),
                None => {}
            }
            self.read.push(Group::of(key));
            self.store.get_key(key)
        })
    }

    /// Sets the value of a key.
    pub fn put(&mut self, space: Space, key: &[u8], value: impl Into<Value>) {
        self.changes.insert(space.key(key), Change::Put(value.into()));
    }

    /// Sets a value that contains the number of the transaction. `value` is called when it is
    /// applied, and must not call the store.
    pub fn put_numbered(
        &mut self,
        space: Space,
        key: &[u8],
        value: impl FnOnce(u64) -> Vec<u8> + Send + 'static,
    ) {
        self.changes.insert(space.key(key), Change::PutNumbered(Box::new(value)));
    }

    /// Sets keys that have their order from that of the transactions, such as those of a log. `entries` is
    /// called when the transaction is applied, and must not call the store. Nothing else of this
    /// transaction may change these keys.
    pub fn append(&mut self, entries: impl FnOnce(u64) -> Vec<Entry> + Send + 'static) {
        self.appended.push(Box::new(entries));
    }

    /// Removes a key, if it exists.
    pub fn delete(&mut self, space: Space, key: &[u8]) {
        self.changes.insert(space.key(key), Change::Delete);
    }

    /// Writes bytes of an object, which becomes longer if they end behind its end.
    pub fn write(&mut self, object: ObjectId, offset: u64, segments: &'a [IoSlice<'a>]) {
        self.data.push((object, DataChange::Write(offset, Data::Segments(segments))));
    }

    /// The same, for memory that writes itself.
    pub fn write_from(&mut self, object: ObjectId, offset: u64, source: &'a dyn Source) {
        self.data.push((object, DataChange::Write(offset, Data::Source(source))));
    }

    /// Replaces bytes of an object by a hole. Its size does not change.
    pub fn punch(&mut self, object: ObjectId, range: Range<u64>) {
        self.data.push((object, DataChange::Punch(range)));
    }

    /// Sets the size of an object: cuts it, or extends it by a hole.
    pub fn truncate(&mut self, object: ObjectId, size: u64) {
        self.data.push((object, DataChange::Truncate(size)));
    }

    /// Gets the room for bytes of an object in advance. Its size does not change.
    pub fn allocate(&mut self, object: ObjectId, range: Range<u64>) {
        self.data.push((object, DataChange::Allocate(range)));
    }

    /// Removes an object, if it exists.
    pub fn remove(&mut self, object: ObjectId) {
        self.data.push((object, DataChange::Remove));
    }

    /// Says that this transaction makes more room than it takes, such as a removal with its
    /// records. It may use what is reserved for that on a full medium.
    pub fn release_space(&mut self) {
        self.releases = true;
    }

    /// Applies the changes. Returns the number of the transaction, which is above all earlier ones;
    /// all readers see the changes from now on, and they are durable when
    /// [`Store::committed`] has reached the number.
    ///
    /// # Errors
    /// Keys and sizes are then unchanged. Bytes of objects that were to be overwritten may be
    /// changed. [`StoreError::Full`] and [`StoreError::Conflict`] concern this transaction only.
    pub fn apply(self) -> Result<u64, StoreError> {
        self.store.apply(self)
    }
}
