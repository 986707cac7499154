//! Layouts for those who are about to read or write. Spec: mdt-ost §8.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{LAYOUT, LAYOUT_INTENT, LOCK_REPLY};
use fulmar_lustre_wire::ldlm::{Disposition, LayoutIntentOp, LockReply};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Status};

use super::Done;
use crate::Mdt;
use crate::change::Change;
use crate::inode::{Extra, Inode};
use crate::layout::{Plan, objects_of, repeated};
use crate::mdt::Call;
use crate::records::Failure;

/// What Lustre says of an operation that makes no sense.
const ENOTSUPP: Errno = Errno(524);

/// The layout for a file that has none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedLayout<'a> {
    /// What its creator wants; nothing for a default.
    Wanted(&'a [u8]),
    /// What it had before a restart.
    Repeated(&'a [u8]),
}

impl Mdt {
    /// Returns the layout of a file that has none, with objects that nobody else has.
    pub(crate) fn new_layout(
        &self,
        fid: Fid,
        parent: Fid,
        wanted: WantedLayout<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let wanted = match wanted {
            WantedLayout::Repeated(layout) => return Ok(repeated(layout)?),
            WantedLayout::Wanted(wanted) => wanted,
        };
        let default = |fid| {
            let inode = self.inode_if_any(fid)?;
            let layout = inode.map(|inode| inode.extra(Extra::Layout).to_vec());
            Ok::<_, Failure>(layout.unwrap_or_default())
        };
        let (of_parent, of_root) = (default(parent)?, default(Fid::ROOT)?);
        let plan = Plan::new(wanted, [&of_parent, &of_root])?;
        let objects = self.objects.take(&plan)?;
        Ok(plan.layout(fid, &objects))
    }

    /// Executes the intent LAYOUT about a file.
    pub fn layout_intent(&self, call: &Call<'_>, fid: Fid) -> Done {
        let empty = Message::reply(call.message.format(), Status::OK)
            .with(&LOCK_REPLY, &LockReply::default());
        let disposition = Disposition::IT_EXECD;
        match self.layout(call, fid, empty.clone()) {
            Ok(reply) => Done { reply, disposition, result: Ok(()) },
            Err(failure) => Done { reply: empty, disposition, result: Err(failure.errno()) },
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
                // All components of a layout have their objects.
                if !inode.is_regular() || !inode.extra(Extra::Layout).is_empty() {
                    return Ok(with(inode.extra(Extra::Layout)));
                }
                let parent = inode.parent_or(Fid::ROOT);
                let layout = self.new_layout(fid, parent, WantedLayout::Wanted(b""))?;
                let committed = self.commit(call, |change| {
                    change.set_layout(fid, layout.clone())?;
                    Ok((with(&layout), ()))
                })?;
                Ok(committed.map_or_else(|| with(&layout), |(reply, ())| reply))
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
