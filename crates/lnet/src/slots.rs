//! Values by names that are never used twice, found without a search.
//!
//! A name counts in its high bits and says in its low bits where the values are that belong to
//! it. Several machines keep values under the same names, which one of them makes.

/// How many of the low bits of a name say where its value is.
const PLACE_BITS: u32 = 24;

fn place(name: u64) -> usize {
    (name & ((1 << PLACE_BITS) - 1)) as usize
}

/// Makes names. 0 is none of them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    made: u64,
    places: u64,
    free: Vec<u64>,
}

impl Names {
    /// Returns a new name. Names grow.
    pub(crate) fn make(&mut self) -> u64 {
        self.made += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        assert!(place >> PLACE_BITS == 0, "more values than names have room for");
        self.made << PLACE_BITS | place
    }

    /// Allows the place of a name to be used again. Nothing may be kept under the name any more.
    pub(crate) fn release(&mut self, name: u64) {
        self.free.push(place(name) as u64);
    }
}

/// The values of one machine.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Option<(u64, T)>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Keeps a value under a name that has none.
    pub(crate) fn insert(&mut self, name: u64, value: T) {
        let place = place(name);
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        let old = self.places[place].replace((name, value));
        assert!(old.is_none(), "two values in one place");
    }

    /// Returns the value of a name, if there is one.
    #[inline]
    pub(crate) fn get(&self, name: u64) -> Option<&T> {
        match self.places.get(place(name)) {
            Some(Some((found, value))) if *found == name => Some(value),
            _ => None,
        }
    }

    /// Returns the value of a name, if there is one.
    #[inline]
    pub(crate) fn get_mut(&mut self, name: u64) -> Option<&mut T> {
        match self.places.get_mut(place(name)) {
            Some(Some((found, value))) if *found == name => Some(value),
            _ => None,
        }
    }

    /// Removes and returns the value of a name.
    pub(crate) fn remove(&mut self, name: u64) -> Option<T> {
        self.get(name)?;
        self.places[place(name)].take().map(|(_, value)| value)
    }

    /// Returns all names, from the oldest to the newest.
    pub(crate) fn names(&self) -> Vec<u64> {
        let mut names: Vec<u64> = self.places.iter().flatten().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    /// Returns all values with their names, in no useful order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.places.iter().flatten().map(|(name, value)| (*name, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fulmar_base::Rng;

    use super::*;

    #[test]
    fn slots_do_what_a_tree_does_and_places_are_used_again() {
        let (mut names, mut slots, mut tree) =
            (Names::default(), Slots::default(), BTreeMap::new());
        let (mut rng, mut gone) = (Rng::new(3), Vec::new());
        for round in 0..5000 {
            if rng.below(2) == 0 || tree.is_empty() || tree.len() < 3 {
                let name = names.make();
                assert!(tree.last_key_value().is_none_or(|(last, _)| name > *last));
                slots.insert(name, round);
                tree.insert(name, round);
            } else {
                let n = rng.below(tree.len() as u64) as usize;
                let name = *tree.keys().nth(n).unwrap();
                assert_eq!(slots.remove(name), tree.remove(&name));
                names.release(name);
                gone.push(name);
            }
            assert_eq!(slots.iter().count(), tree.len());
        }
        assert_eq!(slots.names(), tree.keys().copied().collect::<Vec<_>>());
        for (name, value) in &tree {
            assert_eq!(slots.get(*name), Some(value));
            assert_eq!(slots.get_mut(*name), Some(&mut value.clone()));
        }
        assert!(gone.iter().all(|name| slots.get(*name).is_none()));
        assert_eq!(slots.get(0), None);
        assert!(slots.places.len() < 1000);
    }
}
