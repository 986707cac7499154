//! Memory that moves its bytes itself.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use super::*;
use crate::{Sink, Source};

/// Bytes, and what is called when they are written.
struct Bytes<'a>(Vec<u8>, &'a (dyn Fn() + Sync));

impl Source for Bytes<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn write_to(&self, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        (self.1)();
        assert_eq!(rustix::io::pwritev(file, &[IoSlice::new(&self.0)], offset)?, self.0.len());
        Ok(())
    }

    fn copy(&self) -> Vec<u8> {
        (self.1)();
        self.0.clone()
    }
}

impl Sink for Bytes<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_from(&mut self, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
        let into = &mut self.0[..len as usize];
        Ok(rustix::io::preadv(file, &mut [IoSliceMut::new(into)], offset)? as u64)
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.0[..bytes.len()].copy_from_slice(bytes);
    }
}

#[test]
fn memory_writes_and_reads_itself_up_to_the_end_of_the_object() {
    on_all(|_, store| {
        let source = Bytes(b"0123456789".to_vec(), &|| {});
        let mut transaction = store.begin();
        transaction.write_from(X, 100, &source);
        transaction.truncate(X, 105);
        transaction.apply().unwrap();
        let mut sink = Bytes(vec![b'.'; 20], &|| {});
        assert_eq!(store.read_into(X, 98, &mut sink).unwrap(), 7);
        assert_eq!(sink.0, b"\0\x0001234.............");
        assert_eq!(store.read_into(Y, 0, &mut sink).unwrap(), 0);
    });
}

#[test]
fn who_must_not_wait_reads_while_no_data_are_changed() {
    let store = Store::memory(b"", policy());
    let asks = || assert!(!store.is_quick_to_read());
    let source = Bytes(vec![1; 100], &asks);
    let mut transaction = store.begin();
    transaction.write_from(X, 0, &source);
    assert!(store.is_quick_to_read());
    transaction.apply().unwrap();
    assert!(store.is_quick_to_read());
}

/// The file exists then, but the object does not.
#[test]
fn a_file_whose_creation_was_interrupted_by_a_commit_and_a_crash_is_removed() {
    for fails in [false, true] {
        let disk = SimulatedDisk::new(1);
        let store = Store::create(&disk, b"", policy()).unwrap();
        put(&store, b"k", b"v");
        let commit = || assert!(store.commit().is_ok());
        let source = Bytes(vec![1; 10_000], &commit);
        let before = disk.used();
        let mut transaction = store.begin();
        transaction.write_from(X, 0, &source);
        if fails {
            transaction.write_from(X, u64::MAX, &source);
        }
        assert_eq!(transaction.apply().is_err(), fails);
        assert_eq!((store.committed(), disk.files()), (1, usize::from(!fails)));
        if !fails {
            assert!(disk.used() > before);
            write(&store, Y, 0, b"later");
            store.commit().unwrap();
            assert_eq!(content(&store, X), [1; 10_000], "it has an object now");
        }
        disk.crash();
        let store = Store::open(&disk, policy()).unwrap();
        assert_eq!(store.size(X).unwrap(), if fails { 0 } else { 10_000 });
        assert_eq!(disk.files(), if fails { 0 } else { 2 });
    }
}

#[test]
fn a_file_of_a_transaction_that_is_lost_during_its_creation_is_removed() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    put(&store, b"k", b"v");
    let source = Bytes(vec![1; 10_000], &|| assert!(store.commit().is_ok()));
    let mut transaction = store.begin();
    transaction.write_from(X, 0, &source);
    transaction.apply().unwrap();
    assert_eq!(disk.files(), 1);
    disk.end_process();
    let store = Store::open(&disk, policy()).unwrap();
    assert_eq!((store.committed(), store.size(X).unwrap(), disk.files()), (1, 0, 0));
}

#[test]
fn a_conflict_that_arises_while_data_are_written_is_found() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    let source = Bytes(vec![1; 10_000], &|| assert_eq!(put(&store, b"k", b"v"), 1));
    let mut transaction = store.begin();
    assert!(transaction.get(A, b"k").unwrap().is_none());
    transaction.write_from(X, 0, &source);
    assert!(matches!(transaction.apply(), Err(StoreError::Conflict)));
    assert_eq!((store.applied(), store.size(X).unwrap(), disk.files()), (1, 0, 0));
}
