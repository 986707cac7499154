//! An OST whose objects are in memory. An object exists when somebody uses it, since another target
//! may have made it. Spec: mdt-ost §15.1, §16.2, §17.5, §19.2.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CONNECT_DATA, IO_OBJECTS, NIOBUFS, OST_BODY, RESULTS, SHORT_IO, STATFS,
};
use fulmar_lustre_wire::ldlm::{Nanoseconds, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::{Statfs, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{ChecksumKind, Niobuf, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Bytes, List, Opcode, Status};
use fulmar_rpc::export::Offer;

/// The objects of an OST.
#[derive(Debug, Default)]
pub struct Ost {
    objects: BTreeMap<ResourceId, Object>,
    /// The bytes of all objects.
    used: u64,
    transno: u64,
}

#[derive(Debug, Default)]
struct Object {
    data: Vec<u8>,
    /// What clients have said of its times.
    times: (i64, i64, i64),
}

/// The bulk of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// How many bytes there are; of a read, at most.
    pub len: usize,
    /// Where they begin in the object.
    pub offset: u64,
    /// The most parts of the bulk.
    pub parts_max: u32,
}

/// The number of its start.
pub const INSTANCE: u32 = 1;
/// The largest object in bytes.
const OBJECT_MAX: u64 = 256 << 20;
/// The most bytes and objects.
const SPACE: u64 = 1 << 30;
const OBJECTS_MAX: u64 = 1 << 16;
/// The largest bulk transfer in bytes.
const BRW_SIZE: u32 = 4 << 20;
/// The space that a client may use without asking.
const GRANT: u64 = 32 << 20;

impl Ost {
    /// The requests that it executes, without those about locks.
    pub const OPERATIONS: &[Opcode] = &[
        Opcode::OST_GETATTR,
        Opcode::OST_SETATTR,
        Opcode::OST_READ,
        Opcode::OST_WRITE,
        Opcode::OST_DESTROY,
        Opcode::OST_PUNCH,
        Opcode::OST_STATFS,
        Opcode::OST_SYNC,
    ];

    const OFFER: Offer = Offer {
        flags: ConnectFlags::VERSION
            .with(ConnectFlags::AT)
            .with(ConnectFlags::FULL20)
            .with(ConnectFlags::FID)
            .with(ConnectFlags::INDEX)
            .with(ConnectFlags::GRANT)
            .with(ConnectFlags::BRW_SIZE)
            .with(ConnectFlags::CANCELSET)
            .with(ConnectFlags::MAXBYTES)
            .with(ConnectFlags::EINPROGRESS)
            .with(ConnectFlags::LVB_TYPE)
            .with(ConnectFlags::SHORTIO)
            .with(ConnectFlags::BULK_MBITS)
            .with(ConnectFlags::FLAGS2),
        flags2: ConnectFlags2::REP_MBITS,
    };

    /// Returns what a client gets that requests `asked`.
    fn grant(asked: &ConnectData) -> ConnectData {
        let (brw_size, grant) = (asked.brw_size.min(BRW_SIZE), GRANT as u32);
        let (bytes_max, instance) = (OBJECT_MAX, INSTANCE);
        ConnectData { brw_size, grant, bytes_max, instance, ..Self::OFFER.grant(asked) }
    }

    /// Returns the attributes of an object that locks carry.
    pub fn lvb(&self, resource: ResourceId) -> OstLvb {
        let none = Object::default();
        let object = self.objects.get(&resource).unwrap_or(&none);
        let (mtime, atime, ctime) = object.times;
        let (size, nanoseconds) = (object.data.len() as u64, Some(Nanoseconds::default()));
        OstLvb { size, mtime, atime, ctime, blocks: size.div_ceil(512), nanoseconds }
    }

    /// Answers a request whose data, if it has any, are in the message.
    ///
    /// # Errors
    /// EPROTO if it is not whole or inconsistent, EFBIG, EOPNOTSUPP.
    pub fn execute(&mut self, request: &Message<'_>) -> Result<Message<'static>, Errno> {
        let format = request.format();
        let reply = Message::reply(format, Status::OK);
        match request.body.opcode {
            Opcode::OST_CONNECT => {
                let asked = request.require(&CONNECT_DATA).map_err(|_| Errno::EPROTO)?;
                Ok(reply.with(&CONNECT_DATA, &Self::grant(&asked)))
            }
            Opcode::OST_DISCONNECT => Ok(reply),
            Opcode::OST_STATFS => Ok(reply.with(&STATFS, &self.statfs())),
            Opcode::OST_READ => {
                let (reply, data) = self.read(request)?;
                Ok(reply.with(&SHORT_IO, &Bytes(data)))
            }
            Opcode::OST_WRITE => {
                let data = request.require(&SHORT_IO).map_err(|_| Errno::EPROTO)?;
                self.write(request, &data.0)
            }
            Opcode::OST_GETATTR | Opcode::OST_SYNC | Opcode::OST_SETATTR => {
                let body = body(request)?;
                let object = self.object(body.id.resource(), 0)?;
                object.take_times(&body);
                Ok(reply.with(&OST_BODY, &object.describe(&body)))
            }
            Opcode::OST_PUNCH => self.punch(request),
            Opcode::OST_DESTROY => {
                let body = body(request)?;
                let removed = self.objects.remove(&body.id.resource());
                self.used -= removed.map_or(0, |object| object.data.len() as u64);
                let mut reply = reply.with(&OST_BODY, &Obdo { valid: Valid::NONE, ..body });
                reply.body.transno = self.next_transno();
                Ok(reply)
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Returns the bulk of a read or a write; `None` if its data are in messages.
    ///
    /// # Errors
    /// EPROTO if the request is not whole or inconsistent, EFBIG.
    pub fn transfer(request: &Message<'_>) -> Result<Option<Transfer>, Errno> {
        if body(request)?.flags.flags.has(ObdoFlags::SHORT_IO) {
            return Ok(None);
        }
        let ranges = ranges(request)?;
        let objects = request.require(&IO_OBJECTS).map_err(|_| Errno::EPROTO)?;
        let parts_max = objects.0.first().ok_or(Errno::EPROTO)?.max_brw.transfers();
        Ok(Some(Transfer { len: total(&ranges), offset: ranges[0].offset, parts_max }))
    }

    /// Returns the reply to a read, and the data, which are to be sent as they are now.
    ///
    /// # Errors
    /// As [`Ost::execute`].
    pub fn read(&mut self, request: &Message<'_>) -> Result<(Message<'static>, Vec<u8>), Errno> {
        let (asked, ranges) = (body(request)?, ranges(request)?);
        let data = self.collect(asked.id.resource(), &ranges);
        let mut body = self.object(asked.id.resource(), 0)?.describe(&asked);
        if asked.valid.has(Valid::FLCKSUM) {
            body.valid = body.valid | Valid::FLCKSUM | Valid::FLFLAGS;
            body.flags.checksum_kind = ChecksumKind::ADLER;
            body.nlink = adler2::adler32_slice(&data);
        }
        let reply = Message::reply(request.format(), Status(data.len() as i32));
        Ok((reply.with(&OST_BODY, &body), data))
    }

    /// Handles the data of a write, and answers it.
    ///
    /// # Errors
    /// As [`Ost::execute`].
    pub fn write(&mut self, request: &Message<'_>, data: &[u8]) -> Result<Message<'static>, Errno> {
        let (asked, ranges) = (body(request)?, ranges(request)?);
        if total(&ranges) != data.len() {
            return Err(Errno::EPROTO);
        }
        let end = ranges.last().map_or(0, |range| range.offset + u64::from(range.len));
        let object = self.object(asked.id.resource(), end)?;
        let mut rest = data;
        for range in &ranges {
            let (now, later) = rest.split_at(range.len as usize);
            let start = range.offset as usize;
            let end = start + now.len();
            object.data[start..end].copy_from_slice(now);
            rest = later;
        }
        object.take_times(&asked);
        let mut body = object.describe(&asked);
        if asked.valid.has(Valid::FLCKSUM) {
            body.valid = body.valid | Valid::FLCKSUM | Valid::FLFLAGS;
            (body.flags, body.nlink) = (asked.flags, asked.nlink);
        }
        if asked.valid.has(Valid::FLGRANT) {
            body.valid = body.valid | Valid::FLGRANT;
            body.grant = GRANT.saturating_sub(asked.grant);
        }
        let results = List(vec![Status::OK; ranges.len()]);
        let reply = Message::reply(request.format(), Status::OK);
        let mut reply = reply.with(&OST_BODY, &body).with(&RESULTS, &results);
        reply.body.transno = self.next_transno();
        Ok(reply)
    }

    /// Returns an object, with at least so many bytes.
    fn object(&mut self, id: ResourceId, len: u64) -> Result<&mut Object, Errno> {
        let is_full = self.objects.len() as u64 >= OBJECTS_MAX;
        let own = self.objects.get(&id).map(|object| object.data.len() as u64);
        let used = self.used + len.saturating_sub(own.unwrap_or(0));
        if used > SPACE || (own.is_none() && is_full) {
            return Err(Errno::ENOSPC);
        }
        self.used = used;
        let object = self.objects.entry(id).or_default();
        object.data.resize(object.data.len().max(len as usize), 0);
        Ok(object)
    }

    fn punch(&mut self, request: &Message<'_>) -> Result<Message<'static>, Errno> {
        let asked = body(request)?;
        let range = Valid::FLSIZE | Valid::FLBLOCKS;
        if !asked.valid.has(range) || asked.blocks != u64::MAX {
            return Err(Errno::EPROTO);
        }
        if asked.size > OBJECT_MAX {
            return Err(Errno::EFBIG);
        }
        let object = self.object(asked.id.resource(), asked.size)?;
        let cut = object.data.len() as u64 - asked.size;
        object.data.truncate(asked.size as usize);
        object.take_times(&asked);
        let body = object.describe(&asked);
        self.used -= cut;
        let mut reply = Message::reply(request.format(), Status::OK).with(&OST_BODY, &body);
        reply.body.transno = self.next_transno();
        Ok(reply)
    }

    /// Returns the bytes of ranges as far as the object reaches.
    fn collect(&self, resource: ResourceId, ranges: &[Niobuf]) -> Vec<u8> {
        let data = self.objects.get(&resource).map_or(&[][..], |object| &object.data);
        let mut found = Vec::new();
        for range in ranges {
            let start = (range.offset as usize).min(data.len());
            let end = (start + range.len as usize).min(data.len());
            found.extend(&data[start..end]);
        }
        found
    }

    fn statfs(&self) -> Statfs {
        let block_size = 4096;
        let blocks = SPACE / block_size;
        let free = blocks - self.used.div_ceil(block_size).min(blocks);
        Statfs {
            blocks,
            free,
            available: free,
            files: OBJECTS_MAX,
            free_files: OBJECTS_MAX - self.objects.len() as u64,
            block_size: block_size as u32,
            name_max: 255,
            max_bytes: OBJECT_MAX,
            ..Statfs::default()
        }
    }

    fn next_transno(&mut self) -> u64 {
        self.transno += 1;
        self.transno
    }
}

impl Object {
    fn take_times(&mut self, said: &Obdo) {
        let (mtime, atime, ctime) = &mut self.times;
        for (flag, own, new) in [
            (Valid::FLMTIME, mtime, said.mtime),
            (Valid::FLATIME, atime, said.atime),
            (Valid::FLCTIME, ctime, said.ctime),
        ] {
            if said.valid.has(flag) {
                *own = new;
            }
        }
    }

    /// Returns the attributes for the reply to a request.
    fn describe(&self, asked: &Obdo) -> Obdo {
        let (mtime, atime, ctime) = self.times;
        let (size, mode) = (self.data.len() as u64, 0o100_666);
        let times = Valid::FLMTIME | Valid::FLATIME | Valid::FLCTIME;
        let sizes = Valid::FLSIZE | Valid::FLBLOCKS | Valid::FLMODE | Valid::FLTYPE;
        let valid = Valid::FLID | Valid::FLGROUP | times | sizes;
        let blocks = size.div_ceil(512);
        Obdo { valid, id: asked.id, size, mtime, atime, ctime, blocks, mode, ..Obdo::default() }
    }
}

fn body(request: &Message<'_>) -> Result<Obdo, Errno> {
    let body = request.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
    if body.valid.has(Valid::FLID) { Ok(body) } else { Err(Errno::EPROTO) }
}

/// Returns the ranges of a read or a write, at least one, in increasing order.
fn ranges(request: &Message<'_>) -> Result<Vec<Niobuf>, Errno> {
    let List(ranges) = request.require(&NIOBUFS).map_err(|_| Errno::EPROTO)?;
    let mut end = 0;
    for range in &ranges {
        if range.offset < end {
            return Err(Errno::EPROTO);
        }
        end = range.offset.saturating_add(range.len.into());
        if end > OBJECT_MAX {
            return Err(Errno::EFBIG);
        }
    }
    let len: u64 = ranges.iter().map(|range| u64::from(range.len)).sum();
    if ranges.is_empty() || len > BRW_SIZE.into() {
        return Err(Errno::EPROTO);
    }
    Ok(ranges)
}

/// Returns the bytes of ranges.
fn total(ranges: &[Niobuf]) -> usize {
    ranges.iter().map(|range| range.len as usize).sum()
}

#[cfg(test)]
mod tests;
