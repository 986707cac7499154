//! What users, groups and projects use: bytes and objects. Spec: mdt-ost §14.6.
//!
//! The sums are in memory and in the store. A transaction adds to them when it is applied, in the order
//! of the numbers, so transactions of the same user do not conflict, and what is in the store is
//! always the sum over the objects there.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_lustre_wire::quota::QuotaKind;
use fulmar_store::{Store, StoreError, Transaction};
use fulmar_wire::wire_struct;

use crate::records::{Attributes, USAGE, decode, encode};

/// How many are read at once.
const PAGE: usize = 1024;

wire_struct! {
    /// What somebody uses.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Used {
        /// Bytes on the medium, in blocks of 4 KiB.
        pub bytes: u64,
        /// Objects.
        pub objects: u64,
    }
}

wire_struct! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Owner {
        kind: u8,
        id: u32,
    }
}

/// The sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(Arc<Mutex<BTreeMap<Owner, Used>>>);

/// What a transaction adds to the sums.
#[derive(Debug, Default)]
pub(crate) struct Deltas(BTreeMap<Owner, (i64, i64)>);

impl Usage {
    /// Reads the sums.
    pub(crate) fn load(store: &Store) -> Result<Self, StoreError> {
        let mut sums = BTreeMap::new();
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = store.scan(USAGE, key, Bound::Unbounded, PAGE)?;
            for (key, value) in &page {
                sums.insert(decode(key, "an owner")?, decode(value, "the use of an owner")?);
            }
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => return Ok(Self(Arc::new(Mutex::new(sums)))),
            }
        }
    }

    /// Returns what somebody uses.
    pub(crate) fn of(&self, kind: QuotaKind, id: u32) -> Used {
        let kind = kind.0 as u8;
        self.sums().get(&Owner { kind, id }).copied().unwrap_or_default()
    }

    /// Returns the objects of all users.
    pub(crate) fn objects(&self) -> u64 {
        let user = QuotaKind::USER.0 as u8;
        self.sums()
            .iter()
            .filter(|(owner, _)| owner.kind == user)
            .map(|(_, used)| used.objects)
            .sum()
    }

    /// Compares the sums with those of all objects, by kind and id.
    pub(crate) fn check(&self, found: &BTreeMap<(u32, u32), (u64, u64)>) -> Result<(), String> {
        let sums = self.sums();
        let noted = sums.iter().filter(|(_, used)| **used != Used::default());
        let noted = noted
            .map(|(owner, used)| ((u32::from(owner.kind), owner.id), (used.bytes, used.objects)));
        let noted: BTreeMap<_, _> = noted.collect();
        if noted == *found { Ok(()) } else { Err(format!("{noted:?} is noted, {found:?} is used")) }
    }

    /// Adds the deltas to a transaction.
    pub(crate) fn record(&self, transaction: &mut Transaction<'_>, deltas: &Deltas) {
        for (&owner, &(bytes, objects)) in &deltas.0 {
            if (bytes, objects) == (0, 0) {
                continue;
            }
            let sums = self.clone();
            transaction.put_numbered(USAGE, &encode(&owner), move |_| {
                let mut sums = sums.sums();
                let used = sums.entry(owner).or_default();
                used.bytes = used.bytes.saturating_add_signed(bytes);
                used.objects = used.objects.saturating_add_signed(objects);
                encode(used)
            });
        }
    }

    fn sums(&self) -> MutexGuard<'_, BTreeMap<Owner, Used>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deltas {
    /// Adds the difference between an object before and after. `None`: it does not exist.
    pub(crate) fn change(&mut self, before: Option<&Attributes>, after: Option<&Attributes>) {
        for (attributes, sign) in [(before, -1), (after, 1)] {
            let Some(attributes) = attributes else { continue };
            let bytes = i64::try_from(attributes.charged).unwrap_or(i64::MAX);
            self.add(attributes, sign * bytes, sign);
        }
    }

    /// Adds unused objects.
    pub(crate) fn create(&mut self, count: u64) {
        self.add(&Attributes::unused(), 0, i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn add(&mut self, attributes: &Attributes, bytes: i64, objects: i64) {
        let Attributes { uid, gid, projid, .. } = *attributes;
        let owners =
            [(QuotaKind::USER, uid), (QuotaKind::GROUP, gid), (QuotaKind::PROJECT, projid)];
        for (kind, id) in owners {
            let delta = self.0.entry(Owner { kind: kind.0 as u8, id }).or_default();
            delta.0 = delta.0.saturating_add(bytes);
            delta.1 = delta.1.saturating_add(objects);
        }
    }
}
