//! Trees of files on this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What is in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeCount {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// The tree that is made: its directories, and the files in each.
const DIRECTORIES: u64 = 20;
const FILES: u64 = 25;

/// Returns a tree, which is made at `otherwise` if it is not a directory.
pub(super) fn found_or_made(tree: &Path, otherwise: &Path) -> Result<PathBuf, String> {
    if tree.is_dir() {
        return Ok(tree.to_owned());
    }
    let make = || -> io::Result<()> {
        for directory in 0..DIRECTORIES {
            let directory = otherwise.join(format!("part-{directory}"));
            fs::create_dir_all(&directory)?;
            for file in 0..FILES {
                let text = format!("line {file}\n").repeat(1 << (file % 12));
                fs::write(directory.join(format!("source-{file}")), text)?;
            }
        }
        Ok(())
    };
    make().map_err(|error| format!("cannot make {}: {error}", otherwise.display()))?;
    Ok(otherwise.to_owned())
}

/// Returns what is in a tree.
pub(super) fn count(tree: &Path) -> Result<TreeCount, String> {
    let mut counted = TreeCount::default();
    visit(tree, &mut |path, len| {
        if path.is_file() {
            counted = TreeCount { files: counted.files + 1, bytes: counted.bytes + len };
        }
        Ok(())
    })?;
    Ok(counted)
}

/// Compares a copy with its original: names and contents.
///
/// # Errors
/// What differs first.
pub(super) fn compare(original: &Path, copy: &Path) -> Result<(), String> {
    let mut entries = 0_u64;
    visit(original, &mut |path, _| {
        entries += 1;
        let below = path.strip_prefix(original).expect("it is in the tree");
        let other = copy.join(below);
        let is_same = if path.is_file() {
            fs::read(path).ok() == fs::read(&other).ok()
        } else {
            other.is_dir()
        };
        if is_same { Ok(()) } else { Err(format!("{} differs", other.display())) }
    })?;
    let mut copied = 0;
    visit(copy, &mut |_, _| {
        copied += 1;
        Ok(())
    })?;
    if copied == entries {
        Ok(())
    } else {
        Err(format!("{} has {copied} entries, not {entries}", copy.display()))
    }
}

/// Calls `each` with the files and directories of a tree and their lengths.
fn visit(
    tree: &Path,
    each: &mut dyn FnMut(&Path, u64) -> Result<(), String>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", tree.display());
    for entry in fs::read_dir(tree).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, metadata) = (entry.path(), entry.metadata().map_err(failed)?);
        each(&path, metadata.len())?;
        if metadata.is_dir() {
            visit(&path, each)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_with_another_byte_or_name_differs() {
        let place = std::env::temp_dir().join(format!("fulmar-tree-{}", std::process::id()));
        let [a, b] = ["a", "b"].map(|name| place.join(name));
        for tree in [&a, &b] {
            assert_eq!(&found_or_made(Path::new("/none"), tree).unwrap(), tree);
        }
        assert_eq!(found_or_made(&a, &b).unwrap(), a);
        assert_eq!(count(&a).unwrap().files, DIRECTORIES * FILES);
        compare(&a, &b).unwrap();
        fs::write(b.join("part-0/new"), "").unwrap();
        assert!(compare(&a, &b).unwrap_err().contains("entries"));
        fs::remove_file(b.join("part-0/new")).unwrap();
        fs::write(b.join("part-3/source-4"), "other").unwrap();
        assert!(compare(&a, &b).unwrap_err().ends_with("part-3/source-4 differs"));
        fs::remove_dir_all(&place).unwrap();
    }
}
