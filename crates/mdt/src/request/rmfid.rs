//! The removal of files that are known by their FIDs. Spec: mdt-ost §7.14.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_store::StoreError;
use fulmar_target::transactions::Numbering;

use super::execute::body_of;
use crate::Mdt;
use crate::access::{Caller, Capabilities, IMMUTABLE};
use crate::change::Change;
use crate::inode::Inode;
use crate::mdt::Call;
use crate::records::Failure;
use crate::tree::check_ordinary;

/// The name leads to another file now.
const EREMCHG: Errno = Errno(78);

impl Mdt {
    /// Returns the names of a file that is to be removed, each with its directory.
    ///
    /// # Errors
    /// EINVAL if its FID is not that of a file with names, ENOENT, EACCES if the caller may not write it.
    pub fn names_to_remove(&self, call: &Call<'_>, fid: Fid) -> Result<Vec<(Fid, Vec<u8>)>, Errno> {
        let find = || {
            let caller = self.caller(call, Caller::of_body(&body_of(call)?))?;
            if check_ordinary(fid).is_err() || fid == Fid::ROOT {
                return Err(Errno::EINVAL.into());
            }
            let inode = self.inode(fid)?;
            if !may_remove(&inode, &caller) {
                return Err(Errno::EACCES.into());
            }
            let links = inode.links().entries.into_iter();
            Ok(links.map(|link| (link.parent, link.name)).collect())
        };
        find().map_err(|failure: Failure| failure.errno())
    }

    /// Removes a name of a file. The locks that it needs are the caller's.
    ///
    /// # Errors
    /// EBUSY if somebody has the file open, EREMCHG if the name is that of another one, and as a removal by name.
    pub fn remove_name(
        &self,
        call: &Call<'_>,
        fid: Fid,
        (parent, name): (Fid, &[u8]),
    ) -> Result<(), Errno> {
        let remove = || {
            let asked = body_of(call)?;
            let caller = self.caller(call, Caller::of_body(&asked))?;
            if self.export(call.export)?.is_read_only() {
                return Err(Errno::EROFS.into());
            }
            let _locked = self.lock_with_entries(&[(parent, name)])?;
            if self.opens().is_open(fid) {
                return Err(Errno::EBUSY.into());
            }
            self.commit_part(call, |change| {
                if change.entry(parent, name)?.ok_or(Errno::ENOENT)?.fid != fid {
                    return Err(EREMCHG.into());
                }
                let is_directory = change.existing(fid)?.is_directory();
                change.unlink(parent, name, is_directory, &caller, asked.ctime)?;
                Ok(())
            })
        };
        remove().map_err(|failure: Failure| failure.errno())
    }

    /// Makes one of the changes of a request that has no transaction of its own.
    fn commit_part<'a>(
        &'a self,
        call: &Call<'_>,
        mut build: impl FnMut(&mut Change<'a>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            let mut change = Change::new(self, Numbering::New, false);
            build(&mut change)?;
            change.record_notes(|| self.who(call));
            match change.finish().apply() {
                Err(StoreError::Conflict) => {}
                applied => return Ok(applied.map(drop)?),
            }
        }
    }
}

/// Returns whether a caller may remove a file whose names it does not know.
fn may_remove(inode: &Inode, caller: &Caller) -> bool {
    let of = &inode.attributes;
    let bit = match () {
        () if caller.uid == of.uid => 0o200,
        () if caller.gid == of.gid => 0o020,
        () => 0o002,
    };
    let is_allowed = caller.has(Capabilities::DAC_OVERRIDE) || of.mode & bit != 0;
    of.flags & IMMUTABLE == 0 && is_allowed
}
