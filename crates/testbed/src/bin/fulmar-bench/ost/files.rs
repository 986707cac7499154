//! The baseline of the files themselves: one thread that reads or writes the file of the object.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{FILE, Load};
use crate::Failure;

/// Reads or writes the file of an OST below `root` for some time, and returns the rate in 10^9 bytes
/// per second.
pub(crate) fn run(root: &Path, load: Load, duration: Duration) -> Result<f64, Failure> {
    let path = largest(&root.join("ost0/objects")).map_err(Failure::io("list the objects"))?;
    let path = path.ok_or_else(|| Failure("the OST has no object".to_owned()))?;
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.map_err(Failure::io(format!("open {}", path.display())))?;
    let mut bytes = vec![1; load.size as usize];
    let (begun, mut moved) = (Instant::now(), 0);
    while begun.elapsed() < duration {
        moved += pass(&file, load, &mut bytes).map_err(Failure::io("move data"))?;
    }
    Ok(moved as f64 / begun.elapsed().as_secs_f64() / 1e9)
}

/// Reads or writes the file once, and returns its length.
fn pass(file: &File, load: Load, bytes: &mut [u8]) -> std::io::Result<u64> {
    for offset in (0..FILE).step_by(bytes.len()) {
        if load.write {
            file.write_all_at(bytes, offset)?
        } else {
            file.read_exact_at(bytes, offset)?
        }
    }
    Ok(FILE)
}

/// Returns the largest file below a directory.
fn largest(directory: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut found: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let path = if path.is_dir() { largest(&path)? } else { Some(path) };
        let Some(path) = path else { continue };
        let len = path.metadata()?.len();
        if found.as_ref().is_none_or(|(most, _)| len > *most) {
            found = Some((len, path));
        }
    }
    Ok(found.map(|(_, path)| path))
}
