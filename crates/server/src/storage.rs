//! The directories of targets: what `mkfs` makes, and what a node that serves them opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use fulmar_store::{Policy, Report, Store, StoreError};
use thiserror::Error;

/// What the directory of a target is for. It does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A management service.
    Mgs,
}

/// Why a directory cannot be used.
#[derive(Clone, Debug, Error)]
pub enum StorageError {
    /// The store has refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory cannot be made.
    #[error("cannot make the directory {}: {why}", directory.display())]
    Directory {
        /// Which.
        directory: PathBuf,
        /// Why.
        why: Arc<str>,
    },
    /// The store is that of something else.
    #[error(
        "the store in {} is that of {found:?}, which this version of fulmar does not know. Use the \
         version that created it",
        directory.display()
    )]
    Label {
        /// Where.
        directory: PathBuf,
        /// Its label.
        found: String,
    },
}

/// Room in bytes for removals on a full disk: configurations are small.
const RESERVE: u64 = 4 << 20;
/// The memory in bytes for pages of the keys.
const CACHE: usize = 32 << 20;

impl Label {
    fn encode(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }

    fn decode(label: &[u8]) -> Option<Self> {
        match label {
            b"mgs" => Some(Self::Mgs),
            _ => None,
        }
    }

    fn policy(&self) -> Policy {
        match self {
            Self::Mgs => Policy { reserve: RESERVE, cache: CACHE, ..Policy::default() },
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mgs => f.write_str("mgs"),
        }
    }
}

/// Makes the storage of a target in a directory, which is made if it does not exist.
///
/// # Errors
/// If something is there already, or the file system refuses.
pub fn format(directory: &Path, label: &Label) -> Result<(), StorageError> {
    std::fs::create_dir_all(directory).map_err(|error: io::Error| StorageError::Directory {
        directory: directory.to_owned(),
        why: error.to_string().into(),
    })?;
    Store::create(directory, &label.encode(), label.policy())?;
    Ok(())
}

/// Opens the storage of a target.
///
/// # Errors
/// If there is none, it is in use, damaged, or of another version.
pub(crate) fn open(directory: &Path) -> Result<(Label, Arc<Store>), StorageError> {
    // Its label decides how it is used, and all labels are of one policy.
    let store = Store::open(directory, Label::Mgs.policy())?;
    let label = label_of(directory, &store)?;
    Ok((label, Arc::new(store)))
}

/// Examines the storage of a target that is not in use.
///
/// # Errors
/// If it cannot be opened at all.
pub fn verify(directory: &Path) -> Result<(Label, Report), StorageError> {
    let report = Store::verify(directory, Label::Mgs.policy())?;
    let (label, _) = open(directory)?;
    Ok((label, report))
}

fn label_of(directory: &Path, store: &Store) -> Result<Label, StorageError> {
    Label::decode(store.label()).ok_or_else(|| StorageError::Label {
        directory: directory.to_owned(),
        found: String::from_utf8_lossy(store.label()).into_owned(),
    })
}
