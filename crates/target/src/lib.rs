//! What every target of a server keeps: in its store beside its own records, and what its clients have done.
#![forbid(unsafe_code)]

pub mod clients;
pub mod parameters;
mod records;
pub mod replies;
pub mod stats;
pub mod transactions;
pub mod usage;
