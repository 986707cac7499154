//! The incoming connections, and which of them give way when there is no room for more.
//!
//! ```text
//! accepted --> unused -- first message --> protected      while there is room
//!                \                          ^      |
//!                 +-- first message --> heard <----+      idle, and its place is needed
//! ```
//!
//! This is a segmented LRU cache. *Unused* and *heard* connections are on probation, and only those
//! give way. So new connections, however many, displace one another and not peers in use; and a
//! newcomer always has a place, in which it is served until as many others have come after it.
//!
//! | segment | of the places | which connections | gives way |
//! |---|---|---|---|
//! | unused | a half, with the next | in their handshake, or of a peer that has sent no message yet | the address with the most, where up to three count as one; there and else the oldest |
//! | heard | of that, up to a half | of peers that have sent messages, but have no protected place | the one that was heard longest ago |
//! | protected | a half | of peers that have sent a message when a place was free, or after a second | none, until its peer has been idle for a second and another takes its place |
//!
//! So a flood of connections displaces itself. A newcomer has a place in any case, and is served
//! until hundreds of others (of few descriptors: tens) have come after it. A peer opens three
//! connections one after the other while its first message is under way: they do not displace one
//! another. The listener pauses while the next to go has had less than 200 ms for its first
//! message, unless its address is crowded: a message that is written just before the end of its
//! connection is lost, and LNet waits for its answer until timeout. After a second in use it takes
//! the protected place of the peer that has been idle for longest. A peer is idle when no message
//! is queued, under way or unacknowledged and this node is not dialling it. All connections of a
//! peer are closed together, as for any other reason (Spec: lnet-wire §5.7). It connects again with
//! its next message; only a message that it writes at the same moment is lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fulmar_base::{ConnId, Time};

use crate::peer::PeerKey;

/// The incoming connections of a node.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    places: BTreeMap<ConnId, Place>,
    /// The connections of each address that have carried no message, in order of age.
    unused: BTreeMap<IpAddr, BTreeSet<ConnId>>,
    /// These addresses with their crowding: the most crowded last, then that with the oldest
    /// connection.
    crowds: BTreeSet<(usize, Reverse<ConnId>, IpAddr)>,
    /// The other connections on probation, in the order of their last messages.
    heard: BTreeMap<u64, ConnId>,
    /// The number of messages on probation; orders them.
    messages: u64,
    protected: usize,
    /// The peers with protected connections, in the order of times at which they were in use. They
    /// may have been in use later.
    peers: BTreeSet<(Time, PeerKey)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unused(IpAddr, Time),
    Heard(u64),
    Protected,
}

/// How many incoming connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) all: usize,
    /// Of these, on probation.
    pub(crate) probation: usize,
    /// Of these, from one address and without a message.
    pub(crate) of_address: usize,
}

impl Limits {
    /// Returns how many may be protected, so that the others keep their places.
    pub(crate) fn protected(self) -> usize {
        self.all.saturating_sub(self.probation)
    }
}

impl Callers {
    /// Adds a connection, which is younger than all others.
    pub(crate) fn add(&mut self, now: Time, conn: ConnId, address: IpAddr) {
        self.places.insert(conn, Place::Unused(address, now));
        self.change_unused(address, |of_address| of_address.insert(conn));
    }

    /// Removes a connection, if it is an incoming one.
    pub(crate) fn remove(&mut self, conn: ConnId) {
        if let Some(place) = self.places.remove(&conn) {
            self.leave(conn, place);
        }
    }

    /// Records a message on a connection on probation.
    pub(crate) fn hear(&mut self, conn: ConnId) {
        self.messages += 1;
        self.heard.insert(self.messages, conn);
        self.move_to(conn, Place::Heard(self.messages));
    }

    /// Ends the probation of a connection.
    pub(crate) fn protect(&mut self, conn: ConnId) {
        self.protected += 1;
        self.move_to(conn, Place::Protected);
    }

    /// Returns whether a connection is an incoming one and on probation.
    pub(crate) fn is_on_probation(&self, conn: ConnId) -> bool {
        self.places.get(&conn).is_some_and(|place| *place != Place::Protected)
    }

    /// Returns whether a connection is a protected one.
    pub(crate) fn is_protected(&self, conn: ConnId) -> bool {
        self.places.get(&conn) == Some(&Place::Protected)
    }

