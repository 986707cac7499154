//! What clients and jobs have done, in the shapes of `stats`, `job_stats` and `brw_stats`.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lustre_wire::message::Job;
use fulmar_lustre_wire::ost::Niobuf;
use fulmar_lustre_wire::{Handle, Opcode};
use fulmar_target::data::BLOCK;

use crate::ost::Call;

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

    fn merge(&mut self, other: &Self) {
        self.min = if self.samples == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.samples += other.samples;
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// Counters by their names in `stats`: bytes of `read_bytes` and `write_bytes`, microseconds of operations
/// such as `punch`.
pub type Counters = BTreeMap<&'static str, Counter>;

/// What a client or a job has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// When it did something first, in seconds since 1970.
    pub begun: i64,
    /// When it did something last.
    pub last: i64,
    /// What.
    pub counters: Counters,
}

impl Tally {
    fn add(&mut self, now: i64, name: &'static str, value: u64) {
        if self.counters.is_empty() {
            self.begun = now;
        }
        self.last = self.last.max(now);
        self.counters.entry(name).or_default().add(value);
    }

    /// Adds what another client of the same node has done.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.counters.is_empty() {
            return;
        }
        let is_first = self.counters.is_empty() || other.begun < self.begun;
        self.begun = if is_first { other.begun } else { self.begun };
        self.last = self.last.max(other.last);
        for (name, counter) in &other.counters {
            self.counters.entry(name).or_default().merge(counter);
        }
    }
}

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
    all: Tally,
    exports: BTreeMap<Handle, Tally>,
    jobs: BTreeMap<Vec<u8>, (u64, Tally)>,
    /// Counts samples: the order of jobs.
    clock: u64,
    brw: BrwStats,
}

impl Stats {
    /// Counts the bytes of a read or a write.
    pub(crate) fn count_bytes(&mut self, call: &Call<'_>, is_write: bool, bytes: u64) {
        self.add(call, if is_write { "write_bytes" } else { "read_bytes" }, bytes);
    }

    /// Counts an operation.
    pub(crate) fn count(&mut self, call: &Call<'_>, took: Duration) {
        if let Some(name) = name_of(call.message.body.opcode) {
            self.add(call, name, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
    }

    fn add(&mut self, call: &Call<'_>, name: &'static str, value: u64) {
        self.all.add(call.now, name, value);
        self.exports.entry(call.export).or_default().add(call.now, name, value);
        let Some(Job(job)) = call.message.body.job else { return };
        let job = job.split(|&byte| byte == 0).next().unwrap_or_default();
        if job.is_empty() {
            return;
        }
        self.clock += 1;
        let (clock, tally) = self.jobs.entry(job.to_vec()).or_default();
        *clock = self.clock;
        tally.add(call.now, name, value);
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
        self.brw.gaps.count(writes, ranges.len() as u64 - 1);
        ranges.iter().for_each(|range| self.brw.bytes.add(writes, range.len.into()));
    }

    pub(crate) fn forget(&mut self, export: Handle) {
        self.exports.remove(&export);
    }

    pub(crate) fn all(&self) -> Tally {
        self.all.clone()
    }

    pub(crate) fn of_export(&self, export: Handle) -> Tally {
        self.exports.get(&export).cloned().unwrap_or_default()
    }

    pub(crate) fn of_jobs(&self) -> Vec<(Vec<u8>, Tally)> {
        self.jobs.iter().map(|(name, (_, tally))| (name.clone(), tally.clone())).collect()
    }

    pub(crate) fn brw(&self) -> BrwStats {
        self.brw
    }
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
pub(crate) const NAMES: [(&str, &str); 15] = [
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
    use fulmar_lustre_wire::format::{Format, LDLM_SET_INFO, OST_PUNCH, OST_SYNC, OST_WRITE};
    use fulmar_lustre_wire::message::Message;

    use super::*;

    fn request(format: &'static Format, job: &[u8]) -> Message<'static> {
        let mut name = [0; 32];
        name[..job.len()].copy_from_slice(job);
        let mut message = Message::request(format);
        message.body.job = (!job.is_empty()).then_some(Job(name));
        message
    }

    fn call<'a>(export: u64, message: &'a Message<'a>) -> Call<'a> {
        Call { export: Handle(export), xid: 1, now: 100 + export as i64, message }
    }

    #[test]
    fn operations_are_counted_by_client_and_by_job() {
        let mut stats = Stats::default();
        let took = Duration::from_micros(30);
        let write = request(&OST_WRITE, b"dd.0");
        for bytes in [4096, 1 << 20] {
            stats.count_bytes(&call(1, &write), true, bytes);
            stats.count(&call(1, &write), took);
        }
        stats.count(&call(2, &request(&OST_PUNCH, b"")), took);
        stats.count(&call(2, &request(&LDLM_SET_INFO, b"")), took);
        let wrote = Counter {
            samples: 2,
            min: 4096,
            max: 1 << 20,
            sum: 4096 + (1 << 20),
            squares: (1 << 24) + (1 << 40),
        };
        let time = Counter { samples: 2, min: 30, max: 30, sum: 60, squares: 1800 };
        let counters = Counters::from([("write_bytes", wrote), ("write", time)]);
        let tally = Tally { begun: 101, last: 101, counters };
        assert_eq!(stats.of_export(Handle(1)), tally);
        assert_eq!(stats.of_jobs(), [(b"dd.0".to_vec(), tally)]);
        assert_eq!(stats.of_export(Handle(2)).counters.len(), 1);
        let all = stats.all();
        assert_eq!((all.begun, all.last, all.counters.len()), (101, 102, 3));
        assert!(all.counters.keys().all(|name| NAMES.iter().any(|(known, _)| known == name)));
        let mut node = stats.of_export(Handle(1));
        node.merge(&Tally::default());
        node.merge(&stats.of_export(Handle(2)));
        assert_eq!(node, all);
        stats.forget(Handle(1));
        assert!(stats.of_export(Handle(1)).counters.is_empty());
    }

    #[test]
    fn jobs_are_bounded() {
        let mut stats = Stats::default();
        for number in 0..=JOBS_MAX {
            let message = request(&OST_SYNC, format!("{number:016b}").as_bytes());
            stats.count(&call(1, &message), Duration::ZERO);
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
        assert_eq!((brw.gaps.writes[0], brw.gaps.reads[1]), (1, 1));
    }
}
