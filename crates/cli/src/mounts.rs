//! What is mounted by Fulmar on this machine, and attributes of files there.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fulmar_base::Errno;
use rustix::fs as calls;

/// The type of a mount of ours.
const TYPE: &str = "fuse.fulmar";
/// The longest value of an attribute.
const VALUE_MAX: usize = 64 << 10;

/// Returns where Fulmar has mounted something.
pub(crate) fn mounts() -> Vec<PathBuf> {
    in_table(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default())
}

/// Returns the same by a table of mounts.
fn in_table(table: &str) -> Vec<PathBuf> {
    let line = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        (kind == TYPE).then(|| PathBuf::from(plain(place)))
    };
    table.lines().filter_map(line).collect()
}

/// Returns the text that a field of the table stands for: blanks in it are octal numbers.
fn plain(field: &str) -> OsString {
    let (mut bytes, mut rest) = (Vec::new(), field.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let byte = byte.filter(|_| *first == b'\\');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

/// Returns an attribute of a file.
pub(crate) fn attribute(path: &Path, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; VALUE_MAX];
    let len = calls::getxattr(path, name, &mut value[..]).map_err(errno)?;
    value.truncate(len);
    Ok(value)
}

/// Sets an attribute of a file, or removes it.
pub(crate) fn set_attribute(path: &Path, name: &[u8], value: Option<&[u8]>) -> Result<(), Errno> {
    let done = match value {
        Some(value) => calls::setxattr(path, name, value, calls::XattrFlags::empty()),
        None => calls::removexattr(path, name),
    };
    done.map_err(errno)
}

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_in_the_table() {
        let table = "proc /proc proc rw 0 0\n\
            10.0.0.1@tcp:/lv /mnt/lv fuse.fulmar rw,relatime 0 0\n\
            10.0.0.1@tcp:/lv /mnt/with\\040blank fuse.fulmar ro 0 0\n\
            10.0.0.1@tcp:/lv /mnt/kernel lustre rw 0 0\n";
        assert_eq!(in_table(table), [Path::new("/mnt/lv"), Path::new("/mnt/with blank")]);
        assert!(in_table("").is_empty());
    }
}
