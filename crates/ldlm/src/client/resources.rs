//! The resources that have locks.

use std::collections::BTreeMap;

use fulmar_base::Rng;
use fulmar_lustre_wire::ldlm::ResourceDesc;

use crate::slab::{NIL, Slab};

/// A resource.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) desc: ResourceDesc,
    /// The root of the tree of the locks that can be matched.
    pub(super) root: u32,
    /// How many locks name it.
    pub(super) locks: u32,
    /// The next resource with the same hash.
    next: u32,
}

/// Resources by their names. The tree has a keyed hash of the name, which is a quarter as long: the
/// server chooses names, but not those that share a hash.
#[derive(Debug)]
pub(super) struct Resources {
    key: u64,
    /// Which bits of the hash are used: all, except in tests.
    mask: u64,
    slots: Slab<Resource>,
    by_hash: BTreeMap<u64, u32>,
}

impl Resources {
    pub(super) fn new(key: u64) -> Self {
        Self { key, mask: u64::MAX, slots: Slab::default(), by_hash: BTreeMap::new() }
    }

    pub(super) fn find(&self, desc: &ResourceDesc) -> Option<u32> {
        let mut place = self.by_hash.get(&self.hash(desc)).copied()?;
        while place != NIL {
            let resource = &self.slots[place];
            if resource.desc == *desc {
                return Some(place);
            }
            place = resource.next;
        }
        None
    }

    /// Returns the place of a resource, which has one lock more now.
    pub(super) fn take(&mut self, desc: &ResourceDesc) -> u32 {
        let place = self.find(desc).unwrap_or_else(|| self.insert(desc));
        self.slots[place].locks += 1;
        place
    }

    fn insert(&mut self, desc: &ResourceDesc) -> u32 {
        let hash = self.hash(desc);
        let next = self.by_hash.get(&hash).copied().unwrap_or(NIL);
        let place = self.slots.insert(Resource { desc: *desc, root: NIL, locks: 0, next });
        self.by_hash.insert(hash, place);
        place
    }

    /// Removes a lock from a resource, which is forgotten with its last lock.
    pub(super) fn give_back(&mut self, place: u32) {
        let resource = &mut self.slots[place];
        resource.locks -= 1;
        if resource.locks > 0 {
            return;
        }
        assert_eq!(resource.root, NIL, "a resource without locks");
        let hash = self.hash(&self.slots[place].desc);
        let next = self.slots.remove(place).next;
        let first = self.by_hash.get(&hash).copied().expect("the resource is listed");
        match (first == place, next) {
            (true, NIL) => drop(self.by_hash.remove(&hash)),
            (true, next) => drop(self.by_hash.insert(hash, next)),
            (false, next) => {
                let mut before = first;
                while self.slots[before].next != place {
                    before = self.slots[before].next;
                }
                self.slots[before].next = next;
            }
        }
    }

    pub(super) fn at(&self, place: u32) -> &Resource {
        &self.slots[place]
    }

    pub(super) fn at_mut(&mut self, place: u32) -> &mut Resource {
        &mut self.slots[place]
    }

    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|(place, _)| place)
    }

    fn hash(&self, desc: &ResourceDesc) -> u64 {
        let words = desc.id.name.into_iter().chain([desc.kind.0.into()]);
        words.fold(self.key, |hash, word| mix(hash ^ word)) & self.mask
    }
}

/// Returns 64 bits that depend on all of `bits`.
pub(super) fn mix(bits: u64) -> u64 {
    Rng::new(bits).u64()
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::ldlm::{LockType, ResourceId};

    use super::*;

    fn desc(name: u64, kind: LockType) -> ResourceDesc {
        ResourceDesc { kind, id: ResourceId { name: [name, 0, 0, 0] }, ..Default::default() }
    }

    #[test]
    fn a_resource_is_forgotten_with_its_last_lock() {
        let mut resources = Resources::new(7);
        let (file, other) = (desc(1, LockType::IBITS), desc(1, LockType::FLOCK));
        let place = resources.take(&file);
        assert_eq!(resources.take(&file), place);
        assert_eq!(resources.find(&other), None);
        resources.give_back(place);
        assert_eq!(resources.find(&file), Some(place));
        resources.give_back(place);
        assert_eq!((resources.find(&file), resources.places().count()), (None, 0));
        assert!(resources.by_hash.is_empty());
    }

    #[test]
    fn resources_with_the_same_hash_are_told_apart() {
        let mut resources = Resources { mask: 1, ..Resources::new(7) };
        let descs: Vec<_> = (0..20).map(|name| desc(name, LockType::EXTENT)).collect();
        let places: Vec<_> = descs.iter().map(|desc| resources.take(desc)).collect();
        assert_eq!(resources.by_hash.len(), 2);
        for removed in [0, 19, 7, 8, 9, 3] {
            resources.give_back(places[removed]);
            assert_eq!(resources.find(&descs[removed]), None);
        }
        for kept in [1, 2, 4, 5, 6, 10, 11, 18] {
            assert_eq!(resources.find(&descs[kept]), Some(places[kept]));
        }
    }
}
