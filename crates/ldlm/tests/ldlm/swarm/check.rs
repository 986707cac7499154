//! What must hold in each run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::Time;
use fulmar_ldlm::client::{Coverage, LockId};
use fulmar_ldlm::mode::are_compatible;
use fulmar_lustre_wire::ldlm::LockType;

use super::plan::Plan;

/// A part of a file of a target that has a version of its own.
pub(crate) type Part = (usize, u32, u64);

/// Returns the number of a part in requests to its target.
pub(crate) fn number_of((_, file, part): Part) -> u32 {
    file << 8 | part as u32
}

/// Returns the part of a target with a number.
pub(crate) fn part_of(target: usize, number: u32) -> Part {
    (target, number >> 8, u64::from(number & 0xff))
}

/// How often a run met what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunCounts {
    pub(crate) granted: u64,
    pub(crate) matched: u64,
    pub(crate) failed: u64,
    pub(crate) cached_reads: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) blocking: u64,
    pub(crate) completions: u64,
    pub(crate) converts: u64,
    pub(crate) lock_replays: u64,
    pub(crate) replays: u64,
    pub(crate) restarts: u64,
    pub(crate) evictions: u64,
    /// Evicted clients that were told.
    pub(crate) told: u64,
    pub(crate) gone: u64,
    pub(crate) reconnects: u64,
}

impl RunCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.matched += other.matched;
        self.failed += other.failed;
        self.cached_reads += other.cached_reads;
        self.reads += other.reads;
        self.writes += other.writes;
        self.blocking += other.blocking;
        self.completions += other.completions;
        self.converts += other.converts;
        self.lock_replays += other.lock_replays;
        self.replays += other.replays;
        self.restarts += other.restarts;
        self.evictions += other.evictions;
        self.told += other.told;
        self.gone += other.gone;
        self.reconnects += other.reconnects;
    }
}

/// A lock of a client, as the ledger names it: client, target, lock.
pub(crate) type Key = (usize, usize, LockId);

/// A write of a client to its cache. Its version is its place, from 1.
#[derive(Debug)]
struct Write {
    client: usize,
    life: u32,
    part: Part,
}

/// How often a target has evicted a client.
#[derive(Clone, Copy, Debug, Default)]
struct Lives {
    at_target: u32,
    /// At the last connect.
    connected: u32,
    /// As far as the client knows.
    known: u32,
}

/// What is known of all clients and targets.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: Duration,
    /// The clients that may be evicted.
    unlucky: BTreeSet<usize>,
    writes: Vec<Write>,
    /// The versions that no reader may miss.
    latest: BTreeMap<Part, BTreeSet<u64>>,
    lives: BTreeMap<(usize, usize), Lives>,
    /// When something of a client last reached a target.
    heard: BTreeMap<(usize, usize), Time>,
    acquires: BTreeMap<Key, Time>,
    held: BTreeMap<Key, Coverage>,
    pub(crate) error: Option<String>,
    pub(crate) seen: RunCounts,
}

impl Ledger {
    pub(crate) fn new(plan: &Plan, unlucky: BTreeSet<usize>) -> Self {
        Self {
            limit: plan.limit,
            unlucky,
            writes: Vec::new(),
            latest: BTreeMap::new(),
            lives: BTreeMap::new(),
            heard: BTreeMap::new(),
            acquires: BTreeMap::new(),
            held: BTreeMap::new(),
            error: None,
            seen: RunCounts::default(),
        }
    }

    pub(crate) fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn begin_acquire(&mut self, key: Key, now: Time) {
        self.acquires.insert(key, now);
    }

    pub(crate) fn end_acquire(&mut self, key: Key) {
        if self.acquires.remove(&key).is_none() {
            self.fail(format!("{key:?} ends twice"));
        }
    }

    pub(crate) fn check_acquires(&mut self, now: Time) {
        let late = self.acquires.iter().find(|(_, begun)| now.since(**begun) > self.limit);
        if let Some((key, begun)) = late.map(|(key, begun)| (*key, *begun)) {
            self.fail(format!("{key:?} was acquired at {begun} and has no end at {now}"));
        }
    }

    pub(crate) fn acquires(&self) -> usize {
        self.acquires.len()
    }

    /// A client has a lock and its cache.
    pub(crate) fn hold(&mut self, key: Key, covered: Coverage) {
        let is_heard = !self.is_stale(key.0, key.1);
        let others = self.held.iter().filter(|(other, _)| other.1 == key.1 && other.0 != key.0);
        let conflict = others
            .filter(|(other, _)| is_heard && !self.is_stale(other.0, other.1))
            .find(|(_, held)| are_in_conflict(held, &covered));
        if let Some((other, held)) = conflict {
            let error = format!("{other:?} has {held:?}, and {key:?} gets {covered:?}");
            self.fail(error);
        }
        self.held.insert(key, covered);
    }

    /// A client gives up a lock, or some of its bits.
    pub(crate) fn give_up(&mut self, key: Key, covered: &Coverage) {
        let Some(held) = self.held.get_mut(&key) else { return };
        if covered.policy.words[0] == held.policy.words[0] {
            self.held.remove(&key);
        } else {
            held.policy.words[0] &= !covered.policy.words[0];
        }
    }

    /// A client writes to its cache, and gets the version.
    pub(crate) fn write(&mut self, client: usize, part: Part) -> u64 {
        let lives = self.lives(client, part.0);
        let (life, is_stale) = (lives.known, lives.known != lives.at_target);
        self.writes.push(Write { client, life, part });
        let version = self.writes.len() as u64;
        if !is_stale {
            self.latest.entry(part).or_default().insert(version);
        }
        version
    }

