//! The buffers of routers.
//!
//! Bulk data refers to its source memory. A router stores and forwards it with the reference to the
//! sender's memory, so that the target can check that the right bytes arrive.

use fulmar_base::{BufferId, Payload, Span};

use super::{HostId, TcpId, World};
use crate::tcp::{EndState, Side};

/// A buffer of a router, and its content.
#[derive(Debug)]
pub(super) struct RouterBuffer {
    len: u32,
    held: BufferContent,
    /// The connections on which the content was written.
    written_on: Vec<(TcpId, Side)>,
}

/// The content of a buffer since the start of the last message.
#[derive(Debug)]
enum BufferContent {
    /// Memory of the sender.
    Bulk(Span),
    /// Inline bytes of a node.
    Bytes(Vec<u8>),
}

impl RouterBuffer {
    fn new(len: u32) -> Self {
        Self { len, held: BufferContent::Bytes(Vec::new()), written_on: Vec::new() }
    }

    /// Stores bulk data. A message starts at the start of its buffer and arrives in order.
    fn store(&mut self, sink: Span, source: Span) -> Result<(), String> {
        self.require_room(sink)?;
        match &mut self.held {
            held if sink.offset == 0 => *held = BufferContent::Bulk(source),
            BufferContent::Bulk(run) if follows(*run, sink, source) => run.len += source.len,
            held => return Err(format!("{source:?} is stored in {sink:?}, after {held:?}")),
        }
        Ok(())
    }

    fn store_bytes(&mut self, sink: Span, bytes: &[u8]) -> Result<(), String> {
        self.require_room(sink)?;
        match &mut self.held {
            held if sink.offset == 0 => *held = BufferContent::Bytes(bytes.to_vec()),
            BufferContent::Bytes(all) if all.len() as u64 == sink.offset => {
                all.extend_from_slice(bytes)
            }
            held => return Err(format!("bytes are stored in {sink:?}, after {held:?}")),
        }
        Ok(())
    }

    /// Returns the content of a part of the buffer.
    fn payload(&self, span: Span) -> Result<Payload, String> {
        let (start, end) = (span.offset, span.offset + u64::from(span.len));
        match &self.held {
            BufferContent::Bulk(run) if end <= u64::from(run.len) => {
                Ok(Payload::Span(Span { len: span.len, ..run.advance(start as u32) }))
            }
            BufferContent::Bytes(all) if end <= all.len() as u64 => {
                Ok(Payload::Inline(all[start as usize..end as usize].into()))
            }
            held => Err(format!("{span:?} is written, but the buffer holds {held:?}")),
        }
    }

    fn require_room(&self, sink: Span) -> Result<(), String> {
        if sink.offset + u64::from(sink.len) <= u64::from(self.len) {
            Ok(())
        } else {
            Err(format!("{sink:?} exceeds its buffer of {} bytes", self.len))
        }
    }
}

fn follows(run: Span, sink: Span, source: Span) -> bool {
    sink.offset == u64::from(run.len)
        && source.buffer == run.buffer
        && source.offset == run.offset + u64::from(run.len)
}

impl World {
    /// Returns the number of a router's buffers of at most 4 KiB, and of larger ones.
    pub fn router_buffers(&self, host: HostId) -> [usize; 2] {
        let lens = || self.host(host).router_buffers.values().map(|buffer| buffer.len);
        let small = lens().filter(|len| *len <= SMALL).count();
        [small, lens().count() - small]
    }

    pub(super) fn allocate_router_buffer(&mut self, host: HostId, name: BufferId, len: u32) {
        let buffers = &mut self.host_mut(host).router_buffers;
        if buffers.insert(name, RouterBuffer::new(len)).is_some() {
            self.broken(host, format!("router buffer {name:?} is allocated twice"));
        }
    }

    pub(super) fn release_router_buffer(&mut self, host: HostId, name: BufferId) {
        self.require_unwritten(host, name, "freed");
        if self.host_mut(host).router_buffers.remove(&name).is_none() {
            self.broken(host, format!("router buffer {name:?} is not allocated"));
        }
    }

