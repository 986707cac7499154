//! The records of an OST, as keys of its store.
//!
//! ```text
//! 10 seq u64 id u64   → attributes; nothing while the object is created but unused
//! 11 seq u64          → the last object that was created
//! 12 kind u8 id u32   → bytes and objects of a user, a group or a project
//! 13 "free"           → sequences that no MDT has
//! ```

use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ost::OstLayout;
use fulmar_store::{ObjectId, Space, StoreError};
use fulmar_target::usage::{Charge, UsageRecord};
use fulmar_wire::{Field, Order, Reader, Writer, wire_struct};

/// Attributes by object.
pub(crate) const OBJECTS: Space = Space::new(0x10);
/// The last object by sequence.
pub(crate) const LAST: Space = Space::new(0x11);
/// Sequences for MDTs.
pub(crate) const SEQUENCES: Space = Space::new(0x13);
/// What is used by whom.
pub(crate) const USAGE: Space = Space::new(0x12);

wire_struct! {
    /// What an OST keeps of an object beside its data and its size.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Attributes {
        /// Type and permissions. The bits of [`Attributes::UNUSED`] say what of the owner is not set.
        pub(crate) mode: u32,
        pub(crate) uid: u32,
        pub(crate) gid: u32,
        pub(crate) projid: u32,
        /// Times in seconds.
        pub(crate) mtime: i64,
        pub(crate) atime: i64,
        pub(crate) ctime: i64,
        /// The bytes that its owner pays for.
        pub(crate) charged: u64,
        /// The last transaction that changed it.
        pub(crate) version: u64,
        /// The file that it belongs to.
        pub(crate) parent: Fid,
        pub(crate) stripe_index: u32,
        pub(crate) layout: OstLayout,
        pub(crate) layout_version: u32,
    }
}

impl Attributes {
    /// The mode bits of an object whose user, group and project were not set yet.
    pub(crate) const UNUSED: u32 = 0o7000;
    /// A regular file that everybody may read and write: the MDT checks permissions.
    const MODE: u32 = 0o100_666;

    /// Returns those of an object that was created and not used.
    pub(crate) fn unused() -> Self {
        Self { mode: Self::MODE | Self::UNUSED, ..Self::default() }
    }

    /// Reads a record.
    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        if value.is_empty() { Ok(Self::unused()) } else { decode(value, "attributes") }
    }

    /// Returns what its owner is charged.
    pub(crate) fn charge(&self) -> Charge {
        let Self { uid, gid, projid, charged, .. } = *self;
        Charge { uid, gid, projid, used: UsageRecord { bytes: charged, objects: 1 } }
    }

    /// Returns the blocks of 512 bytes that it occupies.
    pub(crate) fn blocks(&self) -> u64 {
        self.charged.div_ceil(512)
    }
}

/// Returns the key of an object.
pub(crate) fn object_key(object: ObjectId) -> Vec<u8> {
    let mut key = encode(&object.0);
    key.extend(encode(&object.1));
    key
}

/// Returns the object of a key.
pub(crate) fn object_of(key: &[u8]) -> Result<ObjectId, StoreError> {
    let [seq, id] = decode::<[u64; 2]>(key, "the name of an object")?;
    Ok(ObjectId(seq, id))
}

/// Returns a record as it is kept.
pub(crate) fn encode<T: Field>(record: &T) -> Vec<u8> {
    let mut bytes = vec![];
    record.write(&mut Writer::new(&mut bytes, Order::Big));
    bytes
}

/// Reads a record that this program has written. Later versions may append to it.
pub(crate) fn decode<T: Field>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    T::read(&mut Reader::new(bytes, Order::Big), "record").map_err(|error| StoreError::Damaged {
        place: "the OST".into(),
        what: format!("{what}: {error}"),
    })
}
