//! Values with names that outlive them.

use super::LockId;
use crate::slab::Slab;

/// Values at places. A place together with its generation is never used twice in 2^32 uses.
#[derive(Debug)]
pub(super) struct Slots<T> {
    values: Slab<T>,
    /// Of each place, also of those that are free.
    generations: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { values: Slab::default(), generations: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let place = self.values.insert(value);
        assert!(place < 1 << 31, "fewer than 2^31 values");
        if place as usize == self.generations.len() {
            self.generations.push(1);
        }
        place
    }

    /// # Panics
    /// If the place is free.
    pub(super) fn remove(&mut self, place: u32) -> T {
        let value = self.values.remove(place);
        let generation = &mut self.generations[place as usize];
        *generation = generation.wrapping_add(1);
        value
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        let places = self.generations.len() as u32;
        for place in 0..places {
            if self.get(place).is_some() {
                self.remove(place);
            }
        }
    }

    /// Returns the value at a place.
    ///
    /// # Panics
    /// If the place is free.
    pub(super) fn at(&self, place: u32) -> &T {
        &self.values[place]
    }

    /// Returns the value at a place.
    ///
    /// # Panics
    /// If the place is free.
    pub(super) fn at_mut(&mut self, place: u32) -> &mut T {
        &mut self.values[place]
    }

    /// Returns the value at a place, if there is one.
    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.values.get(place)
    }

    /// Returns the name of the value at a place.
    pub(super) fn id(&self, place: u32) -> LockId {
        let generation = self.generations[place as usize];
        LockId(u64::from(generation) << 32 | u64::from(place))
    }

    /// Returns the place of a value, if it is still there.
    pub(super) fn place(&self, id: LockId) -> Option<u32> {
        let (generation, place) = ((id.0 >> 32) as u32, id.0 as u32);
        let is_same = self.generations.get(place as usize) == Some(&generation);
        (is_same && self.get(place).is_some()).then_some(place)
    }

    /// Returns the places from `from` on that are used, in order.
    pub(super) fn places(&self, from: u32) -> impl Iterator<Item = u32> {
        (from..self.generations.len() as u32).filter(|&place| self.get(place).is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_reused_under_another_name() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        let name = slots.id(a);
        assert_eq!(slots.place(name), Some(a));
        assert_eq!(slots.remove(a), 'a');
        assert_eq!(slots.place(name), None);
        assert_eq!(slots.insert('c'), a);
        assert_eq!((slots.place(name), *slots.at(a), *slots.at(b)), (None, 'c', 'b'));
        assert_eq!((slots.len(), slots.places(0).count(), slots.places(1).count()), (2, 2, 1));
        assert_eq!(slots.get(7), None);
        assert_eq!(slots.place(LockId(1 << 32 | 7)), None);
    }
}
