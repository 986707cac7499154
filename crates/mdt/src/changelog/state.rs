//! The numbers of the records and their places, and who is registered.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_lustre_wire::changelog::{ChangeKind, Changelog as Record};
use fulmar_lustre_wire::llog::LogRecord;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_store::{Store, StoreError, Transaction};
use fulmar_wire::{Field, Order, Reader, Writer};

use super::kinds::Mask;
use super::logs::{Extent, KeptRecord, LOG_LEN, place};
use super::note::{Note, Who};
use super::parameters::Collection;
use super::users::User;
use crate::records::{CHANGES, STATE, damaged, decode, encode};

/// The key of what is kept beside the records.
const CHANGELOG: &[u8] = b"changelog";
/// How many files are known to have a record already. More are forgotten together.
const NOTED_MAX: usize = 1 << 16;
/// The header of a log.
pub(super) const HEADER: u32 = LogRecord::LEN_MAX as u32;
const CHUNK: u32 = LogRecord::LEN_MAX as u32;

/// What is kept beside the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangelogState {
    /// The number of the last user; none is used twice.
    pub(super) last_user: u32,
    /// What is recorded whatever the users want.
    pub(super) mask: Mask,
    /// The last record that counts no more.
    pub(super) purged: u64,
    pub(super) users: Vec<User>,
}

/// The changelog of an MDT.
#[derive(Clone, Debug)]
pub(crate) struct Changelog {
    state: Arc<Mutex<State>>,
    /// The kinds that are recorded now; none without a user.
    mask: Arc<AtomicU32>,
    /// Whoever changes what is kept has it.
    changing: Arc<Mutex<()>>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) kept: ChangelogState,
    /// The number of the last record.
    pub(super) last: u64,
    /// Where the logs that have records end, in bytes.
    pub(super) ends: BTreeMap<u32, u32>,
    /// The last record whose key was removed.
    pub(super) trimmed: u64,
    /// Files that have a record since the last purge: later changes of their times are not recorded.
    noted: BTreeSet<Fid>,
    pub(super) collection: Collection,
}

