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
//!
//! # Inside
//!
//! `store` is what the targets of a server stand on: transactions over ordered keys, and the data
//! of objects. Both are a few files on a `Medium`, which is a directory or a simulated disk; keys
//! are a tree of redb, or a map in memory. One suite of tests holds for all three.
//!
//! **Transactions** are optimistic values: what one has read is compared when it is applied, by the
//! number of the last change of each group of keys (`versions`). It is merged into the running
//! batch in memory, or leaves nothing. A batch is committed as one transaction of the tree after 50
//! ms, at 8 MiB, or when a caller waits for its number. The store has no clock and no thread: `due`
//! says when, and a `Committer` or the simulator calls `commit`. Values may contain the number of
//! their transaction, since replies and last numbers of clients do.
//!
//! **Objects** have a row in the tree, with the number of their file and their size, and a sparse
//! file. The row belongs to transactions. The bytes are written in place before the transaction is
//! merged, and synced before its batch is committed. So that nothing committed is lost:
//!
//! * a removal, or a cut to nothing, drops the row only; a file that is written afterwards has
//!   another number. The old one is removed after the commit;
//! * a cut changes the size only, and the file is cut after the commit. What is behind the end
//!   never counts: growth over it makes zeros first;
//! * files of transactions that were lost are found by their numbers when the store is opened,
//!   since the next number is committed too.
//!
//! **Failures.** A failed commit ends the store: a second sync could succeed without the data of
//! the first. Opening a store syncs what an earlier process has left in the system's cache before
//! it believes it; after a failed sync, which leaves a mark, everything is read from the disk
//! again. A full medium is an answer to one transaction: a commit that finds no room takes the
//! reserve, a file that only occupies blocks, and from then on only removals are accepted until it
//! is whole again, or until removed keys have left enough room in the file of the tree, which does
//! not shrink.
//!
//! **The simulated disk** keeps apart what is synced and what is not. A crash keeps a part of the
//! latter: none, all, a prefix, or any sector in any of its states since the last sync. The tests
//! crash the real code at any change, again during recovery, fill the disk and fail syncs. Then the
//! store must equal the model at one transaction, none older than acknowledged; a byte may also be
//! one that was written to its place since. Deliberate faults (a disk that ignores syncs of the
//! keys, or of the data) show that the tests find them, and the tests count what they did.
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
