//! The incoming connections in their handshake.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fulmar_base::ConnId;

/// The incoming connections in their handshake, in order of age, of all addresses and of each.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    all: BTreeMap<ConnId, IpAddr>,
    by_address: BTreeMap<IpAddr, BTreeSet<ConnId>>,
}

impl Handshakes {
    /// Adds a connection, which is younger than all others.
    pub(crate) fn add(&mut self, conn: ConnId, address: IpAddr) {
        self.all.insert(conn, address);
        self.by_address.entry(address).or_default().insert(conn);
    }

    /// Removes a connection whose handshake has ended.
    pub(crate) fn remove(&mut self, conn: ConnId) {
        let address = self.all.remove(&conn).expect("a handshake ends once");
        let of_address = self.by_address.get_mut(&address).expect("both lists agree");
        of_address.remove(&conn);
        if of_address.is_empty() {
            self.by_address.remove(&address);
        }
    }

    /// Returns the connection that another one from `address` replaces, if there is no room: the
    /// oldest one from there or, if there are too many from all addresses, the oldest one.
    pub(crate) fn replaced_by(&self, address: IpAddr, limits: Limits) -> Option<ConnId> {
        let of_address = self.by_address.get(&address).filter(|own| own.len() >= limits.of_address);
        let oldest = self.all.first_key_value().filter(|_| self.all.len() >= limits.all);
        let oldest_of_address = of_address.and_then(BTreeSet::first);
        oldest_of_address.or(oldest.map(|(conn, _)| conn)).copied()
    }
}

/// How many connections may be in their handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) all: usize,
    pub(crate) of_address: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_an_address_gives_way_then_the_oldest_of_all() {
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let limits = Limits { all: 4, of_address: 2 };
        let mut handshakes = Handshakes::default();
        for (conn, address) in [(1, b), (2, a), (3, a)] {
            assert_eq!(handshakes.replaced_by(address, limits), None);
            handshakes.add(ConnId(conn), address);
        }
        assert_eq!(handshakes.replaced_by(a, limits), Some(ConnId(2)));
        assert_eq!(handshakes.replaced_by(b, limits), None);
        handshakes.add(ConnId(4), b);
        let c = IpAddr::from([10, 0, 0, 3]);
        assert_eq!(handshakes.replaced_by(c, limits), Some(ConnId(1)));
        handshakes.remove(ConnId(1));
        assert_eq!(handshakes.replaced_by(c, limits), None);
        handshakes.remove(ConnId(4));
        assert!(!handshakes.by_address.contains_key(&b));
    }
}