impl Changelog {
    /// Reads what there is.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub(crate) fn load(store: &Store) -> Result<Self, StoreError> {
        let kept = match store.get(STATE, CHANGELOG)? {
            Some(value) => ChangelogState::decode(&value)?,
            None => ChangelogState { mask: Mask::LEAST, ..ChangelogState::default() },
        };
        let last = find_last(store, kept.purged)?;
        let mut ends = BTreeMap::new();
        if last > kept.purged {
            for log in place(kept.purged + 1).0..=place(last).0 {
                let number = last.min((u64::from(log) + 1) * LOG_LEN);
                let record = KeptRecord::get(store, number)?;
                ends.insert(log, record.end());
            }
        }
        let first = store.scan(CHANGES, Bound::Unbounded, Bound::Unbounded, 1)?;
        let first = first.first().map(|(key, _)| decode::<u64>(key, "the number of a record"));
        let trimmed = first.transpose()?.map_or(last, |first| first.saturating_sub(1));
        let mask = kept.recorded();
        let state = State {
            kept,
            last,
            ends,
            trimmed,
            noted: BTreeSet::new(),
            collection: Collection::default(),
        };
        Ok(Self {
            state: Arc::new(Mutex::new(state)),
            mask: Arc::new(AtomicU32::new(mask.0)),
            changing: Arc::default(),
        })
    }

    /// Returns whether changes of a kind are recorded.
    pub(crate) fn wants(&self, kind: ChangeKind) -> bool {
        Mask(self.mask.load(Ordering::Relaxed)).has(kind)
    }

    /// Returns the kinds that are recorded; those of the administrator without a user.
    pub(super) fn recorded(&self) -> Mask {
        let kept = &self.state().kept;
        if kept.users.is_empty() { kept.mask } else { kept.recorded() }
    }

    /// Returns which records there are.
    pub(crate) fn extent(&self) -> Extent {
        let state = self.state();
        Extent { purged: state.kept.purged, last: state.last }
    }

    /// Adds the records of a change to its transaction.
    pub(crate) fn append(&self, transaction: &mut Transaction<'_>, notes: Vec<Note>, who: Who) {
        let log = self.clone();
        transaction.append(move |number| {
            let mut state = log.state();
            let add = |note: Note| state.add(number, &note, &who);
            let added: Vec<_> = notes.into_iter().filter_map(add).collect();
            added.into_iter().map(|(key, value)| (CHANGES, key, value)).collect()
        });
    }

    /// Adds to a transaction what is kept from then on. The caller has [`Changelog::changing`].
    pub(super) fn keep(&self, transaction: &mut Transaction<'_>, kept: ChangelogState) {
        let log = self.clone();
        transaction.put_numbered(STATE, CHANGELOG, move |_| {
            let value = kept.encode();
            log.mask.store(kept.recorded().0, Ordering::Relaxed);
            let mut state = log.state();
            let was_on = !state.kept.users.is_empty();
            if kept.purged > state.kept.purged || !was_on {
                state.noted.clear();
            }
            state.kept = kept;
            let purged = state.kept.purged;
            if purged >= state.last {
                state.ends.clear();
            } else {
                let first = place(purged + 1).0;
                state.ends.retain(|log, _| *log >= first);
            }
            value
        });
    }

    /// Waits until no other thread changes what is kept.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the key and the value of a new record; `None` if it is not recorded after all.
    fn add(&mut self, transaction: u64, note: &Note, who: &Who) -> Option<(Vec<u8>, Vec<u8>)> {
        let times = ChangeKind::MTIME.0..=ChangeKind::ATIME.0;
        let is_known = times.contains(&note.kind.0) && self.noted.contains(&note.target);
        if self.kept.users.is_empty() || is_known {
            return None;
        }
        // Whoever only looked has changed nothing.
        if !matches!(note.kind, ChangeKind::OPEN | ChangeKind::NOPEN | ChangeKind::GXATR) {
            if self.noted.len() >= NOTED_MAX {
                self.noted.clear();
            }
            self.noted.insert(note.target);
        }
        self.last += 1;
        let body = Record { index: self.last, ..note.record(who) }.to_bytes();
        let (log, index) = place(self.last);
        let len = (LogRecord::OVERHEAD + body.len()) as u32;
        let mut offset = self.ends.get(&log).copied().unwrap_or(HEADER);
        if index == 1 {
            offset = HEADER;
        }
        if offset % CHUNK + len > CHUNK {
            offset = offset.next_multiple_of(CHUNK);
        }
        self.ends.insert(log, offset + len);
        Some((key(self.last), KeptRecord { transaction, offset, body }.encode()))
    }
}

impl ChangelogState {
    /// Returns the kinds that are recorded: what the users want, and what is wanted in any case.
    fn recorded(&self) -> Mask {
        if self.users.is_empty() {
            return Mask(0);
        }
        let of_user = |user: &User| match user.mask {
            Mask(0) if self.mask == Mask::LEAST => Mask::DEFAULT.0,
            Mask(mask) => mask,
        };
        Mask(self.users.iter().map(of_user).fold(self.mask.0, |all, mask| all | mask))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![];
        let w = &mut Writer::new(&mut bytes, Order::Big);
        w.u32(self.last_user);
        w.u32(self.mask.0);
        w.u64(self.purged);
        w.u32(self.users.len() as u32);
        self.users.iter().for_each(|user| user.write(w));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let r = &mut Reader::new(bytes, Order::Big);
        let mut read = || {
            let (last_user, mask) = (r.u32("last_user")?, Mask(r.u32("mask")?));
            let (purged, count) = (r.u64("purged")?, r.u32("users")?);
            let users = (0..count).map(|_| User::read(r, "user")).collect::<Result<_, _>>()?;
            Ok(Self { last_user, mask, purged, users })
        };
        read().map_err(|error: fulmar_wire::DecodeError| {
            damaged("the users of the changelog", &error.to_string())
        })
    }
}

/// Returns the number of the last record. All behind `purged` are there.
fn find_last(store: &Store, purged: u64) -> Result<u64, StoreError> {
    let exists = |number: u64| Ok::<_, StoreError>(store.get(CHANGES, &key(number))?.is_some());
    let (mut last, mut step) = (purged, 1);
    while exists(last + step)? {
        last += step;
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if exists(last + step)? {
            last += step;
        }
    }
    Ok(last)
}

/// Returns the key of a record.
pub(super) fn key(number: u64) -> Vec<u8> {
    encode(&number)
}
