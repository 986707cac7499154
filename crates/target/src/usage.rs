//! What users, groups and projects use: bytes and objects. Spec: mdt-ost §14.6.
//!
//! The sums are in memory and in the store. A transaction adds to them when it is applied, in the order
//! of the numbers, so transactions of the same user do not conflict, and what is in the store is
//! always the sum over the objects there.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_lustre_wire::quota::QuotaKind;
use fulmar_store::{Space, Store, StoreError, Transaction};
use fulmar_wire::wire_struct;

use crate::records::{decode, encode};

/// How many are read at once.
const PAGE: usize = 1024;

wire_struct! {
    /// What somebody uses.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UsageRecord {
        /// Bytes on the medium, in blocks of 4 KiB.
        pub bytes: u64,
        /// Objects of an OST, files of an MDT.
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

/// What somebody uses by something that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project.
    pub projid: u32,
    /// What it takes.
    pub used: UsageRecord,
}

/// The sums.
#[derive(Clone, Debug)]
pub struct Usage {
    space: Space,
    sums: Arc<Mutex<BTreeMap<Owner, UsageRecord>>>,
}

/// What a transaction adds to the sums.
#[derive(Debug, Default)]
pub struct Deltas(BTreeMap<Owner, (i64, i64)>);

impl Usage {
    /// Reads the sums that are kept in a space of keys.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn load(store: &Store, space: Space) -> Result<Self, StoreError> {
        let mut sums = BTreeMap::new();
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = store.scan(space, key, Bound::Unbounded, PAGE)?;
            for (key, value) in &page {
                sums.insert(decode(key, "an owner")?, decode(value, "the use of an owner")?);
            }
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => return Ok(Self { space, sums: Arc::new(Mutex::new(sums)) }),
            }
        }
    }

    /// Returns what somebody uses.
    pub fn of(&self, kind: QuotaKind, id: u32) -> UsageRecord {
        let kind = kind.0 as u8;
        self.sums().get(&Owner { kind, id }).copied().unwrap_or_default()
    }

    /// Returns the objects of all users.
    pub fn objects(&self) -> u64 {
        let user = QuotaKind::USER.0 as u8;
        self.sums()
            .iter()
            .filter(|(owner, _)| owner.kind == user)
            .map(|(_, used)| used.objects)
            .sum()
    }

    /// Compares the sums with those of all that exists.
    ///
    /// # Errors
    /// What does not match.
    pub fn check(&self, found: &Deltas) -> Result<(), String> {
        let sums = self.sums();
        let noted = sums.iter().filter(|(_, used)| **used != UsageRecord::default());
        let noted: BTreeMap<_, _> =
            noted.map(|(owner, used)| (*owner, (used.bytes as i64, used.objects as i64))).collect();
        if noted == found.0 {
            return Ok(());
        }
        Err(format!("{noted:?} is noted, {:?} is used", found.0))
    }

    /// Adds the deltas to a transaction.
    pub fn record(&self, transaction: &mut Transaction<'_>, deltas: &Deltas) {
        for (&owner, &(bytes, objects)) in &deltas.0 {
            if (bytes, objects) == (0, 0) {
                continue;
            }
            let sums = self.clone();
            transaction.put_numbered(self.space, &encode(&owner), move |_| {
                let mut sums = sums.sums();
                let used = sums.entry(owner).or_default();
                used.bytes = used.bytes.saturating_add_signed(bytes);
                used.objects = used.objects.saturating_add_signed(objects);
                encode(used)
            });
        }
    }

    fn sums(&self) -> MutexGuard<'_, BTreeMap<Owner, UsageRecord>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deltas {
    /// Adds something that exists now.
    pub fn add(&mut self, charge: &Charge) {
        self.change(charge, 1);
    }

    /// Returns by how much the number of objects of each owner changes.
    pub fn objects(&self) -> impl Iterator<Item = (QuotaKind, u32, i64)> + '_ {
        self.0
            .iter()
            .map(|(owner, &(_, objects))| (QuotaKind(owner.kind.into()), owner.id, objects))
    }

    /// Removes something that existed before.
    pub fn subtract(&mut self, charge: &Charge) {
        self.change(charge, -1);
    }

    fn change(&mut self, charge: &Charge, sign: i64) {
        let Charge { uid, gid, projid, used } = *charge;
        let [bytes, objects] =
            [used.bytes, used.objects].map(|count| i64::try_from(count).unwrap_or(i64::MAX) * sign);
        let owners =
            [(QuotaKind::USER, uid), (QuotaKind::GROUP, gid), (QuotaKind::PROJECT, projid)];
        for (kind, id) in owners {
            let delta = self.0.entry(Owner { kind: kind.0 as u8, id }).or_default();
            delta.0 = delta.0.saturating_add(bytes);
            delta.1 = delta.1.saturating_add(objects);
        }
    }
}
