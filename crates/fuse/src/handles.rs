//! What the kernel has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_client::File;

use crate::directory::Position;
use crate::dropping::Writer;

/// An open file or directory.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: File,
    /// Where reading a directory has come to.
    pub(crate) position: Mutex<Position>,
    /// If the file may be written to where it is mapped.
    _writer: Option<Writer>,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    open: BTreeMap<u64, Arc<Handle>>,
}

/// The open files by numbers.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Table>);

impl Handles {
    /// Adds a file.
    pub(crate) fn add(&self, file: File, writer: Option<Writer>) -> u64 {
        self.insert(Handle { file, position: Mutex::default(), _writer: writer })
    }

    /// Adds a directory of which something was read already.
    pub(crate) fn add_directory(&self, file: File, position: Position) -> u64 {
        self.insert(Handle { file, position: Mutex::new(position), _writer: None })
    }

    fn insert(&self, handle: Handle) -> u64 {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.last += 1;
        let number = table.last;
        table.open.insert(number, Arc::new(handle));
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open.get(&number).cloned()
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&number)
    }
}
