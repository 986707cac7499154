//! The connections of a listener: a bounded number, each with limits of time. A client without a
//! place gets that of the connection whose client keeps the node waiting for longest.
//!
//! ```text
//! Request ---- all of it has arrived ----> Node ---- the reply is there ----> Reply
//! ```
//!
//! A connection in `Node` waits for the node, and keeps its place.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The limits of the connections of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The number of connections.
    pub(super) connections: usize,
    /// The time from the start of a connection to the end of its request.
    pub(super) request: Duration,
    /// The time in which a client reads nothing of a reply.
    pub(super) pause: Duration,
    /// The time in which a client reads all of a reply.
    pub(super) reply: Duration,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client, which sends its request.
    Request,
    /// The node, which answers it.
    Node,
    /// The client, which reads the reply.
    Reply,
}

/// The connections of a listener. `E` is what ends one.
#[derive(Debug)]
pub(super) struct Places<E> {
    limits: Limits,
    next: u64,
    taken: BTreeMap<u64, Place<E>>,
}

#[derive(Debug)]
struct Place<E> {
    phase: Phase,
    since: Instant,
    /// When the client last read something of the reply.
    moved: Instant,
    end: E,
}

impl<E> Places<E> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, next: 0, taken: BTreeMap::new() }
    }

    /// Frees a place if there is none; returns what ends the connection that had it.
    ///
    /// # Errors
    /// If every connection waits for the node.
    pub(super) fn make_room(&mut self) -> Result<Option<E>, Full> {
        if self.taken.len() < self.limits.connections {
            return Ok(None);
        }
        let waiting = self.taken.iter().filter(|(_, place)| place.phase != Phase::Node);
        let (&oldest, _) = waiting.min_by_key(|(_, place)| place.since).ok_or(Full)?;
        Ok(self.taken.remove(&oldest).map(|place| place.end))
    }

    /// Adds a connection, and returns its number.
    pub(super) fn add(&mut self, now: Instant, end: E) -> u64 {
        let number = self.next;
        self.next += 1;
        self.taken.insert(number, Place { phase: Phase::Request, since: now, moved: now, end });
        number
    }

    /// Handles that a connection waits for something else. Here and below, one that has lost its
    /// place is ignored.
    pub(super) fn enter(&mut self, now: Instant, number: u64, phase: Phase) {
        if let Some(place) = self.taken.get_mut(&number) {
            (place.phase, place.since, place.moved) = (phase, now, now);
        }
    }

    /// Handles that a client has read something.
    pub(super) fn read(&mut self, now: Instant, number: u64) {
        if let Some(place) = self.taken.get_mut(&number) {
            place.moved = now;
        }
    }

    /// Returns whether the client of a connection has taken too long.
    pub(super) fn is_late(&self, now: Instant, number: u64) -> bool {
        let Some(Place { phase, since, moved, .. }) = self.taken.get(&number) else { return true };
        let Limits { request, pause, reply, .. } = self.limits;
        match phase {
            Phase::Request => now.duration_since(*since) >= request,
            Phase::Node => false,
            Phase::Reply => {
                now.duration_since(*moved) >= pause || now.duration_since(*since) >= reply
            }
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.taken.remove(&number);
    }
}

/// No connection can give way: all wait for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: Limits =
        Limits { connections: 2, request: SECOND, pause: SECOND, reply: Duration::from_secs(3) };

    #[test]
    fn the_client_that_keeps_the_node_waiting_for_longest_gives_way() {
        let start = Instant::now();
        let mut places = Places::new(LIMITS);
        assert_eq!(places.make_room(), Ok(None));
        let first = places.add(start, 'a');
        let second = places.add(start + SECOND, 'b');
        places.enter(start + 2 * SECOND, first, Phase::Reply);
        assert_eq!(places.make_room(), Ok(Some('b')), "the other has waited since later");
        let third = places.add(start + 3 * SECOND, 'c');
        places.enter(start + 3 * SECOND, second, Phase::Node);
        places.enter(start + 4 * SECOND, third, Phase::Node);
        places.read(start + 4 * SECOND, first);
        assert_eq!(places.make_room(), Ok(Some('a')), "also if it reads byte by byte");
        let fourth = places.add(start + 4 * SECOND, 'd');
        places.enter(start + 4 * SECOND, fourth, Phase::Node);
        assert_eq!(places.make_room(), Err(Full));
        places.remove(third);
        assert_eq!(places.make_room(), Ok(None));
    }

    #[test]
    fn clients_have_limits_of_time_and_the_node_has_none() {
        let start = Instant::now();
        let mut places = Places::new(LIMITS);
        let number = places.add(start, ());
        assert!(!places.is_late(start + SECOND / 2, number));
        assert!(places.is_late(start + SECOND, number), "for the request");
        places.enter(start, number, Phase::Node);
        assert!(!places.is_late(start + 9 * SECOND, number));
        places.enter(start, number, Phase::Reply);
        assert!(places.is_late(start + SECOND, number), "to read the first byte");
        for half in 1..6 {
            places.read(start + half * SECOND / 2, number);
            assert!(!places.is_late(start + half * SECOND / 2, number));
        }
        places.read(start + 3 * SECOND, number);
        assert!(places.is_late(start + 3 * SECOND, number), "to read everything");
        places.remove(number);
        assert!(places.is_late(start, number), "without a place");
    }
}
