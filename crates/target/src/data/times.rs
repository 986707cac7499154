//! Writes that are older than a change of the times do not undo it. Spec: mdt-ost §16.3.

use std::collections::BTreeMap;

use fulmar_lustre_wire::Handle;
use fulmar_store::ObjectId;

use super::Data;
use crate::Call;

/// How many changes are remembered. Writes are on their way for seconds at most.
const KEPT: usize = 4096;

/// The requests that have set times last, by client and object.
#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<(Handle, ObjectId), u64>);

impl Times {
    fn set(&mut self, export: Handle, object: ObjectId, xid: u64) {
        if self.0.len() >= KEPT {
            // The oldest half: XIDs of all clients grow with time.
            let mut xids: Vec<u64> = self.0.values().copied().collect();
            xids.sort_unstable();
            let middle = xids[KEPT / 2];
            self.0.retain(|_, xid| *xid > middle);
        }
        let last = self.0.entry((export, object)).or_default();
        *last = xid.max(*last);
    }
}

impl Data {
    /// Handles a request that sets the times of an object.
    pub fn note_times(&self, call: &Call<'_>, object: ObjectId) {
        self.times().set(call.export, object, call.xid);
    }

    /// Returns whether a write may set the times of an object.
    pub fn may_set_times(&self, call: &Call<'_>, object: ObjectId) -> bool {
        let times = self.times();
        times.0.get(&(call.export, object)).is_none_or(|&last| call.xid >= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut times = Times::default();
        for xid in 0..2 * KEPT as u64 {
            times.set(Handle(1), ObjectId(1, xid), xid);
        }
        assert!(times.0.len() <= KEPT);
        assert!(times.0.contains_key(&(Handle(1), ObjectId(1, 2 * KEPT as u64 - 1))));
        assert!(!times.0.contains_key(&(Handle(1), ObjectId(1, 0))));
    }
}
