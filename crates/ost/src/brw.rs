//! Reads and writes. Spec: mdt-ost §17.1 to §17.8.
//!
//! ```text
//! host                                        Ost
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
use fulmar_checksum::Checksum;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{IO_OBJECTS, NIOBUFS, OST_BODY, RESULTS, SHORT_IO};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FlagWord, Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, List, Opcode, Status};
use fulmar_store::{ObjectId, Sink, Source};
use fulmar_target::transactions::Numbering;

use crate::ost::{Answer, Call, Change, Failure, errno_of};
use crate::records::Attributes;
use crate::space::block_end;
use crate::{Ost, attributes};

/// Memory for the data of a range that is read.
pub trait Room: Sink {
    /// Sets the bytes from `from` to its end to zero.
    fn clear(&mut self, from: u64);
}

/// A read or a write that has been checked.
#[derive(Debug)]
#[must_use = "a write that is not executed is to be abandoned"]
pub struct Transfer {
    export: Handle,
    object: ObjectId,
    asked: Obdo,
    ranges: Vec<Niobuf>,
    parts_max: u32,
    is_write: bool,
    /// Of a write, whether there is room for each range.
    paid: Vec<bool>,
    /// Of a write, the space that it holds.
    pending: u64,
    given: Option<u64>,
}

/// The memory of a write.
#[derive(Clone, Copy)]
enum Data<'a> {
    Inline(&'a [[IoSlice<'a>; 1]]),
    Bulk(&'a [&'a dyn Source]),
}

/// A read whose data are in the memory.
#[derive(Debug)]
pub struct Reading {
    asked: Obdo,
    /// Where the data of each range begin in the object, and how many there are.
    filled: Vec<(u64, u64)>,
    given: Option<u64>,
}

impl Transfer {
    /// Returns the ranges of the object.
    pub fn ranges(&self) -> &[Niobuf] {
        &self.ranges
    }

    /// Returns how many bytes there are, at most 64 MiB.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.len)).sum()
    }

    /// Returns whether there are none, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the most parts of the client's bulk data.
    pub fn parts_max(&self) -> u32 {
        self.parts_max
    }

    /// Returns whether the OST takes the lock of the ranges. Spec: mdt-ost §17.4.
    pub fn needs_lock(&self) -> bool {
        self.ranges.iter().any(|range| range.flags.has(NiobufFlags::SRVLOCK))
    }

    /// Returns the lock of the client that covers the ranges, to be prolonged.
    pub fn lock(&self) -> Option<Handle> {
        self.asked.valid.has(Valid::FLHANDLE).then_some(self.asked.handle)
    }

    /// Returns the checksum that the data of a write are to be given to; `None` if the client has none.
    pub fn checksum(&self) -> Option<Checksum> {
        let kind = self.asked.flags.checksum_kind;
        let has_checksum = self.asked.valid.has(Valid::FLCKSUM);
        has_checksum.then(|| Checksum::of_write(kind, &self.ranges)).flatten()
    }
}

impl Ost {
    /// Checks a read or a write whose data are not in its message, and takes the space that it needs.
    /// Returns `None` if they are: [`Ost::execute`] does it.
    ///
    /// # Errors
    /// EPROTO if the request is not whole or inconsistent, ENOENT if there is no such object, ESTALE if
    /// the layout is old, EROFS if the client may not write, EIO.
    pub fn prepare(&self, call: &Call<'_>) -> Result<Option<Transfer>, Errno> {
        let body = call.body()?;
        if body.valid.has(Valid::FLFLAGS) && body.flags.flags.has(ObdoFlags::SHORT_IO) {
            return Ok(None);
        }
        self.prepare_any(call).map(Some).map_err(|failure| match failure {
            Failure::Refused(errno) | Failure::Failed(errno, _) => errno,
            Failure::Store(error) => errno_of(&error),
        })
    }

