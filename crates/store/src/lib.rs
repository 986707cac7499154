//! The storage of Lustre's servers: transactions over ordered keys, and the data of objects.
//!
//! ```text
//! begin ── get, put, write … ── apply ──► running batch ──► committing batch ──► medium
//!                                 │            │                  │                │
//!                              a number        └── seen by all ───┴────────────────┤
//!                                                                             committed()
//! ```
//!
//! A [`Transaction`] is applied whole or not at all, and gets a number. It is seen at once, and durable when
//! [`Store::committed`] has reached its number: many transactions share a commit. What is committed
//! survives every crash; what is not disappears as a whole, except for bytes of objects.
//!
//! ```
//! use std::io::IoSlice;
//! use fulmar_store::{ObjectId, Policy, Space, Store};
//!
//! const ATTRIBUTES: Space = Space::new(0);
//! let store = Store::memory(b"OST0000 of lv", Policy::default());
//!
//! let data = [IoSlice::new(b"hello "), IoSlice::new(b"world")];
//! let mut transaction = store.begin();
//! transaction.write(ObjectId(1, 7), 0, &data);
//! transaction.put(ATTRIBUTES, b"1 7", *b"mode 0644");
//! let number = transaction.apply()?;
//!
//! assert_eq!(store.size(ObjectId(1, 7))?, 11);
//! assert!(store.committed() < number);
//! assert_eq!(store.commit()?, number);
//! # Ok::<(), fulmar_store::StoreError>(())
//! ```
//!
//! **Keys** are bytes in numbered [spaces](Space), in order. **Objects** are sparse arrays of bytes by
//! [`ObjectId`]; one that was never written is empty, and removing it makes it empty. That an object
//! exists, and its size, belong to transactions. Its bytes are written and punched in place: after a
//! crash each sector of a range that was changed since the last commit is old or new, as in any file.
//! The data of objects are durable before the keys of the same transaction.
//!
//! **Commits** are made by a [`Committer`], or by the owner when [`Store::due`] says so. A commit
//! that fails ends the store. A transaction that finds the medium full fails, and changes nothing;
//! removals still work ([`Transaction::release_space`]).
//!
//! The same code runs in a directory ([`Store::create`], [`Store::open`]), over a [`SimulatedDisk`] that
//! crashes by a seed, and with keys in memory ([`Store::memory`]).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod apply;
mod batch;
mod commit;
mod committer;
mod data;
mod error;
mod format;
mod keys;
mod medium;
mod objects;
mod pace;
mod policy;
mod records;
mod reserve;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod verify;
mod versions;

pub use committer::Committer;
pub use data::{Sink, Source};
pub use error::StoreError;
pub use format::{LABEL_MAX, Place};
pub use keys::Value;
pub use medium::{Counts, Faults, Room, Seek, SimulatedDisk};
pub use policy::Policy;
pub use records::{ObjectId, Space};
pub use store::{OnCommit, Store};
pub use transaction::{Entry, Transaction};
pub use verify::Report;
