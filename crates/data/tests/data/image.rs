//! Contents as symbols: each byte is "the n-th byte of something that was written". So gigabytes are compared
//! byte by byte without having them.

use std::ops::Range;

use fulmar_data::ranges::{Part, RangeMap};

/// The bytes of something that was written, from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// What was written.
    pub(crate) source: u64,
    /// Which byte of it.
    pub(crate) at: u64,
}

impl Part for Symbol {
    fn skip(self, by: u64) -> Self {
        Self { at: self.at + by, ..self }
    }
}

/// Bytes; zeros where there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image(RangeMap<Symbol>);

impl Image {
    /// Puts a symbol into a range.
    pub(crate) fn put(&mut self, range: Range<u64>, symbol: Symbol) {
        if range.is_empty() {
            return;
        }
        self.0.remove(range.clone());
        self.0.insert(range.clone(), symbol);
        self.0.join(range.start);
        self.0.join(range.end);
    }

    /// Makes zeros of a range.
    pub(crate) fn clear(&mut self, range: Range<u64>) {
        self.0.remove(range);
    }

    /// Returns a range as an image that begins at 0.
    pub(crate) fn slice(&self, range: Range<u64>) -> Self {
        let mut slice = Self::default();
        slice.copy(0, self, range);
        slice
    }

    /// Copies a range of another image to a place.
    pub(crate) fn copy(&mut self, to: u64, from: &Self, range: Range<u64>) {
        self.clear(to..to + (range.end - range.start));
        let parts: Vec<_> = from.0.overlapping(range.clone()).collect();
        for (part, symbol) in parts {
            let at = to + (part.start - range.start);
            self.put(at..at + (part.end - part.start), symbol);
        }
    }
}
