//! The records of these modules, as keys of the store.
//!
//! ```text
//! e0 "start"           → mounts, last transaction before the start, whether it recovers
//! e0 "replayed"        → the last transaction that was replayed since the start
//! e0 "clients"         → the number of the next client
//! e1 UUID              → number of the client, what was granted to it
//! e2 number u32 tag u16 → XID, the reply
//! ```

use fulmar_store::{Space, StoreError};
use fulmar_wire::{Field, Order, Reader, Writer};

/// Transactions of a target.
pub(crate) const STATE: Space = Space::new(0xe0);
/// Clients.
pub(crate) const CLIENTS: Space = Space::new(0xe1);
/// The last replies of clients.
pub(crate) const REPLIES: Space = Space::new(0xe2);

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
    T::read(&mut Reader::new(bytes, Order::Big), "record").map_err(|error| damaged(what, error))
}

pub(crate) fn damaged(what: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { place: "the target".into(), what: format!("{what}: {why}") }
}
