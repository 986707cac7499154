//! What every target of a server keeps, in its store beside its own records and of what its clients have done,
//! and what all targets do with the data of objects.
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