    /// Ends a write that is not executed, because its data did not come.
    pub fn abandon(&self, transfer: Transfer) {
        self.grants().release(transfer.export, transfer.pending);
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
    pub fn write(
        &self,
        call: &Call<'_>,
        transfer: Transfer,
        sources: &[&dyn Source],
        checksum: Option<u32>,
    ) -> Result<Answer, Errno> {
        let lens = transfer.ranges.iter().map(|range| u64::from(range.len));
        assert!(lens.eq(sources.iter().map(|source| source.size())), "one source for each range");
        let written = self.write_data(call, &transfer, Data::Bulk(sources), checksum);
        self.grants().release(transfer.export, transfer.pending);
        self.finish(call, written)
    }

    /// Executes a read into the memory of each range.
    ///
    /// # Errors
    /// ENOENT if the object is gone, EIO.
    ///
    /// # Panics
    /// If the rooms are not those of the ranges.
    pub fn read(&self, transfer: Transfer, rooms: &mut [&mut dyn Room]) -> Result<Reading, Errno> {
        assert_eq!(rooms.len(), transfer.ranges.len(), "one room for each range");
        let (object, store) = (transfer.object, &self.store);
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
        Ok(Reading { asked: transfer.asked, filled, given: transfer.given })
    }

    /// Executes a read or a write whose data are in its message.
    pub(crate) fn short(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let transfer = self.prepare_any(call)?;
        if transfer.is_write {
            return self.short_write(call, transfer);
        }
        let mut data = vec![0; transfer.len() as usize];
        let (mut at, mut len, mut filled) = (0, 0, vec![]);
        for range in &transfer.ranges {
            let part = &mut data[at..at + range.len as usize];
            self.store.read(transfer.object, range.offset, &mut [IoSliceMut::new(part)])?;
            let readable = readable(range, self.store.size(transfer.object)?);
            filled.push((range.offset, readable));
            at += range.len as usize;
            len += readable as usize;
        }
        data.truncate(len);
        let reading = Reading { asked: transfer.asked, filled, given: transfer.given };
        let checksum = reading.checksum().map(|mut checksum| {
            checksum.update(&data);
            checksum.finish()
        });
        let Answer { reply, durable, changed } = reading.answer(call, checksum);
        Ok(Answer { reply: reply.with_bytes(&SHORT_IO, data), durable, changed })
    }

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
        let written = self.write_data(call, &transfer, Data::Inline(&parts), checksum);
        self.grants().release(transfer.export, transfer.pending);
        written
    }

