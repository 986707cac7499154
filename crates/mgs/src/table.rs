//! Where the targets of a file system have started: clients that read this reconnect at once after a
//! restart or a failover, instead of when their requests are late. Spec: ptlrpc-ldlm-mgs §32.2.

use std::collections::BTreeMap;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::mgs::{NidTable, NidTableEntry, NidTableNids};
use fulmar_lustre_wire::{Bytes, LargeNid, SmallNid};
use fulmar_rpc::import::TargetKind;

/// The latest start of each target.
#[derive(Clone, Debug)]
pub struct Table {
    /// Increases with each start.
    version: u64,
    starts: BTreeMap<u64, Start>,
}

/// A start of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// What it is.
    pub kind: TargetKind,
    /// Its index.
    pub index: u16,
    /// The number of its start, which clients get to know when they connect.
    pub instance: u32,
    /// The NIDs of its node, at most 255.
    pub nids: Vec<Nid>,
}

/// What a reader has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Entries do not cross units of so many bytes.
    pub(crate) unit: usize,
    pub(crate) units: usize,
    /// Whether the reader knows NIDs of any size.
    pub(crate) has_large_nids: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self { version: 2, starts: BTreeMap::new() }
    }
}

impl Table {
    /// Records the start of a target. An earlier one is forgotten.
    ///
    /// # Panics
    /// If it is a management service, or has no NID or too many.
    pub fn started(&mut self, start: Start) {
        assert_ne!(start.kind, TargetKind::Mgs, "a management service is not in the table");
        assert!((1..256).contains(&start.nids.len()), "{} NIDs", start.nids.len());
        let is_same = |old: &Start| (old.kind, old.index) == (start.kind, start.index);
        self.starts.retain(|_, old| !is_same(old));
        self.version += 1;
        self.starts.insert(self.version, start);
    }

    /// Begins again after a restart of the service, above all versions that were given.
    pub(crate) fn restart(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// Returns the version of the latest start.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the entries from a version on that fit, and the version that they reach to.
    pub(crate) fn read(&self, from: u64, room: Room) -> (NidTable, u64) {
        let mut entries: Vec<NidTableEntry> = Vec::new();
        let (mut reached, mut used) = (self.version, 0);
        for (&version, start) in self.starts.range(from..) {
            let Some(entry) = start.entry(version, room.has_large_nids) else { continue };
            let len = entry.encoded_len();
            let left = room.unit - used % room.unit;
            let crosses = len > left;
            let end = used + len + if crosses { left } else { 0 };
            if len > room.unit || end > room.unit.saturating_mul(room.units) {
                reached = version - 1;
                break;
            }
            if let Some(last) = entries.last_mut().filter(|_| crosses) {
                last.rest.0.resize(left, 0);
            }
            used = end;
            entries.push(entry);
        }
        (NidTable(entries), reached)
    }
}

impl Start {
    /// Returns the entry; `None` if the reader knows none of the NIDs.
    fn entry(&self, version: u64, has_large_nids: bool) -> Option<NidTableEntry> {
        let small = || self.nids.iter().filter_map(|nid| nid.to_small().map(SmallNid)).collect();
        let large = || self.nids.iter().map(|nid| LargeNid(nid.to_large())).collect();
        let nids = if has_large_nids {
            NidTableNids::Large(large())
        } else {
            NidTableNids::Small(Some(small()).filter(|nids: &Vec<_>| !nids.is_empty())?)
        };
        let target = if self.kind == TargetKind::Mdt { 1 } else { 2 };
        let (instance, index, rest) = (self.instance, self.index.into(), Bytes::default());
        Some(NidTableEntry { version, instance, index, target, nids, rest })
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::Content;

    use super::*;

    const ROOM: Room = Room { unit: 4096, units: 4, has_large_nids: true };

    fn start(index: u16, instance: u32, nids: usize) -> Start {
        let nid = |n: usize| Nid::small(fulmar_lnet_wire::Net::TCP, 0x0a63_0000 + n as u32);
        let nids = (1..=nids).map(nid).collect();
        Start { kind: TargetKind::Ost, index, instance, nids }
    }

    fn indices(table: &NidTable) -> Vec<u32> {
        table.0.iter().map(|entry| entry.index).collect()
    }

    #[test]
    fn a_reader_gets_what_is_new() {
        let mut table = Table::default();
        (0..3).for_each(|index| table.started(start(index, 1, 1)));
        let (all, reached) = table.read(1, ROOM);
        assert_eq!((indices(&all), reached, table.version()), (vec![0, 1, 2], 5, 5));
        assert_eq!(table.read(6, ROOM), (NidTable(vec![]), 5));
        table.started(start(1, 2, 1));
        let (new, reached) = table.read(6, ROOM);
        assert_eq!((new.0[0].instance, new.0.len(), reached), (2, 1, 6));
        assert_eq!(indices(&table.read(1, ROOM).0), [0, 2, 1], "the earlier start is forgotten");
    }

    #[test]
    fn entries_do_not_cross_units_and_the_rest_comes_later() {
        let mut table = Table::default();
        // An entry has 24 bytes and 20 for each NID.
        (0..20).for_each(|index| table.started(start(index, 1, 100)));
        let (mut from, mut seen) = (1, vec![]);
        while from <= table.version() {
            let (part, reached) = table.read(from, Room { units: 2, ..ROOM });
            let bytes = part.to_bytes();
            assert!(bytes.len() <= 8192);
            let mut offset = 0;
            for entry in &part.0 {
                let len = entry.encoded_len();
                assert_eq!(offset / 4096, (offset + len - 1) / 4096);
                offset += len;
            }
            seen.extend(indices(&part));
            assert!(reached >= from);
            from = reached + 1;
        }
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn old_readers_get_small_nids_only() {
        let mut table = Table::default();
        table.started(start(0, 1, 1));
        let large = "fd00::1@tcp".parse().unwrap();
        table.started(Start { nids: vec![large], ..start(1, 1, 1) });
        let old = Room { has_large_nids: false, ..ROOM };
        let (entries, reached) = table.read(1, old);
        assert_eq!((indices(&entries), reached), (vec![0], 4));
        assert_eq!(indices(&table.read(1, ROOM).0), [0, 1]);
    }
}
