//! Crashes at any point, again during recovery, and in the middle of what is not synced. After each the
//! store must equal the model at exactly one transaction, none older than the last acknowledged one.

use std::collections::BTreeMap;

use fulmar_base::Rng;

use super::model::{Model, OBJECTS, Op, apply, read};
use super::*;
use crate::{Faults, StoreError};

/// How many seeds are tried.
const SEEDS: u64 = 300;
/// How often the machine of a seed is started.
const STARTS: u64 = 4;

/// What all seeds together have done: a test that did nothing would always pass.
#[derive(Debug, Default)]
struct Totals {
    transactions: u64,
    commits: u64,
    crashes: u64,
    crashed_recoveries: u64,
    failed_syncs: u64,
    refused: u64,
    ended_processes: u64,
    torn_objects: u64,
    lost_transactions: u64,
}

/// One seed.
struct Run<'a> {
    rng: Rng,
    disk: SimulatedDisk,
    planted: &'a Faults,
    /// The contents after each transaction since the last start.
    states: BTreeMap<u64, Model>,
    /// All that was attempted, in order. What failed has no number.
    attempts: Vec<(Option<u64>, Vec<Op>)>,
    acknowledged: u64,
    totals: &'a mut Totals,
}

impl Run<'_> {
    fn go(&mut self) -> Result<(), String> {
        let mut store = Store::create(&self.disk, b"", policy()).unwrap();
        self.states.insert(0, Model::default());
        for _ in 0..STARTS {
            self.set_faults();
            self.work(&store);
            drop(store);
            self.end_machine();
            store = self.recover()?;
            self.compare(&store)?;
        }
        drop(store);
        let report = Store::verify(&self.disk, policy()).map_err(|error| error.to_string())?;
        if report.damage.is_empty() { Ok(()) } else { Err(format!("damaged: {report:?}")) }
    }

    fn set_faults(&mut self) {
        let counts = self.disk.counts();
        let mut faults = self.planted.clone();
        match self.rng.below(10) {
            0 => faults.fail_sync_at = Some(counts.syncs + self.rng.between(1, 10)),
            1 => faults.capacity = Some(self.disk.used() + self.rng.below(600 << 10)),
            _ => {}
        }
        if !self.rng.one_in(8) {
            faults.crash_at = Some(counts.changes + self.rng.between(1, 200));
        }
        self.disk.set_faults(faults);
    }

    /// Applies transactions until the store ends or there were enough.
    fn work(&mut self, store: &Store) {
        let mut model = self.states.last_key_value().unwrap().1.clone();
        for _ in 0..self.rng.between(5, 40) {
            let ops: Vec<_> =
                (0..self.rng.between(1, 4)).map(|_| Op::random(&mut self.rng)).collect();
            match apply(store, &ops) {
                Ok(number) => {
                    ops.iter().for_each(|op| op.apply_to_model(&mut model));
                    self.states.insert(number, model.clone());
                    self.attempts.push((Some(number), ops));
                    self.totals.transactions += 1;
                }
                Err(error) => {
                    self.attempts.push((None, ops));
                    match error {
                        StoreError::Full { .. } => self.totals.refused += 1,
                        _ => return,
                    }
                }
            }
            if self.rng.one_in(4) {
                match store.commit() {
                    Ok(number) => {
                        self.acknowledged = number;
                        self.totals.commits += 1;
                    }
                    Err(error) => {
                        assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
                        self.totals.failed_syncs +=
                            u64::from(error.to_string().contains("lost a write"));
                        assert!(store.commit().is_err() && store.get(A, b"1").is_err());
                        return;
                    }
                }
            }
        }
    }

    fn end_machine(&mut self) {
        if self.rng.one_in(4) {
            self.totals.ended_processes += 1;
            self.disk.end_process();
        } else {
            self.totals.crashes += 1;
            self.disk.crash();
        }
    }

    /// Opens the store, which crashes a few times on the way.
    fn recover(&mut self) -> Result<Store, String> {
        for _ in 0..self.rng.below(3) {
            let crash_at = Some(self.rng.between(1, 12));
            self.disk.set_faults(Faults { crash_at, ..self.planted.clone() });
            let opened = Store::open(&self.disk, policy());
            self.totals.crashed_recoveries += u64::from(opened.is_err());
            if let Ok(store) = &opened {
                // It may believe only what another crash leaves.
                self.acknowledged = self.acknowledged.max(store.committed());
            }
            drop(opened);
            self.disk.crash();
        }
        self.disk.set_faults(self.planted.clone());
        Store::open(&self.disk, policy()).map_err(|error| format!("does not open: {error}"))
    }

    fn compare(&mut self, store: &Store) -> Result<(), String> {
        let number = store.committed();
        if number < self.acknowledged {
            return Err(format!("ends with {number}, {} was acknowledged", self.acknowledged));
        }
        let expected = self.states.get(&number).cloned();
        let expected = expected.ok_or(format!("{number} was never applied"))?;
        let found = read(store).map_err(|error| error.to_string())?;
        if found.keys != expected.keys {
            return Err(format!("the keys are not those of {number}"));
        }
        for id in 0..OBJECTS {
            let empty = vec![];
            let of = |model: &'_ Model| model.objects.get(&id).unwrap_or(&empty).clone();
            self.compare_object(number, id, &of(&expected), &of(&found))?;
        }
        self.totals.lost_transactions += self.states.range(number + 1..).count() as u64;
        self.states = BTreeMap::from([(number, found)]);
        self.attempts.clear();
        self.acknowledged = number;
        Ok(())
    }

    /// The size must be that of the transaction. A byte may also be one that a later transaction
    /// has written to the same file.
    fn compare_object(
        &mut self,
        number: u64,
        id: u64,
        expected: &[u8],
        found: &[u8],
    ) -> Result<(), String> {
        if expected.len() != found.len() {
            let sizes = (found.len(), expected.len());
            return Err(format!("object {id} has a size of {sizes:?} at {number}"));
        }
        let mut allowed: Vec<Vec<u8>> = vec![vec![]; expected.len()];
        let later = self.attempts.iter().filter(|(at, _)| at.is_none_or(|at| at > number));
        let later = later.flat_map(|(at, ops)| ops.iter().map(|op| (*at, op)));
        'ops: for (at, op) in later {
            let (range, byte) = match op {
                Op::Write(object, offset, bytes) if *object == id => {
                    (*offset as usize..*offset as usize + bytes.len(), bytes[0])
                }
                Op::Punch(object, range) if *object == id => {
                    (range.start as usize..range.end as usize, 0)
                }
                Op::Truncate(object, size) if *object == id && *size > 0 => {
                    (*size as usize..usize::MAX, 0)
                }
                // What comes afterwards is in another file.
                Op::Truncate(object, _) | Op::Remove(object) if *object == id && at.is_some() => {
                    break 'ops;
                }
                _ => continue,
            };
            let end = range.end.min(allowed.len());
            allowed[range.start.min(end)..end].iter_mut().for_each(|bytes| bytes.push(byte));
        }
        let wrong = |at: &usize| expected[*at] != found[*at] && !allowed[*at].contains(&found[*at]);
        if let Some(at) = (0..expected.len()).find(wrong) {
            return Err(format!("byte {at} of object {id} is not that of {number}"));
        }
        self.totals.torn_objects += u64::from(expected != found);
        Ok(())
    }
}

