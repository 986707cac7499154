//! One suite for all stores: what they do, a model beside them, crashes.

mod crash;
mod directory;
mod full;
mod memory;
mod model;
mod read_only;
mod suite;
mod timing;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{ObjectId, Policy, SimulatedDisk, Space, Store, StoreError};

const A: Space = Space::new(0);
const B: Space = Space::new(1);
const X: ObjectId = ObjectId(1, 1);
const Y: ObjectId = ObjectId(1, 2);

/// Small bounds, so that tests reach them.
fn policy() -> Policy {
    Policy {
        batch_bytes: 64 << 10,
        reserve: 1 << 20,
        open_objects: 2,
        cache: 8 << 20,
        ..Policy::default()
    }
}

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fulmar-store-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where the store of a test is.
enum Rig {
    Directory(Scratch),
    Simulated(SimulatedDisk),
    Memory,
}

impl Rig {
    fn all() -> [Self; 3] {
        [Self::Directory(Scratch::new()), Self::Simulated(SimulatedDisk::new(1)), Self::Memory]
    }

    fn create(&self) -> Store {
        match self {
            Self::Directory(scratch) => Store::create(scratch.path(), b"label", policy()).unwrap(),
            Self::Simulated(disk) => Store::create(disk, b"label", policy()).unwrap(),
            Self::Memory => Store::memory(b"label", policy()),
        }
    }

    /// Ends the process with the store, and opens it again. A store in memory goes on.
    fn reopen(&self, store: Store) -> Store {
        match self {
            Self::Memory => return store,
            Self::Directory(_) => drop(store),
            Self::Simulated(disk) => {
                drop(store);
                disk.crash();
            }
        }
        match self {
            Self::Directory(scratch) => Store::open(scratch.path(), policy()).unwrap(),
            Self::Simulated(disk) => Store::open(disk, policy()).unwrap(),
            Self::Memory => unreachable!(),
        }
    }

    fn keeps_uncommitted(&self) -> bool {
        matches!(self, Self::Memory)
    }
}

/// Runs a test on each kind of store.
fn on_all(test: impl Fn(&Rig, Store)) {
    for rig in Rig::all() {
        let store = rig.create();
        test(&rig, store);
    }
}

fn put(store: &Store, key: &[u8], value: &[u8]) -> u64 {
    let mut transaction = store.begin();
    transaction.put(A, key, value);
    transaction.apply().unwrap()
}

fn write(store: &Store, object: ObjectId, offset: u64, bytes: &[u8]) -> u64 {
    let segments = [std::io::IoSlice::new(bytes)];
    let mut transaction = store.begin();
    transaction.write(object, offset, &segments);
    transaction.apply().unwrap()
}

/// Returns all bytes of an object.
fn content(store: &Store, object: ObjectId) -> Vec<u8> {
    try_content(store, object).unwrap()
}

fn try_content(store: &Store, object: ObjectId) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0xee; store.size(object)? as usize + 10];
    let read = store.read(object, 0, &mut [std::io::IoSliceMut::new(&mut bytes)])?;
    assert_eq!(read, bytes.len() - 10, "of {object}");
    bytes.truncate(read);
    Ok(bytes)
}
