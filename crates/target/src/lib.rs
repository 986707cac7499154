//! What every target of a server keeps in its store, beside its own records.
#![forbid(unsafe_code)]

pub mod clients;
mod records;
pub mod replies;
pub mod transactions;
pub mod usage;
