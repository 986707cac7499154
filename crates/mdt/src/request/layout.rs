//! Layouts for those who are about to read or write. Spec: mdt-ost §8.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{LAYOUT, LAYOUT_INTENT, LOCK_REPLY};
use fulmar_lustre_wire::ldlm::{Disposition, LayoutIntentOp, LockReply};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Status};

use super::Done;
use crate::Mdt;
use crate::inode::Extra;
use crate::mdt::Call;
use crate::objects::Range;
use crate::records::Failure;

/// What Lustre says of an operation that makes no sense.
const ENOTSUPP: Errno = Errno(524);

impl Mdt {
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
                let range = Range { start: intent.start, end: intent.end };
                let _locked = self.lock(&[fid]);
                let before = self.inode(fid)?.extra(Extra::Layout).to_vec();
                let Some(layout) = self.objects.extend(fid, &before, range)? else {
                    return Ok(with(&before));
                };
                let committed = self.commit(call, |change| {
                    let mut inode = change.existing(fid)?;
                    self.objects.used(&mut change.transaction, &before, &layout);
                    inode.set_extra(Extra::Layout, layout.clone());
                    change.set(fid, inode)?;
                    Ok((with(&layout), ()))
                })?;
                Ok(committed.map_or_else(|| with(&before), |(reply, ())| reply))
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
