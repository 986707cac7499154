//! Writing. Spec: mdt-ost §17.3, §19.3, §22.5.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_checksum::Checksum;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, OST_WRITE, RESULTS, SHORT_IO};
use fulmar_lustre_wire::ldlm::{InodeBits, LayoutIntentOp, LockMode};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::{Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Fid, Handle, List, Status, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::Request;
use futures_util::future::join_all;

use super::object::{OBDO_LEN, Object, Run, checksum_kind, described};
use super::read::{SHORT_MAX, TRIES, io_object};
use crate::files::caller::Caller;
use crate::files::layout::FileLayout;
use crate::machine::context::{Acquired, Context};

/// The capability to exceed quotas.
const SYS_RESOURCE: u32 = 1 << 24;
/// The most bytes that are not on the disks of the targets and may have to be sent again. Beyond it, writes
/// wait for the disk.
const KEPT_MAX: u64 = 256 << 20;
/// The space that a client says it wants to be granted.
const WANTED: u32 = 64 << 20;

/// A write of a file.
struct Writing<'a> {
    caller: &'a Caller,
    body: MdtBody,
    layout: Arc<FileLayout>,
    data: &'a [u8],
    /// Where the data begin in the file.
    offset: u64,
}

impl Context {
    /// Writes data at an offset of a file. At most three round trips, one after the other, for objects, for
    /// locks and for the data, whose objects are written at the same time; only the last one if the objects
    /// exist and locks are held.
    pub(crate) async fn write_at(
        &self,
        caller: &Caller,
        fid: Fid,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Errno> {
        self.write_under(caller, fid, (offset, data), &[]).await
    }

    /// The same; some objects may be locked already.
    async fn write_under(
        &self,
        caller: &Caller,
        fid: Fid,
        (offset, data): (u64, &[u8]),
        held: &[(Object, Acquired)],
    ) -> Result<(), Errno> {
        if data.is_empty() {
            return Ok(());
        }
        let len = data.len() as u64;
        offset.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(Errno::EFBIG)?;
        let layout = self.writable_layout(caller, fid, offset, len).await?;
        let body = self.owner(caller, fid).await?;
        let writing = Writing { caller, body, layout, data, offset };
        let runs = self.runs(fid, &writing.layout, (offset, len)).await?;
        let written = runs.into_iter().map(|run| {
            let writing = &writing;
            async move {
                if let Some((object, own)) = held.iter().find(|one| one.0.key() == run.object.key())
                {
                    let handle = self.server_handle(object, own);
                    return self.write_run(writing, &run, handle).await;
                }
                let range = (run.offset, run.offset + run.len);
                let held = self.lock_range(&run.object, LockMode::PW, range).await?;
                let handle = self.server_handle(&run.object, &held);
                let result = self.write_run(writing, &run, handle).await;
                drop(held);
                result
            }
        });
        join_all(written).await.into_iter().collect()
    }

    /// Writes data at the end of a file, and returns where that was. Nobody else writes meanwhile.
    pub(crate) async fn append(
        &self,
        caller: &Caller,
        fid: Fid,
        data: &[u8],
    ) -> Result<u64, Errno> {
        let mut layout = self.layout(caller, fid).await?;
        loop {
            // All clients lock the objects in this order.
            let mut held: Vec<(Object, Acquired)> = Vec::new();
            for object in self.objects(fid, &layout).await? {
                let own = self.lock_range(&object, LockMode::PW, (0, u64::MAX)).await?;
                held.push((object, own));
            }
            let size = self.size(fid, &layout).await?.size;
            if layout.needs_objects(size, data.len() as u64) {
                drop(held);
                layout = self.writable_layout(caller, fid, size, data.len() as u64).await?;
                continue;
            }
            self.write_under(caller, fid, (size, data), &held).await?;
            drop(held);
            return Ok(size);
        }
    }

    /// Returns the layout of a file in which a range has objects.
    pub(crate) async fn writable_layout(
        &self,
        caller: &Caller,
        fid: Fid,
        offset: u64,
        len: u64,
    ) -> Result<Arc<FileLayout>, Errno> {
        let layout = self.layout(caller, fid).await?;
        if layout.is_released() || layout.mirrors > 1 {
            return Err(Errno::EOPNOTSUPP);
        }
        match layout.needs_objects(offset, len) {
            true => {
                let range = (LayoutIntentOp::WRITE, offset, offset.saturating_add(len));
                self.instantiate(caller, fid, range).await
            }
            false if layout.components.is_empty() => Err(Errno::EBADF),
            false => Ok(layout),
        }
    }

    /// Returns who has a file, whose quota a write counts for.
    async fn owner(&self, caller: &Caller, fid: Fid) -> Result<MdtBody, Errno> {
        {
            let core = self.core();
            let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
            if let Some(inode) = inode.filter(|one| one.body.valid.has(Valid::FLUID)) {
                return Ok(inode.body);
            }
        }
        self.attributes(caller, fid).await
    }

    /// Writes a range of an object, and again if it arrives damaged.
    async fn write_run(
        &self,
        writing: &Writing<'_>,
        run: &Run,
        handle: Handle,
    ) -> Result<(), Errno> {
        let mut bytes = Vec::with_capacity(run.len as usize);
        for piece in &run.pieces {
            let from = (piece.offset - writing.offset) as usize;
            bytes.extend_from_slice(&writing.data[from..][..piece.len as usize]);
        }
        for attempt in 0..TRIES {
            match self.write_once(writing, run, (handle, attempt > 0), &bytes).await {
                Err(Errno::EAGAIN) => {}
                result => return result,
            }
        }
        Err(Errno::EIO)
    }

    async fn write_once(
        &self,
        writing: &Writing<'_>,
        run: &Run,
        (handle, is_again): (Handle, bool),
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let (object, granted) = (&run.object, self.granted(run.object.import));
        let is_short = run.len <= SHORT_MAX && granted.flags.has(ConnectFlags::SHORTIO);
        let (used, has_room) = self.take_grant(run, &granted);
        let mut body = self.write_body(writing, run, &granted, used);
        body.handle = handle;
        let kind = checksum_kind(&granted);
        let mut sum = Checksum::new(kind, [(run.offset, run.len)]).ok_or(Errno::EPROTO)?;
        sum.update(bytes);
        let sum = sum.finish();
        (body.flags.checksum_kind, body.nlink) = (kind, sum);
        for (is_set, flag) in [(is_short, ObdoFlags::SHORT_IO), (is_again, ObdoFlags::RECOV_RESEND)]
        {
            if is_set {
                body.flags.flags = body.flags.flags | flag;
            }
        }
        let mut flags = match used > 0 && has_room {
            true => NiobufFlags::ASYNC,
            false => NiobufFlags::SYNC,
        };
        if used > 0 {
            flags = flags | NiobufFlags::FROM_GRANT;
        }
        if writing.caller.capabilities & SYS_RESOURCE != 0 {
            flags = flags | NiobufFlags::SYS_RESOURCE;
        }
        let range = Niobuf { offset: run.offset, len: run.len as u32, flags };
        let message = Message::request(&OST_WRITE)
            .with(&OST_BODY, &body)
            .with(&IO_OBJECTS, &List(vec![io_object(run, granted.brw_size, is_short)]))
            .with(&NIOBUFS, &List(vec![range]));
        let room = len_with(&[Body::LEN, OBDO_LEN, 4]);
        let reply = match is_short {
            true => {
                let message = message.with_bytes(&SHORT_IO, bytes.to_vec());
                let request = Request::new(message, room).at(object.io_portal());
                self.request(object.import, request).await?
            }
            false => {
                let buffer = Buffer::new(bytes.len());
                buffer.write_at(0, bytes);
                let id = self.core().add_buffer(buffer);
                let memory = (id, 0, run.len);
                let in_page = (run.offset % 4096) as u32;
                let bulk = Bulk::new(Direction::ToServer, portal::OST_BULK, memory, in_page);
                let message = message.with_bytes(&SHORT_IO, vec![]);
                let request = Request::new(message, room).at(object.io_portal()).with_bulk(bulk);
                let done = self.request_with(object.import, request, Some(id)).await?;
                let reply = done.result?;
                if let Some(errno) = reply.body.status.errno() {
                    return Err(errno);
                }
                reply
            }
        };
        self.written(run, &reply, sum)
    }

    /// Takes the reply to a write.
    fn written(&self, run: &Run, reply: &Message<'_>, sum: u32) -> Result<(), Errno> {
        let body: Obdo = reply.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
        let results: List<Status> = reply.require(&RESULTS).map_err(|_| Errno::EPROTO)?;
        let mut core = self.core();
        if body.valid.has(Valid::FLGRANT)
            && let Some(peer) = core.peer_mut(run.object.import)
        {
            peer.grant = peer.grant.saturating_add(body.grant);
        }
        if let Some(errno) = results.0.iter().find_map(|status| status.errno()) {
            return Err(errno);
        }
        if body.valid.has(Valid::FLCKSUM) && body.nlink != sum {
            return Err(Errno::EAGAIN);
        }
        let now = core.seconds();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return Ok(()) };
        let end = run.offset + run.len;
        if run.object.is_on_mdt {
            if let Some(inode) = mount.inodes.get_mut(&run.object.file)
                && inode.bits.has(InodeBits::DOM)
            {
                inode.body.dom_size = inode.body.dom_size.max(end);
            }
        } else if let Some(known) = mount.objects.get_mut(&run.object.key()) {
            known.lvb.size = known.lvb.size.max(end);
            (known.lvb.mtime, known.lvb.ctime) = (now, now);
            if body.valid.has(Valid::FLBLOCKS) {
                known.lvb.blocks = body.blocks;
            }
        }
        Ok(())
    }