fn run(seed: u64, planted: &Faults, totals: &mut Totals) -> Result<(), String> {
    let mut run = Run {
        rng: Rng::new(seed),
        disk: SimulatedDisk::new(seed),
        planted,
        states: BTreeMap::new(),
        attempts: vec![],
        acknowledged: 0,
        totals,
    };
    run.go()
}

#[test]
fn after_a_crash_the_store_equals_the_model_at_one_transaction() {
    let mut totals = Totals::default();
    for seed in 0..SEEDS {
        if let Err(what) = run(seed, &Faults::default(), &mut totals) {
            panic!("seed {seed}: {what}");
        }
    }
    let enough = totals.commits > 4 * SEEDS
        && totals.crashes > 2 * SEEDS
        && totals.crashed_recoveries > SEEDS / 2
        && totals.failed_syncs > SEEDS / 10
        && totals.ended_processes > SEEDS / 4
        && totals.torn_objects > SEEDS / 10
        && totals.lost_transactions > SEEDS
        && totals.refused > 0;
    assert!(enough, "this has tested too little: {totals:?}");
}

/// A commit that is acknowledged before it is on the disk.
#[test]
fn the_suite_finds_a_commit_that_was_not_synced() {
    let planted = Faults { ignore_key_syncs: true, ..Faults::default() };
    let found = (0..SEEDS).filter_map(|seed| run(seed, &planted, &mut Totals::default()).err());
    let found: Vec<_> = found.take(10).collect();
    let lost = found.iter().filter(|what| what.contains("was acknowledged"));
    assert!(found.len() == 10 && lost.count() > 0, "{found:?}");
}

