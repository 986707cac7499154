//! What every store does.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Bound;
use std::sync::Arc;

use super::*;
use crate::{Seek, StoreError, Transaction};

#[test]
fn applied_changes_are_seen_at_once_and_committed_later() {
    on_all(|_, store| {
        assert_eq!((store.label(), store.committed()), (&b"label"[..], 0));
        let first = put(&store, b"k", b"1");
        let second = put(&store, b"k", b"2");
        assert!(second > first && store.committed() == 0);
        assert_eq!(store.get(A, b"k").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.get(B, b"k").unwrap(), None, "spaces are apart");
        assert_eq!(store.commit().unwrap(), second);
        assert_eq!((store.committed(), store.applied()), (second, second));
        assert_eq!(store.get(A, b"k").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.commit().unwrap(), second, "nothing to do");
    });
}

#[test]
fn what_is_committed_survives_and_the_rest_disappears_as_a_whole() {
    on_all(|rig, store| {
        put(&store, b"kept", b"1");
        write(&store, X, 0, b"kept");
        let committed = store.commit().unwrap();
        put(&store, b"kept", b"2");
        put(&store, b"lost", b"2");
        write(&store, X, 4, b", lost");
        write(&store, Y, 0, b"lost");
        let store = rig.reopen(store);
        if rig.keeps_uncommitted() {
            return;
        }
        assert_eq!(store.committed(), committed);
        assert_eq!(store.get(A, b"kept").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get(A, b"lost").unwrap(), None);
        assert_eq!(content(&store, X), b"kept");
        assert_eq!(store.size(Y).unwrap(), 0);
        assert!(put(&store, b"k", b"v") > committed);
    });
}

