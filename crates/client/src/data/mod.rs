//! The data of files: read and written in the cache of the mount, under locks on their objects.
//!
//! ```text
//!  io, cut, seek, sync   operations: a pass, locks, then the cache ──► wait
//!  state, drive          the cache (`fulmar_data::Cache`), its memory, and what it wants
//!  transfer, read, write its RPCs as requests
//! ```
//!
//! Spec: mdt-ost §17.5, §21.1, §22.5.

mod buffers;
mod cut;
pub(crate) mod drive;
mod file;
mod gate;
pub(crate) mod io;
mod locks;
pub(crate) mod object;
mod read;
mod seek;
pub(crate) mod state;
mod sync;
mod transfer;
mod write;

pub use seek::{Allocate, Seek};
