//! The slots of requests that modify. Spec: ptlrpc-ldlm-mgs §6.6.

use std::collections::BTreeSet;

/// The slots of one import. A target saves one reply for each.
///
/// A close that finds all slots taken gets one more, if no other close is in flight: closes free what
/// others wait for.
#[derive(Debug)]
pub(super) struct Slots {
    /// How many requests modify at once, without the one for closes.
    max: u16,
    /// Whether the target knows slots by their numbers. Otherwise there is one request at a time.
    has_tags: bool,
    taken: BTreeSet<u16>,
    /// How many requests without a number are in flight.
    untagged: u16,
    closes: u16,
}

/// A slot that a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its number, from 1 on; 0 if the target knows no numbers.
    pub(super) tag: u16,
    is_close: bool,
}

impl Slots {
    /// Begins with one request at a time.
    pub(super) fn new() -> Self {
        Self { max: 1, has_tags: false, taken: BTreeSet::new(), untagged: 0, closes: 0 }
    }

    /// Applies what the target grants: `max` slots with numbers, or `None`. Slots that are held stay.
    pub(super) fn set_max(&mut self, max: Option<u16>) {
        self.has_tags = max.is_some();
        self.max = max.unwrap_or(1).max(1);
    }

    /// Returns whether there is a slot.
    pub(super) fn is_free(&self, is_close: bool) -> bool {
        let held = self.taken.len() + usize::from(self.untagged);
        held < usize::from(self.max) || self.has_tags && is_close && self.closes == 0
    }

    /// Acquires a slot: the free one with the lowest number.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn take(&mut self, is_close: bool) -> Slot {
        assert!(self.is_free(is_close), "a slot is free");
        self.closes += u16::from(is_close);
        if !self.has_tags {
            self.untagged += 1;
            return Slot { tag: 0, is_close };
        }
        let mut tag = 1;
        for &taken in &self.taken {
            if taken > tag {
                break;
            }
            tag = taken.saturating_add(1);
        }
        self.taken.insert(tag);
        Slot { tag, is_close }
    }

    /// Gives a slot back, when its request has ended.
    pub(super) fn give_back(&mut self, slot: Slot) {
        self.closes -= u16::from(slot.is_close);
        match slot.tag {
            0 => self.untagged -= 1,
            tag => assert!(self.taken.remove(&tag), "slot {tag} is held"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_has_one_slot_more() {
        let mut slots = Slots::new();
        slots.set_max(Some(2));
        let (one, two) = (slots.take(false), slots.take(false));
        assert_eq!((one.tag, two.tag), (1, 2));
        assert_eq!((slots.is_free(false), slots.is_free(true)), (false, true));
        let close = slots.take(true);
        assert_eq!(close.tag, 3);
        assert!(!slots.is_free(true), "there is one close at a time beyond the others");
        slots.give_back(one);
        assert!(!slots.is_free(false), "two are in flight");
        slots.give_back(close);
        assert_eq!(slots.take(true).tag, 1);
    }

    #[test]
    fn a_target_without_tags_has_one_request_at_a_time() {
        let mut slots = Slots::new();
        let one = slots.take(true);
        assert_eq!((one.tag, slots.is_free(true), slots.is_free(false)), (0, false, false));
        // The target was upgraded.
        slots.set_max(Some(2));
        assert_eq!(slots.take(false).tag, 1);
        assert!(!slots.is_free(false));
        slots.give_back(one);
        assert!(slots.is_free(true) && slots.is_free(false));
    }
}
