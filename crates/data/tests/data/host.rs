//! A host of a cache: its memory, and what its operations have found.

use std::collections::BTreeMap;
use std::ops::Range;

use fulmar_base::{BufferId, Errno, Span, Time};
use fulmar_data::{Bytes, Cache, OpId, OpenId, Output, Rpc, RpcId, Settings, Stability};

use crate::image::{Image, Symbol};

/// The source of bytes that were never written.
const GARBAGE: u64 = u64::MAX;

/// What an operation has come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// A read: its bytes.
    Read(Image, u64),
    /// Another one.
    Done(Result<(), Errno>),
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) cache: Cache,
    memory: BTreeMap<BufferId, Image>,
    /// What writes write: the source, whose bytes are those of the file.
    sources: BTreeMap<OpId, u64>,
    pub(crate) ends: BTreeMap<OpId, End>,
    /// The memory of writes that are not on disk.
    pub(crate) kept: BTreeMap<RpcId, Vec<Span>>,
    len: u64,
    lens: BTreeMap<BufferId, u64>,
    pub(crate) peak: u64,
}

impl Host {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            cache: Cache::new(settings),
            memory: BTreeMap::new(),
            sources: BTreeMap::new(),
            ends: BTreeMap::new(),
            kept: BTreeMap::new(),
            len: 0,
            lens: BTreeMap::new(),
            peak: 0,
        }
    }

    pub(crate) fn write(
        &mut self,
        now: Time,
        open: OpenId,
        range: Range<u64>,
        source: u64,
    ) -> OpId {
        // One of three is not over before it is on disk.
        let stability = if source.is_multiple_of(3) { Stability::Data } else { Stability::Cached };
        let op = self.cache.handle_write(now, open, range, stability).expect("it has objects");
        self.sources.insert(op, source);
        op
    }

    /// Does what the cache wants, and returns the RPCs to be sent.
    pub(crate) fn drain(&mut self, now: Time) -> Vec<Rpc> {
        let mut rpcs = Vec::new();
        while let Some(output) = self.cache.poll_output() {
            match output {
                Output::Allocate { buffer, len } => {
                    let mut image = Image::default();
                    image.put(0..len, Symbol { source: GARBAGE - buffer.0, at: 0 });
                    assert!(self.memory.insert(buffer, image).is_none(), "a name is used once");
                    self.lens.insert(buffer, len);
                    self.len += len;
                    self.peak = self.peak.max(self.len);
                }
                Output::Release { buffer } => {
                    let is_kept = |span: &Span| span.buffer == buffer;
                    assert!(!self.kept.values().flatten().any(is_kept), "{buffer:?} is kept");
                    self.memory.remove(&buffer).expect("a buffer is released once");
                    self.len -= self.lens.remove(&buffer).unwrap();
                }
                Output::Rpc(rpc) => rpcs.push(*rpc),
                Output::Fill { op, offset, memory } => {
                    let symbol = Symbol { source: self.sources[&op], at: offset };
                    let range = memory.offset..memory.offset + u64::from(memory.len);
                    self.memory.get_mut(&memory.buffer).unwrap().put(range, symbol);
                    self.cache.handle_filled(now, op);
                }
                Output::Ready { op, bytes } => {
                    let (mut image, mut at) = (Image::default(), 0);
                    for part in bytes {
                        at += match part {
                            Bytes::Zeros(len) => len,
                            Bytes::Memory(span) => {
                                image.copy(at, &self.memory[&span.buffer], bytes_of(span));
                                u64::from(span.len)
                            }
                        };
                    }
                    self.ends.insert(op, End::Read(image, at));
                    self.cache.handle_read_end(now, op);
                }
                Output::Written { op, result } => {
                    self.sources.remove(&op);
                    self.ends.insert(op, End::Done(result.map(drop)));
                }
                Output::Done { op, result } => {
                    self.sources.remove(&op);
                    self.ends.insert(op, End::Done(result));
                }
                Output::Shrink { .. } => {}
            }
        }
        rpcs
    }

    /// Returns what is in memory.
    pub(crate) fn gather(&self, memory: &[Span]) -> Image {
        let (mut image, mut at) = (Image::default(), 0);
        for span in memory {
            image.copy(at, &self.memory[&span.buffer], bytes_of(*span));
            at += u64::from(span.len);
        }
        image
    }

    /// Puts the first `len` bytes of an image into memory.
    pub(crate) fn scatter(&mut self, memory: &[Span], image: &Image, len: u64) {
        let mut at = 0;
        for span in memory {
            let count = u64::from(span.len).min(len - at);
            let buffer = self.memory.get_mut(&span.buffer).unwrap();
            buffer.copy(span.offset, image, at..at + count);
            at += count;
        }
    }
}

fn bytes_of(span: Span) -> Range<u64> {
    span.offset..span.offset + u64::from(span.len)
}
