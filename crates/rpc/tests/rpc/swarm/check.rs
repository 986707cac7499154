//! What must hold in each run.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::Errno;

use super::host::Store;

/// How often a run met what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) restarts: u64,
    pub(crate) replays: u64,
    /// Those with data, and the data that were kept and given back.
    pub(crate) replayed_writes: u64,
    pub(crate) released: u64,
    /// Changes that a client had acknowledged before they were on disk.
    pub(crate) acknowledged: u64,
    /// Opens on disk that were replayed.
    pub(crate) opens: u64,
    pub(crate) locks: u64,
    /// Requests that were answered from a saved reply, also of an earlier start.
    pub(crate) repeated: u64,
    pub(crate) restored: u64,
    pub(crate) evictions: u64,
    /// Clients that disappeared.
    pub(crate) gone: u64,
    pub(crate) ended: u64,
}

impl Coverage {
    pub(crate) fn add(&mut self, other: &Self) {
        self.restarts += other.restarts;
        self.replays += other.replays;
        self.replayed_writes += other.replayed_writes;
        self.released += other.released;
        self.acknowledged += other.acknowledged;
        self.opens += other.opens;
        self.locks += other.locks;
        self.repeated += other.repeated;
        self.restored += other.restored;
        self.evictions += other.evictions;
        self.gone += other.gone;
        self.ended += other.ended;
    }
}

/// What is known of all operations.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The client of each operation.
    begun: BTreeMap<u32, usize>,
    ended: BTreeMap<u32, Result<(), Errno>>,
    /// What was on disk at some time.
    on_disk: BTreeSet<u32>,
    evicted: BTreeSet<usize>,
}

impl Ledger {
    pub(super) fn begin(&mut self, operation: u32, client: usize) {
        self.begun.insert(operation, client);
    }

    pub(super) fn end(&mut self, operation: u32, result: Result<(), Errno>) {
        assert!(self.ended.insert(operation, result).is_none(), "{operation} has ended twice");
    }

    pub(super) fn evict(&mut self, client: usize) {
        self.evicted.insert(client);
    }

    pub(super) fn commit(&mut self, disk: &Store) {
        self.on_disk.extend(disk.applied.iter().map(|&(_, operation)| operation));
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evicted.len() as u64
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.len() as u64
    }

    /// Checks the state of the target at any time.
    ///
    /// # Errors
    /// What does not hold.
    pub(super) fn check_store(&self, store: &Store) -> Result<(), String> {
        let mut times: BTreeMap<u32, u32> = BTreeMap::new();
        for &(_, operation) in &store.applied {
            *times.entry(operation).or_default() += 1;
        }
        if let Some((operation, times)) = times.iter().find(|(_, times)| **times > 1) {
            return Err(format!("operation {operation} is applied {times} times"));
        }
        let out_of_order = store.applied.windows(2).find(|pair| pair[0].0 >= pair[1].0);
        if let Some(pair) = out_of_order {
            return Err(format!("transaction {:#x} is applied after {:#x}", pair[1].0, pair[0].0));
        }
        match self.on_disk.iter().find(|operation| !times.contains_key(operation)) {
            Some(operation) => Err(format!("operation {operation} was on disk, and is lost")),
            None => Ok(()),
        }
    }

    /// Checks the end of a run. `gone`: the clients that disappeared.
    ///
    /// # Errors
    /// What does not hold.
    pub(super) fn check_end(&self, store: &Store, gone: &BTreeSet<usize>) -> Result<(), String> {
        self.check_store(store)?;
        let applied: BTreeSet<u32> = store.applied.iter().map(|&(_, one)| one).collect();
        for (operation, client) in self.begun.iter().filter(|(_, client)| !gone.contains(client)) {
            let was_evicted = self.evicted.contains(client);
            match self.ended.get(operation) {
                None => return Err(format!("operation {operation} of client {client} has no end")),
                Some(Ok(())) if !was_evicted && !applied.contains(operation) => {
                    return Err(format!("operation {operation} was acknowledged, and is lost"));
                }
                Some(Err(errno)) if !was_evicted => {
                    return Err(format!("operation {operation} of client {client}: {errno:?}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
