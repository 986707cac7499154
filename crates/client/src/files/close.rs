//! Closing files. Spec: mdt-ost §7.12, §22.4.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{CLOSE, IO_EPOCH, REINT};
use fulmar_lustre_wire::mdt::{AttrValid, Bias, IoEpoch, ReintChange, ReintOp, SetAttr};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::portal;
use fulmar_rpc::import::{Request, RequestId};

use super::caller::Caller;
use super::mount::Open;
use super::open_cache::HandleKey;
use super::request::record;
use crate::machine::context::Context;
use crate::mounting::BODY_LEN;

/// What a close tells the MDT of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CloseReport {
    /// Whether the data were changed.
    pub(crate) is_modified: bool,
    pub(crate) mode: u32,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) atime: i64,
    /// The size and the blocks, as far as they are known.
    pub(crate) size: Option<(u64, u64)>,
}

impl Context {
    /// Closes a file. One round trip, unless others use the same open, it is kept, or the MDT has evicted this client
    /// since the file was opened.
    pub(crate) async fn close(
        &self,
        key: HandleKey,
        open: &Open,
        closed: CloseReport,
    ) -> Result<(), Errno> {
        {
            let mut core = self.core();
            let now = core.now;
            if let Some(inode) =
                core.mounts.get_mut(&self.mount).and_then(|mount| mount.inodes.get_mut(&open.fid))
            {
                inode.reopened.close(now);
            }
        }
        if open.release() { self.close_handle(key, open, closed).await } else { Ok(()) }
    }

    /// Closes what has no user.
    pub(crate) async fn close_handle(
        &self,
        key: HandleKey,
        open: &Open,
        closed: CloseReport,
    ) -> Result<(), Errno> {
        let caller = Caller::ROOT;
        let is_lost = self.core().peer(open.mdt).is_none_or(|one| one.evictions != open.evictions);
        let result = if is_lost {
            Err(Errno::EIO)
        } else {
            self.send_close(&caller, open, closed, key.1).await
        };
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            mount.opens.remove(&key);
            if let Some(inode) = mount.inodes.get_mut(&open.fid) {
                inode.opens = inode.opens.saturating_sub(1);
                inode.forget_unprotected_access();
                inode.is_new &= inode.opens > 0;
            }
            mount.forget_unused(open.fid);
        }
        result
    }

    async fn send_close(
        &self,
        caller: &Caller,
        open: &Open,
        closed: CloseReport,
        open_request: RequestId,
    ) -> Result<(), Errno> {
        let closed = CloseReport { atime: self.tell_access(open.fid), ..closed };
        let change = ReintChange::SetAttr(closed.record());
        let record = record(caller, ReintOp::SETATTR, (open.fid, [None, None]), change);
        let message = Message::request(&CLOSE)
            .with(&IO_EPOCH, &IoEpoch { handle: open.handle(), ..IoEpoch::default() })
            .with(&REINT, &record);
        let request = Request::new(message, len_with(&[Body::LEN, BODY_LEN, 0, 0, 0, 0]));
        let request = request.at(portal::MDS_READPAGE).modifying();
        let waiting = {
            let mut core = self.core();
            let (id, waiting) = core.request(open.mdt, request, None).ok_or(Errno::ENODEV)?;
            open.set_close(id);
            waiting
        };
        let reply = waiting.await.map_err(|_| Errno::EIO)?.result?;
        let mut core = self.core();
        core.client().release(open.mdt, open_request, reply.body.transno);
        match reply.body.status.errno() {
            // It was executed before a restart that has lost the reply.
            None | Some(Errno::ESTALE) => Ok(()),
            Some(errno) => Err(errno),
        }
    }
}

impl CloseReport {
    fn record(&self) -> SetAttr {
        let mut valid = AttrValid::NONE;
        if self.mode != 0 {
            valid = valid | AttrValid::MODE;
        }
        for (time, flags) in [
            (self.atime, AttrValid::ATIME | AttrValid::ATIME_SET),
            (self.mtime, AttrValid::MTIME | AttrValid::MTIME_SET),
            (self.ctime, AttrValid::CTIME | AttrValid::CTIME_SET),
        ] {
            if time != 0 {
                valid = valid | flags;
            }
        }
        if self.size.is_some() {
            valid = valid | AttrValid::LSIZE | AttrValid::LBLOCKS;
        }
        let (size, blocks) = self.size.unwrap_or_default();
        SetAttr {
            valid,
            size,
            blocks,
            mtime: self.mtime,
            atime: self.atime,
            ctime: self.ctime,
            mode: self.mode,
            bias: if self.is_modified { Bias::DATA_MODIFIED } else { Bias::NONE },
            ..SetAttr::default()
        }
    }
}
