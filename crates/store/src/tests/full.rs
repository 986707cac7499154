//! A medium without room.

use std::io::IoSlice;
use std::ops::Bound;

use super::*;
use crate::Faults;

fn full_at(disk: &SimulatedDisk, more: u64) {
    let capacity = Some(disk.used() + more);
    disk.set_faults(Faults { capacity, ..Faults::default() });
}

/// Applies transactions of one key and some data each, in small batches, until one is refused.
/// Returns how many there are.
fn fill(store: &Store, value: &[u8], data: &[u8]) -> u64 {
    let segments = [IoSlice::new(data)];
    for number in 0.. {
        let mut transaction = store.begin();
        transaction.put(A, number.to_string().as_bytes(), value);
        transaction.write(ObjectId(5, number), 0, &segments);
        match transaction.apply() {
            Ok(_) if number % 8 == 0 => assert!(store.commit().is_ok()),
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{error}");
                return number;
            }
        }
    }
    unreachable!()
}

fn remove(store: &Store, number: u64) {
    let mut transaction = store.begin();
    transaction.release_space();
    transaction.delete(A, number.to_string().as_bytes());
    transaction.remove(ObjectId(5, number));
    transaction.apply().unwrap();
}

#[test]
fn a_transaction_that_finds_no_room_changes_nothing() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    full_at(&disk, 4 << 20);
    assert_eq!(store.room().unwrap().free, 4 << 20);
    let count = fill(&store, b"value", &[7; 100_000]);
    assert!((10..45).contains(&count), "{count}");
    assert_eq!(store.applied(), count, "a refused transaction has no number");
    assert_eq!(store.get(A, count.to_string().as_bytes()).unwrap(), None);
    assert_eq!(store.size(ObjectId(5, count)).unwrap(), 0);
    assert_eq!(disk.files() as u64, count, "its file is gone");
    store.commit().unwrap();
    (0..count).for_each(|number| assert_eq!(content(&store, ObjectId(5, number)), [7; 100_000]));

    remove(&store, 3);
    remove(&store, 4);
    store.commit().unwrap();
    write(&store, X, 0, &[1; 100_000]);
    drop(store);
    disk.crash();
    let store = Store::open(&disk, policy()).unwrap();
    assert_eq!(
        (store.size(ObjectId(5, 3)).unwrap(), store.size(ObjectId(5, 5)).unwrap()),
        (0, 100_000)
    );
}

#[test]
fn removals_work_on_a_medium_that_is_full_of_keys_and_make_room() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    full_at(&disk, 8 << 20);
    for _ in 0..3 {
        let count = fill(&store, &[9; 3000], b"");
        assert!(count > 500, "{count}");
        assert!(put_refused(&store));
        for number in 0..count {
            remove(&store, number);
            if number % 10 == 0 {
                store.commit().unwrap();
            }
        }
        store.commit().unwrap();
        assert_eq!(store.scan(A, Bound::Unbounded, Bound::Unbounded, 10).unwrap(), []);
    }
}

fn put_refused(store: &Store) -> bool {
    let mut transaction = store.begin();
    transaction.put(A, b"k", *b"v");
    transaction.apply().is_err()
}

#[test]
fn a_full_medium_is_used_again_when_others_have_made_room() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    full_at(&disk, 2 << 20);
    fill(&store, &[9; 3000], b"");
    assert!(put_refused(&store));
    full_at(&disk, 8 << 20);
    put(&store, b"k", b"v");
    store.commit().unwrap();
}
