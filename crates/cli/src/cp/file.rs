//! The data of one file.

use std::fs;
use std::os::unix::fs::FileExt;

use fulmar_base::Errno;
use fulmar_client::blocking;

use super::errno;
use super::place::{Meta, Place};

/// How much is moved at once.
const PART: usize = 16 << 20;

/// An open file.
pub(super) enum CopyFile {
    Local(fs::File),
    Remote(Box<blocking::File>),
}

impl CopyFile {
    /// Reads a range: as many bytes as the file has there.
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, Errno> {
        match self {
            Self::Remote(file) => file.read(at, len as u64),
            Self::Local(file) => {
                let mut part = vec![0; len];
                let mut filled = 0;
                while filled < len {
                    match file.read_at(&mut part[filled..], at + filled as u64) {
                        Ok(0) => break,
                        Ok(more) => filled += more,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(errno(error)),
                    }
                }
                part.truncate(filled);
                Ok(part)
            }
        }
    }

    fn write(&self, at: u64, part: Vec<u8>) -> Result<(), Errno> {
        match self {
            Self::Remote(file) => file.write(at, part).map(drop),
            Self::Local(file) => file.write_all_at(&part, at).map_err(errno),
        }
    }

    /// Closes a file that was read.
    fn close(self) -> Result<(), Errno> {
        match self {
            Self::Remote(file) => file.close(),
            Self::Local(_) => Ok(()),
        }
    }
}

/// Copies a file. Returns its length.
pub(super) fn copy(from: &Place, meta: &Meta, to: &Place) -> Result<u64, String> {
    let source = from.open()?;
    let target = to.create(meta.mode)?;
    let wrong = |place: &Place, error: Errno| format!("{place}: {error}");
    let mut at = 0;
    loop {
        let part = source.read(at, part_of(meta.size, at)).map_err(|error| wrong(from, error))?;
        if part.is_empty() {
            break;
        }
        let len = part.len() as u64;
        target.write(at, part).map_err(|error| wrong(to, error))?;
        at += len;
    }
    to.finish(target, meta)?;
    source.close().map_err(|error| wrong(from, error))?;
    Ok(at)
}

/// Compares a file with its copy. Returns its length.
pub(super) fn compare(from: &Place, meta: &Meta, to: &Place) -> Result<u64, String> {
    let (source, copy) = (from.open()?, to.open()?);
    let wrong = |place: &Place, error: Errno| format!("{place}: {error}");
    let mut at = 0;
    loop {
        let len = part_of(meta.size, at);
        let wanted = source.read(at, len).map_err(|error| wrong(from, error))?;
        let found = copy.read(at, len).map_err(|error| wrong(to, error))?;
        if wanted != found {
            let same = wanted.iter().zip(&found).take_while(|(one, other)| one == other).count();
            return Err(format!("{to} differs from {from} at byte {}", at + same as u64));
        }
        if wanted.is_empty() {
            break;
        }
        at += wanted.len() as u64;
    }
    source.close().map_err(|error| wrong(from, error))?;
    copy.close().map_err(|error| wrong(to, error))?;
    Ok(at)
}

/// Returns how much to read at `at`: a little more than a small file has, which may grow.
fn part_of(size: u64, at: u64) -> usize {
    let left = usize::try_from(size.saturating_sub(at)).unwrap_or(PART);
    left.clamp(4096, PART)
}
