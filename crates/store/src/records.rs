//! The store's own records, which are keys like all others, in spaces that users do not have.
//!
//! ```text
//! f0                 → last number u64, next file u64
//! f1 object u64 u64  → file u64, size u64
//! f2 file u64        → nothing: the file is to be removed
//! ```

use std::fmt;
use std::sync::Arc;

use fulmar_wire::{DecodeError, Order, Reader, Writer};

use crate::keys::{Key, Value};

/// A set of keys that belong together, such as the inodes of a target.
///
/// Spaces are neighbours in one ordered map: keys of a space are near each other on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Space(u8);

impl Space {
    /// How many spaces there are.
    pub const COUNT: u8 = NUMBERS;

    /// Returns the space with this number.
    ///
    /// # Panics
    /// If `number` is not below [`Space::COUNT`].
    pub const fn new(number: u8) -> Self {
        assert!(number < Self::COUNT, "the store uses this space itself");
        Self(number)
    }

    pub(crate) fn key(self, key: &[u8]) -> Key {
        [&[self.0], key].concat()
    }

    /// Calls `look` with a key, for which a short one needs no memory of its own.
    pub(crate) fn with_key<R>(self, key: &[u8], look: impl FnOnce(&[u8]) -> R) -> R {
        let mut whole = [0; SHORT_KEY];
        match whole.get_mut(..=key.len()) {
            Some(whole) => {
                whole[0] = self.0;
                whole[1..].copy_from_slice(key);
                look(whole)
            }
            None => look(&self.key(key)),
        }
    }

    /// Returns what is above all keys of the space.
    pub(crate) fn end(self) -> Key {
        vec![self.0 + 1]
    }
}

/// The name of an object: two numbers, such as the sequence and the id in a FID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub u64, pub u64);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {:#x}:{:#x}", self.0, self.1)
    }
}

/// The length of most keys.
const SHORT_KEY: usize = 64;

const NUMBERS: u8 = 0xf0;
const OBJECTS: u8 = 0xf1;
const REMOVED: u8 = 0xf2;

/// Where numbering goes on after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The number of the last committed transaction.
    pub(crate) last: u64,
    /// The number of the next object's file; there are none of it or above.
    pub(crate) next_file: u64,
}

/// What an object is, as opposed to the bytes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The file with its bytes. Another one after each removal: so the bytes of an object that
    /// is removed and written again are safe until the removal is committed.
    pub(crate) file: u64,
    /// Where the object ends. What its file has behind that does not count.
    pub(crate) size: u64,
}

impl Numbers {
    pub(crate) fn key() -> Key {
        vec![NUMBERS]
    }

    pub(crate) fn encode(self) -> Value {
        two(self.last, self.next_file)
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let (last, next_file) = read_two(value)?;
        Ok(Self { last, next_file })
    }
}

impl Row {
    pub(crate) fn key(object: ObjectId) -> Key {
        let mut key = vec![OBJECTS];
        let mut writer = Writer::new(&mut key, Order::Big);
        writer.u64(object.0);
        writer.u64(object.1);
        key
    }

    pub(crate) fn encode(self) -> Value {
        two(self.file, self.size)
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let (file, size) = read_two(value)?;
        Ok(Self { file, size })
    }

    /// Returns where the keys of all objects begin and end.
    pub(crate) fn all() -> (Key, Key) {
        (vec![OBJECTS], vec![REMOVED])
    }

    /// Returns the object of a key.
    pub(crate) fn object(key: &[u8]) -> Result<ObjectId, DecodeError> {
        let (first, second) = read_two(&key[1..])?;
        Ok(ObjectId(first, second))
    }
}

/// A file that no object has any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovedFile(pub(crate) u64);

impl RemovedFile {
    pub(crate) fn key(self) -> Key {
        let mut key = vec![REMOVED];
        Writer::new(&mut key, Order::Big).u64(self.0);
        key
    }

    pub(crate) fn of_key(key: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(Reader::new(&key[1..], Order::Big).u64("file")?))
    }

    /// Returns where the keys of all removed files begin and end.
    pub(crate) fn all() -> (Key, Key) {
        (vec![REMOVED], vec![REMOVED + 1])
    }
}

fn two(first: u64, second: u64) -> Value {
    let mut value = vec![];
    let mut writer = Writer::new(&mut value, Order::Big);
    writer.u64(first);
    writer.u64(second);
    Arc::from(value)
}

fn read_two(value: &[u8]) -> Result<(u64, u64), DecodeError> {
    let mut reader = Reader::new(value, Order::Big);
    let values = (reader.u64("first")?, reader.u64("second")?);
    reader.finish("record")?;
    Ok(values)
}
