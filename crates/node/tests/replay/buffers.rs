//! The router buffers of the machine under test: forwarded data is checked byte by byte.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Sink, Span};

/// The allocated buffers of the machine.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    all: BTreeMap<BufferId, Vec<u8>>,
}

impl Buffers {
    pub(crate) fn allocate(&mut self, name: BufferId, len: u32) {
        let before = self.all.insert(name, vec![0; len as usize]);
        assert_eq!(before, None, "{name:?} is used twice");
    }

    pub(crate) fn release(&mut self, name: BufferId) {
        self.all.remove(&name).expect("only allocated buffers are released");
    }

    /// Returns whether memory is in one of the buffers.
    pub(crate) fn has(&self, span: Span) -> bool {
        self.all.contains_key(&span.buffer)
    }

    /// Stores bytes of a message, if their destination is in one of the buffers.
    pub(crate) fn store(&mut self, sink: &Sink, bytes: &[u8]) -> bool {
        let Sink::Span(span) = *sink else { return false };
        let Some(buffer) = self.all.get_mut(&span.buffer) else { return false };
        buffer[span.offset as usize..][..bytes.len()].copy_from_slice(bytes);
        true
    }

    /// Returns the contents of a part of a buffer.
    pub(crate) fn bytes(&self, span: Span) -> Vec<u8> {
        self.all[&span.buffer][span.offset as usize..][..span.len as usize].to_vec()
    }
}
