//! Names and attributes.

use std::fs::{self, Permissions};
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use fulmar_base::Errno;
use fulmar_client::{ACL_ACCESS, ACL_DEFAULT};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, SeekFrom, Timespec, Timestamps, XattrFlags};

use super::super::operation::Operation;
use super::super::outcome::{Kind, Outcome};
use super::super::words::{Acl, Flags};
use super::{Directory, OperationResult, call_errno, errno};

/// The room for names of a directory that are read at once, and for an attribute.
const ROOM: usize = 8 << 10;

impl Directory {
    pub(super) fn on_names(&self, operation: &Operation) -> OperationResult {
        let at = |path: &str| self.path(path);
        let done = match operation {
            Operation::Stat { path } => {
                let found = fs::symlink_metadata(at(path));
                return found.map(|found| self.stat(&found)).map_err(errno);
            }
            Operation::ReadLink { path } => {
                let target = fs::read_link(at(path)).map_err(errno)?;
                return Ok(Outcome::Text(target.to_string_lossy().into_owned()));
            }
            Operation::List { path, skip } => return list(&at(path), *skip as usize),
            Operation::MakeDirectory { path, mode } => {
                let mode = Mode::from_raw_mode(mode.0);
                rustix::fs::mkdir(at(path), mode).map_err(std::io::Error::from)
            }
            Operation::RemoveDirectory { path } => fs::remove_dir(at(path)),
            Operation::Unlink { path } => fs::remove_file(at(path)),
            Operation::Rename { from, to } => fs::rename(at(from), at(to)),
            Operation::Link { from, to } => fs::hard_link(at(from), at(to)),
            Operation::Symlink { path, target } => std::os::unix::fs::symlink(target, at(path)),
            Operation::Truncate { path, size } => {
                let done = nix::unistd::truncate(&at(path), *size as i64);
                done.map_err(std::io::Error::from)
            }
            Operation::Chmod { path, mode } => {
                fs::set_permissions(at(path), Permissions::from_mode(mode.0))
            }
            Operation::Chown { path, uid, gid } => {
                std::os::unix::fs::chown(at(path), Some(*uid), Some(*gid))
            }
            Operation::Utimes { path, atime, mtime } => {
                let time = |seconds: &i64| Timespec { tv_sec: *seconds, tv_nsec: 0 };
                let times = Timestamps { last_access: time(atime), last_modification: time(mtime) };
                let done = rustix::fs::utimensat(CWD, at(path), &times, AtFlags::empty());
                done.map_err(std::io::Error::from)
            }
            other => return on_xattrs(&at, other),
        };
        done.map(|()| Outcome::Done).map_err(errno)
    }
}

/// Reads some names of a directory, and the others from where they end.
fn list(path: &Path, skip: usize) -> OperationResult {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(call_errno)?;
    let (mut names, mut room) = (Vec::new(), [MaybeUninit::uninit(); ROOM]);
    let mut position = 0;
    for count in [skip, usize::MAX] {
        if count == 0 {
            continue;
        }
        rustix::fs::seek(&directory, SeekFrom::Start(position)).map_err(call_errno)?;
        let mut items = RawDir::new(&directory, &mut room);
        for _ in 0..count {
            let Some(item) = items.next() else { break };
            let item = item.map_err(call_errno)?;
            position = item.next_entry_cookie();
            names.push((item.file_name().to_string_lossy().into_owned(), item.file_type()));
        }
    }
    let kinds = names.into_iter().filter(|(name, _)| name != "." && name != "..");
    let kinds = kinds.map(|(name, kind)| {
        let kind = Kind::of_mode(kind.as_raw_mode()).ok_or(Errno::EIO)?;
        Ok((name, kind))
    });
    let mut names = kinds.collect::<Result<Vec<_>, Errno>>()?;
    names.sort_unstable();
    Ok(Outcome::Names(names))
}

fn on_xattrs(at: &dyn Fn(&str) -> std::path::PathBuf, operation: &Operation) -> OperationResult {
    let set = |path: &str, name: &str, value: &[u8], flags| {
        let done = rustix::fs::setxattr(at(path), name, value, flags);
        done.map(|()| Outcome::Done).map_err(call_errno)
    };
    let get = |path: &str, name: &str| {
        let mut room = vec![0; ROOM];
        let len = rustix::fs::getxattr(at(path), name, &mut room[..]).map_err(call_errno)?;
        room.truncate(len);
        Ok(room)
    };
    let remove = |path: &str, name: &str| {
        let done = rustix::fs::removexattr(at(path), name);
        done.map(|()| Outcome::Done).map_err(call_errno)
    };
    let [access, default] =
        [ACL_ACCESS, ACL_DEFAULT].map(|name| std::str::from_utf8(name).unwrap_or_default());
    match operation {
        Operation::SetXattr { path, name, value, flags } => {
            let flags = match flags {
                Flags::Any => XattrFlags::empty(),
                Flags::Create => XattrFlags::CREATE,
                Flags::Replace => XattrFlags::REPLACE,
            };
            set(path, name, value.0.as_bytes(), flags)
        }
        Operation::GetXattr { path, name } => {
            let value: Vec<u8> = get(path, name)?;
            Ok(Outcome::Text(String::from_utf8_lossy(&value).into_owned()))
        }
        Operation::ListXattrs { path } => {
            let mut room = vec![0; ROOM];
            let len = rustix::fs::listxattr(at(path), &mut room[..]).map_err(call_errno)?;
            let names = room[..len].split(|byte| *byte == 0);
            let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
            let mut names: Vec<_> = names.filter(|name| name.starts_with("user.")).collect();
            names.sort_unstable();
            Ok(Outcome::Texts(names))
        }
        Operation::RemoveXattr { path, name } => remove(path, name),
        Operation::SetAcl { path, acl } => set(path, access, &acl.to_bytes(), XattrFlags::empty()),
        Operation::SetDefault { path, acl } => {
            set(path, default, &acl.to_bytes(), XattrFlags::empty())
        }
        Operation::GetAcl { path } => match get(path, access) {
            Err(Errno::ENODATA) => {
                let found = fs::metadata(at(path)).map_err(errno)?;
                Ok(Outcome::Acl(Acl::of_mode(found.mode())))
            }
            found => Acl::from_bytes(&found?).map(Outcome::Acl),
        },
        Operation::GetDefault { path } => Acl::from_bytes(&get(path, default)?).map(Outcome::Acl),
        Operation::RemoveDefault { path } => match remove(path, default) {
            Err(Errno::ENODATA) => Ok(Outcome::Done),
            removed => removed,
        },
        other => panic!("{other} is not an operation on names"),
    }
}
