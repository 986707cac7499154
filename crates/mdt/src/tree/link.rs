//! More names of a file. Spec: mdt-ost §7.6, §14.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::changelog::ChangeKind;

use super::{check_name, check_ordinary, touch};
use crate::access::{APPEND_ONLY, Caller, IMMUTABLE};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::Inode;
use crate::names::Entry;
use crate::records::Failure;

/// The most names of a file.
const LINKS_MAX: u32 = 65_000;

impl Change<'_> {
    /// Gives a file a name in a directory.
    pub(crate) fn link(
        &mut self,
        fid: Fid,
        parent_fid: Fid,
        name: &[u8],
        caller: &Caller,
        time: i64,
    ) -> Result<Inode, Failure> {
        check_name(name)?;
        check_ordinary(fid)?;
        if fid == parent_fid {
            return Err(Errno::EPERM.into());
        }
        let mut inode = self.existing(fid)?;
        let mut parent = self.directory_for(parent_fid, name, caller)?;
        if inode.is_directory() {
            return Err(Errno::EPERM.into());
        }
        if inode.attributes.flags & (IMMUTABLE | APPEND_ONLY) != 0 {
            return Err(Errno::EPERM.into());
        }
        if inode.attributes.nlink == 0 {
            return Err(Errno::ENOENT.into());
        }
        if inode.attributes.nlink >= LINKS_MAX {
            return Err(Errno::EMLINK.into());
        }
        if parent.attributes.projid != inode.attributes.projid && parent.inherits_project() {
            return Err(Errno::EXDEV.into());
        }
        inode.attributes.nlink += 1;
        inode.attributes.ctime = inode.attributes.ctime.max(time);
        inode.add_link(parent_fid, name, time);
        touch(&mut parent, time);
        self.set(parent_fid, parent)?;
        self.set_entry(parent_fid, name, Entry::new(fid, inode.attributes.mode));
        self.set(fid, inode.clone())?;
        self.note(Note::new(ChangeKind::HLINK, fid).at(parent_fid, name));
        Ok(inode)
    }
}
