//! The directories of targets: what `mkfs` makes, and what a node that serves them opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use fulmar_client::Address;
use fulmar_mgs::TargetName;
use fulmar_rpc::import::TargetKind;
use fulmar_store::{Policy, Report, Store, StoreError};
use thiserror::Error;

use crate::placement::Placement;

/// What the directory of a target is for. It does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A management service.
    Mgs,
    /// An MDT or an OST.
    Target(TargetLabel),
}

/// Which target it is, and where its management service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetLabel {
    /// [`TargetKind::Mdt`] or [`TargetKind::Ost`].
    pub kind: TargetKind,
    /// Its index in the file system.
    pub index: u16,
    /// The NIDs of the management service, and the file system.
    pub address: Address,
}

impl TargetLabel {
    /// Returns its name, such as `lv-OST0001`.
    pub fn name(&self) -> TargetName {
        let file_system = self.address.name.clone();
        TargetName { file_system, kind: self.kind, index: self.index }
    }
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
    /// A part of a directory with several targets is missing.
    #[error(
        "{} is missing, but other targets of {} are there. Mount the file system that it is on, or \
         restore it from a copy",
        part.display(), of.display()
    )]
    Missing {
        /// Where it would be.
        part: PathBuf,
        /// The directory of all.
        of: PathBuf,
    },
    /// A directory is that of one target.
    #[error(
        "{} is that of one target, not of a whole file system. Serve it with fulmar node --target",
        directory.display()
    )]
    Single {
        /// Which.
        directory: PathBuf,
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

/// What a directory contains that is for a management service and an MDT.
const PARTS: [&str; 2] = ["mgs", "mdt"];

/// How all stores are kept: with room for removals on a full disk.
fn policy() -> Policy {
    Policy { reserve: 32 << 20, cache: 256 << 20, ..Policy::default() }
}

impl Label {
    /// Returns what the label of the store is: `mgs`, or `ost 1 10.0.0.1@tcp:/lv`.
    fn encode(&self) -> Vec<u8> {
        let text = match self {
            Self::Mgs => "mgs".to_owned(),
            Self::Target(TargetLabel { kind, index, address }) => {
                let kind = if *kind == TargetKind::Mdt { "mdt" } else { "ost" };
                format!("{kind} {index} {address}")
            }
        };
        text.into_bytes()
    }

    fn decode(label: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(label).ok()?;
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["mgs"] => Some(Self::Mgs),
            [kind, index, address] => {
                let kind = match kind {
                    "mdt" => TargetKind::Mdt,
                    "ost" => TargetKind::Ost,
                    _ => return None,
                };
                let (index, address) = (index.parse().ok()?, address.parse().ok()?);
                Some(Self::Target(TargetLabel { kind, index, address }))
            }
            _ => None,
        }
    }
}

impl Label {
    /// Returns the UUID of the target, such as `lv-OST0001_UUID`.
    pub(crate) fn uuid(&self) -> String {
        match self {
            Self::Mgs => self.to_string(),
            Self::Target(_) => format!("{self}_UUID"),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mgs => f.write_str("MGS"),
            Self::Target(label) => label.name().fmt(f),
        }
    }
}

/// Returns the directories of the targets in `directory`: itself, or those that a node has beside each
/// other in it, of a management service, an MDT and perhaps OSTs.
#[must_use]
pub fn parts_of(directory: &Path) -> Vec<PathBuf> {
    let parts = PARTS.map(|part| directory.join(part));
    if !parts.iter().all(|part| part.is_dir()) {
        return vec![directory.to_owned()];
    }
    parts.into_iter().chain(osts_of(directory).map(|index| ost_of(directory, index))).collect()
}

/// Returns the indexes of the OSTs in a directory with several targets, also if some between them are
/// missing.
fn osts_of(directory: &Path) -> impl DoubleEndedIterator<Item = u16> {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let index = |name: String| name.strip_prefix("ost")?.parse().ok();
    let mut osts: Vec<u16> = names.filter_map(index).collect();
    osts.sort_unstable();
    osts.dedup();
    osts.into_iter()
}

/// Makes what is missing in a directory for a whole file system with OSTs up to a number: all in a new
/// one, what an interrupted creation has not made, and OSTs after those that are there.
///
/// # Errors
/// As [`format()`]; if something is missing that was there, or the directory is that of one target.
pub fn complete(directory: &Path, mdt: &TargetLabel, osts: u16) -> Result<(), StorageError> {
    let missing = |part: PathBuf| Err(StorageError::Missing { part, of: directory.to_owned() });
    if directory.join("store").exists() {
        return Err(StorageError::Single { directory: directory.to_owned() });
    }
    let [mgs_part, mdt_part] = PARTS.map(|part| directory.join(part));
    let last = osts_of(directory).next_back();
    match (mgs_part.is_dir(), mdt_part.is_dir()) {
        (true, true) => {}
        (false, false) if last.is_none() => format_both(directory, mdt)?,
        (true, false) if last.is_none() => format(&mdt_part, &Label::Target(mdt.clone()))?,
        (false, _) => return missing(mgs_part),
        (true, false) => return missing(mdt_part),
    }
    for index in 0..osts {
        let ost = ost_of(directory, index);
        match ost.is_dir() {
            true => {}
            false if last.is_some_and(|last| index < last) => return missing(ost),
            false => {
                let label = TargetLabel { kind: TargetKind::Ost, index, ..mdt.clone() };
                format(&ost, &Label::Target(label))?;
            }
        }
    }
    Ok(())
}