    /// Takes the space of a write from what the target has granted. Returns how much that was, and whether
    /// the write need not wait for the disk.
    fn take_grant(&self, run: &Run, granted: &ConnectData) -> (u64, bool) {
        let block = 1_u64 << granted.grant_block_bits.clamp(12, 24);
        let end = (run.offset + run.len).next_multiple_of(block);
        let tax = u64::from(granted.grant_tax_kib) << 10;
        let cost = end - run.offset / block * block + tax;
        let mut core = self.core();
        let has_room = core.kept_len < KEPT_MAX;
        let used = match core.peer_mut(run.object.import) {
            Some(peer) if peer.grant >= cost => {
                peer.grant -= cost;
                cost
            }
            _ => 0,
        };
        (used, has_room)
    }

    /// Returns what a write says of its object.
    fn write_body(
        &self,
        writing: &Writing<'_>,
        run: &Run,
        granted: &ConnectData,
        used: u64,
    ) -> Obdo {
        let (object, owner) = (&run.object, &writing.body);
        let mut body = described(object.file, &writing.layout, object.place, object.id);
        let core = self.core();
        let (now, grant) = (core.seconds(), core.peer(object.import).map_or(0, |peer| peer.grant));
        drop(core);
        body.valid = body.valid
            | Valid::FLMTIME
            | Valid::FLCTIME
            | Valid::FLUID
            | Valid::FLGID
            | Valid::FLPROJID
            | Valid::FLHANDLE
            | Valid::FLCKSUM
            | Valid::FLFLAGS;
        (body.mtime, body.ctime) = (now, now);
        (body.uid, body.gid, body.projid) = (owner.uid, owner.gid, owner.projid);
        if granted.flags.has(ConnectFlags::GRANT) {
            body.valid = body.valid | Valid::FLGRANT | Valid::FLBLOCKS;
            (body.grant, body.blocks, body.mode) = (grant, used, WANTED);
            if granted.flags.has(ConnectFlags::GRANT_PARAM) {
                body.data_version = used;
            }
        }
        body
    }
}
