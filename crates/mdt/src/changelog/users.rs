//! The users of the changelog, and which records are not needed any more.

use std::ops::RangeInclusive;

use fulmar_base::Errno;
use fulmar_lustre_wire::Text;
use fulmar_wire::wire_struct;

use super::Changelog;
use super::kinds::Mask;
use super::state::{ChangelogState, key};
use crate::Mdt;
use crate::records::{CHANGES, Failure};

/// The most users.
const USERS_MAX: usize = 1024;
/// How many keys one transaction removes.
const TRIM: u64 = 4096;
/// How many an operation removes beside its own work.
const TRIM_BESIDE: u64 = 256;

wire_struct! {
    /// Somebody who follows the changelog. Records are kept until everybody has cleared them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct User {
        pub(super) id: u32,
        /// When it cleared records, in seconds since 1970.
        pub(super) time: i64,
        /// The last record that it has cleared.
        pub(super) end: u64,
        /// The kinds that it wants; 0: those that are usual.
        pub(super) mask: Mask,
        pub(super) name: Text<16>,
    }
}

impl fulmar_wire::Field for Mask {
    fn read(
        r: &mut fulmar_wire::Reader<'_>,
        name: &'static str,
    ) -> Result<Self, fulmar_wire::DecodeError> {
        r.u32(name).map(Self)
    }

    fn write(&self, w: &mut fulmar_wire::Writer<'_>) {
        w.u32(self.0);
    }
}

/// A user of the changelog, as an administrator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangelogUserId {
    /// The number, as in `cl1`.
    Number(u32),
    /// The name that it was registered with.
    Name(String),
}

impl User {
    /// Returns what tools print: `cl1`, or `cl1-name`.
    pub(super) fn full_name(&self) -> String {
        match self.name.as_bytes() {
            b"" => format!("cl{}", self.id),
            _ => format!("cl{}-{}", self.id, self.name),
        }
    }
}

impl Mdt {
    /// Registers a user of the changelog, and returns its number. Records are written from then on. The user is
    /// on disk when this returns.
    /// `mask`: the kinds that it wants, such as `CREAT,UNLNK` or `+ATIME`.
    ///
    /// # Errors
    /// EINVAL if the name or the mask is not valid, ENAMETOOLONG, EEXIST if another one has the name, EOVERFLOW
    /// or ENOSPC if there are too many, and if the store does not take it.
    pub fn register_changelog_user(
        &self,
        name: Option<&str>,
        mask: Option<&str>,
        now: i64,
    ) -> Result<u32, Failure> {
        let _changing = self.changelog.changing();
        let (mut kept, last) = {
            let state = self.changelog.state();
            (state.kept.clone(), state.last)
        };
        let id = kept.last_user.checked_add(1).ok_or(Errno(75))?;
        let name = name.unwrap_or_default();
        let mask = match mask {
            Some(mask) => Mask::parse(mask, Mask::DEFAULT)?,
            None if !name.is_empty() && kept.mask == Mask::LEAST => Mask::DEFAULT,
            None => Mask(0),
        };
        let name = checked_name(name, &kept)?;
        if kept.users.len() >= USERS_MAX {
            return Err(Errno::ENOSPC.into());
        }
        kept.users.push(User { id, time: now, end: last, mask, name });
        kept.last_user = id;
        self.keep(kept)?;
        self.store.commit()?;
        Ok(id)
    }

    /// Forgets a user of the changelog, with the records that no other user needs. Returns its number.
    ///
    /// # Errors
    /// ENOENT if there is no such user, and if the store does not take it.
    pub fn deregister_changelog_user(&self, who: &ChangelogUserId) -> Result<u32, Failure> {
        let _changing = self.changelog.changing();
        let mut kept = self.changelog.state().kept.clone();
        let is_it = |user: &User| match who {
            ChangelogUserId::Number(id) => user.id == *id,
            ChangelogUserId::Name(name) => {
                !name.is_empty() && user.name.as_bytes() == name.as_bytes()
            }
        };
        let place = kept.users.iter().position(is_it).ok_or(Errno::ENOENT)?;
        let User { id, .. } = kept.users.remove(place);
        self.purge(kept)?;
        self.trim_all()?;
        self.store.commit()?;
        Ok(id)
    }

