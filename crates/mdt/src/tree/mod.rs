//! Changes of the tree, with the checks of a kernel MDT in its order. Spec: mdt-ost §14.1 to §14.5.

mod create;
mod link;
mod remove;
mod rename;
mod setattr;
mod xattr;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;

use crate::access::{Caller, Wanted, check};
use crate::change::Change;
use crate::inode::Inode;
use crate::names::NAME_MAX;
use crate::records::Failure;

pub(crate) use create::New;
pub(crate) use remove::Removed;
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

impl Change<'_> {
    /// Returns a directory in which entries may be made.
    ///
    /// # Errors
    /// ENOENT if it does not exist any more, ENOTDIR, EACCES.
    fn directory(&mut self, fid: Fid, caller: &Caller) -> Result<Inode, Failure> {
        let inode = self.existing(fid)?;
        if !inode.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        if inode.attributes.nlink == 0 {
            return Err(Errno::ENOENT.into());
        }
        check(&inode, caller, Wanted::CHANGE_ENTRIES)?;
        Ok(inode)
    }
}

/// Moves the times of a directory whose entries have changed. Times never go back.
fn touch(directory: &mut Inode, time: i64) {
    let attributes = &mut directory.attributes;
    attributes.mtime = attributes.mtime.max(time);
    attributes.ctime = attributes.ctime.max(time);
}
