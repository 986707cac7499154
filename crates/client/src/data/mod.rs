//! The data of files: read and written through locks on their objects, without a cache.
//!
//! [`Context::read_at`](crate::machine::context::Context::read_at) and
//! [`Context::write_at`](crate::machine::context::Context::write_at) are the whole interface to the rest of the client.
//! Spec: mdt-ost §17.5, §21.1, §22.5.

mod cut;
pub(crate) mod object;
mod read;
mod seek;
mod sync;
mod write;

pub use seek::{Allocate, Seek};
