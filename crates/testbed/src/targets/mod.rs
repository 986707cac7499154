//! Targets of a file system for tests beside real ones: a management service, and an OST in memory.

mod ost;
mod serve;
mod state;

pub use ost::{INSTANCE, Ost, Transfer};
pub use serve::{TargetOptions, targets};
pub use state::{TargetState, evict_all, kept};
