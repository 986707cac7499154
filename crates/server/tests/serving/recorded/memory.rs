//! Memory of bulk data without a driver.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use fulmar_ost::Room;
use fulmar_server::{Memory, Part};
use fulmar_store::{Sink, Source};

/// Bytes that LNet fills or sends.
pub(crate) struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    pub(crate) fn new(len: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![0; len])))
    }
}

impl Memory for Bytes {
    fn size(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn write_at(&self, offset: usize, bytes: &[u8]) {
        self.0.lock().unwrap()[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.lock().unwrap()[offset..][..bytes.len()]);
    }

    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn part(&self, range: Range<usize>) -> Box<dyn Part> {
        Box::new(Piece { bytes: self.0.clone(), range })
    }
}

/// A part of them. The keys and the data of the tests' stores are in memory: there are no files.
struct Piece {
    bytes: Arc<Mutex<Vec<u8>>>,
    range: Range<usize>,
}

impl Source for Piece {
    fn size(&self) -> u64 {
        self.range.len() as u64
    }

    fn write_to(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn copy(&self) -> Vec<u8> {
        self.bytes.lock().unwrap()[self.range.clone()].to_vec()
    }
}

impl Sink for Piece {
    fn size(&self) -> u64 {
        self.range.len() as u64
    }

    fn read_from(&mut self, _: BorrowedFd<'_>, _: u64, _: u64) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.bytes.lock().unwrap()[self.range.start..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Room for Piece {
    fn clear(&mut self, from: u64) {
        self.bytes.lock().unwrap()[self.range.clone()][from as usize..].fill(0);
    }
}