    /// Checks a read or a write.
    fn prepare_any(&self, call: &Call<'_>) -> Result<Transfer, Failure> {
        let asked = call.body()?;
        let object = attributes::named(&asked)?;
        let is_write = call.message.body.opcode == Opcode::OST_WRITE;
        let export = self.export(call.export)?;
        let (ranges, parts_max) = self.ranges(call, &asked, export.client.flags)?;
        if is_write && export.client.flags.has(ConnectFlags::RDONLY) {
            return Err(Errno::EROFS.into());
        }
        let is_replay = call.message.body.transno != 0;
        match self.attributes(object)? {
            Some(found)
                if is_write
                    && asked.valid.has(Valid::LAYOUT_VERSION)
                    && asked.layout_version < found.layout_version =>
            {
                return Err(failed(&asked, Errno::ESTALE));
            }
            // The object may be made by the replay itself.
            None if !(is_write && is_replay) => return Err(failed(&asked, Errno::ENOENT)),
            _ => {}
        }
        let free = self.free()?;
        // What a client repeats was counted when it came first, and so was the rest of its body.
        let said = match call.is_again() {
            true => Obdo { valid: Valid(asked.valid.0 & !Valid::FLGRANT.0), ..asked },
            false => asked,
        };
        let flags = asked.flags.flags;
        let is_counted = asked.valid.has(Valid::FLFLAGS) && flags.has(ObdoFlags::RECOV_RESEND)
            || self.transactions.recovers();
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
        let mut grants = self.grants();
        if is_write {
            let ranges = &transfer.ranges;
            let payment = grants.write(call.export, &said, ranges, free, is_counted);
            (transfer.paid, transfer.pending) = (payment.paid, payment.pending);
            transfer.given = payment.given;
        } else {
            transfer.given = grants.read(call.export, &said, free);
        }
        drop(grants);
        let mut stats = self.stats();
        stats.count_bytes(call, is_write, transfer.len());
        stats.count_bulk(is_write, &transfer.ranges);
        Ok(transfer)
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

    /// Writes the data with the attributes and the reply, as one transaction.
    fn write_data<'a>(
        &'a self,
        call: &Call<'_>,
        transfer: &Transfer,
        data: Data<'a>,
        checksum: Option<u32>,
    ) -> Result<Answer, Failure> {
        let Transfer { object, asked, ranges, .. } = transfer;
        let object = *object;
        let sets_times = self.may_set_times(call, object);
        let _lock = self.lock(object);
        let committed = self.commit(call, |change| {
            let before = self.written_object(change, object, asked)?;
            let size = self.store.size(object)?;
            let (mut after, mut end) = (before, size);
            after.take_file(asked).map_err(|errno| failed(asked, errno))?;
            if sets_times {
                after.take_change(asked, call.now);
            }
            let mut results = vec![];
            for (place, range) in ranges.iter().enumerate() {
                let bytes = range.offset..range.offset + u64::from(range.len);
                let charged = self.charged_after_write(object, &after, end, &bytes)?;
                // What has its blocks already needs no room.
                if !transfer.paid[place] && charged > after.charged {
                    results.push(Status::failed(Errno::ENOSPC));
                    continue;
                }
                match data {
                    Data::Inline(parts) => {
                        change.transaction.write(object, range.offset, &parts[place]);
                    }
                    Data::Bulk(sources) => {
                        change.transaction.write_from(object, range.offset, sources[place]);
                    }
                }
                (after.charged, end) = (charged, end.max(bytes.end));
                results.push(Status::OK);
            }
            change.set(object, Some(&before), after);
            Ok(transfer.write_reply(call, &after, end, checksum, results))
        });
        let durable = ranges.iter().any(|range| !range.flags.has(NiobufFlags::ASYNC));
        let changed = Some(asked.id.resource());
        match committed? {
            Some((reply, number)) => {
                Ok(Answer { reply, durable: durable.then_some(number), changed })
            }
            None => {
                let found = self.attributes(object)?;
                let found = found.ok_or_else(|| failed(asked, Errno::ENOENT))?;
                let results = vec![Status::OK; ranges.len()];
                let size = self.store.size(object)?;
                let mut reply = transfer.write_reply(call, &found, size, checksum, results);
                reply.body.transno = call.message.body.transno;
                Ok(Answer { reply, durable: None, changed })
            }
        }
    }

    /// Returns the attributes of an object that is written. A replay makes one that was lost.
    fn written_object(
        &self,
        change: &mut Change<'_>,
        object: ObjectId,
        asked: &Obdo,
    ) -> Result<Attributes, Failure> {
        if let Some(found) = change.attributes(object)? {
            return Ok(found);
        }
        let ObjectId(seq, id) = object;
        let last = change.last(seq)?;
        if !matches!(change.numbering, Numbering::Replay(_))
            || id <= last
            || id - last > crate::create::AHEAD_MAX
        {
            return Err(failed(asked, Errno::ENOENT));
        }
        change.create(seq, last + 1, id);
        Ok(Attributes::unused())
    }
}

