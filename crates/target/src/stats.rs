//! What the clients and jobs of a target have done, in the shapes of `stats` and `job_stats`.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::message::{Job, Message};

mod text;

pub use text::{job_stats, stats, times};

/// The most jobs that are remembered. The one that did nothing for the longest time is forgotten.
const JOBS_MAX: usize = 1024;
/// For how many seconds a job that does nothing is remembered, unless an administrator says otherwise.
const JOBS_KEPT: i64 = 600;

/// The names of all counters in the order in which they are shown, with their units.
pub type Names = &'static [(&'static str, &'static str)];

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

    /// Returns the file `stats`. `now`: since 1970.
    pub fn text(&self, names: Names, now: Duration) -> String {
        let begun = Duration::from_secs(self.begun.try_into().unwrap_or(0));
        stats(names, &self.counters, now, if self.counters.is_empty() { now } else { begun })
    }

    /// Adds what another client of the same node has done.
    pub fn merge(&mut self, other: &Self) {
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

/// Who has done something, and when.
#[derive(Clone, Copy, Debug)]
pub struct Doer<'a> {
    /// The client.
    pub export: Handle,
    /// The name of the job; empty if it has none.
    pub job: &'a [u8],
    /// The time in seconds since 1970.
    pub now: i64,
}

impl<'a> Doer<'a> {
    /// Returns who has sent a request.
    pub fn of(export: Handle, message: &'a Message<'_>, now: i64) -> Self {
        let job = message.body.job.as_ref().map_or(&b""[..], |Job(name)| name);
        Self { export, job: job.split(|&byte| byte == 0).next().unwrap_or_default(), now }
    }
}

/// The counters of a target.
#[derive(Debug)]
pub struct Stats {
    all: Tally,
    exports: BTreeMap<Handle, Tally>,
    jobs: BTreeMap<Vec<u8>, (u64, Tally)>,
    /// Counts samples: the order of jobs.
    clock: u64,
    /// For how many seconds a job that does nothing is remembered; 0: without limit.
    jobs_kept: i64,
}

impl Default for Stats {
    fn default() -> Self {
        let (all, exports, jobs) = Default::default();
        Self { all, exports, jobs, clock: 0, jobs_kept: JOBS_KEPT }
    }
}

impl Stats {
    /// Counts a sample.
    pub fn add(&mut self, doer: Doer<'_>, name: &'static str, value: u64) {
        let Doer { export, job, now } = doer;
        self.all.add(now, name, value);
        self.exports.entry(export).or_default().add(now, name, value);
        if job.is_empty() {
            return;
        }
        self.clock += 1;
        let jobs_kept = self.jobs_kept;
        let (clock, tally) = self.jobs.entry(job.to_vec()).or_default();
        if is_over(tally, now, jobs_kept) {
            *tally = Tally::default();
        }
        *clock = self.clock;
        tally.add(now, name, value);
        if self.jobs.len() > JOBS_MAX {
            let oldest = self.jobs.iter().min_by_key(|(_, (last, _))| *last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.jobs.remove(&oldest);
            }
        }
    }

