//! The records as logs: what readers see. Spec: mdt-ost §14.10, ptlrpc-ldlm-mgs §29.3.
//!
//! A catalog names plain logs, which have the records. Neither exists as such: their headers and blocks are
//! made when they are read. What is gone from a block is replaced by a pad, so that a record keeps its place.

use std::ops::{Bound, RangeInclusive};

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::{ChangeExtra, ChangeFlags, Changelog as Record};
use fulmar_lustre_wire::llog::{
    CatalogEntry, LogBlock, LogFlags, LogHeader, LogId, LogRecord, RecordKind,
};
use fulmar_lustre_wire::{Bytes, Content, LargeNid, Text};
use fulmar_store::{Store, StoreError};
use fulmar_wire::{Order, Reader, Writer};

use super::state::key;
use crate::records::{CHANGES, Failure, damaged, decode};

/// The name of the catalog.
pub(crate) const CATALOG_NAME: &[u8] = b"changelog_catalog";
/// The catalog: the sequence is that of logs with names.
pub(crate) const CATALOG: LogId = LogId { object: 1, seq: 10, generation: 0 };
/// The sequence of other logs.
const LOGS: u64 = 1;
/// The records of a log: the header has a bit for each.
pub(super) const LOG_LEN: u64 = 64_767;
/// The entries of a catalog. When all were used, the first one is the next.
const CATALOG_LEN: u64 = 64_767;
const CHUNK: u32 = LogRecord::LEN_MAX as u32;
/// The bytes of an entry, and the entries of a chunk.
const ENTRY_LEN: usize = 64;
const ENTRIES: u64 = CHUNK as u64 / ENTRY_LEN as u64;
/// The shortest record, and how many a chunk may have.
const RECORD_LEN_MIN: u32 = 88;
const RECORDS_MAX: u64 = (CHUNK / RECORD_LEN_MIN) as u64;
const ORDER: Order = Order::Little;
/// What records may have.
const EXTENSIONS: LogFlags = LogFlags::EXT_JOBID
    .with(LogFlags::EXT_EXTRA_FLAGS)
    .with(LogFlags::EXT_UIDGID)
    .with(LogFlags::EXT_NID)
    .with(LogFlags::EXT_OPEN_MODE)
    .with(LogFlags::EXT_XATTR)
    .with(LogFlags::EXT_NID_BE);

/// Which records there are: those behind `purged`, up to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) purged: u64,
    pub(crate) last: u64,
}

/// A chunk of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) records: LogBlock,
    /// The index of the last record.
    pub(crate) last_index: u32,
    /// Where it ends in the log.
    pub(crate) end: u64,
    /// The last transaction of its records.
    pub(crate) transaction: u64,
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptRecord {
    /// The transaction of the store.
    pub(super) transaction: u64,
    /// Where it is in its log.
    pub(super) offset: u32,
    /// As it is sent.
    pub(super) body: Vec<u8>,
}

impl KeptRecord {
    /// Returns a record.
    ///
    /// # Errors
    /// If the store has ended or cannot be read, or has no such record.
    pub(super) fn get(store: &Store, number: u64) -> Result<Self, StoreError> {
        let missing = || damaged("the changelog", &format!("record {number} is missing"));
        Self::decode(&store.get(CHANGES, &key(number))?.ok_or_else(missing)?)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + self.body.len());
        let w = &mut Writer::new(&mut bytes, Order::Big);
        w.u64(self.transaction);
        w.u32(self.offset);
        w.bytes(&self.body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let r = &mut Reader::new(bytes, Order::Big);
        let mut read = || {
            let (transaction, offset) = (r.u64("transaction")?, r.u32("offset")?);
            Ok(Self { transaction, offset, body: r.rest().to_vec() })
        };
        read().map_err(|error: fulmar_wire::DecodeError| {
            damaged("a record of the changelog", &error.to_string())
        })
    }

    /// Returns its length in a log.
    fn len(&self) -> u32 {
        (LogRecord::OVERHEAD + self.body.len()) as u32
    }

