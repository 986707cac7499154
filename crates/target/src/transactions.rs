//! The numbers of transactions over restarts. Spec: ptlrpc-ldlm-mgs §14.2, §15.4.
//!
//! The number of a transaction is that of the store, so that [`Store::committed`] is what clients
//! want to know. Each start of a target numbers from a new multiple of 2³² on, above all numbers that
//! a crash may have taken away. A transaction that a client replays keeps its old number (`transno`)
//! for clients, while the store gives it a new one:
//!
//! ```text
//!            committed ┐        ┌ lost in the crash: clients have them
//! store   1:1 .. 1:70  |                            2:1 start   2:2 .. 2:4 replays   2:5 recovered   2:6
//! clients 1:1 .. 1:70  | 1:71 1:72 1:75                         1:71 1:72 1:75                       2:6
//! ```
//!
//! Until a target has recovered, the last number that is on disk is that of a replay.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fulmar_store::{Store, StoreError, Transaction};
use fulmar_wire::wire_struct;

use crate::records::{STATE, decode, encode};

const START: &[u8] = b"start";
const REPLAYED: &[u8] = b"replayed";

/// The numbers that a start may use.
const EPOCH_BITS: u32 = 32;

wire_struct! {
    /// What a target writes when it starts, and when it has recovered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct StartRecord {
        /// How often it was started.
        mounts: u32,
        /// The last transaction on disk before this start, as clients know it.
        last: u64,
        /// 1 while clients may replay.
        recovers: u8,
    }
}

/// The numbers of the transactions of a target, from one start to the next.
///
/// Shared by reference between threads.
#[derive(Debug)]
pub struct Transactions {
    instance: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    start: StartRecord,
    /// The last replay that was applied, or the last transaction before the start.
    replayed: u64,
    /// What is on disk, as far as it is told to clients.
    told: u64,
    /// Replays that are not on disk yet: the number of the store, and that of the client.
    pending: VecDeque<(u64, u64)>,
    /// The number of the transaction that ended the recovery.
    recovered: u64,
}

/// What number a request gets that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The next one.
    New,
    /// The one that it had before the restart.
    Replay(u64),
    /// The request was applied, and its changes are on disk or in a later batch: nothing is to be
    /// changed.
    Applied(u64),
}

impl Numbering {
    /// Returns the number for the client of what the store has numbered so.
    pub fn transno(self, number: u64) -> u64 {
        match self {
            Self::New => number,
            Self::Replay(transno) | Self::Applied(transno) => transno,
        }
    }
}

impl Transactions {
    /// Starts a target: counts the start, and makes that durable. `recovers`: whether there are clients
    /// that may replay.
    ///
    /// # Errors
    /// If the store has ended, is full or cannot be read.
    pub fn start(store: &Store, recovers: bool) -> Result<Self, StoreError> {
        let before = read_start(store)?;
        let last = last_before(store, before)?;
        let committed = store.committed();
        // The lost numbers are of the same epoch, or less than half an epoch above the last.
        let epoch = (committed.saturating_add(1 << (EPOCH_BITS - 1)) >> EPOCH_BITS) + 1;
        store.continue_from(epoch << EPOCH_BITS);
        let mounts = before.mounts.wrapping_add(1).max(1);
        let start = StartRecord { mounts, last, recovers: recovers.into() };
        let mut transaction = store.begin();
        transaction.put(STATE, START, encode(&start));
        transaction.delete(STATE, REPLAYED);
        transaction.apply()?;
        store.commit()?;
        let recovered = if recovers { u64::MAX } else { 0 };
        let told = if recovers { last } else { 0 };
        let pending = VecDeque::new();
        let state = State { start, replayed: last, told, pending, recovered };
        Ok(Self { instance: mounts, state: Mutex::new(state) })
    }

    /// Returns how often the target was started, which clients know as its instance.
    pub fn instance(&self) -> u32 {
        self.instance
    }

    /// Returns whether clients may replay.
    pub fn recovers(&self) -> bool {
        self.state().start.recovers != 0
    }

    /// Returns the number that a request gets. `transno`: that of a replay, or 0.
    pub fn numbering(&self, transno: u64) -> Numbering {
        let state = self.state();
        match transno {
            0 => Numbering::New,
            _ if transno <= state.replayed => Numbering::Applied(transno),
            _ => Numbering::Replay(transno),
        }
    }

    /// Adds to a transaction what its number needs. [`Transactions::applied`] follows.
    pub fn record(&self, transaction: &mut Transaction<'_>, numbering: Numbering) {
        if let Numbering::Replay(transno) = numbering {
            transaction.put(STATE, REPLAYED, encode(&transno));
        }
    }

    /// Records the number that the store has given to a transaction, and returns that for the client.
    pub fn applied(&self, number: u64, numbering: Numbering) -> u64 {
        if let Numbering::Replay(transno) = numbering {
            let mut state = self.state();
            state.replayed = state.replayed.max(transno);
            state.pending.push_back((number, transno));
        }
        numbering.transno(number)
    }

    /// Returns the last transaction on disk as clients know it. `committed`: that of the store.
    pub fn last_committed(&self, committed: u64) -> u64 {
        let mut state = self.state();
        while let Some(&(number, transno)) = state.pending.front()
            && number <= committed
        {
            state.pending.pop_front();
            state.told = state.told.max(transno);
        }
        if committed >= state.recovered && state.pending.is_empty() {
            state.told = state.told.max(committed);
        }
        state.told
    }

    /// Ends the recovery: numbers are those of the store from now on.
    ///
    /// # Errors
    /// If the store has ended or is full.
    pub fn recovered(&self, store: &Store) -> Result<(), StoreError> {
        let start = StartRecord { recovers: 0, ..self.state().start };
        let mut transaction = store.begin();
        transaction.put(STATE, START, encode(&start));
        transaction.release_space();
        let number = transaction.apply()?;
        let mut state = self.state();
        (state.start, state.recovered) = (start, number);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_start(store: &Store) -> Result<StartRecord, StoreError> {
    let value = store.get(STATE, START)?;
    value.map_or(Ok(StartRecord::default()), |value| decode(&value, "the record of the start"))
}

/// Returns the last transaction on disk as clients know it.
fn last_before(store: &Store, before: StartRecord) -> Result<u64, StoreError> {
    if before.mounts == 0 || before.recovers == 0 {
        return Ok(store.committed());
    }
    let replayed = store.get(STATE, REPLAYED)?;
    let replayed = replayed.map_or(Ok(0), |value| decode(&value, "the last replay"))?;
    Ok(before.last.max(replayed))
}

#[cfg(test)]
mod tests;
