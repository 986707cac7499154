//! What a partition has done.

use std::collections::BTreeMap;

use fulmar_base::Errno;
use fulmar_lustre_wire::Opcode;

use crate::stats::Histogram;

/// Numbers of a partition since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// For each operation, the times from the arrival of a request to its reply, in microseconds.
    /// Operations that no target has are counted as operation 0.
    pub operations: BTreeMap<Opcode, Histogram>,
    /// The times that requests waited, in microseconds.
    pub waiting: Histogram,
    /// How many requests waited when another one arrived.
    pub depth: Histogram,
    /// How many requests were executed when another one began.
    pub active: Histogram,
    /// The bytes of bulk data that were moved.
    pub moved: u64,
    /// The times that transfers of bulk data took, in microseconds.
    pub transfers: Histogram,
    /// Transfers that failed, by errno.
    pub not_moved: BTreeMap<Errno, u64>,
    /// Early replies.
    pub early: u64,
    /// Replies that were sent again.
    pub repeated: u64,
    /// Requests without a reply, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Requests that were refused before the host saw them, by errno.
    pub refused: BTreeMap<Errno, u64>,
    /// Replies that could not be sent.
    pub lost: u64,
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It is not a valid message, or not a request.
    Malformed,
    /// It is of an earlier connection of the client.
    Outdated,
    /// It is not protected as its connection is.
    Flavor,
    /// It allows no time.
    NoTime,
    /// Its time passed while it waited.
    Late,
    /// It is in progress already: that one is answered.
    InProgress,
    /// Its slot was used by a later request.
    Stale,
    /// There was no place for it.
    Busy,
    /// The host does not answer it.
    Discarded,
}

impl Stats {
    pub(super) fn drop(&mut self, why: DropReason) {
        *self.dropped.entry(why).or_default() += 1;
    }

    pub(super) fn refuse(&mut self, errno: Errno) {
        *self.refused.entry(errno).or_default() += 1;
    }
}
