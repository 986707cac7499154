//! Deadlines by key.

use std::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// At most one deadline for each key; the earliest is found in logarithmic time.
#[derive(Clone, Debug)]
pub struct Timers<K> {
    deadlines: BTreeMap<K, Time>,
    order: BTreeSet<(Time, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { deadlines: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Timers<K> {
    /// Sets the deadline of `key`, and replaces an earlier one.
    pub fn set(&mut self, key: K, at: Time) {
        if let Some(old) = self.deadlines.insert(key, at) {
            self.order.remove(&(old, key));
        }
        self.order.insert((at, key));
    }

    /// Sets the deadline of `key`, unless it has an earlier one.
    pub fn bring_forward(&mut self, key: K, at: Time) {
        if self.get(key).is_none_or(|old| at < old) {
            self.set(key, at);
        }
    }

    /// Removes the deadline of `key`, if it has one.
    pub fn clear(&mut self, key: K) {
        if let Some(old) = self.deadlines.remove(&key) {
            self.order.remove(&(old, key));
        }
    }

    /// Returns the deadline of `key`.
    pub fn get(&self, key: K) -> Option<Time> {
        self.deadlines.get(&key).copied()
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes and returns the key with the earliest deadline, if that is not after `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<K> {
        let (at, key) = self.order.first().copied()?;
        if at > now {
            return None;
        }
        self.clear(key);
        Some(key)
    }

    /// Returns how many keys have a deadline.
    pub fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// Returns whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.deadlines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_due_first_and_only_once() {
        let mut timers = Timers::default();
        timers.set('a', Time(5));
        timers.set('b', Time(3));
        timers.set('a', Time(2));
        timers.set('c', Time(9));
        timers.clear('c');
        assert_eq!(timers.next(), Some(Time(2)));
        assert_eq!(timers.pop_due(Time(1)), None);
        assert_eq!(timers.pop_due(Time(4)), Some('a'));
        assert_eq!(timers.pop_due(Time(4)), Some('b'));
        assert_eq!(timers.pop_due(Time(100)), None);
        assert!(timers.is_empty());
    }

    #[test]
    fn a_deadline_is_only_brought_forward() {
        let mut timers = Timers::default();
        for at in [5, 9, 3, 4] {
            timers.bring_forward('a', Time(at));
        }
        assert_eq!((timers.next(), timers.len()), (Some(Time(3)), 1));
    }
}
