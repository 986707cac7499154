//! Virtual time, a line, and the targets behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_data::grants::Terms;
use fulmar_data::stripes::{Object, Target};
use fulmar_data::{Direction, Reply, Rpc, RpcId};
use fulmar_lustre_wire::Fid;

use crate::host::Host;
use crate::image::{Image, Symbol};

pub(crate) const MIB: u64 = 1 << 20;

/// The line between the clients and all targets, and how these behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Bytes for each second, either way.
    pub(crate) rate: u64,
    pub(crate) round_trip: Duration,
    /// An RPC takes up to so much longer.
    pub(crate) jitter: Duration,
    /// How long a write is not on disk after its reply; `None` if its reply waits for the disk.
    pub(crate) commit: Option<Duration>,
    /// The space that targets can grant.
    pub(crate) space: u64,
    pub(crate) rpc_size: u64,
    /// One of so many RPCs fails; none with 0.
    pub(crate) faults: u64,
}

impl Line {
    /// 10 Gb/s and 50.5 ms.
    pub(crate) const OCEAN: Self = Self {
        rate: 1_250_000_000,
        round_trip: Duration::from_micros(50_500),
        jitter: Duration::ZERO,
        commit: Some(Duration::from_millis(100)),
        space: u64::MAX,
        rpc_size: 4 * MIB,
        faults: 0,
    };

    fn terms(&self) -> Terms {
        Terms {
            chunk: 4096,
            tax: 24 << 10,
            extent: 64 * MIB,
            rpc_size: self.rpc_size,
            object_max: u64::MAX,
        }
    }

    /// Returns what an OST grants first, and with each reply.
    fn grant(&self) -> u64 {
        2 * (self.rpc_size + self.terms().tax)
    }
}

#[derive(Debug)]
enum Event {
    /// A target executes an RPC.
    Execute(usize, Box<Rpc>, Image),
    /// The reply arrives.
    Reply(usize, Target, RpcId, Reply),
    /// A write is on disk.
    Commit(usize, RpcId, Image),
}

#[derive(Debug, Default)]
struct Store {
    image: Image,
    /// The end of what was written.
    end: u64,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) hosts: Vec<Host>,
    line: Line,
    rng: Rng,
    up: Time,
    down: Time,
    events: BTreeMap<(Time, u64), Event>,
    next: u64,
    stores: BTreeMap<Object, Store>,
    /// What each target accounts to each client.
    grants: BTreeMap<(usize, Target), u64>,
    /// RPCs of clients that were evicted.
    refused: BTreeSet<(usize, RpcId)>,
    /// Pages of objects that are being written: the starts and the ends.
    busy: BTreeMap<(Object, u64), u64>,
    /// The bytes of all reads and of all writes.
    pub(crate) moved: [u64; 2],
    pub(crate) rpcs: [u64; 2],
}

pub(crate) fn object(ost: u32) -> Object {
    let fid = Fid { seq: 0x2_4000_0400, oid: ost + 1, version: 0 };
    Object { target: Target::Ost(ost), fid }
}

impl World {
    pub(crate) fn new(line: Line, seed: u64, hosts: Vec<Host>) -> Self {
        let mut world = Self {
            now: Time::ZERO,
            hosts,
            line,
            rng: Rng::new(seed),
            up: Time::ZERO,
            down: Time::ZERO,
            events: BTreeMap::new(),
            next: 0,
            stores: BTreeMap::new(),
            grants: BTreeMap::new(),
            refused: BTreeSet::new(),
            busy: BTreeMap::new(),
            moved: [0; 2],
            rpcs: [0; 2],
        };
        for host in 0..world.hosts.len() {
            for target in (0..4).map(Target::Ost) {
                world.connect(host, target);
            }
        }
        world
    }

    /// A target knows the client from now on. It executes nothing that the client sent before.
    pub(crate) fn connect(&mut self, host: usize, target: Target) {
        let first = self.line.grant().min(self.line.space);
        self.grants.insert((host, target), first);
        let under_way = self.events.values().filter_map(|event| match event {
            Event::Execute(of, rpc, _) if *of == host && rpc.object.target == target => {
                Some(rpc.id)
            }
            _ => None,
        });
        self.refused.extend(under_way.map(|rpc| (host, rpc)));
        for event in self.events.values_mut() {
            match event {
                Event::Reply(of, from, _, reply) if (*of, *from) == (host, target) => {
                    reply.granted = 0
                }
                _ => {}
            }
        }
        self.hosts[host].cache.handle_connected(self.now, target, self.line.terms(), first);
    }

