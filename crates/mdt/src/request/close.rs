//! Closing files. Spec: mdt-ost §7.12.

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::format::{CLOSE_DATA, IO_EPOCH, MDT_BODY, REINT};
use fulmar_lustre_wire::mdt::{
    AttrValid, Bias, CloseData, MdtBody, OpenFlags, ReintChange, SetAttr, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::xattr::{Som, SomState};
use fulmar_lustre_wire::{Content, Fid, Handle, Status};
use fulmar_nodemap::View;
use fulmar_store::StoreError;

use super::Answer;
use super::attributes::body;
use crate::Mdt;
use crate::access::Caller;
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::{Extra, Inode};
use crate::mdt::Call;
use crate::opens::Open;
use crate::records::Failure;
use crate::tree::{ATIME, CTIME, MTIME};

impl Mdt {
    /// Executes CLOSE.
    pub(crate) fn close(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let epoch = call.message.require(&IO_EPOCH).map_err(|_| Errno::EPROTO)?;
        let record = call.message.require(&REINT).map_err(|_| Errno::EPROTO)?;
        let ReintChange::SetAttr(mut asked) = record.change else {
            return Err(Errno::EPROTO.into());
        };
        let reply = |status, body: &MdtBody| {
            Message::reply(call.message.format(), status).with(&MDT_BODY, body)
        };
        let Some(open) = self.opens().get(call.export, epoch.handle) else {
            let status = Status::failed(Errno::ESTALE);
            return Ok(Answer::new(reply(status, &MdtBody::default())));
        };
        let swapped = self.swap_at_close(call, open, &asked);
        let caller = self.caller(call, Caller::of_reint(&record.head));
        let other = swapped.ok().flatten().unwrap_or(open.fid);
        let view = self.view(call);
        let _locked = self.lock(&[open.fid, other]);
        let has_lease = self.opens().holds_lease(open.fid, epoch.handle);
        // A time of access that was set after the read stays.
        if self.opens().atime_set(open.fid).is_some_and(|set| asked.atime <= set) {
            asked.valid = AttrValid(asked.valid.0 & !AttrValid::ATIME_SET.0);
        }
        let is_last = self.opens().close(epoch.handle);
        let committed = self.commit(call, |change| {
            let exchanged = match (swapped, caller.as_ref().map_err(|errno| *errno)) {
                (Ok(Some(_)), _) if !has_lease => Err(Errno::ESTALE),
                (Ok(Some(other)), Ok(caller)) => {
                    change.swap_for_close([open.fid, other], caller)?
                }
                (Ok(None), _) => Ok(false),
                (Ok(Some(_)), Err(errno)) | (Err(errno), _) => Err(errno),
            };
            let mut body = self.closed(change, open, &asked, (is_last, &view))?;
            if exchanged == Ok(true) {
                body.valid = body.valid | Valid::CLOSE_INTENT_EXECED;
            }
            let status = exchanged.map_or_else(Status::failed, |_| Status::OK);
            Ok((reply(status, &body), change.gone()))
        });
        let Some((reply, gone)) = committed? else {
            let mut reply = reply(Status::OK, &MdtBody::default());
            reply.body.transno = call.message.body.transno;
            return Ok(Answer::new(reply));
        };
        Ok(Answer { gone, ..Answer::new(reply) })
    }

    /// Returns the file with which a close exchanges the layouts.
    ///
    /// # Errors
    /// EINVAL if it is the same one, EOPNOTSUPP if the close is to do something else beside.
    fn swap_at_close(
        &self,
        call: &Call<'_>,
        open: Open,
        asked: &SetAttr,
    ) -> Result<Option<Fid>, Errno> {
        if !CloseData::is_expected(asked.bias) {
            return Ok(None);
        }
        if !asked.bias.has(Bias::CLOSE_LAYOUT_SWAP) {
            return Err(Errno::EOPNOTSUPP);
        }
        let data: CloseData = call.message.require(&CLOSE_DATA).map_err(|_| Errno::EPROTO)?;
        if self.export(call.export)?.is_read_only() {
            return Err(Errno::EROFS);
        }
        match data.fid {
            fid if fid == open.fid || fid == Fid::default() => Err(Errno::EINVAL),
            // The client has lost the lock of its lease.
            _ if data.lease == Handle(0) => Err(Errno::ESTALE),
            fid => Ok(Some(fid)),
        }
    }

    /// Changes a file that was closed. Returns the body of the reply.
    fn closed(
        &self,
        change: &mut Change<'_>,
        open: Open,
        asked: &SetAttr,
        (is_last, view): (bool, &View),
    ) -> Result<MdtBody, Failure> {
        let Some(before) = change.inode(open.fid)? else { return Ok(MdtBody::default()) };
        let inode = self.after_close(&before, open, asked);
        if !open.flags.has(OpenFlags::VOLATILE) && !self.opens().is_volatile(open.fid) {
            change.note_close(open, &before, &inode);
        }
        let is_gone = is_last && inode.attributes.nlink == 0 && !self.recovers();
        let body = if is_gone { body(open.fid, &inode, view) } else { MdtBody::default() };
        if inode != before {
            change.set(open.fid, inode)?;
        }
        if is_gone {
            change.remove(open.fid)?;
        }
        Ok(body)
    }

    /// Returns a file with the times and the size that the client has at its close.
    fn after_close(&self, before: &Inode, open: Open, asked: &SetAttr) -> Inode {
        type A = AttrValid;
        let mut inode = before.clone();
        let attributes = &mut inode.attributes;
        let has = |bit, set| asked.valid.has(bit) && asked.valid.has(set);
        let writes = open.flags.has(OpenFlags::WRITE);
        // What somebody has set after the last write stays.
        let is_later = has(A::CTIME, A::CTIME_SET) && asked.ctime > attributes.ctime;
        if writes && is_later {
            attributes.ctime = asked.ctime;
            if has(A::MTIME, A::MTIME_SET) {
                attributes.mtime = attributes.mtime.max(asked.mtime);
            }
        }
        let diff = self.tuning().atime_diff;
        let is_newer = asked.atime > attributes.atime.saturating_add(diff);
        if has(A::ATIME, A::ATIME_SET) && is_newer {
            attributes.atime = asked.atime;
        }
        let is_known = asked.valid.0 & (A::LSIZE | A::LBLOCKS).0 != 0;
        if is_known && inode.has_som() {
            inode.note_size(asked);
        }
        inode
    }

    /// Closes the files of a client that is gone.
    pub(crate) fn close_all(&self, export: Handle, _now: i64) -> Result<(), StoreError> {
        let open = self.opens().of_export(export);
        for (handle, Open { fid, .. }) in open {
            let is_last = self.opens().close(handle);
            if is_last {
                self.remove_orphan(fid)?;
            }
        }
        Ok(())
    }
}

impl Change<'_> {
    /// Records what a close has changed, and that a file that could be written is closed.
    fn note_close(&mut self, open: Open, before: &Inode, after: &Inode) {
        let (before, times) = (&before.attributes, &after.attributes);
        let bit = |is_changed, bit| if is_changed { bit } else { 0 };
        let bits = bit(times.atime != before.atime, ATIME)
            | bit(times.mtime != before.mtime, MTIME)
            | bit(times.ctime != before.ctime, CTIME);
        self.note_attributes(open.fid, after, bits);
        let changes = OpenFlags::WRITE | OpenFlags::APPEND | OpenFlags::TRUNC;
        let is_recorded = if self.mdt.changelog.wants(ChangeKind::OPEN) {
            !self.mdt.opens().is_open_by(&open)
        } else {
            open.flags.0 & changes.0 != 0
        };
        if is_recorded {
            self.note(Note::new(ChangeKind::CLOSE, open.fid).with_flags(open.flags.0 as u16));
        }
    }
}