impl Transfer {
    /// Returns the reply to a write. Spec: mdt-ost §17.6.
    fn write_reply(
        &self,
        call: &Call<'_>,
        object: &Attributes,
        size: u64,
        checksum: Option<u32>,
        results: Vec<Status>,
    ) -> Message<'static> {
        const ECHOED: Valid = Valid(
            Valid::FLID.0
                | Valid::FLGROUP.0
                | Valid::FLFID.0
                | Valid::FLPARENT.0
                | Valid::FLOSTLAYOUT.0
                | Valid::FLHANDLE.0
                | Valid::FLCKSUM.0
                | Valid::LAYOUT_VERSION.0,
        );
        const SAID: Valid = Valid(
            Valid::FLSIZE.0
                | Valid::FLBLOCKS.0
                | Valid::FLCTIME.0
                | Valid::FLMODE.0
                | Valid::FLTYPE.0
                | Valid::FLUID.0
                | Valid::FLGID.0
                | Valid::FLPROJID.0
                | Valid::FLFLAGS.0
                | Valid::FLUSRQUOTA.0
                | Valid::FLGRPQUOTA.0
                | Valid::FLPRJQUOTA.0,
        );
        let asked = &self.asked;
        let grant = if self.given.is_some() { Valid::FLGRANT } else { Valid::NONE };
        let echoed = Valid(asked.valid.0 & ECHOED.0);
        let has_checksum = asked.valid.has(Valid::FLCKSUM);
        let kept = ObdoFlags(asked.flags.flags.0 & ObdoFlags::SHORT_IO.0);
        let body = Obdo {
            valid: echoed | SAID | grant,
            size,
            blocks: object.blocks(),
            ctime: object.ctime,
            mode: object.mode,
            uid: object.uid,
            gid: object.gid,
            projid: object.projid,
            grant: self.given.unwrap_or(0),
            flags: FlagWord { flags: kept, ..asked.flags },
            nlink: checksum.filter(|_| has_checksum).unwrap_or(asked.nlink),
            ..*asked
        };
        let reply = Message::reply(call.message.format(), Status::OK);
        reply.with(&OST_BODY, &body).with(&RESULTS, &List(results))
    }
}

impl Reading {
    /// Returns how many bytes of each range are sent.
    pub fn lens(&self) -> impl Iterator<Item = u64> {
        self.filled.iter().map(|(_, len)| *len)
    }

    /// Returns the checksum that the data are to be given to; `None` if the client wants none.
    pub fn checksum(&self) -> Option<Checksum> {
        let kind = self.asked.flags.checksum_kind;
        let is_wanted = self.asked.valid.has(Valid::FLCKSUM);
        is_wanted.then(|| Checksum::new(kind, self.filled.iter().copied())).flatten()
    }

    /// Returns the reply. `checksum`: of the data; without it the client checks none.
    /// Spec: mdt-ost §17.6.
    pub fn answer(self, call: &Call<'_>, checksum: Option<u32>) -> Answer {
        let kind = self.asked.flags.checksum_kind;
        let mut body = Obdo { valid: Valid::NONE, flags: FlagWord::default(), ..self.asked };
        body.grant = self.given.unwrap_or(0);
        if self.given.is_some() {
            body.valid = body.valid | Valid::FLGRANT;
        }
        if let Some(checksum) = checksum {
            body.valid = body.valid | Valid::FLCKSUM | Valid::FLFLAGS;
            (body.nlink, body.flags.checksum_kind) = (checksum, kind);
        }
        // At most 64 MiB.
        let len = self.filled.iter().map(|(_, len)| *len).sum::<u64>() as i32;
        Answer::new(Message::reply(call.message.format(), Status(len)).with(&OST_BODY, &body))
    }
}

/// Returns how many bytes of a range are sent: up to the end of the page that has the end of the object.
/// Spec: mdt-ost §17.5.
fn readable(range: &Niobuf, size: u64) -> u64 {
    if range.offset >= size {
        return 0;
    }
    (block_end(size) - range.offset).min(range.len.into())
}

fn failed(asked: &Obdo, errno: Errno) -> Failure {
    Failure::Failed(errno, Box::new(Obdo { valid: Valid::NONE, grant: 0, ..*asked }))
}
