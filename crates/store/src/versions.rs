//! When keys were changed last, for transactions that have read them.

/// How many groups of keys there are: a transaction in whose time a thousand others are applied
/// conflicts without need once in 65 times for each key that it has read.
const GROUPS: usize = 1 << 16;

/// The number of the last transaction that changed a key of each group. Keys are grouped by a hash,
/// so that the table is small and complete: a conflict may be reported without need, but none is missed.
pub(crate) struct Versions(Box<[u64]>);

/// A group of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(u16);

impl Group {
    /// Returns the group of a key (FNV-1a, folded).
    pub(crate) fn of(key: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, step);
        Self((hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48)) as u16)
    }
}

impl Versions {
    pub(crate) fn new() -> Self {
        Self(vec![0; GROUPS].into())
    }

    /// Notes that transaction `number` has changed a key.
    pub(crate) fn changed(&mut self, key: &[u8], number: u64) {
        self.0[usize::from(Group::of(key).0)] = number;
    }

    /// Returns whether a key of the group was changed after transaction `number`.
    pub(crate) fn changed_since(&self, group: Group, number: u64) -> bool {
        self.0[usize::from(group.0)] > number
    }
}