#[test]
fn a_transaction_sees_its_own_changes_and_a_dropped_one_leaves_nothing() {
    on_all(|_, store| {
        put(&store, b"a", b"1");
        let mut transaction = store.begin();
        transaction.delete(A, b"a");
        transaction.put(A, b"b", *b"2");
        assert_eq!(transaction.get(A, b"a").unwrap(), None);
        assert_eq!(transaction.get(A, b"b").unwrap().as_deref(), Some(&b"2"[..]));
        drop(transaction);
        assert_eq!(store.get(A, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!((store.get(A, b"b").unwrap(), store.applied()), (None, 1));
    });
}

#[test]
fn a_transaction_whose_reads_have_changed_conflicts() {
    on_all(|_, store| {
        put(&store, b"counter", b"1");
        store.commit().unwrap();
        let mut transaction = store.begin();
        assert!(transaction.get(A, b"counter").unwrap().is_some());
        assert!(transaction.get(A, b"absent").unwrap().is_none());
        transaction.put(A, b"counter", *b"2");
        put(&store, b"other", b"1");
        transaction.apply().unwrap();

        let mut late = store.begin();
        assert!(late.get(A, b"absent").unwrap().is_none());
        late.put(A, b"other", *b"2");
        put(&store, b"absent", b"now here");
        store.commit().unwrap();
        assert!(matches!(late.apply(), Err(StoreError::Conflict)));
        assert_eq!(store.get(A, b"other").unwrap().as_deref(), Some(&b"1"[..]));
    });
}

#[test]
fn values_may_contain_the_number_of_their_transaction() {
    on_all(|rig, store| {
        store.continue_from(1 << 32);
        let mut transaction = store.begin();
        transaction.put_numbered(A, b"k", |number| number.to_string().into_bytes());
        let number = transaction.apply().unwrap();
        assert_eq!(number, 1 << 32);
        store.continue_from(5);
        assert_eq!(put(&store, b"l", b"v"), number + 1, "numbers never go back");
        store.commit().unwrap();
        let store = rig.reopen(store);
        assert_eq!(store.get(A, b"k").unwrap().as_deref(), Some(number.to_string().as_bytes()));
        assert_eq!(store.applied(), number + 1);
    });
}

#[test]
fn ranges_are_in_order_whatever_is_committed() {
    on_all(|_, store| {
        for number in 0..30_u8 {
            put(&store, &[number], &[number]);
            if number % 7 == 0 {
                store.commit().unwrap();
            }
        }
        let mut transaction = store.begin();
        (0..30)
            .filter(|number| number % 3 == 0)
            .for_each(|number| transaction.delete(A, &[number]));
        transaction.put(B, b"elsewhere", *b"");
        transaction.apply().unwrap();
        for limit in [1, 2, 5, 100] {
            let from = Bound::Excluded(&[4][..]);
            let found = store.scan(A, from, Bound::Included(&[25]), limit).unwrap();
            let found: Vec<u8> = found.iter().map(|(key, _)| key[0]).collect();
            let expected: Vec<u8> = (5..=25).filter(|number| number % 3 != 0).take(limit).collect();
            assert_eq!(found, expected, "at most {limit}");
        }
        let all = store.scan(A, Bound::Unbounded, Bound::Unbounded, 100).unwrap();
        assert_eq!(all.len(), 20);
        let none = store.scan(A, Bound::Included(&[9]), Bound::Excluded(&[3]), 100).unwrap();
        assert!(none.is_empty());
    });
}

#[test]
fn bytes_go_from_segments_and_into_segments() {
    on_all(|_, store| {
        let segments = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defgh")];
        let mut transaction = store.begin();
        transaction.write(X, 10_000, &segments);
        transaction.apply().unwrap();
        assert_eq!(store.size(X).unwrap(), 10_008);
        let (mut first, mut second) = ([9; 4], [9; 8]);
        let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(store.read(X, 9_998, &mut into).unwrap(), 10, "the object ends");
        assert_eq!((&first, &second[..6]), (b"\0\0ab", &b"cdefgh"[..]));
        assert_eq!(store.read(X, 10_008, &mut [IoSliceMut::new(&mut first)]).unwrap(), 0);
        assert_eq!(store.read(Y, 0, &mut [IoSliceMut::new(&mut first)]).unwrap(), 0);
        assert!(store.allocated(X).unwrap() <= 8192, "holes take no room");
    });
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    on_all(|rig, store| {
        write(&store, X, 0, &[1; 1000]);
        store.commit().unwrap();
        let mut transaction = store.begin();
        transaction.truncate(X, 100);
        transaction.apply().unwrap();
        let mut transaction = store.begin();
        transaction.truncate(X, 300);
        transaction.apply().unwrap();
        write(&store, X, 500, &[2; 10]);
        let mut expected = vec![0; 510];
        expected[..100].fill(1);
        expected[500..].fill(2);
        assert_eq!(content(&store, X), expected);
        store.commit().unwrap();
        assert_eq!(content(&rig.reopen(store), X), expected);
    });
}

/// The rest of what was cut off is in the file as long as it is not committed.
#[test]
fn what_was_cut_off_is_a_hole_when_the_object_grows() {
    on_all(|_, store| {
        for (cut, grown) in [(100, 20_000), (100, 5000), (4000, 9000)] {
            write(&store, X, 0, &[1; 9000]);
            for size in [cut, grown] {
                let mut transaction = store.begin();
                transaction.truncate(X, size);
                transaction.apply().unwrap();
            }
            assert_eq!(store.seek(X, 4096, Seek::Data).unwrap(), None, "{cut} to {grown}");
            let mut expected = vec![0; grown as usize];
            expected[..cut as usize].fill(1);
            assert_eq!(content(&store, X), expected);
        }
    });
}

#[test]
fn a_cut_or_removal_that_is_not_committed_leaves_the_object_whole() {
    on_all(|rig, store| {
        let objects = [1, 2, 3].map(|id| ObjectId(7, id));
        for id in objects {
            write(&store, id, 0, &[5; 9000]);
        }
        store.commit().unwrap();
        let mut transaction = store.begin();
        transaction.truncate(objects[0], 10);
        transaction.truncate(objects[1], 0);
        transaction.remove(objects[2]);
        transaction.apply().unwrap();
        assert_eq!(objects.map(|id| store.size(id).unwrap()), [10, 0, 0]);
        write(&store, objects[2], 3, b"new");
        assert_eq!(content(&store, objects[2]), b"\0\0\0new");
        let store = rig.reopen(store);
        if !rig.keeps_uncommitted() {
            objects.iter().for_each(|id| assert_eq!(content(&store, *id), [5; 9000], "{id}"));
        }
    });
}

#[test]
fn holes_are_made_found_and_filled() {
    on_all(|_, store| {
        write(&store, X, 0, &[1; 64 << 10]);
        let before = store.allocated(X).unwrap();
        let mut transaction = store.begin();
        transaction.punch(X, 8 << 10..32 << 10);
        transaction.apply().unwrap();
        assert_eq!(store.size(X).unwrap(), 64 << 10);
        assert_eq!(store.seek(X, 0, Seek::Hole).unwrap(), Some(8 << 10));
        assert_eq!(store.seek(X, 9 << 10, Seek::Data).unwrap(), Some(32 << 10));
        assert_eq!(store.seek(X, 33 << 10, Seek::Hole).unwrap(), Some(64 << 10));
        assert_eq!(store.seek(X, 64 << 10, Seek::Hole).unwrap(), None);
        assert!(store.allocated(X).unwrap() < before);
        let mut transaction = store.begin();
        transaction.allocate(X, 0..128 << 10);
        transaction.apply().unwrap();
        assert_eq!(store.size(X).unwrap(), 64 << 10);
        assert!(store.allocated(X).unwrap() >= 128 << 10);
        assert_eq!(content(&store, X)[10 << 10..12 << 10], [0; 2 << 10]);
    });
}

#[test]
fn more_objects_than_may_be_open_are_used() {
    on_all(|rig, store| {
        let objects: Vec<_> = (0..20).map(|number| ObjectId(9, number)).collect();
        for id in &objects {
            write(&store, *id, 0, format!("{id}").as_bytes());
        }
        store.commit().unwrap();
        let store = rig.reopen(store);
        for id in &objects {
            assert_eq!(content(&store, *id), format!("{id}").as_bytes());
        }
    });
}

#[test]
fn offsets_beyond_every_file_are_refused() {
    on_all(|_, store| {
        let segments = [IoSlice::new(b"x")];
        for offset in [u64::MAX, i64::MAX as u64] {
            let mut transaction = store.begin();
            transaction.put(A, b"k", *b"v");
            transaction.write(X, offset, &segments);
            assert!(matches!(transaction.apply(), Err(StoreError::Io { .. })));
        }
        assert_eq!((store.size(X).unwrap(), store.get(A, b"k").unwrap()), (0, None));
    });
}

#[test]
fn appended_keys_have_the_order_of_the_transactions() {
    on_all(|rig, store| {
        let last = Arc::new(AtomicU64::new(0));
        let append = |transaction: &mut Transaction<'_>| {
            let last = last.clone();
            transaction.append(move |number| {
                let key = last.fetch_add(1, Ordering::Relaxed) as u8 + 1;
                vec![(A, vec![key], number.to_string().into_bytes())]
            });
        };
        let (mut first, mut second) = (store.begin(), store.begin());
        append(&mut first);
        append(&mut second);
        let mut dropped = store.begin();
        append(&mut dropped);
        drop(dropped);
        let numbers = [second.apply().unwrap(), first.apply().unwrap()];
        store.commit().unwrap();
        let store = rig.reopen(store);
        for (key, number) in (1..).zip(numbers) {
            let found = store.get(A, &[key]).unwrap();
            assert_eq!(found.as_deref(), Some(number.to_string().as_bytes()));
        }
        assert_eq!(store.get(A, &[3]).unwrap(), None);
    });
}

#[test]
fn whoever_has_read_an_appended_key_conflicts() {
    on_all(|_, store| {
        let mut reader = store.begin();
        assert_eq!(reader.get(A, b"new").unwrap(), None);
        reader.put(A, b"other", *b"1");
        let mut writer = store.begin();
        writer.append(|_| vec![(A, b"new".to_vec(), vec![1])]);
        writer.apply().unwrap();
        assert!(matches!(reader.apply(), Err(StoreError::Conflict)));
    });
}
