//! Reads of objects. Spec: mdt-ost §17.5, §22.5.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, OST_READ, SHORT_IO};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::{Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{List, portal};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::import::Request;

use super::object::OBDO_LEN;
use super::transfer::{Attempt, Transfer, checksum};
use crate::machine::context::Context;

impl Context {
    /// Reads a range of an object. `damaged`: the checksum of data that have arrived before.
    pub(super) async fn read_once(
        &self,
        transfer: &Transfer,
        damaged: Option<u32>,
        granted: &mut u64,
    ) -> Result<Attempt, Errno> {
        let mut body = self.transfer_body(transfer)?;
        if let Some(own) = damaged {
            body.flags.flags = body.flags.flags | ObdoFlags::RECOV_RESEND;
            body.nlink = own;
        }
        let niobuf = Niobuf {
            offset: transfer.start(),
            len: transfer.len() as u32,
            flags: NiobufFlags::READ | NiobufFlags::SYNC,
        };
        let message = Message::request(&OST_READ)
            .with(&OST_BODY, &body)
            .with(&IO_OBJECTS, &List(vec![transfer.io_object()]))
            .with(&NIOBUFS, &List(vec![niobuf]))
            .with_bytes(&SHORT_IO, vec![]);
        let (reply, count) = if transfer.is_short() {
            self.read_short(transfer, message).await?
        } else {
            self.read_bulk(transfer, message).await?
        };
        if let Some(errno) = reply.body.status.errno() {
            return Ok(Attempt::Failed(errno));
        }
        let body: Obdo = reply.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
        if body.valid.has(Valid::FLGRANT) {
            *granted = granted.saturating_add(body.grant);
        }
        if body.valid.has(Valid::FLCKSUM) && count > 0 {
            let range = (transfer.start(), count as u64);
            let own = checksum(body.flags.checksum_kind, [range], &transfer.memory, count);
            if let Some(own) = own.filter(|own| *own != body.nlink) {
                return Ok(Attempt::Damaged(own));
            }
        }
        Ok(Attempt::Done(count as u64, false))
    }

    /// Reads data that come in the reply.
    async fn read_short(
        &self,
        transfer: &Transfer,
        message: Message<'static>,
    ) -> Result<(Box<Message<'static>>, usize), Errno> {
        let (object, len) = (&transfer.object, transfer.memory.len());
        let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN, len]));
        let done = self.request_with(object.import, request.at(object.io_portal()), None).await?;
        let reply = done.result?;
        let bytes = reply.bytes(&SHORT_IO).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(len)];
        transfer.memory.write_at(0, bytes);
        let count = bytes.len();
        Ok((reply, count))
    }

    /// Reads data that the target stores here.
    async fn read_bulk(
        &self,
        transfer: &Transfer,
        message: Message<'static>,
    ) -> Result<(Box<Message<'static>>, usize), Errno> {
        let object = &transfer.object;
        let id = self.core().add_buffer(transfer.memory.clone());
        let memory = (id, 0, transfer.len());
        let bulk = Bulk::new(Direction::ToClient, portal::OST_BULK, memory, transfer.in_page());
        let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN, 0]));
        let request = request.at(object.io_portal()).with_bulk(bulk);
        let done = self.request_with(object.import, request, Some(id)).await?;
        let reply = done.result?;
        let count = usize::try_from(done.moved).unwrap_or(0);
        let is_whole = i64::from(reply.body.status.0) == done.moved as i64;
        if reply.body.status.errno().is_none() && (!is_whole || count > transfer.memory.len()) {
            return Err(Errno::EPROTO);
        }
        Ok((reply, count))
    }
}
