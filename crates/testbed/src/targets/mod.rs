//! Targets of a file system for tests beside real ones: a management service and an OST in memory.

mod host;
mod moves;
mod ost;
mod state;

pub use host::{TargetHost, server};
pub use ost::{INSTANCE, Ost, Transfer};
pub use state::{Kept, TargetOptions};
