//! What administrators read and set: the files of a kernel MDT. Spec: mdt-ost §14.10.

use std::fmt::Write;

use fulmar_base::Errno;

use super::kinds::Mask;
use super::state::{HEADER, State};
use super::users::User;
use crate::Mdt;
use crate::records::Failure;

/// When users are forgotten, since they keep too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collection {
    /// Whether they ever are.
    is_on: bool,
    /// Whether they are when the records take a quarter of the free space.
    for_space: bool,
    /// How long a user may be idle, in seconds.
    idle_time: u64,
    /// How many records it may leave.
    idle_records: u64,
    /// The seconds from one look to the next.
    interval: u64,
    /// When it was looked at last.
    checked: i64,
}

impl Default for Collection {
    fn default() -> Self {
        Self {
            is_on: true,
            for_space: true,
            idle_time: 30 * 24 * 3600,
            idle_records: 8096 * 4 * 8096 * 8,
            interval: 3600,
            checked: 0,
        }
    }
}

impl Collection {
    /// Returns whether it is time to look.
    pub(super) fn is_due(&mut self, now: i64) -> bool {
        let is_due = self.is_on && now.saturating_sub(self.checked) > self.interval as i64;
        if is_due {
            self.checked = now;
        }
        is_due
    }

    fn is_idle(&self, time: u64, records: u64) -> bool {
        const BOTH: u64 = (24 * 3600) << 32;
        time > self.idle_time || records > self.idle_records || time.saturating_mul(records) > BOTH
    }
}

impl State {
    /// Returns the bytes that the logs of a kernel MDT would have.
    fn size(&self) -> u64 {
        let logs: u64 = self.ends.values().map(|end| u64::from(*end)).sum();
        // Both catalogs with their entries, and the log of the users.
        let catalogs = u64::from(HEADER) * 2 + 64 * (self.ends.len() as u64 + 1);
        logs + catalogs + u64::from(HEADER) + 40 * self.kept.users.len() as u64
    }

    /// Returns the users that keep too much. `room`: what is free on the medium in bytes.
    pub(super) fn idle_users(&self, now: i64, room: u64) -> Vec<u32> {
        let is_idle = |user: &&User| {
            let time = u64::try_from(now.saturating_sub(user.time)).unwrap_or_default();
            self.collection.is_idle(time, self.last.saturating_sub(user.end))
        };
        let mut idle: Vec<u32> =
            self.kept.users.iter().filter(is_idle).map(|user| user.id).collect();
        if idle.is_empty() && self.collection.for_space && self.size() > room / 4 {
            // The one that is furthest behind.
            let behind = self.kept.users.iter().filter(|user| user.end < self.last);
            idle.extend(behind.min_by_key(|user| user.end).map(|user| user.id));
        }
        idle
    }

    fn users_text(&self, now: i64) -> String {
        let mut text = format!("current_index: {}\n", self.last);
        let _ = writeln!(text, "{:<24} {:>10} (idle) mask", "ID", "index");
        for user in &self.kept.users {
            let idle = u64::try_from(now.saturating_sub(user.time)).unwrap_or_default();
            let _ = write!(text, "{:<24} {:>10} ({idle})", user.full_name(), user.end);
            if user.mask != Mask(0) {
                let names: Vec<_> = user.mask.names().collect();
                let _ = write!(text, " mask={}", names.join(","));
            }
            text.push('\n');
        }
        text
    }
}

impl Mdt {
    /// Returns the parameters of the changelog, each with its text, in the order of their names.
    pub fn changelog_parameters(&self, now: i64) -> Vec<(&'static str, String)> {
        let line = |value: u64| format!("{value}\n");
        let mask = |mask: Mask| {
            let names: Vec<_> = mask.names().map(|name| format!("{name} ")).collect();
            names.concat() + "\n"
        };
        let recorded = self.changelog.recorded();
        let state = self.changelog.state();
        let Collection { is_on, for_space, idle_time, idle_records, interval, .. } =
            state.collection;
        vec![
            ("changelog_current_mask", mask(recorded)),
            ("changelog_free_space_gc", line(for_space.into())),
            ("changelog_gc", line(is_on.into())),
            ("changelog_mask", mask(state.kept.mask)),
            ("changelog_max_idle_indexes", line(idle_records)),
            ("changelog_max_idle_time", line(idle_time)),
            ("changelog_min_gc_interval", line(interval)),
            ("changelog_size", line(state.size())),
            ("changelog_users", state.users_text(now)),
        ]
    }

    /// Sets a parameter of the changelog. The mask is kept over restarts.
    ///
    /// # Errors
    /// ENOENT if there is no such parameter, EACCES if it cannot be set, EINVAL, and if the store does not take it.
    pub fn set_changelog_parameter(&self, name: &str, value: &str) -> Result<(), Failure> {
        if name == "changelog_mask" {
            let _changing = self.changelog.changing();
            let mut kept = self.changelog.state().kept.clone();
            let is_relative = value.trim_start().starts_with(['+', '-']);
            let before = match kept.mask {
                Mask::LEAST if is_relative => Mask::DEFAULT,
                mask => mask,
            };
            kept.mask = Mask::parse(value, before)?;
            self.keep(kept)?;
            self.store.commit()?;
            return Ok(());
        }
        let number: Result<u64, _> = value.trim().parse();
        let mut state = self.changelog.state();
        let of = &mut state.collection;
        match name {
            "changelog_current_mask" | "changelog_size" | "changelog_users" => {
                return Err(Errno::EACCES.into());
            }
            "changelog_free_space_gc" | "changelog_gc" => {
                let is_on = match value.trim() {
                    "0" => false,
                    "1" => true,
                    _ => return Err(Errno::EINVAL.into()),
                };
                *(if name == "changelog_gc" { &mut of.is_on } else { &mut of.for_space }) = is_on;
                return Ok(());
            }
            _ => {}
        }
        let place = match name {
            "changelog_max_idle_indexes" => &mut of.idle_records,
            "changelog_max_idle_time" => &mut of.idle_time,
            "changelog_min_gc_interval" => &mut of.interval,
            _ => return Err(Errno::ENOENT.into()),
        };
        *place = number.map_err(|_| Errno::EINVAL)?;
        Ok(())
    }
}