impl Inode {
    /// Records the size and the blocks that a client knows: they only grow. Spec: mdt-ost §7.12.
    fn note_size(&mut self, asked: &SetAttr) {
        type A = AttrValid;
        let (knows_size, knows_blocks) = (asked.valid.has(A::LSIZE), asked.valid.has(A::LBLOCKS));
        let som = match self.som() {
            None if knows_size && knows_blocks => {
                let (size, blocks) = (asked.size, asked.blocks);
                Som { state: SomState::LAZY, size, blocks, ..Som::default() }
            }
            None => return,
            Some(som) if som.state == SomState::STRICT => return,
            Some(som) if som.state == SomState::STALE && !asked.bias.has(Bias::DATA_MODIFIED) => {
                return;
            }
            Some(som) => Som {
                state: SomState::LAZY,
                size: if knows_size { som.size.max(asked.size) } else { som.size },
                blocks: if knows_blocks { som.blocks.max(asked.blocks) } else { som.blocks },
                ..som
            },
        };
        self.set_extra(Extra::Som, som.to_bytes());
    }

    /// Returns whether its size is noted: it has objects, whose sizes the MDT does not know.
    fn has_som(&self) -> bool {
        let has_layout = self.is_regular() && !self.extra(Extra::Layout).is_empty();
        has_layout && self.on_mdt().is_none_or(|part| !part.is_all)
    }

    /// Records the size after a cut. Spec: mdt-ost §7.12.
    pub(crate) fn cut_size(&mut self, size: u64) {
        if !self.has_som() {
            return;
        }
        let before = self.som();
        let is_shorter = before.is_none_or(|som| size < som.size);
        let blocks = match before {
            _ if size == 0 => 0,
            _ if is_shorter => 1,
            Some(som) => som.blocks,
            None => 1,
        };
        let som = Som { state: SomState::LAZY, size, blocks, ..Som::default() };
        self.set_extra(Extra::Som, som.to_bytes());
    }
}