    /// Fills an object with bytes of a source.
    pub(crate) fn fill(&mut self, object: Object, len: u64, source: u64) {
        let store = self.stores.entry(object).or_default();
        store.image.put(0..len, Symbol { source, at: 0 });
        store.end = len;
    }

    /// Cuts an object.
    pub(crate) fn punch(&mut self, object: Object, range: Range<u64>) {
        let writes = self.events.values().filter_map(|event| match event {
            Event::Execute(_, rpc, _) if rpc.direction == Direction::Write => Some(rpc),
            _ => None,
        });
        let last = writes.filter(|rpc| rpc.object == object).filter_map(|rpc| rpc.ranges.last());
        assert!(last.map(|last| last.end).max() <= Some(range.start), "no write is under way");
        let store = self.stores.entry(object).or_default();
        store.end = store.end.min(range.start);
        store.image.clear(range);
    }

    pub(crate) fn content(&self, object: Object, range: Range<u64>) -> Image {
        self.stores.get(&object).map(|store| store.image.slice(range)).unwrap_or_default()
    }

    /// Handles all outputs of a host, then lets time pass until the next event, at most until `end`.
    /// False if nothing happens any more.
    pub(crate) fn step(&mut self, end: Time) -> bool {
        for host in 0..self.hosts.len() {
            self.drain(host);
        }
        let timers = self.hosts.iter().filter_map(|host| host.cache.poll_timeout());
        let timer = timers.min().unwrap_or(Time::MAX);
        let event = self.events.keys().next().map_or(Time::MAX, |(at, _)| *at);
        let at = timer.min(event);
        if at > end {
            self.now = end;
            return false;
        }
        assert!(at > self.now || event <= self.now, "a timer that is due does something");
        self.now = self.now.max(at);
        if timer <= event {
            let now = self.now;
            let due = |host: &Host| host.cache.poll_timeout().is_some_and(|at| at <= now);
            for host in self.hosts.iter_mut().filter(|host| due(host)) {
                host.cache.handle_timeout(now);
            }
        } else if let Some((_, event)) = self.events.pop_first() {
            self.happen(event);
        }
        for host in 0..self.hosts.len() {
            self.drain(host);
        }
        true
    }

