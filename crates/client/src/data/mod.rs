//! The data of files: read and written in the cache of the mount, under locks on their objects.
//!
//! ```text
//!  io, cut, seek, sync   operations: a pass, locks, then the cache ──► wait
//!  state, drive          the cache (`fulmar_data::Cache`), its memory, and what it wants
//!  transfer, read, write its RPCs as requests
//! ```
//!
//! Spec: mdt-ost §17.5, §21.1, §22.5.
//!
//! A read or a write takes a *pass* of the file, then locks on all objects that it needs, and then
//! begins an operation of the one cache of its mount; both end after it. Passes are shared, except
//! by an operation that cuts a file, punches a hole or appends: a lock of a target does not keep
//! other operations of the same client away. Missing locks are requested at the same time and
//! released, then acquired one after the other in the order of the objects: that costs one round
//! trip, and no two clients wait for each other. A size is known under locks up to its end; a read
//! that goes further asks for it after it has locked.
//!
//! | the cache says | the client does |
//! |---|---|
//! | `Allocate`, `Release` | a `net::Buffer`; RPCs and readers keep its bytes by handles, which the cache never changes |
//! | `Rpc` | an operation of its own sends it: all memory as one list of segments (no copy), or in the message up to 16 KiB; again where mdt-ost §17.7 says so |
//! | `Fill` | copies from the data of the caller |
//! | `Ready` | gives the segments to the caller, which copies them without a lock of the machine |
//! | `Done` of a cancel | drops the rest of what the lock protected, then the lock |
//!
//! A write whose reply is there and whose transaction is not on disk is kept by its import with its
//! memory, until a reply says that it is. When a quarter of the memory is kept, writes are sent as
//! synchronous ones. The error of a write behind is reported once to each open file: by its next
//! write, sync or close. A close writes nothing; the end of a mount writes everything, and waits as
//! long as there is progress. For data on the MDT the object is the file, and its lock is the bit
//! `DOM`.

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
