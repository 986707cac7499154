//! What clients and jobs have done: operations by their names, and the histograms of `brw_stats`.

use std::time::Duration;

use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::ost::Niobuf;
use fulmar_target::data::BLOCK;
use fulmar_target::stats::{self, Doer, Names};

use crate::ost::Call;

/// How many reads and writes there were of each size: up to 1, 2, 4, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Reads by the power of two.
    pub reads: [u64; 32],
    /// Writes by the power of two.
    pub writes: [u64; 32],
}

impl Sizes {
    fn add(&mut self, writes: bool, value: u64) {
        self.count(writes, value.max(1).next_power_of_two().trailing_zeros().into());
    }

    fn count(&mut self, writes: bool, place: u64) {
        let of_kind = if writes { &mut self.writes } else { &mut self.reads };
        of_kind[place.min(31) as usize] += 1;
    }
}

/// The histograms of `brw_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrwStats {
    /// Pages per bulk.
    pub pages: Sizes,
    /// Ranges per bulk, less one: discontiguous pages. These are counts, not powers of two.
    pub gaps: Sizes,
    /// Bytes of each range.
    pub bytes: Sizes,
}

/// The counters of an OST.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) operations: stats::Stats,
    pub(crate) brw: BrwStats,
}

impl Stats {
    /// Counts the bytes of a read or a write.
    pub(crate) fn count_bytes(&mut self, call: &Call<'_>, is_write: bool, bytes: u64) {
        let name = if is_write { "write_bytes" } else { "read_bytes" };
        self.operations.add(doer(call), name, bytes);
    }

    /// Counts an operation.
    pub(crate) fn count(&mut self, call: &Call<'_>, took: Duration) {
        if let Some(name) = name_of(call.message.body.opcode) {
            self.operations.add_time(doer(call), name, took);
        }
    }

    /// Counts the ranges of a read or a write.
    pub(crate) fn count_bulk(&mut self, writes: bool, ranges: &[Niobuf]) {
        let pages = ranges.iter().map(|range| u64::from(range.len).div_ceil(BLOCK)).sum();
        self.brw.pages.add(writes, pages);
        self.brw.gaps.count(writes, ranges.len() as u64 - 1);
        ranges.iter().for_each(|range| self.brw.bytes.add(writes, range.len.into()));
    }
}

fn doer<'a>(call: &Call<'a>) -> Doer<'a> {
    Doer::of(call.export, call.message, call.now)
}

/// Returns the name of an operation in `stats`.
fn name_of(opcode: Opcode) -> Option<&'static str> {
    Some(match opcode {
        Opcode::OST_READ => "read",
        Opcode::OST_WRITE => "write",
        Opcode::OST_GETATTR => "getattr",
        Opcode::OST_SETATTR => "setattr",
        Opcode::OST_PUNCH => "punch",
        Opcode::OST_SYNC => "sync",
        Opcode::OST_DESTROY => "destroy",
        Opcode::OST_CREATE => "create",
        Opcode::OST_STATFS => "statfs",
        Opcode::OST_GET_INFO => "get_info",
        Opcode::OST_SET_INFO => "set_info",
        Opcode::OST_QUOTACTL => "quotactl",
        Opcode::OST_FALLOCATE => "prealloc",
        _ => return None,
    })
}

/// All names, in the order in which they are shown, with their units.
pub(crate) const NAMES: Names = &[
    ("read_bytes", "bytes"),
    ("write_bytes", "bytes"),
    ("read", "usecs"),
    ("write", "usecs"),
    ("getattr", "usecs"),
    ("setattr", "usecs"),
    ("punch", "usecs"),
    ("sync", "usecs"),
    ("destroy", "usecs"),
    ("create", "usecs"),
    ("statfs", "usecs"),
    ("get_info", "usecs"),
    ("set_info", "usecs"),
    ("quotactl", "usecs"),
    ("prealloc", "usecs"),
];

#[cfg(test)]
mod tests {
    use fulmar_lnet_wire::Nid;
    use fulmar_lustre_wire::Handle;
    use fulmar_lustre_wire::format::{Format, LDLM_SET_INFO, OST_PUNCH, OST_WRITE};
    use fulmar_lustre_wire::message::Message;

    use super::*;

    #[test]
    fn operations_have_their_names() {
        let mut stats = Stats::default();
        let call = |format: &'static Format| Message::request(format);
        let took = Duration::from_micros(30);
        for format in [&OST_WRITE, &OST_PUNCH, &LDLM_SET_INFO] {
            let message = call(format);
            let call =
                Call { export: Handle(1), nid: Nid::LOOPBACK, xid: 1, now: 100, message: &message };
            stats.count(&call, took);
            stats.count_bytes(&call, true, 4096);
        }
        let names: Vec<&str> = stats.operations.all().counters.into_keys().collect();
        assert_eq!(names, ["punch", "write", "write_bytes"]);
        assert!(names.iter().all(|name| NAMES.iter().any(|(known, _)| known == name)));
    }

    #[test]
    fn sizes_are_powers_of_two() {
        let mut stats = Stats::default();
        let range = |len| Niobuf { len, ..Niobuf::default() };
        stats.count_bulk(true, &[range(1 << 20)]);
        stats.count_bulk(false, &[range(4096), range(100)]);
        let brw = stats.brw;
        assert_eq!((brw.pages.writes[8], brw.pages.reads[1]), (1, 1));
        assert_eq!((brw.bytes.writes[20], brw.bytes.reads[12], brw.bytes.reads[7]), (1, 1, 1));
        assert_eq!((brw.gaps.writes[0], brw.gaps.reads[1]), (1, 1));
    }
}
