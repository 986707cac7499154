//! The records of an MDT, as keys of its store.
//!
//! ```text
//! 20 FID                  → inode: attributes, and extended attributes that the MDT itself uses
//! 21 FID hash u64 name    → an entry of a directory: the FID and the type of a file
//! 22 FID name             → an extended attribute of a user
//! 23 FID                  → nothing: a file without a name that somebody has open
//! 24 "hash"               → the key of the hash of names
//! 24 "sequences"          → the first free sequence
//! 25 sequence u64         → the range that begins with it, and the target that has it
//! 26 kind u8 id u32       → what a user, a group or a project uses
//! 24 "changelog"          → who follows the changelog, and which records are needed no longer
//! 27 kind u8 id u32       → how many files it may have
//! 28 number u64           → a record of the changelog
//! ```
//!
//! A FID is its sequence, u64, and its object number, u32.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_store::{Space, StoreError};
use fulmar_wire::{Field, Order, Reader, Writer, wire_struct};

/// Inodes by FID.
pub(crate) const INODES: Space = Space::new(0x20);
/// Entries by directory.
pub(crate) const NAMES: Space = Space::new(0x21);
/// Extended attributes of users by FID.
pub(crate) const XATTRS: Space = Space::new(0x22);
/// Files without a name.
pub(crate) const ORPHANS: Space = Space::new(0x23);
/// What there is one of.
pub(crate) const STATE: Space = Space::new(0x24);
/// Which target has which sequences.
pub(crate) const LOCATIONS: Space = Space::new(0x25);
/// What is used by whom.
pub(crate) const USAGE: Space = Space::new(0x26);
/// How many files somebody may have.
pub(crate) const LIMITS: Space = Space::new(0x27);
/// Records of the changelog.
pub(crate) const CHANGES: Space = Space::new(0x28);

wire_struct! {
    /// A FID as it is kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct KeptFid {
        pub(crate) seq: u64,
        pub(crate) oid: u32,
    }
}

impl From<Fid> for KeptFid {
    fn from(Fid { seq, oid, .. }: Fid) -> Self {
        Self { seq, oid }
    }
}

impl From<KeptFid> for Fid {
    fn from(KeptFid { seq, oid }: KeptFid) -> Self {
        Self { seq, oid, version: 0 }
    }
}

/// Why a request fails.
#[derive(Debug)]
pub enum Failure {
    /// It is refused.
    Refused(Errno),
    /// The store did not do it.
    Store(StoreError),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// Returns what a client is told.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Refused(errno) => *errno,
            Self::Store(StoreError::Full { .. }) => Errno::ENOSPC,
            Self::Store(StoreError::ReadOnly { .. }) => Errno::EROFS,
            Self::Store(StoreError::Conflict) => Errno::EAGAIN,
            Self::Store(_) => Errno::EIO,
        }
    }
}

/// Returns the key of a file.
pub(crate) fn fid_key(fid: Fid) -> Vec<u8> {
    encode(&KeptFid::from(fid))
}

/// The room for a record: keys and most values are shorter.
const RECORD_LEN: usize = 64;

/// Returns a record as it is kept.
pub(crate) fn encode<T: Field>(record: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RECORD_LEN);
    record.write(&mut Writer::new(&mut bytes, Order::Big));
    bytes
}

/// Reads a record that this program has written. Later versions may append to it.
pub(crate) fn decode<T: Field>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    let read = T::read(&mut Reader::new(bytes, Order::Big), "record");
    read.map_err(|error| damaged(what, &error.to_string()))
}

pub(crate) fn damaged(what: &str, why: &str) -> StoreError {
    StoreError::Damaged { place: "the MDT".into(), what: format!("{what}: {why}") }
}
