//! What an MDT keeps of its OSTs, as keys of its store.
//!
//! ```text
//! 30 OST u32           → the sequence of its objects for this MDT, and the last one that a file got
//! 31 OST u32 id u64    → something that the OST has to do: remove an object, or give it another owner
//! ```

use fulmar_lustre_wire::Fid;
use fulmar_store::{Space, StoreError};
use fulmar_wire::{Field, Order, Reader, Writer, wire_enum, wire_struct};

/// The last used objects by OST.
pub(super) const USED: Space = Space::new(0x30);
/// What OSTs have to do.
pub(super) const TASKS: Space = Space::new(0x31);

wire_struct! {
    /// The last object of an OST that a file got.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct LastObject {
        /// The sequence. 0: there is none yet.
        pub(super) seq: u64,
        pub(super) oid: u32,
    }
}

wire_enum! {
    /// What an OST has to do with an object.
    #[derive(Default)]
    pub(super) struct TaskKind(u32) {
        DESTROY = 1,
        SET_OWNER = 2,
    }
}

wire_struct! {
    /// Something that an OST has to do. It does no harm if it is done twice.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct OstTask {
        pub(super) kind: TaskKind,
        pub(super) object: Fid,
        pub(super) uid: u32,
        pub(super) gid: u32,
        pub(super) projid: u32,
    }
}

/// Returns the key of something that an OST has to do.
pub(super) fn task_key(ost: u32, id: u64) -> Vec<u8> {
    let mut key = encode(&ost);
    key.extend(encode(&id));
    key
}

/// The room for a record: keys and most values are shorter.
const RECORD_LEN: usize = 64;

/// Returns a record as it is kept.
pub(super) fn encode<T: Field>(record: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RECORD_LEN);
    record.write(&mut Writer::new(&mut bytes, Order::Big));
    bytes
}

/// Reads a record that this program has written. Later versions may append to it.
pub(super) fn decode<T: Field>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    let read = T::read(&mut Reader::new(bytes, Order::Big), "record");
    read.map_err(|error| StoreError::Damaged {
        place: "the MDT".into(),
        what: format!("{what}: {error}"),
    })
}
