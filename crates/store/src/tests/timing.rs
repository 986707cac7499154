//! When batches are committed. No test depends on the speed of the machine: those with threads wait
//! for what must happen.

use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use fulmar_base::{Rng, Time};

use super::*;
use crate::Committer;
use crate::keys::{Changes, Keys, MemoryKeys, View};

fn store(policy: Policy) -> Arc<Store> {
    Arc::new(Store::memory(b"", policy))
}

/// A policy under which a batch is never due by itself.
fn never() -> Policy {
    Policy {
        interval: Duration::from_secs(1 << 30),
        batch_bytes: usize::MAX,
        batch_objects: usize::MAX,
        ..policy()
    }
}

#[test]
fn a_batch_is_due_an_interval_after_it_was_first_seen() {
    let store = store(Policy { interval: Duration::from_nanos(50), ..never() });
    assert_eq!(store.due(Time(10)), None);
    put(&store, b"k", b"1");
    assert_eq!(store.due(Time(100)), Some(Time(150)));
    put(&store, b"k", b"2");
    assert_eq!(store.due(Time(140)), Some(Time(150)));
    store.commit().unwrap();
    assert_eq!(store.due(Time(150)), None);
    put(&store, b"k", b"3");
    assert_eq!(store.due(Time(160)), Some(Time(210)), "the next batch has its own interval");
}

#[test]
fn a_batch_is_due_at_once_when_it_is_large() {
    let store = store(Policy { batch_bytes: 10_000, ..never() });
    put(&store, b"k", &[1; 9_000]);
    assert!(store.due(Time(100)) > Some(Time(100)));
    put(&store, b"l", &[1; 1_000]);
    assert_eq!(store.due(Time(101)), Some(Time(101)));
}

#[test]
fn a_batch_is_due_at_once_when_it_has_many_objects() {
    let store = store(Policy { batch_objects: 2, ..never() });
    write(&store, X, 0, b"1");
    write(&store, X, 1, b"2");
    assert!(store.due(Time(100)) > Some(Time(100)));
    write(&store, Y, 0, b"3");
    assert_eq!(store.due(Time(100)), Some(Time(100)));
}

#[test]
fn a_batch_is_due_at_once_when_somebody_waits_for_it() {
    let store = store(never());
    let first = put(&store, b"k", b"1");
    store.want(first);
    assert_eq!(store.due(Time(100)), Some(Time(100)));
    store.commit().unwrap();
    put(&store, b"k", b"2");
    assert!(store.due(Time(200)) > Some(Time(200)), "no caller waits for the second");
    store.want(u64::MAX);
    assert_eq!(store.due(Time(200)), Some(Time(200)), "for all that was applied");
    store.commit().unwrap();
    put(&store, b"k", b"3");
    assert!(store.due(Time(300)) > Some(Time(300)));
}

#[test]
fn the_committer_commits_what_is_waited_for_and_after_the_interval() {
    for policy in [never(), Policy { interval: Duration::from_millis(1), ..never() }] {
        let store = store(policy);
        let (sender, commits) = mpsc::channel();
        store.on_commit(Box::new(move |committed| sender.send(committed).unwrap()));
        let committer = Committer::start(store.clone()).unwrap();
        let number = put(&store, b"k", b"1");
        if policy == never() {
            store.wait(number).unwrap();
        }
        assert_eq!(commits.recv().unwrap().unwrap(), number);
        assert_eq!(store.committed(), number);
        let last = put(&store, b"k", b"2");
        drop(committer);
        assert_eq!(store.committed(), last, "what is left is committed in the end");
    }
}

#[test]
fn threads_share_commits() {
    let scratch = Scratch::new();
    let store = Arc::new(Store::create(scratch.path(), b"", policy()).unwrap());
    let committer = Committer::start(store.clone()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..40_u8 {
                    let last = put(store, &[thread, number], &[number; 3000]);
                    write(store, ObjectId(0, thread.into()), number.into(), &[thread]);
                    if number % 8 == 0 {
                        store.wait(last).unwrap();
                        assert!(store.committed() >= last);
                    }
                }
            });
        }
    });
    drop(committer);
    assert_eq!(store.committed(), 8 * 80);
    drop(store);
    let store = Store::open(scratch.path(), policy()).unwrap();
    for thread in 0..8_u8 {
        assert_eq!(content(&store, ObjectId(0, thread.into())), [thread; 40]);
        assert_eq!(store.get(A, &[thread, 39]).unwrap().as_deref(), Some(&[39; 3000][..]));
    }
}