/// Returns where an OST of a directory with several targets is.
#[must_use]
pub fn ost_of(directory: &Path, index: u16) -> PathBuf {
    directory.join(format!("ost{index}"))
}

/// Returns the name of the file system of a directory with several targets.
///
/// # Errors
/// As [`verify`].
pub fn file_system_of(directory: &Path) -> Result<String, StorageError> {
    match open(&directory.join(PARTS[1]))? {
        (Label::Target(label), _) => Ok(label.address.name),
        (Label::Mgs, _) => Ok(String::new()),
    }
}

/// Makes the storage of a management service and of an MDT in one directory.
///
/// # Errors
/// As [`format()`].
pub fn format_both(directory: &Path, mdt: &TargetLabel) -> Result<(), StorageError> {
    let [mgs_part, mdt_part] = PARTS.map(|part| directory.join(part));
    format(&mgs_part, &Label::Mgs)?;
    format(&mdt_part, &Label::Target(mdt.clone()))
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
    Store::create(directory, &label.encode(), policy())?;
    Ok(())
}

/// Keeps where clients find the target in a directory, which was made before and has not been served.
///
/// # Errors
/// As [`verify`].
pub fn place(directory: &Path, placement: &Placement) -> Result<(), StorageError> {
    // A management service may be beside an MDT, but is not placed.
    let mdt = directory.join(PARTS[1]);
    let (_, store) = open(if mdt.is_dir() { &mdt } else { directory })?;
    placement.save(&store)?;
    Ok(())
}

/// Opens the storage of a target.
///
/// # Errors
/// If there is none, it is in use, damaged, or of another version.
pub(crate) fn open(directory: &Path) -> Result<(Label, Arc<Store>), StorageError> {
    let store = Store::open(directory, policy())?;
    let label = label_of(directory, &store)?;
    Ok((label, Arc::new(store)))
}

/// Examines the storage of a target that is not in use.
///
/// # Errors
/// If it cannot be opened at all.
pub fn verify(directory: &Path) -> Result<(Label, Report), StorageError> {
    let report = Store::verify(directory, policy())?;
    let (label, _) = open(directory)?;
    Ok((label, report))
}

fn label_of(directory: &Path, store: &Store) -> Result<Label, StorageError> {
    Label::decode(store.label()).ok_or_else(|| StorageError::Label {
        directory: directory.to_owned(),
        found: String::from_utf8_lossy(store.label()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_is_not_made_again() {
        let root = std::env::temp_dir().join(format!("fulmar-complete-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let address: Address = "10.0.0.1@tcp:/lv".parse().unwrap();
        let mdt = TargetLabel { kind: TargetKind::Mdt, index: 0, address };
        let names = || {
            let parts = parts_of(&root).into_iter();
            parts.map(|part| part.file_name().unwrap().to_string_lossy().into_owned())
        };
        let lost = |part: &str| {
            let (from, to) = (root.join(part), root.with_extension("away"));
            std::fs::rename(&from, &to).unwrap();
            let error = complete(&root, &mdt, 2).unwrap_err().to_string();
            assert!(error.contains(&format!("{part} is missing")), "{error}");
            std::fs::rename(&to, &from).unwrap();
        };
        // A creation that was interrupted.
        format(&root.join("mgs"), &Label::Mgs).unwrap();
        complete(&root, &mdt, 1).unwrap();
        complete(&root, &mdt, 2).unwrap();
        assert!(names().eq(["mgs", "mdt", "ost0", "ost1"]));
        ["mgs", "mdt", "ost0"].into_iter().for_each(lost);
        std::fs::rename(root.join("ost0"), root.join("away")).unwrap();
        assert!(names().eq(["mgs", "mdt", "ost1"]), "the others are found");
        let error = complete(&root.join("mgs"), &mdt, 1).unwrap_err().to_string();
        assert!(error.contains("is that of one target"), "{error}");
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn labels_are_read_as_they_were_written() {
        let address: Address = "10.0.0.1@tcp,fd00::1@tcp1:10.0.0.2@tcp:/lv".parse().unwrap();
        let label =
            |kind, index| Label::Target(TargetLabel { kind, index, address: address.clone() });
        let (mdt, ost) = (label(TargetKind::Mdt, 0), label(TargetKind::Ost, 26));
        assert_eq!([mdt.to_string(), ost.to_string()], ["lv-MDT0000", "lv-OST001a"]);
        for label in [Label::Mgs, mdt, ost] {
            assert_eq!(Label::decode(&label.encode()), Some(label));
        }
        for wrong in ["", "mgt 1 10.0.0.1@tcp:/lv", "ost x 10.0.0.1@tcp:/lv", "ost 1 lv"] {
            assert_eq!(Label::decode(wrong.as_bytes()), None);
        }
    }
}
