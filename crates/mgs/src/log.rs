//! A configuration log. Spec: ptlrpc-ldlm-mgs §29.3.
//!
//! ```text
//! 0 header, 8192 bytes   8192 records: none crosses a multiple of 8192; a pad fills the rest before it
//! ```

mod groups;

use std::collections::BTreeSet;

use fulmar_base::Errno;
use fulmar_lustre_wire::llog::config::Config;
use fulmar_lustre_wire::llog::{LogBlock, LogFlags, LogHeader, LogRecord, RecordKind};
use fulmar_lustre_wire::{Bytes, Content, Text};
use fulmar_wire::{Order, Writer};

pub(crate) use groups::LiveGroup;

/// A log. Records are appended and never change.
#[derive(Clone, Debug)]
pub struct Log {
    time: i64,
    /// The records, each with its offset in the log.
    records: Vec<(usize, LogRecord)>,
    /// The length in bytes.
    len: usize,
    /// The indices of records that are new or changed, for the owner to store.
    changed: BTreeSet<u32>,
}

/// What a reader gets at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The records of a chunk.
    pub records: LogBlock,
    /// The index of the last one.
    pub last_index: u32,
    /// The offset in the log that follows them.
    pub end: u64,
}

/// A record is in one chunk, and a block is one chunk.
const CHUNK: usize = LogRecord::LEN_MAX;
/// The largest index: the header has a bit for each.
const INDEX_MAX: u32 = 64767;
const ORDER: Order = Order::Little;

impl Log {
    /// Returns an empty log, made at `time` in seconds since 1970.
    pub fn new(time: i64) -> Self {
        let (records, changed) = (Vec::new(), BTreeSet::new());
        Self { time, records, len: LogHeader::LEN_MIN, changed }
    }

    /// Returns what is new or changed since the last call: the index, the kind and the content.
    pub(crate) fn take_changes(&mut self) -> Vec<(u32, RecordKind, Vec<u8>)> {
        let changed = std::mem::take(&mut self.changed);
        let record = |index: u32| {
            let (_, record) = &self.records[index as usize - 1];
            (index, record.kind, record.body.0.clone())
        };
        changed.into_iter().map(record).collect()
    }

    /// Appends a record as it was stored.
    pub(crate) fn restore(&mut self, kind: RecordKind, body: Vec<u8>) {
        self.push(kind, body);
        self.changed.clear();
    }

    /// Appends a record.
    ///
    /// # Errors
    /// ENOSPC if the log is full, EFBIG if the record is longer than a chunk.
    pub fn append(&mut self, config: &Config) -> Result<(), Errno> {
        let Bytes(body) = encode(config);
        let len = LogRecord::OVERHEAD + body.len();
        if len > CHUNK {
            return Err(Errno::EFBIG);
        }
        let left = CHUNK - self.len % CHUNK;
        // What is left of a chunk has room for a pad.
        let pads = len != left && len + LogRecord::OVERHEAD > left;
        if self.last_index() + 1 + u32::from(pads) > INDEX_MAX {
            return Err(Errno::ENOSPC);
        }
        if pads {
            self.push(RecordKind::PAD, vec![0; left - LogRecord::OVERHEAD]);
        }
        self.push(RecordKind::CONFIG, body);
        Ok(())
    }

    fn push(&mut self, kind: RecordKind, body: Vec<u8>) {
        let record = LogRecord { index: self.last_index() + 1, kind, id: 0, body: Bytes(body) };
        let offset = self.len;
        self.len += record.encoded_len();
        self.changed.insert(record.index);
        self.records.push((offset, record));
    }

    /// Returns when it was made, in seconds since 1970.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// Returns the index of the last record, 0 without records.
    pub fn last_index(&self) -> u32 {
        self.records.len() as u32
    }

