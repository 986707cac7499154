//! The changelog: what has changed, for programs that follow a file system. Spec: mdt-ost §14.7, §14.10.
//!
//! A record is a key of the transaction of its change. Its number, and its place in the logs that
//! readers see, are given when the transaction is applied, so that the order of the records is that
//! of the transactions, and a crash takes none away before a later one. Without a registered user
//! nothing is written.
//!
//! ```text
//! numbers  1 .. purged │ purged + 1 ............. last
//!          keys may be │ log 0 │ log 1 │ log 2 ..          each has LOG_LEN records, in chunks of 8 KiB
//!          left        │
//! ```
//!
//! The changelog costs a change one key more, and nothing while there is no user. Operations say
//! what they do (`Change::note`); the record gets its number, and its place in the logs of 64,767
//! records that readers see, when the transaction is applied (`Transaction::append`). So the order
//! of the records is that of the transactions, a crash takes none away before a later one, and a
//! replay writes again what was lost. Headers, blocks and the catalog are made when they are read,
//! and a reply waits until the records in it are on disk: none is seen that a crash could take
//! back. What all users have cleared is hidden at once, and its keys go in transactions of their
//! own, some with each later change. Users that keep too much are forgotten, as by a kernel MDT.

mod kinds;
mod logs;
mod note;
mod parameters;
mod state;
mod users;

pub(crate) use logs::{Block, CATALOG, CATALOG_NAME};
pub(crate) use note::{Note, Who};
pub(crate) use state::Changelog;
pub use users::ChangelogUserId;
