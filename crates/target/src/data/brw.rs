//! Reads and writes. Spec: mdt-ost §17.1 to §17.8.
//!
//! ```text
//! host                                        target
//! OST_WRITE ──────────────────────────────► prepare: checks, room   ──► Transfer: ranges, length
//! bulk data arrive in memory
//! the memory of each range ───────────────► write: one transaction  ──► Answer
//!
//! OST_READ  ──────────────────────────────► prepare                 ──► Transfer
//! the memory of each range ───────────────► read: fills it          ──► Reading: length, checksum of
//! bulk data are sent                          Reading::answer       ──► Answer
//! ```
//!
//! The bytes stay where they are: the store moves them between that memory and the object. Data in the
//! message itself (short I/O) are executed at once.

use std::io::{IoSlice, IoSliceMut};

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, SHORT_IO};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, List, Opcode};
use fulmar_store::{ObjectId, Source};

use super::Data;
use super::transfer::{LoadedRead, Room, Sources, Transfer, readable};
use crate::{Answer, Call, Failure, errno_of};

/// A target whose objects have data.
pub trait Holder: Send + Sync + 'static {
    /// Returns the data.
    fn data(&self) -> &Data;

    /// Returns whether clients may still repeat what a restart has lost.
    fn is_recovering(&self) -> bool;

    /// Returns the flags that were granted to a client.
    ///
    /// # Errors
    /// ENOTCONN if there is none.
    fn flags(&self, export: Handle) -> Result<ConnectFlags, Errno>;

    /// Returns the body of a request, with the ids of the file system.
    ///
    /// # Errors
    /// EPROTO if it has none.
    fn body(&self, call: &Call<'_>) -> Result<Obdo, Errno> {
        call.body()
    }

    /// Returns the object that a body names.
    ///
    /// # Errors
    /// EPROTO, EBADF.
    fn named(&self, asked: &Obdo) -> Result<ObjectId, Errno>;

    /// Checks that an object may be read or written so.
    ///
    /// # Errors
    /// ENOENT if there is none, and others.
    fn check_transfer(&self, call: &Call<'_>, transfer: &Transfer) -> Result<(), Failure>;

    /// Counts a read or a write that is about to be executed.
    fn count(&self, call: &Call<'_>, transfer: &Transfer) {
        let _ = (call, transfer);
    }

    /// Writes the data with the attributes and the reply, as one transaction: [`Transfer::write`].
    ///
    /// # Errors
    /// ENOENT if the object is gone, and others.
    fn commit_write<'a>(
        &'a self,
        call: &Call<'_>,
        transfer: &Transfer,
        sources: Sources<'a>,
        checksum: Option<u32>,
    ) -> Result<Answer, Failure>;

    /// Executes a request whose data are in its message.
    ///
    /// # Errors
    /// The status of a reply without buffers.
    fn execute(&self, call: &Call<'_>) -> Result<Answer, Errno>;

    /// Checks a read or a write whose data are not in its message, and takes the space that it needs.
    /// Returns `None` if they are: [`Holder::execute`] does it.
    ///
    /// # Errors
    /// EPROTO if the request is not whole or inconsistent, ENOENT if there is no such object, ESTALE if
    /// the layout is old, EROFS if the client may not write, EIO.
    fn prepare(&self, call: &Call<'_>) -> Result<Option<Transfer>, Errno> {
        let body = self.body(call)?;
        if body.valid.has(Valid::FLFLAGS) && body.flags.flags.has(ObdoFlags::SHORT_IO) {
            return Ok(None);
        }
        self.prepare_any(call).map(Some).map_err(|failure| failure.errno())
    }

    /// Ends a write that is not executed, because its data did not come.
    fn abandon(&self, transfer: Transfer) {
        self.data().grants().release(transfer.export, transfer.pending);
    }

    /// Executes a write whose data have come. `sources`: the memory of each range. `checksum`: of the
    /// data, if it was computed; otherwise the client's is repeated. A write that was not from a cache is
    /// durable before its reply.
    ///
    /// # Errors
    /// ENOENT if the object is gone, ENOSPC, ESTALE, EIO.
    ///
    /// # Panics
    /// If the sources are not those of the ranges.
    fn write(
        &self,
        call: &Call<'_>,
        transfer: Transfer,
        sources: &[&dyn Source],
        checksum: Option<u32>,
    ) -> Result<Answer, Errno> {
        let lens = transfer.ranges.iter().map(|range| u64::from(range.len));
        assert!(lens.eq(sources.iter().map(|source| source.size())), "one source for each range");
        let written = self.commit_write(call, &transfer, Sources::Bulk(sources), checksum);
        self.abandon(transfer);
        call.finish(written)
    }

    /// Executes a read into the memory of each range.
    ///
    /// # Errors
    /// ENOENT if the object is gone, EIO.
    ///
    /// # Panics
    /// If the rooms are not those of the ranges.
    fn read(&self, transfer: Transfer, rooms: &mut [&mut dyn Room]) -> Result<LoadedRead, Errno> {
        assert_eq!(rooms.len(), transfer.ranges.len(), "one room for each range");
        let (object, store) = (transfer.object, &self.data().store);
        let mut filled = vec![];
        for (range, room) in transfer.ranges.iter().zip(rooms) {
            let len = u64::from(range.len);
            assert_eq!(room.size(), len, "a room is as large as its range");
            let size = store.size(object).map_err(|error| errno_of(&error))?;
            let data = store.read_into(object, range.offset, &mut **room);
            let data = data.map_err(|error| errno_of(&error))?;
            room.clear(data);
            let size = size.max(range.offset + data * u64::from(data > 0));
            filled.push((range.offset, readable(range, size)));
        }
        Ok(LoadedRead { asked: transfer.asked, filled, given: transfer.given })
    }

    /// Executes a read or a write whose data are in its message.
    ///
    /// # Errors
    /// As [`Holder::prepare`], [`Holder::write`] and [`Holder::read`].
    fn short(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let transfer = self.prepare_any(call)?;
        if transfer.is_write {
            return self.short_write(call, transfer);
        }
        let store = &self.data().store;
        let mut data = vec![0; transfer.len() as usize];
        let (mut at, mut len, mut filled) = (0, 0, vec![]);
        for range in &transfer.ranges {
            let part = &mut data[at..at + range.len as usize];
            store.read(transfer.object, range.offset, &mut [IoSliceMut::new(part)])?;
            let readable = readable(range, store.size(transfer.object)?);
            filled.push((range.offset, readable));
            at += range.len as usize;
            len += readable as usize;
        }
        data.truncate(len);
        let reading = LoadedRead { asked: transfer.asked, filled, given: transfer.given };
        let checksum = reading.checksum().map(|mut checksum| {
            checksum.update(&data);
            checksum.finish()
        });
        let answer = reading.answer(call, checksum);
        Ok(Answer { reply: answer.reply.with_bytes(&SHORT_IO, data), ..answer })
    }

    /// Executes a write whose data are in its message.
    ///
    /// # Errors
    /// EPROTO if they are not as many as it says; as [`Holder::write`].
    fn short_write(&self, call: &Call<'_>, transfer: Transfer) -> Result<Answer, Failure> {
        let data = call.message.bytes(&SHORT_IO).unwrap_or_default();
        if data.len() as u64 != transfer.len() {
            self.abandon(transfer);
            return Err(Errno::EPROTO.into());
        }
        let checksum = transfer.checksum().map(|mut checksum| {
            checksum.update(data);
            checksum.finish()
        });
        let mut rest = data;
        let parts = transfer.ranges.iter().map(|range| {
            let (now, later) = rest.split_at(range.len as usize);
            rest = later;
            [IoSlice::new(now)]
        });
        let parts: Vec<[IoSlice<'_>; 1]> = parts.collect();
        let written = self.commit_write(call, &transfer, Sources::Inline(&parts), checksum);
        self.abandon(transfer);
        written
    }

    /// Checks a read or a write, and takes the space that it needs.
    ///
    /// # Errors
    /// As [`Holder::prepare`].
    fn prepare_any(&self, call: &Call<'_>) -> Result<Transfer, Failure> {
        let asked = self.body(call)?;
        let object = self.named(&asked)?;
        let is_write = call.message.body.opcode == Opcode::OST_WRITE;
        let flags = self.flags(call.export)?;
        let (ranges, parts_max) = self.data().ranges(call, &asked, flags)?;
        if is_write && flags.has(ConnectFlags::RDONLY) {
            return Err(Errno::EROFS.into());
        }
        let mut transfer = Transfer {
            export: call.export,
            object,
            asked,
            ranges,
            parts_max,
            is_write,
            paid: vec![],
            pending: 0,
            given: None,
        };
        self.check_transfer(call, &transfer)?;
        self.data().pay(call, &mut transfer, self.is_recovering())?;
        self.count(call, &transfer);
        Ok(transfer)
    }
}

impl Data {
    /// Applies what a read or a write says of grants, and reserves the space that a write needs.
    fn pay(
        &self,
        call: &Call<'_>,
        transfer: &mut Transfer,
        is_recovering: bool,
    ) -> Result<(), Failure> {
        let asked = transfer.asked;
        // What a client repeats was counted when it came first, and so was the rest of its body.
        let said = if call.is_again() {
            Obdo { valid: Valid(asked.valid.0 & !Valid::FLGRANT.0), ..asked }
        } else {
            asked
        };
        let is_counted = asked.valid.has(Valid::FLFLAGS)
            && asked.flags.flags.has(ObdoFlags::RECOV_RESEND)
            || is_recovering;
        if transfer.is_write {
            let free = self.free()?;
            let mut grants = self.grants();
            let payment = grants.write(call.export, &said, &transfer.ranges, free, is_counted);
            (transfer.paid, transfer.pending) = (payment.paid, payment.pending);
            transfer.given = payment.given;
        } else {
            transfer.given = self.grants().read(call.export, &said, || self.free())?;
        }
        Ok(())
    }

    /// Returns the ranges of a request, and the most parts of its bulk data.
    fn ranges(
        &self,
        call: &Call<'_>,
        asked: &Obdo,
        flags: ConnectFlags,
    ) -> Result<(Vec<Niobuf>, u32), Errno> {
        let message = call.message;
        let List(objects) = message.require(&IO_OBJECTS).map_err(|_| Errno::EPROTO)?;
        let List(ranges) = message.require(&NIOBUFS).map_err(|_| Errno::EPROTO)?;
        let [object] = objects[..] else { return Err(Errno::EPROTO) };
        let is_short =
            asked.valid.has(Valid::FLFLAGS) && asked.flags.flags.has(ObdoFlags::SHORT_IO);
        let locked = ranges.iter().filter(|range| range.flags.has(NiobufFlags::SRVLOCK)).count();
        let pages_max = self.settings.brw_size.div_ceil(4096) as usize + 1;
        let len: u64 = ranges.iter().map(|range| u64::from(range.len)).sum();
        let parts = object.max_brw.transfers();
        let is_valid = object.id == asked.id
            && object.ranges as usize == ranges.len()
            && (1..=pages_max).contains(&ranges.len())
            && (locked == 0 || locked == ranges.len() && flags.has(ConnectFlags::SRVLOCK))
            && (is_short || parts.is_power_of_two())
            && len <= u64::from(self.settings.brw_size);
        let mut end = 0;
        for range in &ranges {
            let next = range.offset.checked_add(range.len.into());
            let next = next.filter(|next| *next <= i64::MAX as u64).ok_or(Errno::EPROTO)?;
            if range.len == 0 || range.offset < end {
                return Err(Errno::EPROTO);
            }
            end = next;
        }
        let is_write = message.body.opcode == Opcode::OST_WRITE;
        match () {
            () if !is_valid => Err(Errno::EPROTO),
            () if is_write && end > self.settings.bytes_max => Err(Errno::EFBIG),
            () => Ok((ranges, parts)),
        }
    }
}
