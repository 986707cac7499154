//! Names that go, and files with their last name. Spec: mdt-ost §7.6, §14.3.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::changelog::ChangeKind;

use super::{check_name, check_ordinary, touch};
use crate::access::{Caller, check_removal};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::Inode;
use crate::names;
use crate::records::Failure;

/// A file of which a name was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) fid: Fid,
    /// The file without the name.
    pub(crate) inode: Inode,
}

impl Removal {
    /// Returns what the changelog says of the file.
    pub(super) fn flags(&self) -> u16 {
        match self.inode.attributes.nlink {
            0 if self.inode.has_copy() => Note::LAST | Note::LAST_IN_ARCHIVE,
            0 => Note::LAST,
            _ => 0,
        }
    }
}

impl Change<'_> {
    /// Removes a name from a directory. `is_directory`: what the client expects of it.
    pub(crate) fn unlink(
        &mut self,
        parent_fid: Fid,
        name: &[u8],
        is_directory: bool,
        caller: &Caller,
        time: i64,
    ) -> Result<Removal, Failure> {
        check_name(name)?;
        check_ordinary(parent_fid)?;
        let mut parent = self.existing(parent_fid)?;
        if !parent.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        let fid = self.entry(parent_fid, name)?.ok_or(Errno::ENOENT)?.fid;
        check_ordinary(fid)?;
        let inode = self.existing(fid)?;
        check_removal(&parent, &inode, caller)?;
        match (is_directory, inode.is_directory()) {
            (true, false) => return Err(Errno::ENOTDIR.into()),
            (false, true) => return Err(Errno::EISDIR.into()),
            _ => {}
        }
        self.check_empty(fid, &inode)?;
        touch(&mut parent, time);
        if inode.is_directory() {
            parent.attributes.nlink -= 1;
        }
        self.set(parent_fid, parent)?;
        self.remove_entry(parent_fid, name);
        let inode = self.drop_link(fid, inode, parent_fid, name, time)?;
        let removed = Removal { fid, inode };
        let kind = if is_directory { ChangeKind::RMDIR } else { ChangeKind::UNLINK };
        let note = Note::new(kind, fid).with_flags(removed.flags());
        self.note(note.at(parent_fid, name));
        Ok(removed)
    }

    /// Checks that a directory, if it is one, has no entries.
    pub(super) fn check_empty(&mut self, fid: Fid, inode: &Inode) -> Result<(), Failure> {
        if !inode.is_directory() {
            return Ok(());
        }
        // Whoever makes an entry changes the inode of the directory, which this change has read.
        if names::list(&self.mdt.store, fid, 0, 1)?.is_empty() {
            Ok(())
        } else {
            Err(Errno::ENOTEMPTY.into())
        }
    }

    /// Removes a name of a file, and removes the file with its last one unless somebody may have it open.
    pub(super) fn drop_link(
        &mut self,
        fid: Fid,
        mut inode: Inode,
        parent: Fid,
        name: &[u8],
        time: i64,
    ) -> Result<Inode, Failure> {
        inode.remove_link(parent, name);
        let attributes = &mut inode.attributes;
        attributes.ctime = attributes.ctime.max(time);
        attributes.nlink = match attributes.mode & crate::mode::FORMAT {
            crate::mode::DIRECTORY => 0,
            _ => attributes.nlink.saturating_sub(1),
        };
        self.set(fid, inode.clone())?;
        if inode.attributes.nlink == 0 {
            if self.mdt.may_be_open(fid) { self.keep_orphan(fid) } else { self.remove(fid)? }
        }
        Ok(inode)
    }
}