    /// Returns where it ends in its log.
    pub(super) fn end(&self) -> u32 {
        self.offset + self.len()
    }
}

/// Returns the log of a record, and its index there.
pub(super) fn place(number: u64) -> (u32, u32) {
    let from_start = number - 1;
    ((from_start / LOG_LEN) as u32, (from_start % LOG_LEN) as u32 + 1)
}

/// Returns the number of a record.
fn number(log: u32, index: u32) -> u64 {
    u64::from(log) * LOG_LEN + u64::from(index)
}

/// Returns the place of a log in the catalog.
fn catalog_index(log: u32) -> u32 {
    (u64::from(log) % CATALOG_LEN) as u32 + 1
}

fn id_of(log: u32) -> LogId {
    LogId { object: u64::from(log) + 1, seq: LOGS, generation: 0 }
}

impl Extent {
    /// Returns the logs that have records.
    fn logs(self) -> Option<RangeInclusive<u32>> {
        (self.last > self.purged).then(|| place(self.purged + 1).0..=place(self.last).0)
    }

    /// Returns the number of a plain log, if there is or was such a log.
    ///
    /// # Errors
    /// ENOENT.
    pub(crate) fn log(self, id: LogId) -> Result<u32, Errno> {
        let log = id.object.checked_sub(1).and_then(|log| u32::try_from(log).ok());
        let log = log.filter(|_| id.seq == LOGS).ok_or(Errno::ENOENT)?;
        if self.last > 0 && log <= place(self.last).0 { Ok(log) } else { Err(Errno::ENOENT) }
    }

    /// Returns the header of the catalog.
    pub(crate) fn catalog_header(self, asked: LogFlags) -> LogHeader {
        let flags = LogFlags::CATALOG | LogFlags::FIXED_SIZE | EXTENSIONS;
        let Some(logs) = self.logs() else { return header(0..=0, flags.with(asked), 0, 0) };
        let (first, last) = (catalog_index(*logs.start()), catalog_index(*logs.end()));
        let mut header = header(0..=0, flags.with(asked), first - 1, last);
        for log in logs {
            set_bit(&mut header, catalog_index(log));
        }
        header.record_size = ENTRY_LEN as u32;
        header
    }

    /// Returns the chunk of the catalog with an entry.
    ///
    /// # Errors
    /// EBADR if there is no such entry.
    pub(crate) fn catalog_block(self, index: u32) -> Result<Block, Errno> {
        let logs = self.logs().ok_or(Errno::EBADR)?;
        let last = u64::from(*logs.end());
        let used = if last >= CATALOG_LEN { CATALOG_LEN } else { last + 1 };
        let wanted = u64::from(index.max(1));
        if wanted > used {
            return Err(Errno::EBADR);
        }
        let chunk = (wanted - 1) / ENTRIES;
        let indices = chunk * ENTRIES + 1..=used.min((chunk + 1) * ENTRIES);
        let (last_index, count) = (*indices.end() as u32, indices.clone().count());
        let entry = |index: u64| {
            // The last log that has had this place.
            let rounds = (last + 1 - index) / CATALOG_LEN;
            let id = id_of((index - 1 + rounds * CATALOG_LEN) as u32);
            let body = Bytes(CatalogEntry { id, ..CatalogEntry::default() }.to_bytes());
            LogRecord { index: index as u32, kind: RecordKind::CATALOG_ENTRY, id: 0, body }
        };
        let len = count * ENTRY_LEN;
        let rest = Bytes(vec![0; CHUNK as usize - len]);
        let records = LogBlock { order: ORDER, records: indices.map(entry).collect(), rest };
        let end = (chunk + 1) * u64::from(CHUNK) + len as u64;
        Ok(Block { records, last_index, end, transaction: 0 })
    }