    pub(crate) fn drain(&mut self, host: usize) {
        for rpc in self.hosts[host].drain(self.now) {
            self.send(host, rpc);
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.next += 1;
        self.events.insert((time, self.next), event);
    }

    fn send(&mut self, host: usize, rpc: Rpc) {
        let half = self.line.round_trip / 2;
        let len = rpc.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        let memory = rpc.memory.iter().map(|span| u64::from(span.len)).sum::<u64>();
        assert_eq!(len, memory, "the memory of an RPC is as long as its ranges");
        let time = Duration::from_nanos(len * 1_000_000_000 / self.line.rate);
        let jitter = self.rng.below(self.line.jitter.as_nanos() as u64 + 1);
        let sent = self.now + Duration::from_nanos(jitter);
        self.check(&rpc);
        let which = usize::from(rpc.direction == Direction::Write);
        self.moved[which] += len;
        self.rpcs[which] += 1;
        let image = self.hosts[host].gather(&rpc.memory);
        let at = match rpc.direction {
            Direction::Read => sent + half,
            Direction::Write => {
                // The target fetches the data: another round trip.
                self.up = self.up.max(sent + half + half) + time;
                self.up + half
            }
        };
        self.at(at, Event::Execute(host, Box::new(rpc), image));
    }

    fn check(&mut self, rpc: &Rpc) {
        let count = rpc.ranges.len();
        assert!(count > 0 && count <= 256 && rpc.memory.len() <= 4096);
        for (n, range) in rpc.ranges.iter().enumerate() {
            assert!(n == 0 || range.start.is_multiple_of(4096), "only the first begins in a page");
            assert!(
                n + 1 == count || range.end.is_multiple_of(4096),
                "only the last ends in a page"
            );
            assert!(n == 0 || rpc.ranges[n - 1].end < range.start, "ranges are in order");
            if rpc.direction == Direction::Write {
                let pages = range.start / 4096 * 4096..range.end.next_multiple_of(4096);
                let before = self.busy.range(..(rpc.object, pages.end)).next_back();
                let before = before.filter(|((object, _), _)| *object == rpc.object);
                let is_free = before.is_none_or(|(_, end)| *end <= pages.start);
                assert!(is_free, "a page is written by one RPC at a time");
                self.busy.insert((rpc.object, pages.start), pages.end);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let half = self.line.round_trip / 2;
        match event {
            Event::Execute(host, rpc, image) => {
                let is_refused = self.refused.remove(&(host, rpc.id));
                let granted = if is_refused { 0 } else { self.grant(host, &rpc) };
                let is_fault = self.line.faults > 0 && self.rng.one_in(self.line.faults);
                let is_fault = is_fault || is_refused;
                let result = self.execute(host, &rpc, image);
                let result = if is_fault { Err(Errno::EIO) } else { Ok(result) };
                let len = rpc.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
                let is_read = rpc.direction == Direction::Read;
                let is_kept = !is_read && !is_fault && !rpc.flags.sync;
                let keeps_data = is_kept && self.line.commit.is_some();
                let at = if is_read {
                    let time = Duration::from_nanos(len * 1_000_000_000 / self.line.rate);
                    self.down = self.down.max(self.now) + time;
                    self.down + half
                } else {
                    self.now + half
                };
                if let Some(commit) = self.line.commit.filter(|_| keeps_data) {
                    // After the replies that are under way.
                    let soon = half + Duration::from_millis(10);
                    let commit = if rpc.flags.soft_sync { soon } else { commit };
                    if rpc.flags.soft_sync {
                        self.commit_until(self.now + soon);
                    }
                    let kept = self.hosts[host].gather(&rpc.memory);
                    self.at(at + commit, Event::Commit(host, rpc.id, kept));
                    self.hosts[host].kept.insert(rpc.id, rpc.memory.clone());
                }
                self.at(
                    at,
                    Event::Reply(
                        host,
                        rpc.object.target,
                        rpc.id,
                        Reply { result, granted, keeps_data },
                    ),
                );
            }
            Event::Reply(host, _, id, reply) => {
                self.hosts[host].cache.handle_done(self.now, id, reply)
            }
            Event::Commit(host, id, image) => {
                let memory = self.hosts[host].kept.remove(&id).unwrap();
                assert!(self.hosts[host].gather(&memory) == image, "kept memory is not changed");
                self.hosts[host].cache.handle_released(self.now, id);
            }
        }
    }

    /// The targets write to disk what they would have written later.
    fn commit_until(&mut self, time: Time) {
        let later = self.events.range((time, 0)..);
        let commits = later.filter(|(_, event)| matches!(event, Event::Commit(..)));
        let keys: Vec<_> = commits.map(|(key, _)| *key).collect();
        for key in keys {
            let event = self.events.remove(&key).unwrap();
            self.at(time, event);
        }
    }

    /// Reads into, or writes from, the memory of a host. Returns how many bytes were read.
    fn execute(&mut self, host: usize, rpc: &Rpc, sent: Image) -> u64 {
        let store = self.stores.entry(rpc.object).or_default();
        if rpc.direction == Direction::Read {
            let range = rpc.ranges[0].clone();
            // Kernel servers send the page of the end as a whole.
            let end = store.end.next_multiple_of(4096).clamp(range.start, range.end);
            let image = store.image.slice(range.start..end);
            self.hosts[host].scatter(&rpc.memory, &image, end - range.start);
            return end - range.start;
        }
        assert!(self.hosts[host].gather(&rpc.memory) == sent, "what is sent is not changed");
        let mut at = 0;
        for range in &rpc.ranges {
            let len = range.end - range.start;
            store.image.copy(range.start, &sent, at..at + len);
            store.end = store.end.max(range.end);
            at += len;
            self.busy.remove(&(rpc.object, range.start / 4096 * 4096));
        }
        0
    }

    /// Accounts for what an RPC says, and returns what its reply grants.
    fn grant(&mut self, host: usize, rpc: &Rpc) -> u64 {
        let account = self.grants.get_mut(&(host, rpc.object.target)).unwrap();
        *account -= u64::from(rpc.grant.dropped);
        if rpc.flags.from_grant {
            *account =
                account.checked_sub(rpc.grant.used).expect("no client uses more than is granted");
        }
        let wanted = u64::from(rpc.grant.undirty).saturating_sub(rpc.grant.grant);
        let more = wanted.min(self.line.grant()).min(self.line.space.saturating_sub(*account));
        let more = if rpc.direction == Direction::Write { more } else { 0 };
        *account += more;
        more
    }
}