    /// Returns the header.
    pub fn header(&self) -> LogHeader {
        let mut bitmap = vec![0; LogHeader::BITMAP_LEN];
        let indices = self.records.iter().map(|(_, record)| record.index);
        for index in std::iter::once(0).chain(indices) {
            bitmap[index as usize / 8] |= 1 << (index % 8);
        }
        let lens = self.records.iter().map(|(_, record)| record.encoded_len() as u32);
        let uuid = if self.records.is_empty() { "" } else { "config_uuid" };
        LogHeader {
            order: ORDER,
            index: 0,
            id: 0,
            time: self.time,
            count: self.last_index() + 1,
            bitmap_offset: LogHeader::BITMAP_OFFSET,
            record_size: lens.min().unwrap_or_default(),
            flags: LogFlags::PLAIN,
            catalog_index: 0,
            uuid: Text::new(uuid).expect("it is short"),
            reserved: 0,
            bitmap: Bytes(bitmap),
            last_index: self.last_index(),
        }
    }

    /// Returns the chunk with the record `index`, or, if that is 0, the first one.
    ///
    /// # Errors
    /// EBADR if there is no such record: the log ends before it.
    pub fn block(&self, index: u32) -> Result<Block, Errno> {
        let wanted = index.max(1) as usize - 1;
        let chunk = |offset: usize| offset / CHUNK;
        let own = chunk(self.records.get(wanted).ok_or(Errno::EBADR)?.0);
        let first = self.records.partition_point(|(offset, _)| chunk(*offset) < own);
        let end = self.records.partition_point(|(offset, _)| chunk(*offset) <= own);
        let of_chunk = &self.records[first..end];
        let records: Vec<_> = of_chunk.iter().map(|(_, record)| record.clone()).collect();
        let len: usize = records.iter().map(LogRecord::encoded_len).sum();
        let rest = Bytes(vec![0; CHUNK - len]);
        Ok(Block {
            records: LogBlock { order: ORDER, records, rest },
            last_index: end as u32,
            end: (own * CHUNK + len) as u64,
        })
    }
}

fn encode(config: &Config) -> Bytes {
    let mut body = Vec::new();
    config.record(ORDER).encode(&mut Writer::new(&mut body, ORDER));
    Bytes(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(len: usize) -> Config {
        Config::Param { device: "lv-client".into(), parameters: vec!["x".repeat(len)] }
    }

    #[test]
    fn a_reader_gets_every_record_once_in_order() {
        let mut log = Log::new(7);
        let lens = (0..300).map(|n| n * 37 % 2000);
        lens.for_each(|len| log.append(&param(len)).unwrap());
        let header = log.header();
        assert_eq!((header.count, header.last_index), (log.last_index() + 1, log.last_index()));
        let (mut index, mut configs) = (1, 0);
        while index <= header.last_index {
            let block = log.block(index).unwrap();
            assert_eq!(block.records.to_bytes().len(), CHUNK);
            let from = index;
            for record in block.records.records.iter().skip_while(|record| record.index < from) {
                assert_eq!((record.index, header.is_live(index)), (index, true));
                configs += usize::from(record.kind == RecordKind::CONFIG);
                index += 1;
            }
            assert_eq!(block.last_index + 1, index);
        }
        assert_eq!((configs, log.block(index)), (300, Err(Errno::EBADR)));
    }

    #[test]
    fn a_record_fills_a_chunk_but_does_not_cross_its_end() {
        let mut log = Log::new(7);
        let whole = (0..).find(|len| {
            let mut log = Log::new(7);
            log.append(&param(*len)).is_err()
        });
        let most = whole.unwrap() - 1;
        log.append(&param(most)).unwrap();
        assert_eq!(log.block(1).unwrap().end, 16384);
        log.append(&param(0)).unwrap();
        log.append(&param(most)).unwrap();
        assert_eq!((log.last_index(), log.block(2).unwrap().last_index), (4, 3), "one is a pad");
        assert_eq!(log.append(&param(most + 1)), Err(Errno::EFBIG));
    }

    #[test]
    fn a_log_is_full_at_the_last_bit_of_its_header() {
        let mut log = Log::new(7);
        while log.append(&param(0)).is_ok() {}
        assert_eq!(log.last_index(), INDEX_MAX);
        assert!(log.header().is_live(INDEX_MAX));
        assert_eq!(log.append(&param(0)), Err(Errno::ENOSPC));
    }
}
