//! Operations on names.

use fulmar_base::Errno;

use super::super::operation::Operation;
use super::super::outcome::{Kind, Outcome, Stat, Time};
use super::super::words::Mode;
use super::{Node, World};

/// The result of an operation.
pub(super) type OperationResult = Result<Outcome, Errno>;

impl World {
    pub(super) fn apply_to_names(&mut self, operation: &Operation) -> OperationResult {
        match operation {
            Operation::Stat { path } => {
                let number = self.resolve(path, false)?;
                Ok(Outcome::Stat(self.stat(number)))
            }
            Operation::MakeDirectory { path, mode } => self.make_directory(path, *mode),
            Operation::RemoveDirectory { path } => self.remove_directory(path),
            Operation::Unlink { path } => self.unlink(path),
            Operation::Rename { from, to } => self.rename(from, to),
            Operation::Link { from, to } => self.link(from, to),
            Operation::Symlink { path, target } => {
                let (above, name) = self.free(path)?;
                self.add(above, name, Node::Symlink(target.clone()), 0o777);
                Ok(Outcome::Done)
            }
            Operation::ReadLink { path } => {
                let number = self.resolve(path, false)?;
                self.inode(number).atime = None;
                match &self.inodes[&number].node {
                    Node::Symlink(target) => Ok(Outcome::Text(target.clone())),
                    _ => Err(Errno::EINVAL),
                }
            }
            Operation::List { path, .. } => {
                let number = self.resolve(path, true)?;
                self.inode(number).atime = None;
                let names = self.names(number)?.iter();
                let listed = names.map(|(name, number)| (name.clone(), self.inodes[number].kind()));
                Ok(Outcome::Names(listed.collect()))
            }
            Operation::Truncate { path, size } => {
                let number = self.resolve(path, true)?;
                self.cut(number, *size)?;
                Ok(Outcome::Done)
            }
            other => panic!("{other} is not an operation on names"),
        }
    }

    /// Returns the attributes of an inode.
    pub(super) fn stat(&self, number: u64) -> Stat {
        let inode = &self.inodes[&number];
        let (size, blocks) = match &inode.node {
            Node::File(data) => (Some(data.size()), data.blocks()),
            Node::Directory(..) => (None, 0..=u64::MAX),
            Node::Symlink(target) => (Some(target.len() as u64), 0..=u64::MAX),
        };
        let inside = match &inode.node {
            Node::Directory(names, _) => {
                let inodes = names.values().map(|number| &self.inodes[number]);
                1 + inodes.filter(|inode| inode.kind() == Kind::Directory).count() as u32
            }
            _ => 0,
        };
        Stat {
            kind: inode.kind(),
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            // A directory that was removed has none.
            links: if inode.links == 0 { 0 } else { inode.links + inside },
            size,
            blocks,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: Time::Now,
        }
    }

    /// Returns where a name is that must not be there yet.
    fn free<'a>(&self, path: &'a str) -> Result<(u64, &'a str), Errno> {
        let (above, name) = self.parent(path)?;
        if self.names(above)?.contains_key(name) { Err(Errno::EEXIST) } else { Ok((above, name)) }
    }

    fn make_directory(&mut self, path: &str, mode: Mode) -> OperationResult {
        let (above, name) = self.free(path)?;
        self.add(above, name, Node::Directory(Default::default(), above), mode.0);
        Ok(Outcome::Done)
    }

    fn remove_directory(&mut self, path: &str) -> OperationResult {
        let (above, name) = self.parent(path)?;
        let number = *self.names(above)?.get(name).ok_or(Errno::ENOENT)?;
        if !self.names(number)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove(above, name);
        Ok(Outcome::Done)
    }

    fn unlink(&mut self, path: &str) -> OperationResult {
        let (above, name) = self.parent(path)?;
        let number = *self.names(above)?.get(name).ok_or(Errno::ENOENT)?;
        if self.inodes[&number].kind() == Kind::Directory {
            return Err(Errno::EISDIR);
        }
        self.remove(above, name);
        Ok(Outcome::Done)
    }

    fn link(&mut self, from: &str, to: &str) -> OperationResult {
        let number = self.resolve(from, false)?;
        let (above, name) = self.free(to)?;
        if self.inodes[&number].kind() == Kind::Directory {
            return Err(Errno::EPERM);
        }
        self.inode(number).links += 1;
        self.names_mut(above).insert(name.to_owned(), number);
        self.inode(above).touch();
        Ok(Outcome::Done)
    }

    fn rename(&mut self, from: &str, to: &str) -> OperationResult {
        let ((above, old), (target, new)) = (self.parent(from)?, self.parent(to)?);
        let moved = *self.names(above)?.get(old).ok_or(Errno::ENOENT)?;
        let replaced = self.names(target)?.get(new).copied();
        if replaced == Some(moved) {
            return Ok(Outcome::Done);
        }
        if self.is_inside(target, moved) {
            return Err(Errno::EINVAL);
        }
        if replaced.is_some_and(|replaced| self.is_inside(above, replaced)) {
            return Err(Errno::EEXIST);
        }
        let kind = |number: &u64| self.inodes[number].kind() == Kind::Directory;
        match (kind(&moved), replaced.as_ref().map(kind)) {
            (false, Some(true)) => return Err(Errno::EISDIR),
            (true, Some(false)) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        if let Some(replaced) = replaced {
            if kind(&replaced) && !self.names(replaced)?.is_empty() {
                return Err(Errno::EEXIST);
            }
            self.remove(target, new);
        }
        self.names_mut(above).remove(old);
        self.names_mut(target).insert(new.to_owned(), moved);
        if let Node::Directory(_, parent) = &mut self.inode(moved).node {
            *parent = target;
        }
        for directory in [above, target] {
            self.inode(directory).touch();
        }
        Ok(Outcome::Done)
    }

    /// Returns whether a directory is another one, or in it.
    fn is_inside(&self, directory: u64, other: u64) -> bool {
        let mut at = directory;
        loop {
            if at == other {
                return true;
            }
            match &self.inodes[&at].node {
                Node::Directory(_, parent) if *parent != at => at = *parent,
                _ => return false,
            }
        }
    }
}
