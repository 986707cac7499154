//! Lustre's RPC layer, both ends: imports send requests to a target, services answer those of
//! exports.
//!
//! Pure: events of LNet and times go in; posts to LNet and results come out.
#![forbid(unsafe_code)]

pub mod both;
pub mod bulk;
pub mod client;
pub mod export;
mod handles;
pub mod import;
mod outputs;
pub mod reverse;
pub mod service;
pub mod stats;
pub mod timeouts;
mod xid;

use fulmar_lustre_wire::connect::Release;

pub use handles::HandleSource;
pub use xid::{Xid, XidSource};

/// The release of Lustre whose protocol this is.
pub const RELEASE: Release = Release::new(2, 17, 57, 0);
