//! The management service of Lustre file systems: which targets and settings each has.
//!
//! Pure: the requests of clients go in, replies come out. Locks on configurations are those of the
//! lock manager.
#![forbid(unsafe_code)]

mod keep;
mod log;
mod nodemap;
mod parameters;
mod pools;
mod records;
mod register;
mod service;
mod table;
mod target;

pub use keep::{Change, Damaged};
pub use log::{Block, Log};
pub use pools::{PoolChange, Pools};
pub use register::{Changed, Registered, split_nodes};
pub use service::Mgs;
pub use table::{Start, Table};
pub use target::{Target, TargetName, is_file_system_name};
