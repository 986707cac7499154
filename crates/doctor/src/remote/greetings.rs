//! Connections without a greeting so far: a bounded number in total and of each address. Where
//! there is no room, the oldest connection of an address with many of them gives way.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{GREETINGS_FROM_ONE_MAX, GREETINGS_MAX, STREAMS_MAX};

/// The connections without a greeting, in order of age. `E` is what ends one.
#[derive(Debug)]
pub(super) struct Greetings<E> {
    next: u64,
    waiting: BTreeMap<u64, (IpAddr, E)>,
}

impl<E> Default for Greetings<E> {
    fn default() -> Self {
        Self { next: 0, waiting: BTreeMap::new() }
    }
}

impl<E> Greetings<E> {
    /// Adds a connection. Returns its number, and what ends the one that gives way; `None` if the
    /// host that is examining, whose loads open many connections at a time, has too many.
    pub(super) fn add(
        &mut self,
        peer: IpAddr,
        end: E,
        examiner: Option<IpAddr>,
    ) -> Option<(u64, Option<E>)> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for (peer, _) in self.waiting.values() {
            *counts.entry(*peer).or_default() += 1;
        }
        let own = counts.get(&peer).copied().unwrap_or(0);
        let of_examiner = examiner.and_then(|examiner| counts.remove(&examiner)).unwrap_or(0);
        let replaced = if examiner == Some(peer) {
            if own >= STREAMS_MAX as usize {
                return None;
            }
            None
        } else if own >= GREETINGS_FROM_ONE_MAX {
            self.take_oldest(peer)
        } else if self.waiting.len() - of_examiner >= GREETINGS_MAX {
            let most = counts.iter().max_by_key(|(_, count)| **count);
            most.and_then(|(&address, _)| self.take_oldest(address))
        } else {
            None
        };
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, (peer, end));
        Some((number, replaced))
    }

    /// Removes a connection; returns false if it has given way.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.waiting.remove(&number).is_some()
    }

    fn take_oldest(&mut self, address: IpAddr) -> Option<E> {
        let oldest = self.waiting.iter().find(|(_, (peer, _))| *peer == address);
        let oldest = oldest.map(|(number, _)| *number)?;
        self.waiting.remove(&oldest).map(|(_, end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn an_address_replaces_its_own_oldest_connection() {
        let mut greetings = Greetings::default();
        for name in 0..GREETINGS_FROM_ONE_MAX {
            let added = greetings.add(address(1), name, None);
            assert_eq!(added, Some((name as u64, None)));
        }
        let (_, replaced) = greetings.add(address(1), 90, None).unwrap();
        assert_eq!(replaced, Some(0));
        assert!(!greetings.remove(0) && greetings.remove(1));
        assert_eq!(greetings.add(address(1), 91, None).unwrap().1, None);
    }

    #[test]
    fn a_new_address_replaces_a_connection_of_one_with_many_and_none_of_the_examiner() {
        let mut greetings = Greetings::default();
        let examiner = Some(address(99));
        for _ in 0..STREAMS_MAX {
            assert_eq!(greetings.add(address(99), 99, examiner).unwrap().1, None);
        }
        assert_eq!(greetings.add(address(99), 99, examiner), None);
        for number in 0..GREETINGS_MAX - 1 {
            let peer = address((number / GREETINGS_FROM_ONE_MAX) as u8);
            assert_eq!(
                greetings.add(peer, number / GREETINGS_FROM_ONE_MAX, examiner).unwrap().1,
                None
            );
        }
        assert_eq!(greetings.add(address(50), 50, examiner).unwrap().1, None);
        let (_, replaced) = greetings.add(address(51), 51, examiner).unwrap();
        assert!(replaced.is_some_and(|name| name < GREETINGS_MAX / GREETINGS_FROM_ONE_MAX));
    }
}