    /// Returns the header of a plain log.
    pub(crate) fn header(self, log: u32, asked: LogFlags) -> LogHeader {
        let flags = LogFlags::PLAIN | LogFlags::ZAP_WHEN_EMPTY | EXTENSIONS;
        let in_log = |number: u64| number.saturating_sub(number_before(log)).min(LOG_LEN) as u32;
        let live = in_log(self.purged) + 1..=in_log(self.last);
        header(live, flags.with(asked), catalog_index(log), in_log(self.last))
    }

    /// Returns the chunk of a plain log with a record, or the next one if that is gone.
    ///
    /// # Errors
    /// EBADR if there is no such record, ESTALE if the log has no more.
    pub(crate) fn block(
        self,
        store: &Store,
        (log, index): (u32, u32),
        asked: LogFlags,
    ) -> Result<Block, Failure> {
        let first_of_log = number_before(log) + 1;
        let last_of_log = self.last.min(number_before(log) + LOG_LEN);
        let wanted = number(log, index.max(1));
        if wanted > last_of_log {
            return Err(Errno::EBADR.into());
        }
        let wanted = wanted.max(self.purged + 1);
        if wanted > last_of_log {
            return Err(Errno::ESTALE.into());
        }
        let from = wanted.saturating_sub(RECORDS_MAX).max(self.purged + 1).max(first_of_log);
        let to = last_of_log.min(wanted + RECORDS_MAX);
        let (from, to) = (key(from), key(to));
        let bounds = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut near = vec![];
        for (key, value) in store.scan(CHANGES, bounds.0, bounds.1, 2 * RECORDS_MAX as usize + 1)? {
            near.push((decode::<u64>(&key, "a number")?, KeptRecord::decode(&value)?));
        }
        let chunk = |record: &KeptRecord| record.offset / CHUNK;
        let own = near.iter().find(|(number, _)| *number == wanted);
        // It was removed a moment ago.
        let own = chunk(&own.ok_or(Errno::ESTALE)?.1);
        near.retain(|(_, record)| chunk(record) == own);
        let is_last = near.last().is_some_and(|(number, _)| *number == last_of_log);
        Ok(chunk_of(own, &near, is_last, asked))
    }
}

/// Returns the number before those of a log.
fn number_before(log: u32) -> u64 {
    u64::from(log) * LOG_LEN
}

/// Returns a header in which some records are live.
fn header(
    live: RangeInclusive<u32>,
    flags: LogFlags,
    catalog_index: u32,
    last_index: u32,
) -> LogHeader {
    let mut header = LogHeader {
        order: ORDER,
        index: 0,
        id: 0,
        time: 0,
        count: 0,
        bitmap_offset: LogHeader::BITMAP_OFFSET,
        record_size: RECORD_LEN_MIN,
        flags,
        catalog_index,
        uuid: Text::default(),
        reserved: 0,
        bitmap: Bytes(vec![0; LogHeader::BITMAP_LEN]),
        last_index,
    };
    set_bit(&mut header, 0);
    live.filter(|index| *index != 0).for_each(|index| set_bit(&mut header, index));
    header
}

fn set_bit(header: &mut LogHeader, index: u32) {
    header.bitmap.0[index as usize / 8] |= 1 << (index % 8);
    header.count += 1;
}

/// Returns a chunk with some records, whose places in it stay those that they had.
fn chunk_of(chunk: u32, records: &[(u64, KeptRecord)], is_last: bool, asked: LogFlags) -> Block {
    let start = chunk * CHUNK;
    let mut at = start;
    let mut block = LogBlock { order: ORDER, ..LogBlock::default() };
    let pad = |len: u32, index| {
        let body = Bytes(vec![0; len as usize - LogRecord::OVERHEAD]);
        LogRecord { index, kind: RecordKind::PAD, id: 0, body }
    };
    let (mut last_index, mut transaction) = (0, 0);
    for (number, record) in records {
        let index = place(*number).1;
        if record.offset > at {
            block.records.push(pad(record.offset - at, index.saturating_sub(1)));
        }
        let body = Bytes(without_unknown(&record.body, asked));
        block.records.push(LogRecord { index, kind: RecordKind::CHANGELOG, id: 0, body });
        (at, last_index) = (record.end(), index);
        transaction = transaction.max(record.transaction);
    }
    let left = start + CHUNK - at;
    let mut end = at;
    if !is_last {
        end = start + CHUNK;
        // The index is one that a reader has passed.
        if left as usize >= LogRecord::OVERHEAD {
            block.records.push(pad(left, last_index));
            at = end;
        }
    }
    block.rest = Bytes(vec![0; (start + CHUNK - at) as usize]);
    Block { records: block, last_index, end: end.into(), transaction }
}

