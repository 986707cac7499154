//! Space and holes. Spec: mdt-ost §16.7, §16.9, §22.12.

use std::ops::Range;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::connect::ConnectFlags2;
use fulmar_lustre_wire::format::{OST_BODY, OST_FALLOCATE, OST_SEEK};
use fulmar_lustre_wire::ldlm::LockMode;
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::{FallocateMode, Obdo};
use fulmar_rpc::import::Request;
use futures_channel::oneshot;
use futures_util::future::join_all;

use super::io::CachedFile;
use super::locks::Piece;
use super::object::{OBDO_LEN, Object, described};
use super::state::CacheWaiter;
use crate::files::caller::Caller;
use crate::files::layout::FileLayout;
use crate::machine::context::Context;
use crate::machine::requester::Requester;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Data.
    Data,
    /// A hole, as which the end of the file counts too.
    Hole,
}

/// What is done with the space of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// It is allocated, and the file is as long as the range at least.
    Grow,
    /// It is allocated; the size stays.
    KeepSize,
    /// It becomes a hole; the size stays.
    PunchHole,
    /// It becomes zeros, and the file is as long as the range at least.
    ZeroRange,
    /// It becomes zeros; the size stays.
    ZeroKeepSize,
}

impl Allocate {
    fn mode(self) -> FallocateMode {
        match self {
            Self::Grow => FallocateMode::NONE,
            Self::KeepSize => FallocateMode::KEEP_SIZE,
            Self::PunchHole => FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE,
            Self::ZeroRange => FallocateMode::ZERO_RANGE,
            Self::ZeroKeepSize => FallocateMode::ZERO_RANGE | FallocateMode::KEEP_SIZE,
        }
    }

    /// Returns whether the range has other bytes afterwards.
    fn changes_data(self) -> bool {
        matches!(self, Self::PunchHole | Self::ZeroRange | Self::ZeroKeepSize)
    }
}

impl Context {
    /// Allocates the space of a range of a file, or frees it. One round trip for objects, if some are
    /// missing, one for locks, and one for all objects.
    pub(crate) async fn allocate(
        &self,
        caller: &Caller,
        fid: Fid,
        (offset, len): (u64, u64),
        how: Allocate,
    ) -> Result<(), Errno> {
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let pass = self.exclude(fid).await;
        self.forget_inline(fid);
        let layout = match how {
            Allocate::PunchHole => self.layout(caller, fid).await?,
            _ => self.writable_layout(caller, fid, offset, len).await?,
        };
        let owner = self.attributes(caller, fid).await?;
        let file = self.cached(fid, layout).await?;
        let range = offset..offset.saturating_add(len);
        let pieces = self.pieces(&file, range.clone());
        let held = self.lock_all(&pieces, LockMode::PW).await?;
        self.check_requester()?;
        let allocated = self.allocate_pieces(&file, range, (pieces, how), &owner);
        let result =
            if how.changes_data() { Requester::finish(allocated).await } else { allocated.await };
        drop((held, pass));
        result
    }