    /// Records that a user needs no records up to `record` any more; 0: none of those that there are.
    ///
    /// # Errors
    /// EINVAL if there is no such record yet, ENOENT if there is no such user or it has cleared more already.
    pub(crate) fn clear_changelog(&self, id: u32, record: u64, now: i64) -> Result<(), Failure> {
        let _changing = self.changelog.changing();
        let (mut kept, last) = {
            let state = self.changelog.state();
            (state.kept.clone(), state.last)
        };
        if record > last {
            return Err(Errno::EINVAL.into());
        }
        let end = if record == 0 { last } else { record };
        let user = kept.users.iter_mut().find(|user| user.id == id && user.end <= end);
        let user = user.ok_or(Errno::ENOENT)?;
        (user.end, user.time) = (end, now);
        self.purge(kept)?;
        self.trim_all()
    }

    /// Returns a user with a name or a mask, by its number or, if that is 0, by its name: its number, and the
    /// kinds that it wants.
    ///
    /// # Errors
    /// ENOENT if there is no such user.
    pub(crate) fn changelog_filter(&self, id: u32, name: &[u8]) -> Result<(u32, u64), Errno> {
        let state = self.changelog.state();
        let is_it = |user: &&User| match id {
            0 => user.name.as_bytes() == name,
            id => user.id == id,
        };
        let has_more = |user: &&User| user.mask != Mask(0) || !user.name.as_bytes().is_empty();
        let user = state.kept.users.iter().filter(has_more).find(is_it).ok_or(Errno::ENOENT)?;
        Ok((user.id, user.mask.0.into()))
    }

    /// Keeps users, and no records that all of them have cleared.
    fn purge(&self, mut kept: ChangelogState) -> Result<(), Failure> {
        let last = self.changelog.state().last;
        let needed = kept.users.iter().map(|user| user.end).min().unwrap_or(last);
        kept.purged = kept.purged.max(needed.min(last));
        self.keep(kept)
    }

    pub(super) fn keep(&self, kept: ChangelogState) -> Result<(), Failure> {
        self.repeat(|transaction| {
            transaction.release_space();
            self.changelog.keep(transaction, kept.clone());
            Ok(())
        })?;
        Ok(())
    }

    /// Removes all records that are not needed.
    fn trim_all(&self) -> Result<(), Failure> {
        while self.trim(TRIM)? {}
        Ok(())
    }

    /// Removes some records that are not needed. Returns whether there were any.
    fn trim(&self, most: u64) -> Result<bool, Failure> {
        let Some(numbers) = self.changelog.to_trim(most) else { return Ok(false) };
        self.repeat(|transaction| {
            transaction.release_space();
            numbers.clone().for_each(|number| transaction.delete(CHANGES, &key(number)));
            Ok(())
        })?;
        self.changelog.trimmed(*numbers.end());
        Ok(true)
    }

    /// Does what keeps the changelog small, after an operation that added to it: forgets users that have been
    /// idle for too long, and removes some records that are not needed.
    pub(crate) fn tend_changelog(&self, now: i64) {
        // If the store does not take it, the next operation tries again.
        let _ = self.trim(TRIM_BESIDE);
        if !self.changelog.state().collection.is_due(now) {
            return;
        }
        let _changing = self.changelog.changing();
        let room = self.store.room().map_or(u64::MAX, |room| room.free);
        let idle = self.changelog.state().idle_users(now, room);
        let mut kept = self.changelog.state().kept.clone();
        kept.users.retain(|user| !idle.contains(&user.id));
        if !idle.is_empty() {
            let _ = self.purge(kept);
        }
    }
}

impl Changelog {
    /// Returns the oldest records that are not needed.
    fn to_trim(&self, most: u64) -> Option<RangeInclusive<u64>> {
        let state = self.state();
        let (from, to) = (state.trimmed + 1, state.kept.purged.min(state.trimmed + most));
        (from <= to).then_some(from..=to)
    }

    fn trimmed(&self, last: u64) {
        let mut state = self.state();
        state.trimmed = state.trimmed.max(last);
    }
}

/// Checks a name of a new user.
fn checked_name(name: &str, kept: &ChangelogState) -> Result<Text<16>, Errno> {
    let is_good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    let begins_well = name.bytes().next().is_none_or(|c| c.is_ascii_alphabetic());
    if !begins_well || !name.bytes().all(is_good) {
        return Err(Errno::EINVAL);
    }
    let kept_name = Text::new(name).ok_or(Errno::ENAMETOOLONG)?;
    if kept.users.iter().any(|user| !name.is_empty() && user.name == kept_name) {
        Err(Errno::EEXIST)
    } else {
        Ok(kept_name)
    }
}