    pub(crate) fn all(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn protected(&self) -> usize {
        self.protected
    }

    /// Returns whether another connection needs the place of one of these.
    pub(crate) fn is_full(&self, limits: Limits) -> bool {
        self.all() >= limits.all || self.all() - self.protected >= limits.probation
    }

    /// Returns the oldest unused connection of an address with as many as it may have.
    pub(crate) fn surplus_of(&self, address: IpAddr, limits: Limits) -> Option<ConnId> {
        let own = self.unused.get(&address).filter(|own| own.len() >= limits.of_address)?;
        own.first().copied()
    }

    /// Returns the connection on probation that gives way first: an unused one of the most
    /// crowded address, then the oldest; or that which was heard longest ago, if those are the majority.
    pub(crate) fn first_to_go(&self) -> Option<ConnId> {
        let unused = self.crowds.last().map(|(_, Reverse(oldest), _)| *oldest);
        let heard = self.heard.values().next().copied();
        let on_probation = self.all() - self.protected;
        if 2 * self.heard.len() > on_probation { heard } else { unused.or(heard) }
    }

    /// Returns since when there is the connection that gives way first, if it is an unused one and
    /// its address has no more than one peer opens.
    pub(crate) fn first_uncrowded(&self) -> Option<Time> {
        match self.places.get(&self.first_to_go()?)? {
            Place::Unused(address, since) if crowding(self.unused.get(address)?) == 1 => {
                Some(*since)
            }
            _ => None,
        }
    }

    /// Records that a peer with protected connections was in use, instead of the time `before`.
    pub(crate) fn note_use(&mut self, key: PeerKey, before: Option<Time>, at: Time) {
        self.forget_peer(key, before);
        self.peers.insert((at, key));
    }

    /// Removes a peer from those with protected connections.
    pub(crate) fn forget_peer(&mut self, key: PeerKey, before: Option<Time>) {
        if let Some(before) = before {
            self.peers.remove(&(before, key));
        }
    }

    /// Returns the peer whose recorded use is the longest ago.
    pub(crate) fn least_recent(&self) -> Option<(Time, PeerKey)> {
        self.peers.first().copied()
    }

    fn move_to(&mut self, conn: ConnId, place: Place) {
        let before = self.places.insert(conn, place).expect("an incoming connection has a place");
        self.leave(conn, before);
    }

    fn leave(&mut self, conn: ConnId, place: Place) {
        match place {
            Place::Unused(address, _) => {
                self.change_unused(address, |of_address| of_address.remove(&conn));
            }
            Place::Heard(message) => drop(self.heard.remove(&message)),
            Place::Protected => self.protected -= 1,
        }
    }

    fn change_unused(&mut self, address: IpAddr, change: impl Fn(&mut BTreeSet<ConnId>) -> bool) {
        let of_address = self.unused.entry(address).or_default();
        let crowd = |conns: &BTreeSet<ConnId>| {
            conns.first().map(|oldest| (crowding(conns), Reverse(*oldest), address))
        };
        if let Some(crowd) = crowd(of_address) {
            self.crowds.remove(&crowd);
        }
        change(of_address);
        match crowd(of_address) {
            Some(crowd) => drop(self.crowds.insert(crowd)),
            None => drop(self.unused.remove(&address)),
        }
    }
}

/// Returns for how many peers an address has connections. A peer opens all of its own before the
/// first message of it is read: it must not displace itself.
fn crowding(of_address: &BTreeSet<ConnId>) -> usize {
    of_address.len().div_ceil(SET)
}

/// The connections that a peer opens: control, bulk in, bulk out. More of them, over a long path, come
/// later than its first message.
const SET: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { all: 8, probation: 4, of_address: 2 };

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn callers(conns: &[(u64, u8)]) -> Callers {
        let mut callers = Callers::default();
        conns.iter().for_each(|&(conn, of)| callers.add(Time(conn), ConnId(conn), address(of)));
        callers
    }

    #[test]
    fn the_oldest_of_an_address_gives_way_to_another_from_there() {
        let mut callers = callers(&[(1, 2), (2, 1), (3, 1)]);
        assert_eq!(callers.surplus_of(address(1), LIMITS), Some(ConnId(2)));
        assert_eq!(callers.surplus_of(address(2), LIMITS), None);
        assert!(!callers.is_full(LIMITS));
        callers.add(Time(4), ConnId(4), address(2));
        assert!(callers.is_full(LIMITS));
        callers.remove(ConnId(2));
        callers.remove(ConnId(2));
        assert_eq!(
            (callers.surplus_of(address(1), LIMITS), callers.is_full(LIMITS)),
            (None, false)
        );
    }

    #[test]
    fn the_most_crowded_address_gives_way_first_then_the_oldest_connection() {
        let mut callers = callers(&[(1, 1), (2, 2), (3, 3), (4, 3), (5, 3), (6, 3)]);
        assert_eq!(callers.first_uncrowded(), None);
        callers.remove(ConnId(3));
        for expected in [1, 2, 4, 5, 6] {
            assert_eq!(callers.first_to_go(), Some(ConnId(expected)));
            assert_eq!(callers.first_uncrowded(), Some(Time(expected)));
            callers.remove(ConnId(expected));
        }
        assert_eq!(callers.first_to_go(), None);
        assert!(callers.unused.is_empty() && callers.crowds.is_empty());
    }

    #[test]
    fn a_message_renews_a_place_and_unused_ones_go_first() {
        let mut callers = callers(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
        callers.hear(ConnId(1));
        callers.hear(ConnId(2));
        callers.hear(ConnId(1));
        assert_eq!(callers.first_to_go(), Some(ConnId(3)));
        callers.hear(ConnId(3));
        assert_eq!(callers.first_to_go(), Some(ConnId(2)), "unused ones keep half of the places");
        callers.protect(ConnId(2));
        callers.protect(ConnId(1));
        assert_eq!((callers.protected(), callers.all()), (2, 4));
        assert_eq!(callers.first_to_go(), Some(ConnId(4)));
        callers.hear(ConnId(1));
        callers.remove(ConnId(2));
        assert_eq!((callers.protected(), callers.all()), (0, 3));
    }
}
