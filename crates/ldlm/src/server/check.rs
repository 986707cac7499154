//! Checks that the tables of a namespace agree, for tests and fuzzing.

use super::namespace::{HolderKey, LOCAL, Namespace, Timer};
use super::resource::Resource;
use super::tree;

impl Namespace {
    /// Checks that the tables agree. Slow: for tests.
    ///
    /// # Errors
    /// What does not agree.
    pub fn check_invariants(&self) -> Result<(), String> {
        let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        let count = self.locks.len() as usize;
        ensure(self.by_handle.len() == count, "handles")?;
        ensure(self.by_holder.len() == count, "holders")?;
        ensure(self.by_id.len() == self.resources.len() as usize, "resources")?;
        ensure(self.by_export.len() + 1 == self.exports.len() as usize, "exports")?;
        ensure(self.timed.len() + self.answers() == self.timers.len(), "timers")?;
        ensure(self.changed.is_empty(), "a resource was not looked at")?;
        for (id, lock) in self.locks.iter() {
            let key = HolderKey::new(lock.export, lock.client, id);
            let is_known = self.by_handle.get(&lock.handle) == Some(&id)
                && self.by_holder.contains(&key)
                && self.resources.get(lock.resource).is_some()
                && self.exports.get(lock.export).is_some();
            if !is_known {
                return Err(format!("lock {id} {lock:?}"));
            }
        }
        let mut pending = self.glimpses.len();
        for (place, resource) in self.resources.iter() {
            let id = resource.id;
            if self.by_id.get(&id) != Some(&place) {
                return Err(format!("resource {id}"));
            }
            self.check_resource(place, resource).map_err(|error| format!("{id}: {error}"))?;
            pending += resource.more.as_ref().map_or(0, |more| more.pending.len());
        }
        ensure(pending == self.pending as usize, "pending requests")?;
        for (place, export) in self.exports.iter() {
            let of_export = || self.locks.iter().filter(|(_, lock)| lock.export == place);
            let waiting = of_export().filter(|(_, lock)| !lock.is_granted).count();
            let counts = (of_export().count() as u32, waiting as u32);
            let is_named = place == LOCAL || self.by_export.get(&export.handle) == Some(&place);
            if counts != (export.locks, export.waiting) || !is_named {
                return Err(format!("export {place} {export:?}, counted {counts:?}"));
            }
        }
        Ok(())
    }

    /// Checks that nothing is kept: no lock, no request, no callback.
    ///
    /// # Errors
    /// What is kept.
    pub fn is_idle(&self) -> Result<(), String> {
        self.check_invariants()?;
        let kept = [
            self.locks.len() as usize,
            self.resources.len() as usize,
            self.callbacks.len(),
            self.glimpses.len(),
            self.timers.len(),
            self.flocks_waiting.len(),
        ];
        if kept.iter().all(|&count| count == 0) { Ok(()) } else { Err(format!("kept: {kept:?}")) }
    }

    fn answers(&self) -> usize {
        let id = |&(export, number): &(u32, u64)| super::api::CallbackId { export, number };
        let timers = self.callbacks.keys().map(id).map(Timer::Answer);
        timers.filter(|&timer| self.timers.get(timer).is_some()).count()
    }

    fn check_resource(&self, place: u32, resource: &Resource) -> Result<(), String> {
        let glimpses = self.glimpses.iter().filter(|(_, glimpse)| glimpse.is_at(place)).count();
        let mut counted = glimpses + resource.waiting_len();
        for group in &resource.groups {
            let count = tree::check(&self.locks, group.root)?;
            if count == 0 || count != group.count {
                return Err(format!("a group of {} with {count}", group.count));
            }
            counted += count as usize;
        }
        if counted != resource.locks as usize {
            return Err(format!("{} locks, counted {counted}", resource.locks));
        }
        let mut modes = [0; super::lock::Mode::COUNT];
        for waiter in resource.waiting() {
            let lock = &self.locks[waiter.lock];
            if lock.is_granted || lock.resource != place {
                return Err(format!("{} does not wait here", waiter.lock));
            }
            modes[usize::from(lock.requested.0)] += 1;
        }
        if resource.more.as_ref().is_none_or(|more| more.waiting_modes == modes) {
            Ok(())
        } else {
            Err(format!("modes of the queue are {modes:?}"))
        }
    }
}
