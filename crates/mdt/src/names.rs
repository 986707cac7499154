//! Entries of directories, in the order of a hash of their names.
//!
//! The hash is what clients have as the place of a directory's stream, so it is positive as an `off_t`, and
//! stable. Its key is secret: a user cannot make names of one hash, which would fill a page.

use std::hash::Hasher;
use std::ops::Bound;

use fulmar_lustre_wire::Fid;
use fulmar_store::{Store, StoreError};
use fulmar_wire::{Field, Order, Reader, Writer, wire_struct};
use siphasher::sip::SipHasher13;

use crate::mode;
use crate::records::{KeptFid, NAMES, STATE, damaged, decode, encode, fid_key};

/// The longest name in bytes.
pub const NAME_MAX: usize = 255;
/// The place of `.`.
pub(crate) const DOT: u64 = 1;
/// The place of `..`.
pub(crate) const DOT_DOT: u64 = 2;
/// The first place of other names.
const FIRST: u64 = 3;
/// The key of the hash.
const HASH: &[u8] = b"hash";

wire_struct! {
    /// An entry of a directory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct EntryRecord {
        fid: KeptFid,
        kind: u16,
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file.
    pub fid: Fid,
    /// Its type, as in its mode.
    pub kind: u16,
}

impl Entry {
    /// Returns the entry of a file with this mode.
    pub(crate) fn new(fid: Fid, mode: u32) -> Self {
        Self { fid, kind: mode::file_type(mode) }
    }

    /// Returns whether the file is a directory.
    pub fn is_directory(self) -> bool {
        self.kind == mode::file_type(mode::DIRECTORY)
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        encode(&EntryRecord { fid: self.fid.into(), kind: self.kind })
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let EntryRecord { fid, kind } = decode(value, "an entry of a directory")?;
        Ok(Self { fid: fid.into(), kind })
    }
}

/// The hash of names.
#[derive(Clone, Copy)]
pub(crate) struct Names(SipHasher13);

impl Names {
    /// Reads the key of the hash, or chooses it from random bytes.
    pub(crate) fn load(store: &Store, random: [u64; 2]) -> Result<Self, StoreError> {
        let key = match store.get(STATE, HASH)? {
            Some(key) => decode(&key, "the key of the hash of names")?,
            None => {
                let mut transaction = store.begin();
                transaction.put(STATE, HASH, encode(&random));
                transaction.apply()?;
                random
            }
        };
        Ok(Self(SipHasher13::new_with_keys(key[0], key[1])))
    }

    /// Returns the place of a name in its directory.
    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        // The largest place is below that of the end, also as a signed number.
        (self.sum(name) >> 1).clamp(FIRST, i64::MAX as u64 - 1)
    }

    /// Returns a value that cannot be guessed.
    pub(crate) fn sum(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.0;
        hasher.write(bytes);
        hasher.finish()
    }

    /// Returns the key of an entry.
    pub(crate) fn key(&self, directory: Fid, name: &[u8]) -> Vec<u8> {
        key(directory, self.hash(name), name)
    }
}

fn key(directory: Fid, hash: u64, name: &[u8]) -> Vec<u8> {
    let mut key = fid_key(directory);
    Writer::new(&mut key, Order::Big).u64(hash);
    key.extend(name);
    key
}

/// An entry with its place and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Its place.
    pub hash: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// The file.
    pub entry: Entry,
}

/// Returns at most `limit` entries of a directory from a place on, without `.` and `..`.
pub(crate) fn list(
    store: &Store,
    directory: Fid,
    hash: u64,
    limit: usize,
) -> Result<Vec<ListEntry>, StoreError> {
    let from = key(directory, hash, b"");
    let to = key(directory, u64::MAX, b"");
    let found = store.scan(NAMES, Bound::Included(&from), Bound::Excluded(&to), limit)?;
    found.iter().map(|(key, value)| listed(key, value)).collect()
}

fn listed(key: &[u8], value: &[u8]) -> Result<ListEntry, StoreError> {
    let (_, hash, name) = split(key)?;
    Ok(ListEntry { hash, name: name.to_vec(), entry: Entry::decode(value)? })
}

/// Returns the directory, the place and the name of a key.
pub(crate) fn split(key: &[u8]) -> Result<(Fid, u64, &[u8]), StoreError> {
    let r = &mut Reader::new(key, Order::Big);
    let mut read = || Ok((KeptFid::read(r, "directory")?.into(), r.u64("hash")?, r.rest()));
    read().map_err(|error: fulmar_wire::DecodeError| damaged("a name", &error.to_string()))
}
