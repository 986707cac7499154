//! Values in chunks, named by small numbers that are used again.

/// Values whose places do not move and do not grow by doubling: a million locks cost what they need.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Slot<T>>>,
    free: u32,
    len: u32,
}

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// The next free place.
    Free(u32),
}

/// No place.
pub(crate) const NIL: u32 = u32::MAX;
const CHUNK: usize = 256;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: NIL, len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free != NIL {
            let id = self.free;
            let slot = &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK];
            match std::mem::replace(slot, Slot::Taken(value)) {
                Slot::Free(next) => self.free = next,
                Slot::Taken(_) => unreachable!("a free place is free"),
            }
            return id;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        chunk.push(Slot::Taken(value));
        let place = u32::try_from(number * CHUNK + chunk.len() - 1).unwrap_or(NIL);
        assert!(place < NIL, "fewer than 2^32 values");
        place
    }

    pub(crate) fn remove(&mut self, id: u32) -> T {
        let slot = &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK];
        match std::mem::replace(slot, Slot::Free(self.free)) {
            Slot::Taken(value) => {
                self.free = id;
                self.len -= 1;
                value
            }
            Slot::Free(_) => panic!("place {id} is free"),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        match self.chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.chunks.get_mut(id as usize / CHUNK)?.get_mut(id as usize % CHUNK)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.chunks.iter().flatten().enumerate();
        slots.filter_map(|(id, slot)| match slot {
            Slot::Taken(value) => Some((id as u32, value)),
            Slot::Free(_) => None,
        })
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        match &self.chunks[id as usize / CHUNK][id as usize % CHUNK] {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("place {id} is free"),
        }
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK] {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("place {id} is free"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::default();
        let ids: Vec<u32> = (0..1000).map(|value| slab.insert(value)).collect();
        assert_eq!((ids[999], slab[999], slab.len()), (999, 999, 1000));
        assert_eq!((slab.remove(3), slab.remove(700)), (3, 700));
        assert_eq!((slab.get(3), slab.len()), (None, 998));
        assert_eq!((slab.insert(1), slab.insert(2), slab.insert(3)), (700, 3, 1000));
        assert_eq!(slab.iter().count(), 1001);
    }
}
