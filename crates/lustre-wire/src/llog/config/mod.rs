//! Configuration records: the body of a [log record](super::LogRecord) of the kind
//! [`CONFIG`](super::RecordKind::CONFIG).
//!
//! [`ConfigRecord`] is the form of them all: a command, numbers and buffers. [`Config`] is what a
//! record says.

mod command;
mod descriptor;
mod entry;
mod marker;
mod record;

pub use command::ConfigCommand;
pub use descriptor::TargetDescriptor;
pub use entry::{Config, Member, Pool, SetupArguments};
pub use marker::{Marker, MarkerFlags};
pub use record::{ConfigBuffer, ConfigRecord};
