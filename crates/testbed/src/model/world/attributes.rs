//! Permissions, owners, times, extended attributes and access control lists.

use fulmar_base::Errno;

use super::super::operation::Operation;
use super::super::outcome::{Kind, Outcome, Time};
use super::super::words::{Acl, Flags};
use super::names::OperationResult;
use super::{FUTURE, World};

impl World {
    pub(super) fn apply_to_attributes(&mut self, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Chmod { path, mode } => {
                let inode = self.resolve(path, true)?;
                let inode = self.inode(inode);
                inode.acl = inode.acl.as_ref().map(|acl| acl.with_mode(mode.0));
                inode.mode = mode.0;
            }
            Operation::Chown { path, uid, gid } => {
                let number = self.resolve(path, true)?;
                let inode = self.inode(number);
                (inode.uid, inode.gid) = (*uid, *gid);
                inode.drop_privileges();
            }
            Operation::Utimes { path, atime, mtime } => {
                let number = self.resolve(path, true)?;
                // Who has read it before tells that by the close.
                let is_open = self.opens.values().any(|open| open.inode == number);
                let inode = self.inode(number);
                inode.atime = Some(Time::At(*atime)).filter(|_| !is_open);
                inode.mtime = Some(Time::At(*mtime));
                inode.is_future = *mtime > FUTURE;
            }
            Operation::SetAcl { path, acl } => {
                let number = self.resolve(path, true)?;
                let inode = self.inode(number);
                inode.mode = inode.mode & !0o777 | acl.mode();
                inode.acl = acl.is_more_than_a_mode().then(|| acl.clone());
            }
            Operation::GetAcl { path } => {
                let number = self.resolve(path, true)?;
                let inode = self.inode(number);
                let acl = inode.acl.clone().unwrap_or_else(|| Acl::of_mode(inode.mode));
                return Ok(Outcome::Acl(acl));
            }
            Operation::SetDefault { path, acl } => {
                let number = self.resolve(path, true)?;
                let inode = self.inode(number);
                if inode.kind() != Kind::Directory {
                    return Err(Errno::EACCES);
                }
                inode.default = Some(acl.clone());
            }
            Operation::GetDefault { path } => {
                let number = self.resolve(path, true)?;
                let default = self.inode(number).default.clone();
                return default.map(Outcome::Acl).ok_or(Errno::ENODATA);
            }
            Operation::RemoveDefault { path } => {
                let number = self.resolve(path, true)?;
                self.inode(number).default = None;
            }
            other => return self.apply_to_xattrs(other),
        }
        Ok(Outcome::Done)
    }

    fn apply_to_xattrs(&mut self, operation: &Operation) -> OperationResult {
        match operation {
            Operation::SetXattr { path, name, value, flags } => {
                let number = self.resolve(path, true)?;
                let xattrs = &mut self.inode(number).xattrs;
                match (flags, xattrs.contains_key(name)) {
                    (Flags::Create, true) => return Err(Errno::EEXIST),
                    (Flags::Replace, false) => return Err(Errno::ENODATA),
                    _ => {}
                }
                xattrs.insert(name.clone(), value.0.clone());
                Ok(Outcome::Done)
            }
            Operation::GetXattr { path, name } => {
                let number = self.resolve(path, true)?;
                let found = self.inode(number).xattrs.get(name).cloned();
                found.map(Outcome::Text).ok_or(Errno::ENODATA)
            }
            Operation::ListXattrs { path } => {
                let number = self.resolve(path, true)?;
                Ok(Outcome::Texts(self.inode(number).xattrs.keys().cloned().collect()))
            }
            Operation::RemoveXattr { path, name } => {
                let number = self.resolve(path, true)?;
                let removed = self.inode(number).xattrs.remove(name);
                removed.map(|_| Outcome::Done).ok_or(Errno::ENODATA)
            }
            other => panic!("{other} is not an operation on attributes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::parse;

    #[test]
    fn a_file_loses_the_bits_of_its_owner_with_him_and_a_directory_does_not() {
        for (made, before, after) in [
            ("open h0 /f rwcx default", "6777", 0o777),
            ("open h0 /f rwcx default", "6705", 0o2705),
            ("mkdir /f 0755", "6777", 0o6777),
        ] {
            let text = format!("0 {made}\n0 chmod /f {before}\n0 chown /f 3 2\n0 stat /f");
            let mut world = World::default();
            let steps = parse(&text).unwrap();
            let outcomes = steps.iter().map(|step| world.apply(step).example());
            let Some(Outcome::Stat(stat)) = outcomes.last() else { panic!("/f has attributes") };
            assert_eq!((stat.mode, stat.uid), (after, 3), "{made}, {before}");
        }
    }
}
