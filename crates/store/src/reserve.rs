//! Room that is kept for removals on a full medium.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::medium::{File, Medium, is_full};

/// A file that only occupies blocks. A commit that finds the medium full gives it up and goes on;
/// from then on only transactions that release space are accepted, until there is room for it again.
#[derive(Debug)]
pub(crate) struct Reserve {
    medium: Arc<dyn Medium>,
    file: Arc<dyn File>,
    size: u64,
    whole: AtomicBool,
}

impl Reserve {
    /// Makes the file as large as `size`, if the medium has the room.
    pub(crate) fn new(medium: Arc<dyn Medium>, file: Arc<dyn File>, size: u64) -> io::Result<Self> {
        let whole = AtomicBool::new(file.len()? == size && file.allocated()? >= size);
        let reserve = Self { medium, file, size, whole };
        reserve.refill();
        Ok(reserve)
    }

    /// Returns whether nothing of it is spent.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Calls `write`, and if the medium is full, gives up the reserve and calls it again.
    pub(crate) fn spend_if_full(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match write() {
            Err(error) if is_full(&error) => {
                if !self.whole.swap(false, Ordering::AcqRel) {
                    return Err(error);
                }
                self.file.set_len(0)?;
                write()
            }
            done => done,
        }
    }

    /// Allocates the room again, if there is enough. Returns whether the reserve is whole.
    pub(crate) fn refill(&self) -> bool {
        if !self.is_whole() && self.medium.room().is_ok_and(|room| room.free >= self.size) {
            let filled = self
                .file
                .set_len(0)
                .and_then(|()| self.file.set_len(self.size))
                .and_then(|()| self.file.allocate(0, self.size));
            match filled {
                Ok(()) => self.whole.store(true, Ordering::Release),
                Err(_) => drop(self.file.set_len(0)),
            }
        }
        self.is_whole()
    }
}
