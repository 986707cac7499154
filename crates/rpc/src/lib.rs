//! Lustre's RPC layer, both ends: imports send requests to a target, services answer those of
//! exports.
//!
//! Pure: events of LNet and times go in; posts to LNet and results come out.
#![forbid(unsafe_code)]

pub mod client;
pub mod import;
pub mod timeouts;
mod xid;

pub use xid::{Xid, XidSource};
