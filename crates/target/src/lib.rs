//! What every target of a server keeps in its store, beside its own records, and what all targets do with the
//! data of objects.
#![forbid(unsafe_code)]

mod call;
pub mod clients;
pub mod data;
mod records;
pub mod replies;
pub mod transactions;
pub mod usage;

pub use call::{Answer, Call, Failure, errno_of};