/// Returns a record without the extensions that a reader does not know; its length does not change.
fn without_unknown(body: &[u8], asked: LogFlags) -> Vec<u8> {
    let knows = |flag| asked.has(flag);
    if knows(EXTENSIONS) {
        return body.to_vec();
    }
    let Ok(mut record) = Record::decode(body, ORDER) else { return body.to_vec() };
    record.rest = Bytes::default();
    if !knows(LogFlags::EXT_JOBID) {
        record.flags = record.flags.without(ChangeFlags::JOBID);
        record.job = None;
    }
    let mut extra = record.extra.unwrap_or(ChangeExtra::NONE);
    for (flag, of_record) in [
        (LogFlags::EXT_UIDGID, ChangeExtra::UIDGID),
        (LogFlags::EXT_NID, ChangeExtra::NID | ChangeExtra::NID_BE),
        (LogFlags::EXT_OPEN_MODE, ChangeExtra::OPEN),
        (LogFlags::EXT_XATTR, ChangeExtra::XATTR),
    ] {
        if !knows(flag) {
            extra = extra.without(of_record);
        }
    }
    if !knows(LogFlags::EXT_NID_BE) && extra.has(ChangeExtra::NID) {
        extra = extra.without(ChangeExtra::NID_BE);
        match record.nid.and_then(|of| small(of.nid)) {
            Some(nid) => record.nid = Some(nid.into()),
            None => extra = extra.without(ChangeExtra::NID),
        }
    }
    let has_extra = knows(LogFlags::EXT_EXTRA_FLAGS);
    if !has_extra {
        record.flags = record.flags.without(ChangeFlags::EXTRA);
        extra = ChangeExtra::NONE;
    }
    record.extra = record.extra.filter(|_| has_extra).map(|_| extra);
    record.owner = record.owner.filter(|_| extra.has(ChangeExtra::UIDGID));
    record.nid = record.nid.filter(|_| extra.has(ChangeExtra::NID));
    record.open_flags = record.open_flags.filter(|_| extra.has(ChangeExtra::OPEN));
    record.xattr = record.xattr.filter(|_| extra.has(ChangeExtra::XATTR));
    let mut shorter = record.to_bytes();
    shorter.resize(body.len(), 0);
    shorter
}

