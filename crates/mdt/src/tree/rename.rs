//! Renaming. Spec: mdt-ost §7.6, §14.4.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::changelog::{ChangeKind, RenameSource};

use super::{Removal, check_name, check_ordinary, touch};
use crate::access::{AccessMode, Caller, check, check_removal};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::Inode;
use crate::names::Entry;
use crate::records::Failure;

/// A directory and a name in it.
pub(crate) type Place<'a> = (Fid, &'a [u8]);

impl Change<'_> {
    /// Gives a file another name. Returns what was replaced, if there was something.
    pub(crate) fn rename(
        &mut self,
        source: Place<'_>,
        target: Place<'_>,
        caller: &Caller,
        time: i64,
    ) -> Result<Option<Removal>, Failure> {
        check_name(source.1)?;
        check_name(target.1)?;
        check_ordinary(source.0)?;
        check_ordinary(target.0)?;
        let source_parent = self.existing(source.0)?;
        let fid = self.entry(source.0, source.1)?.ok_or(Errno::ENOENT)?.fid;
        check_ordinary(fid)?;
        let inode = self.existing(fid)?;
        check_removal(&source_parent, &inode, caller)?;
        let target_parent = self.searched(target.0, caller)?;
        check(&target_parent, caller, AccessMode::CHANGE_ENTRIES)?;
        let replaced = self.entry(target.0, target.1)?.map(|entry| entry.fid);
        if replaced == Some(fid) {
            return Ok(None);
        }
        self.check_move(fid, &inode, source.0, target.0, caller)?;
        if target_parent.attributes.projid != inode.attributes.projid
            && target_parent.inherits_project()
        {
            return Err(Errno::EXDEV.into());
        }
        let removed = match replaced {
            Some(replaced) => {
                check_ordinary(replaced)?;
                let old = self.existing(replaced)?;
                match (inode.is_directory(), old.is_directory()) {
                    (false, true) => return Err(Errno::EISDIR.into()),
                    (true, false) => {
                        check_removal(&target_parent, &old, caller)?;
                        return Err(Errno::ENOTDIR.into());
                    }
                    _ => check_removal(&target_parent, &old, caller)?,
                }
                // A directory above the source is not empty either.
                self.check_empty(replaced, &old)?;
                let inode = self.drop_link(replaced, old, target.0, target.1, time)?;
                Some(Removal { fid: replaced, inode })
            }
            None => None,
        };
        self.move_entry((fid, inode), source, target, removed.as_ref(), time)?;
        let replaced = removed.as_ref().map_or(Fid::default(), |removed| removed.fid);
        let flags = removed.as_ref().map_or(0, Removal::flags);
        let names = [target.1, source.1].join(&0);
        let note = Note::new(ChangeKind::RENAME, replaced).with_flags(flags).at(target.0, &names);
        self.note(Note { rename: Some(RenameSource { fid, parent: source.0 }), ..note });
        Ok(removed)
    }

    /// Checks that a directory may get another parent.
    fn check_move(
        &mut self,
        fid: Fid,
        inode: &Inode,
        from: Fid,
        to: Fid,
        caller: &Caller,
    ) -> Result<(), Failure> {
        if !inode.is_directory() {
            return Ok(());
        }
        if from != to {
            check(inode, caller, AccessMode::WRITE)?;
        }
        if self.is_below(to, fid)? { Err(Errno::EINVAL.into()) } else { Ok(()) }
    }

    /// Returns whether a directory is another one, or below it. The parents do not change meanwhile: one
    /// directory is moved at a time.
    fn is_below(&self, below: Fid, above: Fid) -> Result<bool, Failure> {
        let mut at = Some(below);
        while let Some(fid) = at {
            if fid == above {
                return Ok(true);
            }
            at = if fid == Fid::ROOT { None } else { self.mdt.inode(fid)?.parent() };
        }
        Ok(false)
    }

    fn move_entry(
        &mut self,
        (fid, mut inode): (Fid, Inode),
        source: Place<'_>,
        target: Place<'_>,
        removed: Option<&Removal>,
        time: i64,
    ) -> Result<(), Failure> {
        inode.remove_link(source.0, source.1);
        inode.add_link(target.0, target.1, time);
        inode.attributes.ctime = inode.attributes.ctime.max(time);
        let is_directory = inode.is_directory();
        let mode = inode.attributes.mode;
        self.set(fid, inode)?;
        let mut parent = self.existing(source.0)?;
        touch(&mut parent, time);
        parent.attributes.nlink -= u32::from(is_directory);
        self.set(source.0, parent)?;
        let mut parent = self.existing(target.0)?;
        touch(&mut parent, time);
        let replaces = removed.is_some_and(|removed| removed.inode.is_directory());
        parent.attributes.nlink += u32::from(is_directory);
        parent.attributes.nlink -= u32::from(replaces);
        self.set(target.0, parent)?;
        self.remove_entry(source.0, source.1);
        self.set_entry(target.0, target.1, Entry::new(fid, mode));
        Ok(())
    }
}
