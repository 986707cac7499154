//! How many files users, groups and projects may have. Spec: mdt-ost §7.11, §14.6.
//!
//! The limits are in memory and in the store. As with the sums of what is used, a transaction changes them
//! when it is applied, so transactions do not conflict. What somebody may have is compared
//! with what is applied: changes that are under way at the same time may exceed a limit by their number.
//!
//! A change that gives files to a user, a group or a project is refused (EDQUOT) beyond the hard
//! limit, or beyond the soft one after the grace. Changes of processes with CAP_SYS_RESOURCE and
//! replays are not. Limits are compared with the sums that are applied, so that changes do not
//! conflict; those under way at one time may exceed a limit by their number. OSTs know no limits:
//! those of blocks are refused when they are set.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::Errno;
use fulmar_lustre_wire::quota::QuotaKind;
use fulmar_store::{Store, StoreError, Transaction};
use fulmar_target::usage::{Deltas, Usage};
use fulmar_wire::wire_struct;

use crate::records::{LIMITS, decode, encode};

/// The grace of quotas in seconds, unless another one is set.
pub(crate) const GRACE: u64 = 7 * 24 * 3600;
/// The most owners with limits: administrators of clients choose them.
const OWNERS_MAX: usize = 1 << 20;
/// How many are read at once.
const PAGE: usize = 1024;

wire_struct! {
    /// Whose limits they are. Those of the id 0 are the default ones: root has none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Owner {
        kind: u8,
        id: u32,
    }
}

wire_struct! {
    /// What is kept of an owner.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct LimitsRecord {
        /// 1: it has limits of its own. 0: it has the default ones.
        is_own: u8,
        hard: u64,
        soft: u64,
        /// When the grace ends, in seconds since 1970; 0: it has not begun. Of the id 0: how long it is; 0: as
        /// long as usual.
        grace: u64,
    }
}

/// The limits of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The most files; 0: there is no limit.
    pub(crate) hard: u64,
    /// How many files it may have for longer than the grace; 0: there is no limit.
    pub(crate) soft: u64,
}

/// The limits of all owners.
#[derive(Clone, Debug)]
pub(crate) struct Limits(Arc<Mutex<BTreeMap<Owner, LimitsRecord>>>);

