//! New files. Spec: mdt-ost §7.6, §14.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::acl::Acl;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::seq::Seq;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

use super::{check_name, touch};
use crate::access::{AccessMode, Caller, check};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::{Attributes, Extra, Inode};
use crate::names::Entry;
use crate::records::Failure;
use crate::{acl, mode};

/// A file that is to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'a> {
    /// Chosen by the client.
    pub(crate) fid: Fid,
    /// Type and permissions.
    pub(crate) mode: u32,
    /// The permissions that it does not get.
    pub(crate) umask: u32,
    /// The device of a special file.
    pub(crate) rdev: u32,
    /// The target of a symbolic link.
    pub(crate) symlink: &'a [u8],
    /// The time in seconds.
    pub(crate) time: i64,
}

impl Change<'_> {
    /// Creates a file in a directory.
    pub(crate) fn create(
        &mut self,
        parent_fid: Fid,
        name: &[u8],
        new: &New<'_>,
        caller: &Caller,
    ) -> Result<Inode, Failure> {
        check_name(name)?;
        let mut parent = self.directory_for(parent_fid, name, caller)?;
        let mut inode = self.make(&parent, new, caller)?;
        inode.add_link(parent_fid, name, new.time);
        touch(&mut parent, new.time);
        if inode.is_directory() {
            parent.attributes.nlink += 1;
        }
        self.set(parent_fid, parent)?;
        self.set_entry(parent_fid, name, Entry::new(new.fid, inode.attributes.mode));
        self.set(new.fid, inode.clone())?;
        let kind = match inode.kind() {
            mode::DIRECTORY => ChangeKind::MKDIR,
            mode::REGULAR => ChangeKind::CREAT,
            mode::SYMLINK => ChangeKind::SLINK,
            _ => ChangeKind::MKNOD,
        };
        self.note(Note::new(kind, new.fid).at(parent_fid, name));
        Ok(inode)
    }

    /// Creates a file that has no name, as if it was in a directory and was removed.
    pub(crate) fn create_nameless(
        &mut self,
        parent: Fid,
        new: &New<'_>,
        caller: &Caller,
    ) -> Result<Inode, Failure> {
        let parent = self.searched(parent, caller)?;
        check(&parent, caller, AccessMode::CHANGE_ENTRIES)?;
        let mut inode = self.make(&parent, new, caller)?;
        inode.attributes.nlink = 0;
        self.keep_orphan(new.fid);
        self.set(new.fid, inode.clone())?;
        Ok(inode)
    }

    /// Returns the inode of a new file.
    fn make(&mut self, parent: &Inode, new: &New<'_>, caller: &Caller) -> Result<Inode, Failure> {
        let is_free = new.fid.seq >= Seq::NORMAL.0 && new.fid.oid != 0 && new.fid.version == 0;
        if !is_free || new.fid.seq == Seq::LOV_DEFAULT.0 {
            return Err(Errno::EINVAL.into());
        }
        if self.inode(new.fid)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        self.limit(caller);
        let kind = new.mode & mode::FORMAT;
        let is_directory = kind == mode::DIRECTORY;
        let of_parent = &parent.attributes;
        let mut attributes = Attributes {
            mode: kind | new.mode & mode::PERMISSIONS,
            uid: caller.uid,
            gid: caller.gid,
            nlink: 1,
            atime: new.time,
            mtime: new.time,
            ctime: new.time,
            btime: new.time,
            ..Attributes::default()
        };
        if of_parent.mode & mode::SGID != 0 {
            attributes.gid = of_parent.gid;
            attributes.mode |= if is_directory { mode::SGID } else { 0 };
        }
        if parent.inherits_project() {
            attributes.projid = of_parent.projid;
            attributes.flags = if is_directory { Inode::PROJECT_INHERIT } else { 0 };
        }
        match kind {
            mode::DIRECTORY => {
                attributes.nlink = 2;
                attributes.size = Inode::DIRECTORY_SIZE;
                attributes.blocks = Inode::DIRECTORY_SIZE / 512;
            }
            mode::SYMLINK => attributes.size = new.symlink.len() as u64,
            mode::CHARACTER | mode::BLOCK => attributes.rdev = new.rdev,
            mode::REGULAR | mode::FIFO | mode::SOCKET => {}
            _ => return Err(Errno::EINVAL.into()),
        }
        let mut inode = Inode::new(attributes);
        inherit(&mut inode, parent, new.umask);
        inode.set_extra(Extra::Symlink, new.symlink.to_vec());
        Ok(inode)
    }
}

/// Gives a new file what it has of its directory.
fn inherit(inode: &mut Inode, parent: &Inode, umask: u32) {
    let default = parent.extra(Extra::DefaultAcl);
    let is_symlink = inode.kind() == mode::SYMLINK;
    match Acl::decode(default, Order::Little) {
        Ok(acl) if !is_symlink => {
            let (acl, limited) = acl::inherit(&acl, inode.attributes.mode);
            inode.attributes.mode = limited;
            inode.set_extra(Extra::Acl, acl);
        }
        _ if is_symlink => {}
        _ => inode.attributes.mode &= !(umask & 0o777),
    }
    if inode.is_directory() {
        inode.set_extra(Extra::DefaultAcl, default.to_vec());
        // That of the root, which alone has no parent, is the default of the file system, also when it
        // changes later.
        if parent.parent().is_some() {
            inode.set_extra(Extra::Layout, parent.extra(Extra::Layout).to_vec());
        }
    }
}
