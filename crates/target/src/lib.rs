//! What every target of a server keeps, in its store beside its own records and of what its clients have done,
//! and what all targets do with the data of objects.
//!
//! `target` has what all recoverable targets write with their transactions, beside their own
//! records.
//!
//! | space | key | value |
//! |---|---|---|
//! | `e0` | `start`, `replayed`, `clients` | starts, last transaction before the start, whether it recovers; last replay; number of the next client |
//! | `e1` | UUID of a client | its number, the connect flags that were granted |
//! | `e2` | number of a client, tag | XID, the reply as a message |
//!
//! **Clients** are written when they connect, with a number that makes the keys of their replies
//! short. **Replies** are whole messages, of a few hundred bytes: each operation could be rebuilt
//! from less, but only by code of its own that runs only after a crash. A reply takes the place of
//! the one before in its slot, so their number is bounded.
//!
//! **Numbers.** The number of a transaction is that of the store. Each start begins at a new
//! multiple of 2³², above all numbers that a crash may have taken away, so that the start itself,
//! or a client that connects, cannot take the number of a replay. A replay keeps its number for
//! clients; the store gives it another one, and the pair is remembered until it is on disk. That it
//! was applied is in its transaction, so a second crash does not apply it twice.
#![forbid(unsafe_code)]

mod call;
pub mod clients;
pub mod data;
pub mod parameters;
mod records;
pub mod replies;
pub mod stats;
pub mod transactions;
pub mod usage;

pub use call::{Answer, Call, Failure, errno_of};