impl Limits {
    /// Reads the limits.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub(crate) fn load(store: &Store) -> Result<Self, StoreError> {
        let mut all = BTreeMap::new();
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = store.scan(LIMITS, key, Bound::Unbounded, PAGE)?;
            for (key, value) in &page {
                let kept: LimitsRecord = decode(value, "the limits of an owner")?;
                if kept != LimitsRecord::default() {
                    all.insert(decode(key, "an owner")?, kept);
                }
            }
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => return Ok(Self(Arc::new(Mutex::new(all)))),
            }
        }
    }

    /// Returns the limits of an owner, and when its grace ends: 0 if it has not begun.
    pub(crate) fn of(&self, kind: QuotaKind, id: u32) -> (Limit, u64) {
        let all = self.all();
        let own = all.get(&owner(kind, id)).copied().unwrap_or_default();
        let default = all.get(&owner(kind, 0)).copied().unwrap_or_default();
        let LimitsRecord { hard, soft, .. } = if own.is_own == 1 { own } else { default };
        (Limit { hard, soft }, if id == 0 { 0 } else { own.grace })
    }

    /// Returns the grace of a kind of owners in seconds.
    pub(crate) fn grace(&self, kind: QuotaKind) -> u64 {
        let of_kind = self.all().get(&owner(kind, 0)).map_or(0, |kept| kept.grace);
        if of_kind == 0 { GRACE } else { of_kind }
    }

    /// Returns whether an owner may get limits of its own.
    pub(crate) fn has_room(&self, kind: QuotaKind, id: u32) -> bool {
        let all = self.all();
        all.len() < OWNERS_MAX || all.contains_key(&owner(kind, id))
    }

    /// Adds to a transaction that an owner has limits of its own; `None`: that it has the default ones again.
    /// `used`: how many files it has, and when a grace ends that begins because of these.
    pub(crate) fn set(
        &self,
        transaction: &mut Transaction<'_>,
        (kind, id): (QuotaKind, u32),
        limit: Option<Limit>,
        (used, end): (u64, u64),
    ) {
        let Limit { hard, soft } = limit.unwrap_or_default();
        let is_begun = soft != 0 && used > soft;
        let end = if is_begun { end } else { 0 };
        self.change(transaction, owner(kind, id), move |kept| {
            let grace = if id == 0 { kept.grace } else { end };
            *kept = LimitsRecord { is_own: u8::from(limit.is_some()), hard, soft, grace };
        });
    }

    /// Returns when a grace ends that begins now.
    pub(crate) fn end(&self, kind: QuotaKind, now: i64) -> u64 {
        u64::try_from(now).unwrap_or(0).saturating_add(self.grace(kind))
    }

    /// Adds a new grace to a transaction, in seconds. Those that have begun end as they would have.
    pub(crate) fn set_grace(&self, transaction: &mut Transaction<'_>, kind: QuotaKind, grace: u64) {
        self.change(transaction, owner(kind, 0), move |kept| kept.grace = grace);
    }

    /// Checks that owners of some kinds may get more files. Adds to the transaction which graces begin.
    ///
    /// # Errors
    /// EDQUOT.
    pub(crate) fn check(
        &self,
        transaction: &mut Transaction<'_>,
        (usage, deltas): (&Usage, &Deltas),
        kinds: &[QuotaKind],
        now: i64,
    ) -> Result<(), Errno> {
        for (kind, id, added) in deltas.objects() {
            // Root has no limits.
            if added <= 0 || id == 0 || self.all().is_empty() || !kinds.contains(&kind) {
                continue;
            }
            let (Limit { hard, soft }, end) = self.of(kind, id);
            let wanted = usage.of(kind, id).objects.saturating_add_signed(added);
            if hard != 0 && wanted > hard {
                return Err(Errno::EDQUOT);
            }
            match end {
                0 if soft != 0 && wanted > soft => {
                    let end = self.end(kind, now);
                    self.change(transaction, owner(kind, id), move |kept| kept.grace = end);
                }
                0 => {}
                // The limit that it had is gone.
                _ if soft == 0 => self.change(transaction, owner(kind, id), |kept| kept.grace = 0),
                end if wanted > soft && u64::try_from(now).unwrap_or(0) > end => {
                    return Err(Errno::EDQUOT);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds to a transaction which graces it ends, since an owner has few enough files again.
    pub(crate) fn end_graces(
        &self,
        transaction: &mut Transaction<'_>,
        usage: &Usage,
        deltas: &Deltas,
    ) {
        for (kind, id, added) in deltas.objects() {
            if added >= 0 || id == 0 || self.all().is_empty() {
                continue;
            }
            let (Limit { soft, .. }, end) = self.of(kind, id);
            let left = usage.of(kind, id).objects.saturating_add_signed(added);
            if end != 0 && left <= soft {
                self.change(transaction, owner(kind, id), |kept| kept.grace = 0);
            }
        }
    }

    fn change(
        &self,
        transaction: &mut Transaction<'_>,
        owner: Owner,
        change: impl FnOnce(&mut LimitsRecord) + Send + 'static,
    ) {
        let limits = self.clone();
        transaction.put_numbered(LIMITS, &encode(&owner), move |_| {
            let mut all = limits.all();
            let kept = all.entry(owner).or_default();
            change(kept);
            let kept = *kept;
            if kept == LimitsRecord::default() {
                all.remove(&owner);
            }
            encode(&kept)
        });
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Owner, LimitsRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner(kind: QuotaKind, id: u32) -> Owner {
    Owner { kind: kind.0 as u8, id }
}

#[cfg(test)]
mod tests {
    use fulmar_store::Policy;

    use super::*;

    const USER: QuotaKind = QuotaKind::USER;

    fn set(store: &Store, limits: &Limits, id: u32, limit: Option<Limit>) {
        let mut transaction = store.begin();
        limits.set(&mut transaction, (USER, id), limit, (0, 0));
        transaction.apply().unwrap();
    }

    #[test]
    fn an_owner_without_limits_takes_no_room() {
        let store = Store::memory(b"MDT", Policy::default());
        let limits = Limits::load(&store).unwrap();
        set(&store, &limits, 5, Some(Limit { hard: 9, soft: 0 }));
        assert_eq!(Limits::load(&store).unwrap().of(USER, 5).0.hard, 9);
        set(&store, &limits, 5, None);
        assert!(limits.all().is_empty());
        assert!(Limits::load(&store).unwrap().all().is_empty());
    }

    #[test]
    fn owners_with_limits_are_bounded() {
        let kept = LimitsRecord { is_own: 1, hard: 1, ..LimitsRecord::default() };
        let all = (1..=OWNERS_MAX as u32).map(|id| (owner(USER, id), kept)).collect();
        let limits = Limits(Arc::new(Mutex::new(all)));
        assert!(limits.has_room(USER, 5), "it has limits");
        assert!(!limits.has_room(USER, OWNERS_MAX as u32 + 1));
    }
}
