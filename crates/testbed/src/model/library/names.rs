//! Names and attributes.

use fulmar_base::Errno;
use fulmar_client::{ACL_ACCESS, ACL_DEFAULT, Change, SetTime, XattrFlags, blocking};

use super::super::operation::Operation;
use super::super::outcome::{Kind, Outcome};
use super::super::words::{Acl, Flags};
use super::{CALLER, Client, OperationResult};

impl Client {
    pub(super) fn on_names(&mut self, operation: &Operation) -> OperationResult {
        let fs = &self.mount;
        match operation {
            Operation::Stat { path } => {
                let fid = self.find(path, false)?;
                blocking::wait(fs.getattr(&CALLER, fid)).map(|found| self.stat(&found))
            }
            Operation::MakeDirectory { path, mode } => {
                let (above, name) = self.parent(path)?;
                blocking::wait(fs.mkdir(&CALLER, above, name, mode.0)).map(|_| Outcome::Done)
            }
            Operation::RemoveDirectory { path } => {
                let (above, name) = self.parent(path)?;
                blocking::wait(fs.rmdir(&CALLER, above, name)).map(|()| Outcome::Done)
            }
            Operation::Unlink { path } => {
                let (above, name) = self.parent(path)?;
                blocking::wait(fs.unlink(&CALLER, above, name)).map(|()| Outcome::Done)
            }
            Operation::Rename { from, to } => {
                let (from, to) = (self.parent(from)?, self.parent(to)?);
                blocking::wait(fs.rename(&CALLER, from, to)).map(|()| Outcome::Done)
            }
            Operation::Link { from, to } => {
                let fid = self.find(from, false)?;
                let (above, name) = self.parent(to)?;
                if self.find(to, false).is_ok() {
                    return Err(Errno::EEXIST);
                }
                blocking::wait(fs.link(&CALLER, fid, above, name)).map(|()| Outcome::Done)
            }
            Operation::Symlink { path, target } => {
                let (above, name) = self.parent(path)?;
                let target = target.as_bytes();
                blocking::wait(fs.symlink(&CALLER, above, name, target)).map(|_| Outcome::Done)
            }
            Operation::ReadLink { path } => self.read_link(path),
            Operation::List { path, skip } => self.list(path, *skip as usize),
            Operation::Truncate { path, size } => {
                let fid = self.find(path, true)?;
                let change = Change { size: Some(*size), ..Change::default() };
                blocking::wait(fs.setattr(&CALLER, fid, change)).map(|_| Outcome::Done)
            }
            other => self.on_attributes(other),
        }
    }

    /// Reads a symbolic link. One that is replaced meanwhile is looked up again.
    fn read_link(&self, path: &str) -> OperationResult {
        let mut fid = self.find(path, false)?;
        loop {
            let read = blocking::wait(self.mount.read_link(&CALLER, fid));
            let found = if read == Err(Errno::ENOENT) { self.find(path, false)? } else { fid };
            if found == fid {
                return read.map(text);
            }
            fid = found;
        }
    }

    /// Reads some names of a directory, and the others from where they end.
    fn list(&self, path: &str, skip: usize) -> OperationResult {
        let (fs, fid) = (&self.mount, self.find(path, true)?);
        let (mut names, mut from) = (Vec::new(), Some(0));
        while let Some(position) = from {
            let (items, next) = blocking::wait(fs.read_directory(&CALLER, fid, position))?;
            let is_first = position == 0;
            from = next;
            let count = if is_first && skip > 0 { skip.min(items.len()) } else { items.len() };
            if count < items.len() {
                from = Some(items[count - 1].next);
            }
            names.extend(items.into_iter().take(count));
        }
        names.retain(|item| !matches!(item.name.as_slice(), b"." | b".."));
        let mut names: Vec<_> = names
            .into_iter()
            .map(|item| {
                let kind = Kind::of_mode(item.file_type).ok_or(Errno::EIO)?;
                Ok((String::from_utf8_lossy(&item.name).into_owned(), kind))
            })
            .collect::<Result<_, Errno>>()?;
        names.sort_unstable();
        Ok(Outcome::Names(names))
    }

    fn on_attributes(&self, operation: &Operation) -> OperationResult {
        let fs = &self.mount;
        let find = |path| self.find(path, true);
        let change = |path, change| {
            blocking::wait(fs.setattr(&CALLER, find(path)?, change)).map(|_| Outcome::Done)
        };
        let set = |path, name: &[u8], value: &[u8], flags| {
            let set = fs.set_xattr(&CALLER, find(path)?, name, (value, flags));
            blocking::wait(set).map(|()| Outcome::Done)
        };
        let get = |path, name: &[u8]| blocking::wait(fs.get_xattr(&CALLER, find(path)?, name));
        let remove = |path, name: &[u8]| {
            blocking::wait(fs.remove_xattr(&CALLER, find(path)?, name)).map(|()| Outcome::Done)
        };
        match operation {
            Operation::Chmod { path, mode } => {
                change(path, Change { mode: Some(mode.0), ..Change::default() })
            }
            Operation::Chown { path, uid, gid } => {
                change(path, Change { uid: Some(*uid), gid: Some(*gid), ..Change::default() })
            }
            Operation::Utimes { path, atime, mtime } => {
                let (atime, mtime) = (Some(SetTime::At(*atime)), Some(SetTime::At(*mtime)));
                change(path, Change { atime, mtime, ..Change::default() })
            }
            Operation::SetXattr { path, name, value, flags } => {
                let flags = match flags {
                    Flags::Any => XattrFlags::NONE,
                    Flags::Create => XattrFlags::CREATE,
                    Flags::Replace => XattrFlags::REPLACE,
                };
                set(path, name.as_bytes(), value.0.as_bytes(), flags)
            }
            Operation::GetXattr { path, name } => get(path, name.as_bytes()).map(text),
            Operation::ListXattrs { path } => {
                let names = blocking::wait(fs.list_xattrs(&CALLER, find(path)?))?;
                let names = names.iter().map(|name| String::from_utf8_lossy(name).into_owned());
                let mut names: Vec<_> = names.filter(|name| name.starts_with("user.")).collect();
                names.sort_unstable();
                Ok(Outcome::Texts(names))
            }
            Operation::RemoveXattr { path, name } => remove(path, name.as_bytes()),
            Operation::SetAcl { path, acl } => {
                set(path, ACL_ACCESS, &acl.to_bytes(), XattrFlags::NONE)
            }
            Operation::SetDefault { path, acl } => {
                set(path, ACL_DEFAULT, &acl.to_bytes(), XattrFlags::NONE)
            }
            Operation::GetAcl { path } => match get(path, ACL_ACCESS) {
                Err(Errno::ENODATA) => {
                    let found = blocking::wait(fs.getattr(&CALLER, find(path)?))?;
                    Ok(Outcome::Acl(Acl::of_mode(found.mode)))
                }
                found => Acl::from_bytes(&found?).map(Outcome::Acl),
            },
            Operation::GetDefault { path } => {
                Acl::from_bytes(&get(path, ACL_DEFAULT)?).map(Outcome::Acl)
            }
            Operation::RemoveDefault { path } => match remove(path, ACL_DEFAULT) {
                Err(Errno::ENODATA) => Ok(Outcome::Done),
                removed => removed,
            },
            other => panic!("{other} is not an operation on names"),
        }
    }
}

fn text(bytes: Vec<u8>) -> Outcome {
    Outcome::Text(String::from_utf8_lossy(&bytes).into_owned())
}
