//! What a store reports when it cannot do what it was asked to do.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// Why a call of a store failed. Each says what failed, where, why, and what to do.
#[derive(Clone, Debug, Error)]
#[allow(missing_docs)]
pub enum StoreError {
    /// There is no store at this place, or its creation was interrupted.
    #[error("{place} is not a store: {why}. Check the path, or create a store there")]
    NotAStore { place: String, why: &'static str },

    /// A store is to be created where something else is.
    #[error("cannot create a store in {place}: {what} is there. Choose an empty directory")]
    Occupied { place: String, what: String },

    /// A store is to be created where everybody could replace it.
    #[error("everybody may write in {place}, and could replace the store. Run chmod o-w on it")]
    OpenToAll { place: String },

    /// Another process has the store open.
    #[error("the store in {place} is in use by {holder}. End that first")]
    Locked { place: String, holder: String },

    /// The store is of a version that this program does not know.
    #[error(
        "the store in {place} has format version {found}, this program knows {known}. Use the \
         version of fulmar that created it"
    )]
    Version { place: String, found: String, known: u32 },

    /// The store belongs to another target.
    #[error("the store in {place} is that of {found}, not of {expected}. Check the path")]
    Label { place: String, found: String, expected: String },

    /// The medium cannot be written.
    #[error("{place} is read-only. Mount its file system writable, or change its permissions")]
    ReadOnly { place: String },

    /// The medium has no room for this transaction. Nothing was changed.
    #[error("{place} is full. Remove objects, or make the file system larger")]
    Full { place: String },

    /// What the transaction has read was changed since. Nothing was changed: begin it again.
    #[error("another transaction changed what this one has read; begin it again")]
    Conflict,

    /// What the store has written earlier cannot be read back.
    #[error("the store in {place} is damaged: {what}. Restore it from a copy")]
    Damaged { place: String, what: String },

    /// A commit failed. It is not known what is on the medium, so the store does nothing more.
    #[error(
        "the store in {place} has ended, since it failed to {what}: {why}. Check the disk, then \
         open the store again"
    )]
    Fenced { place: String, what: String, why: Arc<str> },

    /// The system refused something else.
    #[error("failed to {what} in {place}: {why}")]
    Io { place: String, what: String, why: Arc<str> },
}

impl StoreError {
    /// Describes the error of the system that stopped `what` at `place`.
    pub(crate) fn of_io(place: &str, what: &str, error: &io::Error) -> Self {
        let place = place.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { place },
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::ReadOnly { place }
            }
            io::ErrorKind::InvalidData => Self::Damaged { place, what: error.to_string() },
            _ => Self::Io { place, what: what.to_owned(), why: error.to_string().into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_say_what_to_do() {
        let text = |kind: io::ErrorKind| {
            StoreError::of_io("/srv/ost0", "write an object", &kind.into()).to_string()
        };
        assert!(text(io::ErrorKind::StorageFull).starts_with("/srv/ost0 is full. Remove objects"));
        assert!(
            text(io::ErrorKind::ReadOnlyFilesystem).starts_with("/srv/ost0 is read-only. Mount")
        );
        assert!(text(io::ErrorKind::PermissionDenied).starts_with("/srv/ost0 is read-only."));
        let other = text(io::ErrorKind::Unsupported);
        assert!(other.starts_with("failed to write an object in /srv/ost0: "), "{other}");
    }
}
