//! Logs: the requests that read them, their blocks and records, and configuration in them.

mod block;
mod body;
pub mod config;
mod header;
mod record;

pub use block::{LogBlock, LogRecord};
pub use body::{LogContext, LogCookie, LogFlags, LogId, LogRequest};
pub use header::LogHeader;
pub use record::{
    CatalogEntry, ChangelogUser, NamedChangelogUser, RecordBody, RecordKind, SetAttr64, Unlink64,
};
