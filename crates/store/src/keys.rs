//! The ordered keys: what is committed, and how a batch is added to it.

mod memory;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) use memory::MemoryKeys;
pub(crate) use tree::{Opening, TreeKeys};

/// A key with the space that it is in as its first byte.
pub(crate) type Key = Vec<u8>;
/// A value.
pub type Value = Arc<[u8]>;
/// Some keys with their values, in order.
pub(crate) type Entries = Vec<(Key, Value)>;
/// What a batch changes: values to set, and keys to remove.
pub(crate) type Changes = BTreeMap<Key, Option<Value>>;
/// The part of the keys that is looked at.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The committed keys on a medium.
pub(crate) trait Keys: Send + Sync {
    /// Returns the keys as they are now. The view does not change.
    fn view(&self) -> io::Result<Arc<dyn View>>;
    /// Makes the changes, all or none, and returns when they are durable.
    fn commit(&self, changes: &Changes) -> io::Result<()>;
    /// Returns how many bytes of keys and values were removed since there were most of them. About
    /// so much room is in the file, which does not shrink.
    fn slack(&self) -> u64;
    /// Returns whether keys are read without waiting for the medium, as far as the last reads tell.
    fn is_quick(&self) -> bool {
        true
    }
}

/// The keys as they were at one time.
pub(crate) trait View: Send + Sync {
    /// Returns the value of a key.
    fn get(&self, key: &[u8]) -> io::Result<Option<Value>>;
    /// Returns the first `limit` keys of a range.
    fn range(&self, bounds: Bounds<'_>, limit: usize) -> io::Result<Entries>;
}
