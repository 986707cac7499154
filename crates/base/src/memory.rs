//! Identifiers of memory whose bytes machines never read.

use std::sync::Arc;

/// A buffer that the driver (or the simulator) owns.
///
/// Machines name bulk memory by this and never see its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u64);

/// `len` bytes at `offset` in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The buffer.
    pub buffer: BufferId,
    /// Where the bytes begin, counted from the start of the buffer.
    pub offset: u64,
    /// How many bytes; one LNet message carries at most 1 MiB.
    pub len: u32,
}

impl Span {
    /// Removes `len` bytes from the front of the span.
    ///
    /// # Panics
    /// If the span is shorter than `len`: a machine never takes more than the span has.
    #[must_use]
    pub fn advance(self, len: u32) -> Self {
        assert!(len <= self.len, "cannot take {len} bytes off a span of {}", self.len);
        Self { offset: self.offset + u64::from(len), len: self.len - len, ..self }
    }
}

/// The bytes that are sent after a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    Empty,
    /// A few bytes of the machine, such as ping info.
    Inline(Arc<[u8]>),
    /// Bulk memory, written to the socket without a copy.
    Span(Span),
}

impl Payload {
    /// Returns how many bytes the payload has.
    pub fn len(&self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Inline(bytes) => bytes.len() as u32,
            Self::Span(span) => span.len,
        }
    }

    /// Returns whether the payload has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the bytes after a received header are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Nowhere: `len` bytes are read and discarded.
    Discard {
        /// How many.
        len: u32,
    },
    /// In the machine, which needs these few bytes, such as ping info.
    Inline {
        /// How many.
        len: u32,
    },
    /// In bulk memory, read from the socket without a copy.
    Span(Span),
}

impl Sink {
    /// Returns how many bytes are stored.
    pub fn len(&self) -> u32 {
        match *self {
            Self::Discard { len } | Self::Inline { len } => len,
            Self::Span(span) => span.len,
        }
    }

    /// Returns whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
