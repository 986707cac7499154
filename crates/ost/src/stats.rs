//! What clients and jobs have done, in the shapes of `stats`, `job_stats` and `brw_stats`.

use std::collections::BTreeMap;

use fulmar_lustre_wire::message::Job;
use fulmar_lustre_wire::ost::Niobuf;
use fulmar_lustre_wire::{Handle, Opcode};

use crate::space::BLOCK;

/// The most jobs that are remembered. The one that did nothing for the longest time is forgotten.
const JOBS_MAX: usize = 1024;

/// Samples of an operation, or of the bytes that it moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counter {
    pub samples: u64,
    pub min: u64,
    pub max: u64,
    pub sum: u64,
    /// The sum of the squares.
    pub squares: u128,
}

impl Counter {
    fn add(&mut self, value: u64) {
        self.min = if self.samples == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.samples += 1;
        self.sum = self.sum.saturating_add(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
    }
}

/// Counters by their names in `stats`: `read_bytes`, `write_bytes`, and operations such as `punch`.
pub type Counters = BTreeMap<&'static str, Counter>;

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
        let power = value.max(1).next_power_of_two().trailing_zeros() as usize;
        let of_kind = if writes { &mut self.writes } else { &mut self.reads };
        of_kind[power.min(31)] += 1;
    }
}

/// The histograms of `brw_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrwStats {
    /// Pages per bulk.
    pub pages: Sizes,
    /// Ranges per bulk, less one: discontiguous pages.
    pub gaps: Sizes,
    /// Bytes of each range.
    pub bytes: Sizes,
}

/// The counters of an OST.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    exports: BTreeMap<Handle, Counters>,
    jobs: BTreeMap<Vec<u8>, (u64, Counters)>,
    /// Counts operations: the order of jobs.
    clock: u64,
    brw: BrwStats,
}

impl Stats {
    /// Counts an operation.
    pub(crate) fn count(&mut self, export: Handle, job: Option<Job>, opcode: Opcode, bytes: u64) {
        let Some(name) = name_of(opcode) else { return };
        let add = |counters: &mut Counters| counters.entry(name).or_default().add(bytes);
        add(self.exports.entry(export).or_default());
        let Some(Job(name)) = job else { return };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if name.is_empty() {
            return;
        }
        self.clock += 1;
        let job = self.jobs.entry(name.to_vec()).or_default();
        job.0 = self.clock;
        add(&mut job.1);
        if self.jobs.len() > JOBS_MAX {
            let oldest = self.jobs.iter().min_by_key(|(_, (last, _))| *last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.jobs.remove(&oldest);
            }
        }
    }

    /// Counts the ranges of a read or a write.
    pub(crate) fn count_bulk(&mut self, writes: bool, ranges: &[Niobuf]) {
        let pages = ranges.iter().map(|range| u64::from(range.len).div_ceil(BLOCK)).sum();
        self.brw.pages.add(writes, pages);
        self.brw.gaps.add(writes, ranges.len() as u64 - 1);
        ranges.iter().for_each(|range| self.brw.bytes.add(writes, range.len.into()));
    }

    pub(crate) fn forget(&mut self, export: Handle) {
        self.exports.remove(&export);
    }

    pub(crate) fn of_export(&self, export: Handle) -> Counters {
        self.exports.get(&export).cloned().unwrap_or_default()
    }

    pub(crate) fn of_jobs(&self) -> Vec<(Vec<u8>, Counters)> {
        self.jobs.iter().map(|(name, (_, counters))| (name.clone(), counters.clone())).collect()
    }

    pub(crate) fn brw(&self) -> BrwStats {
        self.brw
    }
}

/// Returns the name of an operation in `stats`.
fn name_of(opcode: Opcode) -> Option<&'static str> {
    Some(match opcode {
        Opcode::OST_READ => "read_bytes",
        Opcode::OST_WRITE => "write_bytes",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_client_and_by_job() {
        let mut stats = Stats::default();
        let mut job = [0; 32];
        job[..4].copy_from_slice(b"dd.0");
        for bytes in [4096, 1 << 20] {
            stats.count(Handle(1), Some(Job(job)), Opcode::OST_WRITE, bytes);
        }
        stats.count(Handle(2), None, Opcode::OST_PUNCH, 0);
        stats.count(Handle(2), None, Opcode::LDLM_ENQUEUE, 0);
        let wrote = Counter {
            samples: 2,
            min: 4096,
            max: 1 << 20,
            sum: 4096 + (1 << 20),
            squares: (1 << 24) + (1 << 40),
        };
        assert_eq!(stats.of_export(Handle(1)), Counters::from([("write_bytes", wrote)]));
        assert_eq!(stats.of_jobs(), [(b"dd.0".to_vec(), Counters::from([("write_bytes", wrote)]))]);
        assert_eq!(stats.of_export(Handle(2)).len(), 1);
        stats.forget(Handle(1));
        assert!(stats.of_export(Handle(1)).is_empty());
    }

    #[test]
    fn jobs_are_bounded() {
        let mut stats = Stats::default();
        for number in 0..=JOBS_MAX as u64 {
            let mut job = [b'a'; 32];
            for (at, bit) in job.iter_mut().zip(0..16) {
                *at = if number >> bit & 1 == 1 { b'1' } else { b'0' };
            }
            stats.count(Handle(1), Some(Job(job)), Opcode::OST_SYNC, 0);
        }
        let jobs = stats.of_jobs();
        assert_eq!(jobs.len(), JOBS_MAX);
        assert!(!jobs[0].0.starts_with(b"0000000000000000"));
    }

    #[test]
    fn sizes_are_powers_of_two() {
        let mut stats = Stats::default();
        let range = |len| Niobuf { len, ..Niobuf::default() };
        stats.count_bulk(true, &[range(1 << 20)]);
        stats.count_bulk(false, &[range(4096), range(100)]);
        let brw = stats.brw();
        assert_eq!((brw.pages.writes[8], brw.pages.reads[1]), (1, 1));
        assert_eq!((brw.bytes.writes[20], brw.bytes.reads[12], brw.bytes.reads[7]), (1, 1, 1));
        assert_eq!((brw.gaps.writes[0], brw.gaps.reads[0]), (1, 1));
    }
}
