//! The management service of Lustre file systems: which targets and settings each has.
//!
//! Pure: the requests of clients go in, replies come out. Locks on configurations are those of the
//! lock manager.
#![forbid(unsafe_code)]

mod client_log;
mod log;
mod service;
mod table;

pub use client_log::{FileSystem, Target, client_log};
pub use log::{Block, Log};
pub use service::Mgs;
pub use table::{Start, Table};