    /// Returns the router buffer to which `span` belongs, if any.
    pub(super) fn router_buffer(&self, host: HostId, span: Span) -> Option<BufferId> {
        self.host(host).router_buffers.contains_key(&span.buffer).then_some(span.buffer)
    }

    /// Stores bulk data in a router buffer; returns false if `sink` is not one.
    pub(super) fn stored_by_router(&mut self, host: HostId, sink: Span, source: Span) -> bool {
        self.change_router_buffer(host, sink, |buffer| buffer.store(sink, source))
    }

    /// Stores inline bytes in a router buffer; returns false if `sink` is not one.
    pub(super) fn bytes_for_router(&mut self, host: HostId, sink: Span, bytes: &[u8]) -> bool {
        self.change_router_buffer(host, sink, |buffer| buffer.store_bytes(sink, bytes))
    }

    fn change_router_buffer(
        &mut self,
        host: HostId,
        sink: Span,
        change: impl FnOnce(&mut RouterBuffer) -> Result<(), String>,
    ) -> bool {
        let Some(buffer) = self.host_mut(host).router_buffers.get_mut(&sink.buffer) else {
            return false;
        };
        if let Err(what) = change(buffer) {
            self.broken(host, what);
        }
        self.require_unwritten(host, sink.buffer, "written over");
        true
    }

    /// Returns the payload that a router forwards, with its original source.
    pub(super) fn forwarded_payload(&mut self, host: HostId, span: Span) -> Option<Payload> {
        let found = self.host(host).router_buffers.get(&span.buffer)?.payload(span);
        Some(found.unwrap_or_else(|what| {
            self.broken(host, what);
            Payload::Empty
        }))
    }

    /// Notes that the content of a buffer will be written on a connection.
    pub(super) fn write_from_router(&mut self, host: HostId, name: BufferId, on: (TcpId, Side)) {
        if let Some(buffer) = self.host_mut(host).router_buffers.get_mut(&name) {
            buffer.written_on.push(on);
        }
    }

    fn require_unwritten(&mut self, host: HostId, name: BufferId, what: &str) {
        let buffer = self.host_mut(host).router_buffers.get_mut(&name);
        // A router has thousands of connections, so only those with this buffer are checked.
        let written_on = buffer.map(|buffer| std::mem::take(&mut buffer.written_on));
        let is_written = written_on.into_iter().flatten().any(|(tcp, side)| {
            let connection = self.connections[tcp.0].as_ref();
            let end = connection.map(|connection| connection.end(side));
            end.is_some_and(|end| end.state == EndState::Open && end.stream.is_kept_in(name))
        });
        if is_written {
            self.broken(
                host,
                format!("router buffer {name:?} is {what} while it is being written"),
            );
        }
    }
}

/// The size of a small router buffer, in bytes.
const SMALL: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn span(buffer: u64, offset: u64, len: u32) -> Span {
        Span { buffer: BufferId(buffer), offset, len }
    }

    #[test]
    fn forwarded_data_keep_their_source() {
        let mut buffer = RouterBuffer::new(4096);
        buffer.store(span(9, 0, 100), span(1, 50, 100)).unwrap();
        buffer.store(span(9, 100, 20), span(1, 150, 20)).unwrap();
        let whole = buffer.payload(span(9, 0, 120)).unwrap();
        assert_eq!(whole, Payload::Span(span(1, 50, 120)));
        buffer.store_bytes(span(9, 0, 2), &[1, 2]).unwrap();
        buffer.store_bytes(span(9, 2, 1), &[3]).unwrap();
        assert_eq!(buffer.payload(span(9, 0, 3)).unwrap(), Payload::Inline([1, 2, 3].into()));
    }

    #[test]
    fn gaps_and_missing_bytes_are_found() {
        let mut buffer = RouterBuffer::new(4096);
        buffer.store(span(9, 0, 100), span(1, 0, 100)).unwrap();
        assert!(buffer.store(span(9, 104, 20), span(1, 100, 20)).is_err(), "a gap");
        assert!(buffer.store(span(9, 100, 20), span(1, 104, 20)).is_err(), "another source");
        assert!(buffer.payload(span(9, 0, 101)).is_err(), "more than arrived");
        assert!(buffer.store(span(9, 0, 4097), span(1, 0, 4097)).is_err(), "too long");
    }
}
