//! Reads and writes that were checked, and their replies. Spec: mdt-ost §17.3 to §17.6.

use std::io::IoSlice;

use fulmar_base::Errno;
use fulmar_checksum::Checksum;
use fulmar_lustre_wire::format::{OST_BODY, RESULTS};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{FlagWord, Niobuf, NiobufFlags, Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, List, Status};
use fulmar_store::{ObjectId, Sink, Source, StoreError, Transaction};

use super::{Data, ObjectSpace, block_end};
use crate::{Answer, Call};

/// Memory for the data of a range that is read.
pub trait Room: Sink {
    /// Sets the bytes from `from` to its end to zero.
    fn clear(&mut self, from: u64);
}

/// A read or a write that has been checked.
#[derive(Debug)]
#[must_use = "a write that is not executed is to be abandoned"]
pub struct Transfer {
    pub(super) export: Handle,
    pub(super) object: ObjectId,
    pub(super) asked: Obdo,
    pub(super) ranges: Vec<Niobuf>,
    pub(super) parts_max: u32,
    pub(super) is_write: bool,
    /// Of a write, whether there is room for each range.
    pub(super) paid: Vec<bool>,
    /// Of a write, the space that it holds.
    pub(super) pending: u64,
    pub(super) given: Option<u64>,
}

/// The memory of a write: of each range.
#[derive(Clone, Copy)]
pub enum Sources<'a> {
    /// In the message.
    Inline(&'a [[IoSlice<'a>; 1]]),
    /// Of bulk data.
    Bulk(&'a [&'a dyn Source]),
}

/// What a write has added to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// The bytes that the object occupies.
    pub charged: u64,
    /// Its size.
    pub size: u64,
    /// What became of each range.
    pub results: Vec<Status>,
}

/// A read whose data are in the memory.
#[derive(Debug)]
pub struct LoadedRead {
    pub(super) asked: Obdo,
    /// Where the data of each range begin in the object, and how many there are.
    pub(super) filled: Vec<(u64, u64)>,
    pub(super) given: Option<u64>,
}

impl Transfer {
    /// Returns the object.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Returns the body of the request.
    pub fn asked(&self) -> &Obdo {
        &self.asked
    }

    /// Returns whether it is a write.
    pub fn is_write(&self) -> bool {
        self.is_write
    }

    /// Returns the ranges of the object.
    pub fn ranges(&self) -> &[Niobuf] {
        &self.ranges
    }

    /// Returns the byte after the last one of the last range.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.offset + u64::from(range.len))
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

    /// Returns whether the target takes the lock of the ranges. Spec: mdt-ost §17.4.
    pub fn needs_lock(&self) -> bool {
        self.ranges.iter().any(|range| range.flags.has(NiobufFlags::SRVLOCK))
    }

    /// Returns whether the reply to a write waits until it is on disk: it was not from a cache.
    pub fn is_synchronous(&self) -> bool {
        self.ranges.iter().any(|range| !range.flags.has(NiobufFlags::ASYNC))
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

    /// Adds the data of a write to a transaction. A range without room is not written.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn write<'a>(
        &self,
        data: &Data,
        transaction: &mut Transaction<'a>,
        mut space: ObjectSpace,
        sources: Sources<'a>,
    ) -> Result<WriteResult, StoreError> {
        let mut results = vec![];
        for (place, range) in self.ranges.iter().enumerate() {
            let bytes = range.offset..range.offset + u64::from(range.len);
            let after = data.charged_after_write(self.object, space, &bytes)?;
            // What has its blocks already needs no room.
            if !self.paid[place] && after > space.charged {
                results.push(Status::failed(Errno::ENOSPC));
                continue;
            }
            match sources {
                Sources::Inline(parts) => {
                    transaction.write(self.object, range.offset, &parts[place]);
                }
                Sources::Bulk(sources) => {
                    transaction.write_from(self.object, range.offset, sources[place]);
                }
            }
            (space.charged, space.size) = (after, space.size.max(bytes.end));
            results.push(Status::OK);
        }
        Ok(WriteResult { charged: space.charged, size: space.size, results })
    }

    /// Returns the reply to a write. `object`: the attributes afterwards; `results`: what became of each range, if
    /// not all were written. Spec: mdt-ost §17.6.
    pub fn write_reply(
        &self,
        call: &Call<'_>,
        object: &Obdo,
        checksum: Option<u32>,
        results: Option<Vec<Status>>,
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
            size: object.size,
            blocks: object.blocks,
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
        let results = results.unwrap_or_else(|| vec![Status::OK; self.ranges.len()]);
        let reply = Message::reply(call.message.format(), Status::OK);
        reply.with(&OST_BODY, &body).with(&RESULTS, &List(results))
    }
}

impl LoadedRead {
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
pub(super) fn readable(range: &Niobuf, size: u64) -> u64 {
    if range.offset >= size {
        return 0;
    }
    (block_end(size) - range.offset).min(range.len.into())
}
