//! Maps of ids between a client and the file system.

use std::collections::BTreeMap;

/// What an id is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum IdKind {
    User,
    Group,
    Project,
}

impl IdKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// Returns its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "uid",
            Self::Group => "gid",
            Self::Project => "projid",
        }
    }

    /// Returns the kind of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An id on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedId {
    /// The id.
    pub id: u32,
    /// Whether it stands for all that are not known.
    pub is_squashed: bool,
}

/// The ids of clients and those in the file system, one for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdMap {
    to_fs: BTreeMap<u32, u32>,
    to_client: BTreeMap<u32, u32>,
}

impl IdMap {
    /// Adds a pair. Pairs with one of both ids go.
    pub(crate) fn insert(&mut self, client: u32, fs: u32) {
        self.remove(client);
        if let Some(other) = self.to_client.insert(fs, client) {
            self.to_fs.remove(&other);
        }
        self.to_fs.insert(client, fs);
    }

    /// Removes the pair of an id of clients, and returns whether there was one.
    pub(crate) fn remove(&mut self, client: u32) -> bool {
        let fs = self.to_fs.remove(&client);
        fs.map(|fs| self.to_client.remove(&fs)).is_some()
    }

    pub(crate) fn to_fs(&self, client: u32) -> Option<u32> {
        self.to_fs.get(&client).copied()
    }

    pub(crate) fn to_client(&self, fs: u32) -> Option<u32> {
        self.to_client.get(&fs).copied()
    }

    /// Returns all pairs, by the id of clients.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.to_fs.iter().map(|(client, fs)| (*client, *fs))
    }

    pub(crate) fn len(&self) -> usize {
        self.to_fs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pair_replaces_those_with_its_ids() {
        let mut map = IdMap::default();
        map.insert(1, 11);
        map.insert(2, 12);
        map.insert(1, 12);
        assert_eq!(map.pairs().collect::<Vec<_>>(), [(1, 12)]);
        assert_eq!((map.to_fs(1), map.to_client(12), map.to_client(11)), (Some(12), Some(1), None));
        map.insert(1, 13);
        assert_eq!((map.to_client(12), map.len()), (None, 1));
        assert!(map.remove(1) && !map.remove(1));
        assert_eq!(map, IdMap::default());
    }
}
