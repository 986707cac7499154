//! Values by numbers that increase and are never reused.

use std::collections::BTreeMap;

/// Mostly short-lived values, found in constant time by the numbers that are assigned to them in
/// order.
///
/// The low bits of a number select the place of its value. Where a long-lived value holds that
/// place, the new value is kept in a tree.
#[derive(Clone, Debug)]
pub struct Table<T> {
    /// Their number is a power of two.
    places: Vec<Option<(u64, T)>>,
    /// How many places hold a value.
    taken: usize,
    apart: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: Vec::new(), taken: 0, apart: BTreeMap::new(), next: 0 }
    }
}

/// How many places the first value allocates.
const PLACES_MIN: usize = 16;

impl<T> Table<T> {
    /// Stores a value and returns its number, one more than the previous number.
    pub fn insert(&mut self, value: T) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.places.get(self.place(number)).is_none_or(Option::is_some) && self.is_crowded() {
            self.spread();
        }
        self.put(number, value);
        number
    }

    /// Returns the value of a number, if it is in the table.
    pub fn get(&self, number: u64) -> Option<&T> {
        match self.places.get(self.place(number)) {
            Some(Some((found, value))) if *found == number => Some(value),
            _ => self.apart.get(&number),
        }
    }

    /// Returns the value of a number, if it is in the table.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        match self.places.get_mut(place) {
            Some(Some((found, value))) if *found == number => Some(value),
            _ => self.apart.get_mut(&number),
        }
    }

    /// Removes and returns the value of a number.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number);
        match self.places.get_mut(place) {
            Some(taken) if taken.as_ref().is_some_and(|(found, _)| *found == number) => {
                self.taken -= 1;
                taken.take().map(|(_, value)| value)
            }
            _ => self.apart.remove(&number),
        }
    }

    /// Returns the values with their numbers, in increasing order. Sorts: not for frequent use.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let near = self.places.iter().flatten().map(|(number, value)| (*number, value));
        let apart = self.apart.iter().map(|(number, value)| (*number, value));
        let mut all: Vec<_> = near.chain(apart).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter()
    }

    /// Returns how many values there are.
    pub fn len(&self) -> usize {
        self.taken + self.apart.len()
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, number: u64) -> usize {
        // Without places the length is 0: the index is out of range.
        number as usize & self.places.len().wrapping_sub(1)
    }

    fn is_crowded(&self) -> bool {
        self.taken * 2 >= self.places.len()
    }

    /// Doubles the places, so that fewer numbers share one.
    fn spread(&mut self) {
        let len = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::take(&mut self.places);
        self.places.resize_with(len, || None);
        self.taken = 0;
        let apart = std::mem::take(&mut self.apart);
        for (number, value) in old.into_iter().flatten().chain(apart) {
            self.put(number, value);
        }
    }

    fn put(&mut self, number: u64, value: T) {
        let place = self.place(number);
        match &mut self.places[place] {
            free @ None => {
                *free = Some((number, value));
                self.taken += 1;
            }
            Some(_) => drop(self.apart.insert(number, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn a_table_behaves_as_a_tree() {
        let (mut table, mut tree) = (Table::default(), BTreeMap::new());
        let mut rng = Rng::new(1);
        for round in 0..20_000 {
            if rng.below(2) == 0 || tree.is_empty() {
                let number = table.insert(round);
                assert!(tree.last_key_value().is_none_or(|(last, _)| number > *last));
                tree.insert(number, round);
            } else {
                // Old values are rarely removed, so that they hold places that new ones need.
                let reach = if rng.one_in(50) { tree.len() as u64 } else { 4 };
                let back = rng.below(reach);
                let number = *tree.keys().rev().nth(back as usize).unwrap_or(&0);
                assert_eq!(table.get(number), tree.get(&number));
                assert_eq!(table.remove(number), tree.remove(&number));
                assert_eq!(table.remove(number), None);
            }
            assert_eq!(table.len(), tree.len());
        }
        assert!(table.iter().eq(tree.iter().map(|(number, value)| (*number, value))));
        assert!(!table.apart.is_empty(), "some places were taken");
        for (number, value) in &mut tree {
            *value += 1;
            *table.get_mut(*number).unwrap() += 1;
            assert_eq!(table.get(*number), Some(&*value));
        }
    }

    #[test]
    fn a_long_lived_value_does_not_make_the_table_grow() {
        let mut table = Table::default();
        let first = table.insert(0);
        for round in 1..100_000 {
            let number = table.insert(round);
            assert_eq!(table.remove(number), Some(round));
        }
        assert_eq!(table.places.len(), PLACES_MIN);
        assert_eq!(table.remove(first), Some(0));
        assert!(table.is_empty());
    }
}
