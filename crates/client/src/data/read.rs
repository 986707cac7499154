//! Reading. Spec: mdt-ost §17.5, §22.5.

use fulmar_base::Errno;
use fulmar_checksum::Checksum;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, OST_READ, SHORT_IO};
use fulmar_lustre_wire::ldlm::LockMode;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::{IoObject, MaxBrw, Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Fid, List, portal};
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::Request;
use futures_util::future::join_all;

use super::object::{OBDO_LEN, Run, checksum_kind, described};
use crate::files::caller::Caller;
use crate::files::layout::FileLayout;
use crate::machine::context::Context;

/// Shorter transfers are in the message. Spec: mdt-ost §17.5.
pub(super) const SHORT_MAX: u64 = 16 << 10;
/// How often data that arrive damaged are asked for again. Spec: mdt-ost §17.7.
pub(super) const TRIES: usize = 10;

impl Context {
    /// Reads a range of a file: as many bytes as it has there. At most three round trips, one after the
    /// other, for the size, for locks and for the data, whose objects are asked at the same time; only the
    /// last one if locks are held.
    pub(crate) async fn read_at(
        &self,
        caller: &Caller,
        fid: Fid,
        (offset, len): (u64, u64),
    ) -> Result<Vec<u8>, Errno> {
        let layout = self.layout(caller, fid).await?;
        if layout.is_released() {
            return Err(Errno::EOPNOTSUPP);
        }
        let size = self.size(fid, &layout).await?.size;
        let len = size.saturating_sub(offset).min(len);
        let runs = self.runs(fid, &layout, (offset, len)).await?;
        let read = runs.into_iter().map(|run| {
            let layout = &layout;
            async move {
                let range = (run.offset, run.offset + run.len);
                let held = self.lock_range(&run.object, LockMode::PR, range).await?;
                let handle = self.server_handle(&run.object, &held);
                let bytes = self.read_run(layout, &run, handle).await;
                drop(held);
                Ok::<_, Errno>((run, bytes?))
            }
        });
        // What no object has is a hole.
        let mut whole = vec![0; usize::try_from(len).map_err(|_| Errno::EINVAL)?];
        for read in join_all(read).await {
            let (run, bytes) = read?;
            for piece in &run.pieces {
                let from = (piece.object_offset - run.offset) as usize;
                let part = bytes.get(from..).unwrap_or_default();
                let part = &part[..part.len().min(piece.len as usize)];
                whole[(piece.offset - offset) as usize..][..part.len()].copy_from_slice(part);
            }
        }
        Ok(whole)
    }

    /// Reads a range of an object, and again if it arrives damaged.
    async fn read_run(
        &self,
        layout: &FileLayout,
        run: &Run,
        handle: fulmar_lustre_wire::Handle,
    ) -> Result<Vec<u8>, Errno> {
        let mut own = None;
        for _ in 0..TRIES {
            let (reply, bytes) = self.read_once(layout, run, handle, own).await?;
            let body: Obdo = reply.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
            own = checksum_of(&body, run.offset, &bytes).filter(|own| *own != body.nlink);
            if own.is_none() {
                return Ok(bytes);
            }
        }
        Err(Errno::EIO)
    }

    async fn read_once(
        &self,
        layout: &FileLayout,
        run: &Run,
        handle: fulmar_lustre_wire::Handle,
        damaged: Option<u32>,
    ) -> Result<(Box<Message<'static>>, Vec<u8>), Errno> {
        let (object, granted) = (&run.object, self.granted(run.object.import));
        let is_short = run.len <= SHORT_MAX && granted.flags.has(ConnectFlags::SHORTIO);
        let mut body = described(object.file, layout, object.place, object.id);
        body.valid = body.valid | Valid::FLHANDLE | Valid::FLCKSUM | Valid::FLFLAGS;
        body.handle = handle;
        body.flags.checksum_kind = checksum_kind(&granted);
        if is_short {
            body.flags.flags = body.flags.flags | ObdoFlags::SHORT_IO;
        }
        if let Some(own) = damaged {
            body.flags.flags = body.flags.flags | ObdoFlags::RECOV_RESEND;
            body.nlink = own;
        }
        let flags = NiobufFlags::READ | NiobufFlags::SYNC;
        let message = Message::request(&OST_READ)
            .with(&OST_BODY, &body)
            .with(&IO_OBJECTS, &List(vec![io_object(run, granted.brw_size, is_short)]))
            .with(&NIOBUFS, &List(vec![Niobuf { offset: run.offset, len: run.len as u32, flags }]))
            .with_bytes(&SHORT_IO, vec![]);
        let len = run.len as usize;
        if is_short {
            let room = len_with(&[Body::LEN, OBDO_LEN, len]);
            let request = Request::new(message, room).at(object.io_portal());
            let reply = self.request(object.import, request).await?;
            let bytes = reply.bytes(&SHORT_IO).unwrap_or_default();
            let bytes = bytes[..bytes.len().min(len)].to_vec();
            return Ok((reply, bytes));
        }
        let buffer = Buffer::new(len);
        let id = self.core().add_buffer(buffer.clone());
        let in_page = (run.offset % 4096) as u32;
        let bulk = Bulk::new(Direction::ToClient, portal::OST_BULK, (id, 0, run.len), in_page);
        let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN, 0]));
        let request = request.at(object.io_portal()).with_bulk(bulk);
        let done = self.request_with(object.import, request, Some(id)).await?;
        let reply = done.result?;
        if let Some(errno) = reply.body.status.errno() {
            return Err(errno);
        }
        let count = usize::try_from(done.moved).unwrap_or(0);
        if i64::from(reply.body.status.0) != done.moved as i64 || count > len {
            return Err(Errno::EPROTO);
        }
        Ok((reply, buffer.to_vec(0, count)))
    }
}

/// Returns the checksum of data that a reply has one of.
fn checksum_of(body: &Obdo, offset: u64, bytes: &[u8]) -> Option<u32> {
    if !body.valid.has(Valid::FLCKSUM) || bytes.is_empty() {
        return None;
    }
    let mut sum = Checksum::new(body.flags.checksum_kind, [(offset, bytes.len() as u64)])?;
    sum.update(bytes);
    Some(sum.finish())
}

/// Returns the object of a transfer. Spec: mdt-ost §17.1.
pub(super) fn io_object(run: &Run, brw_size: u32, is_short: bool) -> IoObject {
    let max_brw = match is_short {
        true => MaxBrw::new(1 << 16),
        false => MaxBrw::new((brw_size >> 20).max(1)),
    };
    IoObject { id: run.object.id, max_brw, ranges: 1 }
}