    /// Drops what is cached of a range that gets other bytes, then allocates its pieces.
    async fn allocate_pieces(
        &self,
        file: &CachedFile,
        range: Range<u64>,
        (pieces, how): (Vec<Piece>, Allocate),
        owner: &MdtBody,
    ) -> Result<(), Errno> {
        if how.changes_data() {
            self.data_op(|data, now| {
                let op = data.cache.handle_punch(now, file.id, range);
                let (sender, waiting) = oneshot::channel();
                data.waiting.insert(op, CacheWaiter::Flush(sender));
                Ok((op, waiting))
            })
            .await?;
        }
        let (layout, now) = (&file.layout, self.core().seconds());
        let all = pieces.into_iter().map(|(object, Range { start, end })| async move {
            let mut body = described(object.file, layout, object.place, object.id);
            body.valid = body.valid
                | Valid::FLSIZE
                | Valid::FLBLOCKS
                | Valid::FLUID
                | Valid::FLGID
                | Valid::FLPROJID;
            (body.size, body.blocks, body.nlink) = (start, end, how.mode().0);
            body.valid = body.valid | Valid::FLMTIME | Valid::FLCTIME;
            (body.mtime, body.ctime) = (now, now);
            (body.uid, body.gid, body.projid) = (owner.uid, owner.gid, owner.projid);
            let message = Message::request(&OST_FALLOCATE).with(&OST_BODY, &body);
            let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN]));
            let reply = self.request(object.import, request.at(object.io_portal())).await;
            self.resized(&object, reply?.require(&OST_BODY).map_err(|_| Errno::EPROTO)?);
            Ok::<(), Errno>(())
        });
        let result = join_all(all).await.into_iter().collect();
        if let Some(inode) = self
            .core()
            .mounts
            .get_mut(&self.mount)
            .and_then(|mount| mount.inodes.get_mut(&file.fid))
        {
            inode.written = Some(now);
        }
        result
    }

    fn resized(&self, object: &Object, body: Obdo) {
        let mut core = self.core();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
        if let Some(known) = mount.objects.get_mut(&object.key())
            && body.valid.has(Valid::FLSIZE)
        {
            (known.lvb.size, known.lvb.blocks) = (body.size, body.blocks);
            if body.valid.has(Valid::FLMTIME | Valid::FLCTIME) {
                (known.lvb.mtime, known.lvb.ctime) = (body.mtime, body.ctime);
                known.tell();
            }
        }
    }

    /// Returns where the next data, or the next hole, of a file is from an offset on. One round trip for
    /// locks, and one for all objects.
    ///
    /// # Errors
    /// ENXIO if there are none.
    pub(crate) async fn seek(
        &self,
        caller: &Caller,
        fid: Fid,
        offset: u64,
        what: Seek,
    ) -> Result<u64, Errno> {
        let pass = self.share(fid).await;
        let layout = self.layout(caller, fid).await?;
        let file = self.cached(fid, layout).await?;
        let layout = &file.layout;
        self.write_back(fid).await?;
        let size = self.size(fid, layout).await?.size;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let asked = file.objects.iter().copied().filter(|object| {
            let part = &layout.components[object.place.0];
            part.end > offset && part.start < size
        });
        let asked = asked.map(|object| self.seek_object(layout, object, (offset, size), what));
        let mut found = Vec::new();
        for place in join_all(asked).await {
            found.extend(place?);
        }
        drop(pass);
        // A component without objects is a hole.
        if what == Seek::Hole {
            let parts = layout.components.iter().filter(|one| !one.has_objects && one.end > offset);
            found.extend(parts.map(|one| one.start.max(offset)));
            found.push(size);
        }
        let first = found.into_iter().filter(|place| *place >= offset).min();
        match first {
            Some(place) if place < size => Ok(place),
            Some(_) if what == Seek::Hole => Ok(size),
            _ => Err(Errno::ENXIO),
        }
    }

    /// Returns where in the file an object has the next data or the next hole, if it has any.
    async fn seek_object(
        &self,
        layout: &FileLayout,
        object: Object,
        (offset, size): (u64, u64),
        what: Seek,
    ) -> Result<Option<u64>, Errno> {
        let (part, stripe) = (&layout.components[object.place.0], object.place.1);
        let striping = part.striping();
        let from = striping.object_offset(stripe, offset.max(part.start));
        if !self.granted(object.import).flags2.has(ConnectFlags2::LSEEK) {
            return Ok((what == Seek::Data).then_some(offset.max(part.start)));
        }
        let held = self.lock_range(&(object, from..u64::MAX), LockMode::PR).await?;
        let mut body = described(object.file, layout, object.place, object.id);
        (body.size, body.mode) = (from, if what == Seek::Data { 3 } else { 4 });
        let message = Message::request(&OST_SEEK).with(&OST_BODY, &body);
        let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN]));
        let reply = self.request(object.import, request.at(object.portal())).await?;
        drop(held);
        let found: Obdo = reply.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
        let place = |at| striping.file_offset(stripe, at).filter(|place| *place < size);
        match found.size as i64 {
            at if at >= 0 => Ok(place(at as u64)),
            // Behind the end of the object there is nothing but a hole, as far as the file reaches.
            errno if errno == -i64::from(Errno::ENXIO.0) => {
                Ok((what == Seek::Hole).then(|| place(from)).flatten())
            }
            errno => Err(Errno(i32::try_from(-errno).unwrap_or(Errno::EIO.0))),
        }
    }
}