/// Returns a NID as a number, which is in the first bytes.
fn small(nid: LargeNid) -> Option<LargeNid> {
    let small = nid.nid().ok()?.to_small()?;
    let mut bytes = vec![];
    let w = &mut Writer::new(&mut bytes, ORDER);
    w.u64(small);
    bytes.resize(20, 0);
    Some(LargeNid(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: LogFlags = EXTENSIONS;

    /// Returns a store that has records of a length with these numbers, each in its place.
    fn store(numbers: RangeInclusive<u64>, len: u32) -> Store {
        let store = Store::memory(b"MDT", fulmar_store::Policy::default());
        let mut transaction = store.begin();
        let mut at = 0;
        for number in numbers {
            if place(number).1 == 1 || at == 0 {
                at = CHUNK;
            }
            if at % CHUNK + len > CHUNK {
                at = at.next_multiple_of(CHUNK);
            }
            let body = vec![0; len as usize - LogRecord::OVERHEAD];
            let record = KeptRecord { transaction: number * 2, offset: at, body };
            transaction.put(CHANGES, &key(number), record.encode());
            at += len;
        }
        transaction.apply().unwrap();
        store
    }

    #[test]
    fn a_log_is_full_when_its_header_is() {
        assert_eq!((place(1), place(LOG_LEN)), ((0, 1), (0, 64_767)));
        assert_eq!((place(LOG_LEN + 1), number(1, 1)), ((1, 1), LOG_LEN + 1));
        let last = LOG_LEN + 5;
        let (store, extent) =
            (store(LOG_LEN - 40..=last, 120), Extent { purged: LOG_LEN - 41, last });
        let catalog = extent.catalog_header(ALL);
        assert_eq!((catalog.count, catalog.catalog_index, catalog.last_index), (3, 0, 2));
        let entries = extent.catalog_block(1).unwrap();
        assert_eq!(
            (entries.records.records.len(), entries.last_index, entries.end),
            (2, 2, 8192 + 128)
        );
        assert_eq!(extent.catalog_block(3).unwrap_err(), Errno::EBADR);
        let first = extent.header(0, ALL);
        assert_eq!((first.count, first.last_index, first.catalog_index), (42, 64_767, 1));
        assert!(first.is_live(64_767) && !first.is_live(64_726));
        let second = extent.header(1, ALL);
        assert_eq!((second.count, second.last_index, second.catalog_index), (6, 5, 2));
        let block = extent.block(&store, (0, 64_767), ALL).unwrap();
        assert_eq!((block.last_index, block.transaction), (64_767, LOG_LEN * 2));
        let block = extent.block(&store, (1, 1), ALL).unwrap();
        assert_eq!((block.last_index, block.end), (5, 8192 + 5 * 120));
        assert_eq!(block.records.to_bytes().len(), 8192);
    }

    #[test]
    fn chunks_are_filled_so_that_readers_find_the_next_one() {
        for len in [88, 104, 120, 2040, 8192] {
            let in_chunk = u64::from(8192 / len);
            let (store, extent) = (store(1..=300, len), Extent { purged: 0, last: 300 });
            for index in 1..=300 {
                let block = extent.block(&store, (0, index), ALL).unwrap();
                let chunk = (u64::from(index) - 1) / in_chunk;
                let last = 300.min((chunk + 1) * in_chunk);
                assert_eq!(u64::from(block.last_index), last, "{len}");
                assert_eq!(block.records.to_bytes().len(), 8192);
                let end = match last {
                    300 => (chunk + 1) * 8192 + (300 - chunk * in_chunk) * u64::from(len),
                    _ => (chunk + 2) * 8192,
                };
                assert_eq!(block.end, end, "{len}");
                let rest = block.records.rest.0.len();
                assert!(last == 300 || rest < LogRecord::OVERHEAD, "a pad fills the chunk");
            }
        }
    }

    #[test]
    fn the_catalog_begins_anew_when_all_its_entries_were_used() {
        let first = CATALOG_LEN - 1;
        let (purged, last) = (first * LOG_LEN + 9, (CATALOG_LEN + 1) * LOG_LEN + 1);
        let extent = Extent { purged, last };
        let header = extent.catalog_header(ALL);
        // The last entry, and the first two.
        assert_eq!((header.count, header.catalog_index, header.last_index), (4, 64_766, 2));
        assert!([64_767, 1, 2].iter().all(|index| header.is_live(*index)) && !header.is_live(3));
        let id = |index| {
            let block = extent.catalog_block(index).unwrap();
            let entry = block.records.records.into_iter().find(|record| record.index == index);
            CatalogEntry::decode(&entry.unwrap().body.0, ORDER).unwrap().id
        };
        for (index, log) in [(64_767, first), (1, CATALOG_LEN), (2, CATALOG_LEN + 1)] {
            assert_eq!(extent.log(id(index)).map(u64::from), Ok(log));
        }
        assert_eq!(extent.log(id(3)), Ok(2), "it is long gone");
    }
}