    /// Counts an operation by its time, in microseconds.
    pub fn add_time(&mut self, doer: Doer<'_>, name: &'static str, took: Duration) {
        self.add(doer, name, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Forgets a client that is gone.
    pub fn forget(&mut self, export: Handle) {
        self.exports.remove(&export);
    }

    /// Returns what all clients have done.
    pub fn all(&self) -> Tally {
        self.all.clone()
    }

    /// Returns what a client has done.
    pub fn of_export(&self, export: Handle) -> Tally {
        self.exports.get(&export).cloned().unwrap_or_default()
    }

    /// Returns what each job has done, by its name. `now`: seconds since 1970.
    pub fn of_jobs(&mut self, now: i64) -> Vec<(Vec<u8>, Tally)> {
        let jobs_kept = self.jobs_kept;
        self.jobs.retain(|_, (_, tally)| !is_over(tally, now, jobs_kept));
        self.jobs.iter().map(|(name, (_, tally))| (name.clone(), tally.clone())).collect()
    }

    /// Forgets what all clients have done together.
    pub fn clear_all(&mut self) {
        self.all = Tally::default();
    }

    /// Forgets a job, or all for the name `clear`.
    pub fn clear_jobs(&mut self, name: &[u8]) {
        match name {
            b"clear" => self.jobs.clear(),
            name => drop(self.jobs.remove(name)),
        }
    }

    /// Returns for how many seconds a job that does nothing is remembered; 0: without limit.
    pub fn jobs_kept(&self) -> i64 {
        self.jobs_kept
    }

    /// Sets the same.
    pub fn keep_jobs(&mut self, seconds: u32) {
        self.jobs_kept = seconds.into();
    }
}

fn is_over(tally: &Tally, now: i64, jobs_kept: i64) -> bool {
    jobs_kept != 0 && !tally.counters.is_empty() && now.saturating_sub(tally.last) > jobs_kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doer(export: u64, job: &[u8]) -> Doer<'_> {
        Doer { export: Handle(export), job, now: 100 + export as i64 }
    }

    #[test]
    fn operations_are_counted_by_client_and_by_job() {
        let mut stats = Stats::default();
        let took = Duration::from_micros(30);
        for bytes in [4096, 1 << 20] {
            stats.add(doer(1, b"dd.0"), "write_bytes", bytes);
            stats.add_time(doer(1, b"dd.0"), "write", took);
        }
        stats.add_time(doer(2, b""), "punch", took);
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
        assert_eq!(stats.of_jobs(102), [(b"dd.0".to_vec(), tally)]);
        let all = stats.all();
        assert_eq!((all.begun, all.last, all.counters.len()), (101, 102, 3));
        let mut node = stats.of_export(Handle(1));
        node.merge(&Tally::default());
        node.merge(&stats.of_export(Handle(2)));
        assert_eq!(node, all);
        stats.forget(Handle(1));
        assert!(stats.of_export(Handle(1)).counters.is_empty());
        stats.clear_all();
        assert_eq!(stats.all(), Tally::default());
    }

    #[test]
    fn jobs_are_bounded() {
        let mut stats = Stats::default();
        for number in 0..=JOBS_MAX {
            let name = format!("{number:016b}");
            stats.add(doer(1, name.as_bytes()), "sync", 0);
        }
        let jobs = stats.of_jobs(101);
        assert_eq!(jobs.len(), JOBS_MAX);
        assert!(!jobs[0].0.starts_with(b"0000000000000000"));
    }

    #[test]
    fn jobs_that_have_done_nothing_for_long_are_forgotten() {
        let mut stats = Stats::default();
        stats.add(doer(1, b"cp.0"), "sync", 0);
        stats.add(doer(2, b"dd.0"), "sync", 0);
        assert_eq!(stats.of_jobs(101 + JOBS_KEPT).len(), 2);
        assert_eq!(stats.of_jobs(102 + JOBS_KEPT).len(), 1);
        stats.keep_jobs(0);
        assert_eq!(stats.of_jobs(i64::MAX).len(), 1);
        stats.keep_jobs(5);
        stats.add(doer(9, b"dd.0"), "sync", 0);
        assert_eq!(stats.of_jobs(110)[0].1.begun, 109, "it begins again");
        stats.clear_jobs(b"cp.0");
        assert_eq!(stats.of_jobs(110).len(), 1);
        stats.clear_jobs(b"clear");
        assert!(stats.of_jobs(110).is_empty());
    }

    #[test]
    fn the_job_of_a_request_ends_at_the_first_nul() {
        let mut message = Message::request(&fulmar_lustre_wire::format::OST_SYNC);
        assert_eq!(Doer::of(Handle(1), &message, 0).job, b"");
        let mut name = [0; 32];
        name[..4].copy_from_slice(b"dd.0");
        name[9] = b'x';
        message.body.job = Some(Job(name));
        assert_eq!(Doer::of(Handle(1), &message, 0).job, b"dd.0");
    }
}