/// Keys that speak of data that are not on the disk.
#[test]
fn the_suite_finds_data_that_were_not_synced_before_their_keys() {
    let planted = Faults { ignore_object_syncs: true, ..Faults::default() };
    let found = (0..SEEDS).filter_map(|seed| run(seed, &planted, &mut Totals::default()).err());
    let found: Vec<_> = found.take(3).collect();
    assert!(found.len() == 3 && found.iter().all(|what| what.contains("object")), "{found:?}");
}

#[test]
fn equal_seeds_do_the_same() {
    let count = |seed| {
        let mut totals = Totals::default();
        run(seed, &Faults::default(), &mut totals).unwrap();
        format!("{totals:?}")
    };
    (0..5).for_each(|seed| assert_eq!(count(seed), count(seed)));
}

#[test]
fn a_failed_sync_ends_the_store_for_good() {
    let disk = SimulatedDisk::new(1);
    let store = Store::create(&disk, b"", policy()).unwrap();
    put(&store, b"k", b"1");
    store.commit().unwrap();
    let last = write(&store, X, 0, b"data");
    let fail_sync_at = Some(disk.counts().syncs + 1);
    disk.set_faults(Faults { fail_sync_at, ..Faults::default() });
    let error = store.commit().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the data of objects") && text.contains("lost a write"), "{text}");
    disk.set_faults(Faults::default());
    assert!(matches!(store.commit(), Err(StoreError::Fenced { .. })), "a second try is no better");
    assert!(matches!(store.get(A, b"k"), Err(StoreError::Fenced { .. })));
    assert!(matches!(store.begin().apply(), Err(StoreError::Fenced { .. })));
    assert!(matches!(store.size(X), Err(StoreError::Fenced { .. })));
    assert!(matches!(store.wait(last), Err(StoreError::Fenced { .. })));
    assert_eq!((store.committed(), store.due(fulmar_base::Time::ZERO)), (1, None));
    drop(store);
    disk.end_process();
    let store = Store::open(&disk, policy()).unwrap();
    assert_eq!((store.committed(), store.size(X).unwrap()), (1, 0));
}

/// The system's cache keeps what a failed sync has lost. A store that is opened again, in the same
/// machine, must not believe it.
#[test]
fn what_a_failed_sync_has_lost_is_not_believed_later() {
    let mut failed = 0;
    for (seed, sync) in (0..40).flat_map(|seed| (1..6).map(move |sync| (seed, sync))) {
        let disk = SimulatedDisk::new(seed);
        let store = Store::create(&disk, b"", policy()).unwrap();
        put(&store, b"k", b"1");
        let fail_sync_at = Some(disk.counts().syncs + sync);
        disk.set_faults(Faults { fail_sync_at, ..Faults::default() });
        failed += u64::from(store.commit().is_err());
        drop(store);
        disk.end_process();
        let store = Store::open(&disk, policy()).unwrap();
        let believed = store.committed();
        disk.crash();
        drop(store);
        let store = Store::open(&disk, policy()).unwrap();
        assert_eq!(store.committed(), believed, "seed {seed}, sync {sync}");
        assert_eq!(store.get(A, b"k").unwrap().is_some(), believed == 1);
    }
    assert!(failed > 40, "{failed}");
}

/// The same for bytes that were written in place: those that are read after the failure are on the disk.
#[test]
fn bytes_that_a_failed_sync_has_lost_are_not_read_later() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let store = Store::create(&disk, b"", policy()).unwrap();
        write(&store, X, 0, &[1; 5000]);
        store.commit().unwrap();
        write(&store, X, 0, &[2; 5000]);
        let fail_sync_at = Some(disk.counts().syncs + 1);
        disk.set_faults(Faults { fail_sync_at, ..Faults::default() });
        store.commit().unwrap_err();
        drop(store);
        disk.end_process();
        let store = Store::open(&disk, policy()).unwrap();
        let read = content(&store, X);
        lost += u64::from(read.contains(&1));
        drop(store);
        disk.crash();
        let store = Store::open(&disk, policy()).unwrap();
        assert!(content(&store, X) == read, "seed {seed}");
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn a_creation_that_was_interrupted_is_begun_again() {
    let mut interrupted = 0;
    for crash_at in 1.. {
        let disk = SimulatedDisk::new(crash_at);
        disk.set_faults(Faults { crash_at: Some(crash_at), ..Faults::default() });
        let created = Store::create(&disk, b"label", policy());
        if created.is_ok() {
            break;
        }
        interrupted += 1;
        disk.crash();
        match Store::open(&disk, policy()) {
            Err(StoreError::NotAStore { .. }) => {
                Store::create(&disk, b"label", policy()).unwrap();
            }
            opened => assert_eq!((opened.unwrap().label(), crash_at > 10), (&b"label"[..], true)),
        }
    }
    assert!(interrupted > 10);
}