/// Objects that several threads cut, remove and write again agree with the keys of the same
/// transactions, also after a restart.
#[test]
fn threads_change_the_same_objects() {
    let scratch = Scratch::new();
    let store = Arc::new(Store::create(scratch.path(), b"", policy()).unwrap());
    let committer = Committer::start(store.clone()).unwrap();
    let object = |number: u8| ObjectId(1, number.into());
    std::thread::scope(|scope| {
        for thread in 1..=4_u8 {
            let store = &store;
            scope.spawn(move || {
                let mut rng = Rng::new(thread.into());
                for _ in 0..150 {
                    let (first, second) = (rng.below(6) as u8, rng.below(6) as u8);
                    let bytes = vec![thread; rng.between(1, 20_000) as usize];
                    let segments = [io::IoSlice::new(&bytes)];
                    let mut transaction = store.begin();
                    match rng.below(3) {
                        0 => transaction.remove(object(first)),
                        1 => transaction.truncate(object(first), bytes.len() as u64),
                        _ => transaction.truncate(object(first), 1),
                    }
                    transaction.write(object(first), 0, &segments);
                    transaction.truncate(object(first), bytes.len() as u64);
                    transaction.put(A, &[first], bytes.clone());
                    if second != first {
                        transaction.remove(object(second));
                        transaction.delete(A, &[second]);
                    }
                    let number = transaction.apply().unwrap();
                    if rng.one_in(20) {
                        store.wait(number).unwrap();
                    }
                }
            });
        }
    });
    drop(committer);
    let check = |store: &Store| {
        for number in 0..6 {
            let key = store.get(A, &[number]).unwrap();
            assert!(content(store, object(number)) == key.as_deref().unwrap_or_default());
        }
    };
    check(&store);
    drop(store);
    check(&Store::open(scratch.path(), policy()).unwrap());
    let files = std::fs::read_dir(scratch.path().join("objects/00000")).unwrap().count();
    assert!(files <= 6, "{files}");
}

/// Keys whose commit waits for a message.
struct Gate(MemoryKeys, Mutex<mpsc::Receiver<()>>);

impl Keys for Gate {
    fn view(&self) -> io::Result<Arc<dyn View>> {
        self.0.view()
    }

    fn commit(&self, changes: &Changes) -> io::Result<()> {
        self.1.lock().unwrap().recv().unwrap();
        self.0.commit(changes)
    }

    fn slack(&self) -> u64 {
        0
    }
}

#[test]
fn a_slow_commit_stops_those_who_apply_before_too_much_waits() {
    let mut store = Store::memory(b"", Policy { batch_bytes: 1000, ..never() });
    let (open, gate) = mpsc::channel();
    store.keys = Box::new(Gate(MemoryKeys::default(), Mutex::new(gate)));
    let first = put(&store, b"k", b"1");
    std::thread::scope(|scope| {
        scope.spawn(|| store.commit().unwrap());
        while store.front().committing.is_empty() {
            std::thread::yield_now();
        }
        assert!(store.is_quick());
        for _ in 0..4 {
            put(&store, b"k", &[2; 1000]);
        }
        assert!(!store.is_quick(), "who must not wait goes elsewhere before");
        let late = scope.spawn(|| {
            put(&store, b"k", b"3");
            store.committed()
        });
        // Time for a mistake: what is right takes as long as it likes.
        std::thread::sleep(Duration::from_millis(20));
        open.send(()).unwrap();
        assert_eq!(late.join().unwrap(), first, "the commit has ended before");
    });
}

/// Of several threads that count in one key, each adds once.
#[test]
fn conflicts_lose_no_update() {
    let store = store(policy());
    let committer = Committer::start(store.clone()).unwrap();
    let add = |store: &Store| loop {
        let mut transaction = store.begin();
        let count = transaction.get(A, b"count").unwrap();
        let count = count.map_or(0, |value| String::from_utf8_lossy(&value).parse().unwrap());
        let count: u32 = count + 1;
        transaction.put(A, b"count", count.to_string().into_bytes());
        match transaction.apply() {
            Ok(_) => break,
            Err(error) => assert!(matches!(error, StoreError::Conflict), "{error}"),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| add(&store)));
        }
    });
    drop(committer);
    assert_eq!(store.get(A, b"count").unwrap().as_deref(), Some(&b"400"[..]));
}
