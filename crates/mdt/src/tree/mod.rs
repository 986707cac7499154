//! Changes of the tree, with the checks of a kernel MDT in its order. Spec: mdt-ost §14.1 to §14.5.

mod create;
mod link;
mod remove;
mod rename;
mod setattr;
mod xattr;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::seq::Seq;

use crate::access::{AccessMode, Caller, check};
use crate::change::Change;
use crate::inode::Inode;
use crate::names::NAME_MAX;
use crate::records::Failure;

pub(crate) use create::New;
pub(crate) use remove::Removal;
pub(crate) use setattr::{ATIME, CTIME, MTIME};
pub(crate) use xattr::{NAMES_LEN_MAX, SetXattr};

/// Checks a name that an entry of a directory may have.
///
/// # Errors
/// EINVAL, ENAMETOOLONG.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::EINVAL),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::EINVAL),
        _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

/// Checks that a file may get names, or lose them: not those of `.lustre`. Only root could try.
///
/// # Errors
/// EPERM.
pub(crate) fn check_ordinary(fid: Fid) -> Result<(), Errno> {
    if fid.seq == Fid::ROOT.seq || fid.seq >= Seq::NORMAL.0 { Ok(()) } else { Err(Errno::EPERM) }
}

impl Change<'_> {
    /// Returns a directory in which names may be looked up.
    ///
    /// # Errors
    /// ENOENT if it does not exist any more, ENOTDIR, EACCES.
    fn searched(&mut self, fid: Fid, caller: &Caller) -> Result<Inode, Failure> {
        let inode = self.existing(fid)?;
        if !inode.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        if inode.attributes.nlink == 0 {
            return Err(Errno::ENOENT.into());
        }
        check(&inode, caller, AccessMode::EXECUTE)?;
        Ok(inode)
    }

    /// Returns a directory in which a name may be made that does not exist.
    ///
    /// # Errors
    /// EPERM if it is one of `.lustre`, EEXIST, and as [`Change::searched`].
    fn directory_for(&mut self, fid: Fid, name: &[u8], caller: &Caller) -> Result<Inode, Failure> {
        check_ordinary(fid)?;
        let inode = self.searched(fid, caller)?;
        // Whoever may only look sees that it exists.
        if self.entry(fid, name)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        check(&inode, caller, AccessMode::CHANGE_ENTRIES)?;
        Ok(inode)
    }
}

/// Moves the times of a directory whose entries have changed. Times never go back.
fn touch(directory: &mut Inode, time: i64) {
    let attributes = &mut directory.attributes;
    attributes.mtime = attributes.mtime.max(time);
    attributes.ctime = attributes.ctime.max(time);
}
