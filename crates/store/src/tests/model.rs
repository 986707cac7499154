//! A model beside the store: maps of keys and of bytes, and the same operations on both.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::ops::{Bound, Range};

use fulmar_base::Rng;
use proptest::prelude::*;

use super::*;
use crate::{StoreError, Transaction};

/// What a store contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) keys: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    /// Objects that are not empty.
    pub(super) objects: BTreeMap<u64, Vec<u8>>,
}

/// A change of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(u8, Vec<u8>, Vec<u8>),
    Delete(u8, Vec<u8>),
    Write(u64, u64, Vec<u8>),
    Punch(u64, Range<u64>),
    Truncate(u64, u64),
    Allocate(u64, Range<u64>),
    Remove(u64),
}

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<Op>),
    Commit,
    Reopen,
}

pub(super) const OBJECTS: u64 = 4;

impl Op {
    pub(super) fn random(rng: &mut Rng) -> Self {
        let (object, offset) = (rng.below(OBJECTS), rng.below(20_000));
        let space = rng.below(2) as u8;
        let key = rng.below(40).to_string().into_bytes();
        match rng.below(20) {
            0..8 => {
                let len = if rng.one_in(10) { rng.below(5000) } else { rng.below(300) } as usize;
                Self::Put(space, key, vec![rng.u64() as u8; len])
            }
            8..10 => Self::Delete(space, key),
            10..15 => {
                let byte = rng.between(1, 255) as u8;
                Self::Write(object, offset, vec![byte; rng.between(1, 9000) as usize])
            }
            15 => Self::Punch(object, offset..offset + rng.below(9000)),
            16 | 17 => Self::Truncate(object, if rng.one_in(4) { 0 } else { offset }),
            18 => Self::Allocate(object, offset..offset + rng.below(9000)),
            _ => Self::Remove(object),
        }
    }

    pub(super) fn apply_to_model(&self, model: &mut Model) {
        match self {
            Self::Put(space, key, value) => {
                drop(model.keys.insert((*space, key.clone()), value.clone()));
            }
            Self::Delete(space, key) => drop(model.keys.remove(&(*space, key.clone()))),
            Self::Write(object, offset, bytes) => {
                let content = model.objects.entry(*object).or_default();
                let range = *offset as usize..*offset as usize + bytes.len();
                content.resize(content.len().max(range.end), 0);
                content[range].copy_from_slice(bytes);
            }
            Self::Punch(object, range) => {
                if let Some(content) = model.objects.get_mut(object) {
                    let end = (range.end as usize).min(content.len());
                    content[(range.start as usize).min(end)..end].fill(0);
                }
            }
            Self::Remove(object) | Self::Truncate(object, 0) => drop(model.objects.remove(object)),
            Self::Truncate(object, size) => {
                model.objects.entry(*object).or_default().resize(*size as usize, 0);
            }
            Self::Allocate(..) => {}
        }
    }
}

/// The segments of the writes among `ops`, in parts as a network brings them.
fn segments(ops: &[Op]) -> Vec<Vec<IoSlice<'_>>> {
    let bytes = ops.iter().map(|op| match op {
        Op::Write(_, _, bytes) => &bytes[..],
        _ => &[],
    });
    bytes.map(|bytes| bytes.chunks(1000).map(IoSlice::new).collect()).collect()
}

fn add<'a>(transaction: &mut Transaction<'a>, op: &Op, segments: &'a [IoSlice<'a>]) {
    let object = |id: &u64| ObjectId(0x2_0000_0400, *id);
    match op {
        Op::Put(space, key, value) => transaction.put(Space::new(*space), key, value.clone()),
        Op::Delete(space, key) => transaction.delete(Space::new(*space), key),
        Op::Write(id, offset, _) => transaction.write(object(id), *offset, segments),
        Op::Punch(id, range) => transaction.punch(object(id), range.clone()),
        Op::Truncate(id, size) => transaction.truncate(object(id), *size),
        Op::Allocate(id, range) => transaction.allocate(object(id), range.clone()),
        Op::Remove(id) => transaction.remove(object(id)),
    }
}

/// Applies operations as one transaction.
pub(super) fn apply(store: &Store, ops: &[Op]) -> Result<u64, StoreError> {
    let segments = segments(ops);
    let mut transaction = store.begin();
    for (op, segments) in ops.iter().zip(&segments) {
        add(&mut transaction, op, segments);
    }
    transaction.apply()
}

/// Reads everything, by ranges of a few keys.
pub(super) fn read(store: &Store) -> Result<Model, StoreError> {
    let mut model = Model::default();
    for space in 0..2 {
        let mut from = Bound::Unbounded;
        loop {
            let from_key = from.as_ref().map(|key: &Vec<u8>| &key[..]);
            let page = store.scan(Space::new(space), from_key, Bound::Unbounded, 7)?;
            for (key, value) in &page {
                assert_eq!(store.get(Space::new(space), key)?.as_ref(), Some(value));
                model.keys.insert((space, key.clone()), value.to_vec());
            }
            match page.last() {
                Some((key, _)) => from = Bound::Excluded(key.clone()),
                None => break,
            }
        }
    }
    for id in 0..OBJECTS {
        let content = try_content(store, ObjectId(0x2_0000_0400, id))?;
        if !content.is_empty() {
            model.objects.insert(id, content);
        }
    }
    Ok(model)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = any::<u64>().prop_map(|seed| Op::random(&mut Rng::new(seed)));
    let step = prop_oneof![
        8 => prop::collection::vec(op, 1..4).prop_map(Step::Apply),
        2 => Just(Step::Commit),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn stores_equal_the_model(steps in steps()) {
        for rig in Rig::all() {
            let mut store = rig.create();
            let mut model = Model::default();
            for step in &steps {
                match step {
                    Step::Apply(ops) => {
                        apply(&store, ops).unwrap();
                        ops.iter().for_each(|op| op.apply_to_model(&mut model));
                    }
                    Step::Commit => {
                        prop_assert_eq!(store.commit().unwrap(), store.applied());
                    }
                    Step::Reopen => {
                        store.commit().unwrap();
                        store = rig.reopen(store);
                    }
                }
                prop_assert!(read(&store).unwrap() == model, "after {:?}", step);
            }
        }
    }
}
