//! Layouts for those who are about to read or write. Spec: mdt-ost §8.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{LAYOUT, LAYOUT_INTENT, LOCK_REPLY, NEW_LAYOUT};
use fulmar_lustre_wire::ldlm::{Disposition, LayoutIntentOp, LockReply};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Status};
use fulmar_target::transactions::Numbering;

use super::IntentReply;
use crate::Mdt;
use crate::change::Change;
use crate::inode::{Extra, Inode};
use crate::layout::{Rules, instantiated, new_layout, objects_of, repeated};
use crate::mdt::Call;
use crate::records::Failure;

/// What Lustre says of an operation that makes no sense.
const ENOTSUPP: Errno = Errno(524);

/// The layout for a file that has none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LayoutSource<'a> {
    /// What its creator wants; nothing for a default.
    Request(&'a [u8]),
    /// What it had before a restart.
    Replay(&'a [u8]),
}

impl Mdt {
    /// Returns the layout of a file of `size` bytes that has none, with objects that no other file has.
    pub(crate) fn new_layout(
        &self,
        (fid, size): (Fid, u64),
        parent: Fid,
        wanted: LayoutSource<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let wanted = match wanted {
            LayoutSource::Replay(layout) => return Ok(repeated(fid, layout, b"")?),
            LayoutSource::Request(wanted) => wanted,
        };
        let default = |fid| {
            let inode = self.inode_if_any(fid)?;
            let layout = inode.map(|inode| inode.extra(Extra::Layout).to_vec());
            Ok::<_, Failure>(layout.unwrap_or_default())
        };
        let (of_parent, of_root) = (default(parent)?, default(Fid::ROOT)?);
        let defaults = [&of_parent[..], &of_root];
        // Without a layout there is none with a part on the MDT.
        let is_plain = wanted.is_empty() && defaults.iter().all(|default| default.is_empty());
        let rules =
            if is_plain { Rules { objects: &*self.objects, on_mdt_max: 0 } } else { self.rules()? };
        Ok(new_layout((fid, size), wanted, defaults, rules)?)
    }

    /// Executes the intent LAYOUT about a file.
    pub fn layout_intent(&self, call: &Call<'_>, fid: Fid) -> IntentReply {
        let empty = Message::reply(call.message.format(), Status::OK)
            .with(&LOCK_REPLY, &LockReply::default());
        let disposition = Disposition::IT_EXECD;
        match self.layout(call, fid, empty.clone()) {
            Ok(reply) => IntentReply { reply, disposition, result: Ok(()) },
            Err(failure) => IntentReply { reply: empty, disposition, result: Err(failure.errno()) },
        }
    }

    fn layout(
        &self,
        call: &Call<'_>,
        fid: Fid,
        empty: Message<'static>,
    ) -> Result<Message<'static>, Failure> {
        let intent = call.message.require(&LAYOUT_INTENT).map_err(|_| Errno::EPROTO)?;
        let with = |layout: &[u8]| match layout {
            b"" => empty.clone(),
            layout => {
                self.note_layout(layout.len());
                empty.clone().with_bytes(&LAYOUT, layout.to_vec())
            }
        };
        match intent.op {
            LayoutIntentOp::ACCESS => Ok(with(self.inode(fid)?.extra(Extra::Layout))),
            LayoutIntentOp::WRITE | LayoutIntentOp::TRUNC => {
                if self.export(call.export)?.is_read_only() {
                    return Err(Errno::EROFS.into());
                }
                let _locked = self.lock(&[fid]);
                let inode = self.inode(fid)?;
                let again = || {
                    let mut reply = with(inode.extra(Extra::Layout));
                    if call.is_replay() {
                        reply.body.transno = call.message.body.transno;
                    }
                    reply
                };
                let Some(layout) = self.with_objects(call, fid, &inode, intent.end)? else {
                    return Ok(again());
                };
                let committed = self.commit(call, |change| {
                    change.set_layout(fid, layout.clone())?;
                    change.note_layout(fid);
                    Ok((with(&layout), ()))
                });
                // If the store has failed, it is unknown whether they are used.
                if matches!(committed, Err(Failure::Refused(_))) && !call.is_replay() {
                    let before = objects_of(inode.extra(Extra::Layout));
                    let mut new = objects_of(&layout);
                    new.retain(|object| !before.contains(object));
                    self.objects.give_back(&new);
                }
                Ok(committed?.map_or_else(again, |(reply, ())| reply))
            }
            LayoutIntentOp::READ
            | LayoutIntentOp::GLIMPSE
            | LayoutIntentOp::RELEASE
            | LayoutIntentOp::RESTORE => Err(ENOTSUPP.into()),
            LayoutIntentOp::PCCRO_SET | LayoutIntentOp::PCCRO_CLEAR | LayoutIntentOp::CHANGE => {
                Err(Errno::EOPNOTSUPP.into())
            }
            _ => Err(Errno::EINVAL.into()),
        }
    }
}

impl Mdt {
    /// Returns the layout of a file with objects for all that is before `end`; `None` if it has them.
    fn with_objects(
        &self,
        call: &Call<'_>,
        fid: Fid,
        inode: &Inode,
        end: u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if !inode.is_regular() {
            return Err(Errno::EINVAL.into());
        }
        let before = inode.extra(Extra::Layout);
        // After a restart it gets those that it had.
        let layout = call.message.bytes(&NEW_LAYOUT).unwrap_or_default();
        if call.is_replay() && !layout.is_empty() {
            let numbering = self.transactions.numbering(call.message.body.transno);
            if matches!(numbering, Numbering::Applied(_)) {
                return Ok(None);
            }
            return Ok(Some(repeated(fid, layout, before)?));
        }
        Ok(instantiated(fid, before, end, &*self.objects)?)
    }
}

impl Change<'_> {
    /// Gives a file its layout.
    pub(crate) fn set_layout(&mut self, fid: Fid, layout: Vec<u8>) -> Result<Inode, Failure> {
        let mut inode = self.existing(fid)?;
        self.mdt.objects.used(&mut self.transaction, &objects_of(&layout));
        inode.set_extra(Extra::Layout, layout);
        self.set(fid, inode.clone())?;
        Ok(inode)
    }
}

#[cfg(test)]
mod tests;
