//! Memory that the store moves data out of and into without seeing them.
//!
//! Segments of ordinary memory are simpler ([`Transaction::write`](crate::Transaction::write),
//! [`Store::read`](crate::Store::read)). Memory that a network card or the kernel may change at any
//! time has no references to its bytes; it moves them itself.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use crate::medium::File;

/// Where bytes for an object are.
pub trait Source: Sync {
    /// Returns how many there are.
    fn size(&self) -> u64;

    /// Writes all of them to a file, from `offset` of it on.
    ///
    /// # Errors
    /// What the system said. Some may be written then.
    fn write_to(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()>;

    /// Returns a copy, for a store that has no files.
    fn copy(&self) -> Vec<u8>;
}

/// Where bytes of an object go.
pub trait Sink {
    /// Returns how many it takes.
    fn size(&self) -> u64;

    /// Reads `len` bytes, at most [`Sink::size`], of a file, from `offset` of it on, and returns how
    /// many there were.
    ///
    /// # Errors
    /// What the system said.
    fn read_from(&mut self, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64>;

    /// Receives a copy, from a store that has no files.
    fn fill(&mut self, bytes: &[u8]);
}

/// The bytes of a write.
#[derive(Clone, Copy)]
pub(crate) enum Data<'a> {
    Segments(&'a [IoSlice<'a>]),
    Source(&'a dyn Source),
}

impl Data<'_> {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Segments(segments) => segments.iter().map(|segment| segment.len() as u64).sum(),
            Self::Source(source) => source.size(),
        }
    }

    pub(crate) fn write_to(&self, file: &dyn File, offset: u64) -> io::Result<()> {
        match (self, file.descriptor()) {
            (Self::Segments(segments), _) => file.write(offset, segments),
            (Self::Source(source), Some(descriptor)) => source.write_to(descriptor, offset),
            (Self::Source(source), None) => file.write(offset, &[IoSlice::new(&source.copy())]),
        }
    }
}
