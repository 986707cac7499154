//! Writes of objects. Spec: mdt-ost §17.3, §19.3, §22.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, OST_WRITE, RESULTS, SHORT_IO};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::{Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{List, Status, portal};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::Request;

use super::object::OBDO_LEN;
use super::transfer::{Attempt, Transfer, checksum};
use crate::machine::context::Context;

/// The flags of ids that are over their quotas.
const OVER_QUOTA: ObdoFlags =
    ObdoFlags(ObdoFlags::NO_USRQUOTA.0 | ObdoFlags::NO_GRPQUOTA.0 | ObdoFlags::NO_PRJQUOTA.0);

impl Context {
    /// Writes ranges of an object. `is_again`: they were sent before.
    pub(super) async fn write_once(
        &self,
        transfer: &Transfer,
        is_again: bool,
        granted: &mut u64,
    ) -> Result<Attempt, Errno> {
        let object = &transfer.object;
        let (mut body, flags) = self.write_body(transfer)?;
        let ranges = transfer.rpc.ranges.iter();
        let niobuf = |range: &std::ops::Range<u64>| Niobuf {
            offset: range.start,
            len: (range.end - range.start) as u32,
            flags,
        };
        let niobufs: Vec<Niobuf> = ranges.map(niobuf).collect();
        let summed = niobufs.iter().map(|one| (one.offset, u64::from(one.len)));
        let len = transfer.memory.len();
        let sum = if transfer.is_checked {
            let sum = checksum(transfer.checksum_kind(), summed, &transfer.memory, len);
            Some(sum.ok_or(Errno::EPROTO)?)
        } else {
            None
        };
        body.nlink = sum.unwrap_or(0);
        if is_again {
            body.flags.flags = body.flags.flags | ObdoFlags::RECOV_RESEND;
        }
        let room = len_with(&[Body::LEN, OBDO_LEN, 4 * niobufs.len()]);
        let message = Message::request(&OST_WRITE)
            .with(&OST_BODY, &body)
            .with(&IO_OBJECTS, &List(vec![transfer.io_object()]))
            .with(&NIOBUFS, &List(niobufs));
        let (request, buffer) = if transfer.is_short() {
            let mut bytes = vec![0; len];
            transfer.memory.read_at(0, &mut bytes);
            (Request::new(message.with_bytes(&SHORT_IO, bytes), room), None)
        } else {
            let id = self.core().add_buffer(transfer.memory.clone());
            let (memory, portal) = ((id, 0, transfer.len()), portal::OST_BULK);
            let bulk = Bulk::new(Direction::ToServer, portal, memory, transfer.in_page());
            let message = message.with_bytes(&SHORT_IO, vec![]);
            (Request::new(message, room).with_bulk(bulk), Some(id))
        };
        let request = request.at(object.io_portal());
        let (id, waiting) =
            self.core().request(object.import, request, buffer).ok_or(Errno::ENODEV)?;
        let reply = waiting.await.map_err(|_| Errno::EIO)?.result?;
        match self.written(transfer, &reply, sum, granted)? {
            Attempt::Done(..) => {
                let write = (self.mount, transfer.rpc.id);
                let keeps_data = self.core().is_kept((object.import, id), write);
                Ok(Attempt::Done(0, keeps_data))
            }
            other => Ok(other),
        }
    }

    /// Handles the reply to a write.
    fn written(
        &self,
        transfer: &Transfer,
        reply: &Message<'_>,
        sum: Option<u32>,
        granted: &mut u64,
    ) -> Result<Attempt, Errno> {
        let body: Option<Obdo> = reply.get(&OST_BODY).map_err(|_| Errno::EPROTO)?;
        let status = reply.body.status.errno();
        if let Some(body) = &body {
            if body.valid.has(Valid::FLGRANT) {
                *granted = granted.saturating_add(body.grant);
            }
            if body.valid.has(Valid::FLUSRQUOTA) {
                self.note_quota(transfer, body.flags.flags.0 & OVER_QUOTA.0 != 0);
            }
        }
        if let Some(errno) = status {
            return Ok(Attempt::Failed(errno));
        }
        let body = body.ok_or(Errno::EPROTO)?;
        let results: List<Status> = reply.require(&RESULTS).map_err(|_| Errno::EPROTO)?;
        if let Some(errno) = results.0.iter().find_map(|status| status.errno()) {
            return Ok(Attempt::Failed(errno));
        }
        if body.valid.has(Valid::FLCKSUM) && sum.is_some_and(|sum| sum != body.nlink) {
            return Ok(Attempt::Damaged(body.nlink));
        }
        let end = transfer.rpc.ranges.last().map_or(0, |range| range.end);
        let blocks = body.valid.has(Valid::FLBLOCKS).then_some(body.blocks);
        self.stored(&transfer.object, end, blocks);
        Ok(Attempt::Done(0, false))
    }

    /// The target says whether the owner of a file is over a quota: then writes wait for its disk.
    fn note_quota(&self, transfer: &Transfer, is_over: bool) {
        self.core().with_data(self.mount, |data| {
            if let Some(file) = data.file_of(transfer.object.cached).map(|file| file.id) {
                data.cache.set_synchronous(file, is_over);
            }
        });
    }

    /// Returns what a write says of its object, and the flags of its ranges.
    fn write_body(&self, transfer: &Transfer) -> Result<(Obdo, NiobufFlags), Errno> {
        let mut body = self.transfer_body(transfer)?;
        let mut core = self.core();
        let (now, kept_len) = (core.seconds(), core.kept_len);
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let file = mount.data.file_of(transfer.object.cached).ok_or(Errno::EIO)?;
        // When it was written here, unless somebody has set another time since.
        let known = mount.objects.get_mut(&transfer.object.key());
        let (mtime, ctime) = known.map_or((now, now), |known| {
            known.tell();
            (known.lvb.mtime, known.lvb.ctime)
        });
        body.valid = body.valid
            | Valid::FLMTIME
            | Valid::FLCTIME
            | Valid::FLUID
            | Valid::FLGID
            | Valid::FLPROJID;
        (body.mtime, body.ctime) = (mtime, ctime);
        let owner = &file.owner;
        (body.uid, body.gid, body.projid) = (owner.uid, owner.gid, owner.projid);
        // What may have to be sent again has its limit: beyond it, writes wait for the disk.
        let flags = transfer.rpc.flags;
        let has_room = kept_len < mount.data.settings().memory / 4;
        let is_sync = flags.sync || !has_room;
        let mut bits = if is_sync { NiobufFlags::SYNC } else { NiobufFlags::ASYNC };
        for (is_set, flag) in [
            (flags.from_grant, NiobufFlags::FROM_GRANT),
            (flags.soft_sync, NiobufFlags::SOFT_SYNC),
            (file.is_privileged, NiobufFlags::SYS_RESOURCE),
        ] {
            bits = if is_set { bits | flag } else { bits };
        }
        Ok((body, bits))
    }
}