    /// A client uses what it has read.
    pub(crate) fn see(&mut self, client: usize, part: Part, version: u64) {
        let latest = self.latest(part);
        if version < latest && !self.is_stale(client, part.0) {
            self.fail(format!("client {client} sees {version} of {part:?}, not {latest}"));
        }
    }

    fn latest(&self, part: Part) -> u64 {
        self.latest.get(&part).and_then(|all| all.last()).copied().unwrap_or(0)
    }

    /// Returns what a write is about, before a target applies it.
    pub(crate) fn apply(&mut self, version: u64, old: Option<u64>) -> Part {
        let part = self.writes[version as usize - 1].part;
        if !self.latest.get(&part).is_some_and(|all| all.contains(&version)) {
            self.fail(format!("write {version} of a client that was evicted is applied"));
        }
        if let Some(old) = old.filter(|&old| old > version) {
            self.fail(format!("write {version} is applied after {old}"));
        }
        part
    }

    pub(crate) fn part(&self, version: u64) -> Part {
        self.writes[version as usize - 1].part
    }

    /// Returns whether a target has evicted a client that does not know it yet.
    pub(crate) fn is_stale(&self, client: usize, target: usize) -> bool {
        let lives = self.lives.get(&(client, target)).copied().unwrap_or_default();
        lives.known != lives.at_target
    }

    fn lives(&mut self, client: usize, target: usize) -> &mut Lives {
        self.lives.entry((client, target)).or_default()
    }

    pub(crate) fn connected(&mut self, client: usize, target: usize) {
        let lives = self.lives(client, target);
        lives.connected = lives.at_target;
    }

    /// A client is connected that never was before.
    pub(crate) fn first_connected(&mut self, client: usize, target: usize) {
        let lives = self.lives(client, target);
        lives.known = lives.connected;
    }

    /// A client has been told that it is evicted.
    pub(crate) fn told(&mut self, client: usize, target: usize) {
        self.seen.told += 1;
        let lives = self.lives(client, target);
        lives.known = lives.connected;
        self.held.retain(|key, _| (key.0, key.1) != (client, target));
    }

    /// A request or a reply of a client has reached a target.
    pub(crate) fn heard(&mut self, now: Time, client: usize, target: usize) {
        self.heard.insert((client, target), now);
    }

    /// Returns whether so little came from a client that a target may evict it: two pings were lost.
    /// Spec: ptlrpc-ldlm-mgs §16.3.
    pub(crate) fn was_silent(&self, now: Time, client: usize, target: usize) -> bool {
        let heard = self.heard.get(&(client, target)).copied().unwrap_or_default();
        now.since(heard) > Duration::from_secs(60)
    }

    /// Checks that a client may be evicted that was not silent.
    pub(crate) fn check_eviction(&mut self, client: usize) {
        if !self.unlucky.contains(&client) {
            self.fail(format!("client {client} is evicted, which could be reached"));
        }
    }

    /// A target has evicted a client, and has these writes of it.
    pub(crate) fn evicted(&mut self, client: usize, target: usize, applied: &BTreeSet<u64>) {
        self.seen.evictions += 1;
        self.lives(client, target).at_target += 1;
        self.excuse(target, applied, |write, _| write.client == client);
    }

    /// A target has lost what is not on disk. Clients that it has evicted do not write it again.
    pub(crate) fn restarted(&mut self, target: usize, on_disk: &BTreeSet<u64>) {
        self.seen.restarts += 1;
        self.excuse(target, on_disk, |write, lives| write.life != lives.at_target);
    }

    fn excuse(&mut self, target: usize, kept: &BTreeSet<u64>, is: impl Fn(&Write, Lives) -> bool) {
        let (writes, lives) = (&self.writes, &self.lives);
        let of_target = self.latest.iter_mut().filter(|(part, _)| part.0 == target);
        for (_, versions) in of_target {
            versions.retain(|version| {
                let write = &writes[*version as usize - 1];
                let lives = lives.get(&(write.client, target)).copied().unwrap_or_default();
                kept.contains(version) || !is(write, lives)
            });
        }
    }

    /// A client has disappeared.
    pub(crate) fn gone(&mut self, client: usize) {
        self.seen.gone += 1;
        self.acquires.retain(|key, _| key.0 != client);
        self.held.retain(|key, _| key.0 != client);
    }

    /// Checks what a target has applied.
    pub(crate) fn check_applied(&mut self, applied: &[(u64, u64)]) {
        let mut versions = BTreeSet::new();
        if let Some((_, version)) = applied.iter().find(|(_, version)| !versions.insert(*version)) {
            self.fail(format!("write {version} is applied twice"));
        }
        if let Some(pair) = applied.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            self.fail(format!("transaction {:#x} is applied after {:#x}", pair[1].0, pair[0].0));
        }
    }

    /// Checks that all targets have what no reader may miss, after all clients have written back.
    pub(crate) fn check_end(&mut self, version: impl Fn(Part) -> u64) {
        let parts: Vec<Part> = self.latest.keys().copied().collect();
        for part in parts {
            let (latest, found) = (self.latest(part), version(part));
            if found < latest {
                self.fail(format!("{part:?} has version {found}, not {latest}"));
            }
        }
    }
}

fn are_in_conflict(first: &Coverage, second: &Coverage) -> bool {
    let ([start, end, _], [first_byte, last_byte, _]) = (first.policy.words, second.policy.words);
    let overlap = match first.resource.kind {
        LockType::EXTENT => start <= last_byte && first_byte <= end,
        _ => start & first_byte != 0,
    };
    first.resource == second.resource && overlap && !are_compatible(first.mode, second.mode)
}
