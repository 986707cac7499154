//! Two files that exchange their layouts, and so their data. Spec: mdt-ost §7.13.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::SWAP_LAYOUTS;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Status};

use super::Answer;
use super::execute::body_of;
use crate::Mdt;
use crate::access::{AccessMode, Caller, check};
use crate::change::Change;
use crate::inode::{Extra, Inode};
use crate::layout::swapped;
use crate::mdt::Call;
use crate::records::Failure;

impl Mdt {
    /// Executes SWAP_LAYOUTS. The caller has the locks on the layouts of both files.
    pub(crate) fn swap_layouts(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let export = self.export(call.export)?;
        // A client without locks on layouts would go on with the objects that it knows.
        if !export.client.flags.has(ConnectFlags::LAYOUTLOCK) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let asked = body_of(call)?;
        call.message.require(&SWAP_LAYOUTS).map_err(|_| Errno::EPROTO)?;
        if export.is_read_only() {
            return Err(Errno::EROFS.into());
        }
        let caller = self.caller(call, Caller::of_body(&asked))?;
        let files = [asked.fid, asked.child];
        let mut reply = Message::reply(call.message.format(), Status::OK);
        if files[0] == files[1] {
            self.inode(files[0])?;
            return Ok(Answer::new(reply));
        }
        let _locked = self.lock(&files);
        let committed = self.commit(call, |change| {
            change.swap_layouts(files, &caller)?;
            Ok((Message::reply(call.message.format(), Status::OK), ()))
        });
        reply.body.transno = call.message.body.transno;
        Ok(Answer::new(committed?.map_or(reply, |(reply, ())| reply)))
    }
}

impl Change<'_> {
    /// The same at the close of a file. What is refused is the answer of a close that is done nevertheless.
    pub(super) fn swap_for_close(
        &mut self,
        files: [Fid; 2],
        caller: &Caller,
    ) -> Result<Result<bool, Errno>, Failure> {
        match self.swap_layouts(files, caller) {
            Ok(()) => Ok(Ok(true)),
            Err(Failure::Refused(errno)) => Ok(Err(errno)),
            Err(failure) => Err(failure),
        }
    }

    fn swap_layouts(&mut self, files: [Fid; 2], caller: &Caller) -> Result<(), Failure> {
        let mut inodes = [self.existing(files[0])?, self.existing(files[1])?];
        inodes.iter().try_for_each(|inode| check(inode, caller, AccessMode::WRITE))?;
        check_kinds(&inodes)?;
        let leaves = self.leaves_mdt(files, &inodes)?;
        let [first, second] = &inodes;
        let layouts = swapped([
            (files[0], first.extra(Extra::Layout)),
            (files[1], second.extra(Extra::Layout)),
        ])?;
        for ((fid, inode), layout) in files.into_iter().zip(&mut inodes).zip(layouts) {
            inode.set_extra(Extra::Layout, layout);
            if leaves == Some(fid) {
                self.remove_data(fid, inode);
            }
            self.set(fid, inode.clone())?;
            self.note_layout(fid);
        }
        Ok(())
    }

    /// Returns the file whose data leave the MDT. Such data stay where they are, and only the migration of a
    /// file says what becomes of them: the other file is then a copy without a name.
    ///
    /// # Errors
    /// EOPNOTSUPP for an exchange that is none, and for a copy with another part on the MDT.
    fn leaves_mdt(&self, files: [Fid; 2], inodes: &[Inode; 2]) -> Result<Option<Fid>, Errno> {
        let ends = inodes.each_ref().map(|inode| inode.on_mdt().map(|part| part.end));
        if ends == [None, None] {
            return Ok(None);
        }
        let opens = self.mdt.opens();
        let copy = files.iter().position(|fid| opens.is_volatile(*fid)).ok_or(Errno::EOPNOTSUPP)?;
        match (ends[1 - copy], ends[copy]) {
            (Some(_), None) => Ok(Some(files[1 - copy])),
            (before, after) if before == after => Ok(None),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// Checks that two files are regular ones of the same owner. Their users are charged for the objects.
fn check_kinds([first, second]: &[Inode; 2]) -> Result<(), Errno> {
    match (first.is_regular(), second.is_regular()) {
        (true, true) => {}
        (false, false) => return Err(Errno::EBADF),
        _ if first.is_directory() || second.is_directory() => return Err(Errno::ENOTDIR),
        _ => return Err(Errno::EISDIR),
    }
    let owner = |inode: &Inode| (inode.attributes.uid, inode.attributes.gid);
    if owner(first) == owner(second) { Ok(()) } else { Err(Errno::EPERM) }
}
