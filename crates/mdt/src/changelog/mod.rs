//! The changelog: what has changed, for programs that follow a file system. Spec: mdt-ost §14.7, §14.10.
//!
//! A record is a key of the transaction of its change. Its number, and its place in the logs that
//! readers see, are given when the transaction is applied, so that the order of the records is that of the
//! transactions, and a crash takes none away before a later one. While nobody is registered nothing is written.
//!
//! ```text
//! numbers  1 .. purged │ purged + 1 ............. last
//!          keys may be │ log 0 │ log 1 │ log 2 ..          each has LOG_LEN records, in chunks of 8 KiB
//!          left        │
//! ```

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
