//! Which structures are in which buffers of the operations that the captures have.

use std::collections::BTreeMap;
use std::fmt::Debug;

use fulmar_lustre_wire::directory::DirectoryPage;
use fulmar_lustre_wire::index::IndexPage;
use fulmar_lustre_wire::layout::Layout;
use fulmar_lustre_wire::ldlm::{
    Intent, IntentOps, LayoutIntent, LockFlags, LockReply, LockRequest, OstLvb,
};
use fulmar_lustre_wire::llog::config::{Config, ConfigRecord};
use fulmar_lustre_wire::llog::{LogBlock, LogHeader, LogRequest, RecordKind};
use fulmar_lustre_wire::mdt::{
    BatchBuffer, BatchHeader, BatchReply, BatchRequest, Fid2PathKey, Fid2PathReply, IoEpoch,
    MdtBody, Reint, ReintChange, ReintOp, Statfs, Valid,
};
use fulmar_lustre_wire::mgs::{ConfigRead, ConfigReadReply, NidTable, NodemapEntry, TargetInfo};
use fulmar_lustre_wire::ost::{IoObject, Niobuf, Obdo, ObdoFlags};
use fulmar_lustre_wire::seq::SeqRange;
use fulmar_lustre_wire::{Content, Fid, List, acl::Acl, fld::SeqRanges};
use fulmar_wire::{DecodeError, Order};
use serde::Serialize;

use crate::messages::{Message, Put, split};

/// How many of each structure were decoded.
#[derive(Default)]
pub(crate) struct Counts(pub(crate) BTreeMap<&'static str, usize>);

impl Counts {
    /// Decodes a buffer, and requires that it encodes to the same bytes and has a JSON form.
    fn check<T: Content + Debug + Serialize>(&mut self, bytes: &[u8]) -> T {
        let name = std::any::type_name::<T>();
        let fail = |error: DecodeError| panic!("{name}: {error}: {bytes:02x?}");
        let value = T::decode(bytes, Order::Little).unwrap_or_else(fail);
        assert_eq!(value.to_bytes(), bytes, "{value:?}");
        assert!(serde_json::to_value(&value).is_ok(), "{value:?}");
        // Of an array, the type of its elements.
        let short = name.rsplit("::").next().unwrap_or(name).trim_end_matches('>');
        *self.0.entry(short).or_default() += 1;
        value
    }

    /// Checks a buffer that may be empty.
    fn check_some<T: Content + Debug + Serialize>(&mut self, bytes: &[u8]) -> Option<T> {
        (!bytes.is_empty()).then(|| self.check(bytes))
    }

    fn body(&mut self, bytes: &[u8]) {
        let body: MdtBody = self.check(bytes);
        assert_eq!(body.valid.unknown(), Valid::NONE, "{body:?}");
    }

    fn object(&mut self, bytes: &[u8]) {
        let object: Obdo = self.check(bytes);
        assert_eq!(object.valid.unknown(), Valid::NONE, "{object:?}");
        assert_eq!(object.flags.flags.unknown(), ObdoFlags::NONE, "{object:?}");
        assert!(object.flags.checksum_kind.name().is_some(), "{object:?}");
    }

    /// Checks what is where a layout may be: no layout, or the target of a symlink too.
    fn layout(&mut self, bytes: &[u8]) {
        match self.check_some::<Layout>(bytes) {
            Some(Layout::Composite(layout)) => {
                for component in &layout.components {
                    assert!(layout.layout(component).is_ok(), "{layout:?}");
                }
            }
            Some(Layout::Other(bytes)) => {
                let is_text = bytes.0.is_ascii() && bytes.0.last() == Some(&0);
                assert!(is_text, "{bytes:?}");
            }
            _ => {}
        }
    }

    pub(crate) fn add(&mut self, put: &Put) {
        match (put.portal, put.payload.as_slice()) {
            (_, []) => {}
            // The bulk of readpage; batches are inline or got from the client.
            (14, pages) if pages.len().is_multiple_of(4096) => {
                self.check::<List<DirectoryPage>>(pages);
            }
            (33, bulk) if bulk.starts_with(&IndexPage::MAGIC.to_le_bytes()) => {
                let List(pages) = self.check::<List<IndexPage>>(bulk);
                for page in pages {
                    assert!(page.entries::<NodemapEntry>(Order::Little).is_ok(), "{page:?}");
                }
            }
            (33, bulk) => drop(self.check::<NidTable>(bulk)),
            (_, bytes) => match Message::of(bytes) {
                Some(message) if message.is_request => self.request(&message),
                Some(message) => self.reply(&message),
                None => {}
            },
        }
    }

    fn request(&mut self, message: &Message<'_>) {
        match (message.opcode, message.buffers.as_slice()) {
            (1 | 2 | 5 | 10 | 16 | 22 | 23, [object, ..]) => self.object(object),
            (3 | 4, [object, io, ranges, ..]) => {
                self.object(object);
                let io: IoObject = self.check(io);
                let List(ranges) = self.check::<List<Niobuf>>(ranges);
                assert_eq!(io.ranges as usize, ranges.len());
            }
            (6, [object, locks, _]) => {
                self.object(object);
                self.check::<LockRequest>(locks);
            }
            (33 | 34 | 37 | 40 | 41 | 44, [body, ..]) => self.body(body),
            (35, [handle, record, ..]) => {
                self.check::<IoEpoch>(handle);
                self.record(record);
            }
            (36, [record, rest @ ..]) => {
                let locks = match self.record(record).head.op {
                    ReintOp::SETATTR => 4,
                    ReintOp::UNLINK | ReintOp::RMENTRY => 2,
                    ReintOp::RENAME => 4,
                    _ => 3,
                };
                rest.get(locks).and_then(|locks| self.check_some::<LockRequest>(locks));
            }
            (53, [key, _]) => drop(self.check::<Fid2PathKey>(key)),
            (63, [header, buffers]) => {
                let header: BatchHeader = self.check(header);
                self.check::<List<BatchBuffer>>(buffers);
                if header.inline_len != 0 {
                    self.batch(&header.data.0);
                }
            }
            (101, [locks, rest @ ..]) => self.enqueue(locks, rest),
            (102..=106, [locks, ..]) => drop(self.check::<LockRequest>(locks)),
            (253, [target, ..]) => drop(self.check::<TargetInfo>(target)),
            (256, [read]) => drop(self.check::<ConfigRead>(read)),
            (501..=503, [log, ..]) => drop(self.check::<LogRequest>(log)),
            (700 | 900, [_, range]) => drop(self.check::<SeqRange>(range)),
            _ => {}
        }
    }

    fn record(&mut self, record: &[u8]) -> Reint {
        let reint: Reint = self.check(record);
        assert!(!matches!(reint.change, ReintChange::Unknown { .. }), "{reint:?}");
        reint
    }

    fn enqueue(&mut self, locks: &[u8], rest: &[&[u8]]) {
        let request: LockRequest = self.check(locks);
        assert_eq!(request.flags.unknown(), LockFlags::NONE);
        let [intent, rest @ ..] = rest else { return };
        let intent: Intent = self.check(intent);
        let Some(first) = rest.first() else { return };
        if intent.ops.has(IntentOps::OPEN) || intent.ops.has(IntentOps::CREAT) {
            self.record(first);
        } else if intent.ops.has(IntentOps::LAYOUT) {
            self.check::<LayoutIntent>(first);
        } else {
            self.body(first);
        }
    }

    fn batch(&mut self, data: &[u8]) {
        let request: BatchRequest = self.check(data);
        let mut rest = request.messages.0.as_slice();
        for _ in 0..request.count {
            let (buffers, len) = split(rest).expect("a sub-request is a message");
            self.enqueue(buffers[0], &buffers[1..]);
            rest = &rest[len..];
        }
    }

    fn reply(&mut self, message: &Message<'_>) {
        match (message.opcode, message.buffers.as_slice()) {
            (1..=6 | 10 | 16 | 22 | 23, [object, ..]) => self.object(object),
            (7, [fid]) => drop(self.check::<Fid>(fid)),
            (13 | 41, [statfs]) => drop(self.check::<Statfs>(statfs)),
            (33..=37 | 40 | 44, [body, rest @ ..]) => {
                self.body(body);
                if let (33 | 34, [layout, acl, ..]) = (message.opcode, rest) {
                    self.layout(layout);
                    self.check_some::<Acl>(acl);
                }
            }
            (53, [path]) => drop(self.check::<Fid2PathReply>(path)),
            (63, [reply]) => {
                let reply: BatchReply = self.check(reply);
                let mut rest = reply.messages.0.as_slice();
                for _ in 0..reply.count {
                    let (buffers, len) = split(rest).expect("a sub-reply is a message");
                    self.locked(&buffers);
                    rest = &rest[len..];
                }
            }
            (101 | 102, buffers) => self.locked(buffers),
            (106, [lvb]) => drop(self.check::<OstLvb>(lvb)),
            (253, [target]) => drop(self.check::<TargetInfo>(target)),
            (256, [reply]) => drop(self.check::<ConfigReadReply>(reply)),
            (501, [log]) => drop(self.check::<LogRequest>(log)),
            (502, [log, block]) => {
                self.check::<LogRequest>(log);
                self.block(block);
            }
            (503, [header]) if message.status == 0 => drop(self.check::<LogHeader>(header)),
            (700 | 900, [range]) => drop(self.check::<SeqRange>(range)),
            (901, [ranges]) => drop(self.check::<SeqRanges>(ranges)),
            _ => {}
        }
    }

    fn locked(&mut self, buffers: &[&[u8]]) {
        match buffers {
            [reply] => drop(self.check::<LockReply>(reply)),
            [reply, lvb] if lvb.len() == OstLvb::LEN => {
                self.check::<LockReply>(reply);
                self.check::<OstLvb>(lvb);
            }
            [reply, layout] => {
                self.check::<LockReply>(reply);
                self.layout(layout);
            }
            [reply, body, layout, acl, ..] => {
                self.check::<LockReply>(reply);
                self.body(body);
                self.layout(layout);
                self.check_some::<Acl>(acl);
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &[u8]) {
        let block: LogBlock = self.check(block);
        for record in block.records.iter().filter(|record| record.kind == RecordKind::CONFIG) {
            let record: ConfigRecord = self.check(&record.body.0);
            let config = Config::of(&record, Order::Little);
            assert!(!matches!(config, Config::Other(_)), "{record:?}");
        }
    }
}
