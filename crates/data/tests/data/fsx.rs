//! Random operations of two clients on two files, with locks between them, against one expected image.

use std::ops::Range;
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_data::stripes::{Layout, Object, Place};
use fulmar_data::{FileId, Gauges, LockKey, OpId, OpenId, Settings};

use crate::host::{End, Host};
use crate::image::{Image, Symbol};
use crate::world::{Line, MIB, World, object};

const KIB: u64 = 1 << 10;

#[derive(Debug)]
enum Action {
    Read(Range<u64>),
    Write(Range<u64>),
    Truncate(u64),
    Flush,
    /// Nothing: the other client gives its locks back.
    Cancel,
}

impl Action {
    fn changes(&self) -> bool {
        !matches!(self, Self::Read(_) | Self::Flush)
    }
}

#[derive(Debug)]
enum State {
    Idle,
    /// The other client gives its locks back.
    Cancelling(Vec<OpId>, Action),
    Running(OpId, Action),
}

/// A file, and who has locks on it.
struct File {
    layout: Layout,
    expected: Image,
    size: u64,
    /// Of each client: the file, and the locks it has.
    clients: [(FileId, OpenId, Vec<LockKey>); 2],
    /// The client that may write, if one may.
    writer: Option<usize>,
    /// Whose turn it is.
    client: usize,
    state: State,
    source: u64,
    /// How large it becomes.
    most: u64,
    /// Where the last read ended: some go on there.
    next: u64,
}

struct Counts {
    reads: u64,
    cancels: u64,
    compared: u64,
}

fn random_range(rng: &mut Rng, most: u64) -> Range<u64> {
    let unit = if rng.one_in(2) { 1 } else { 4096 };
    let len = if rng.one_in(4) { most } else { 12 * KIB };
    let start = rng.below(most) / unit * unit;
    start..start + (rng.below(len) / unit).max(1) * unit
}

impl File {
    fn new(world: &mut World, layout: Layout, source: u64, most: u64) -> Self {
        let mut client = |host: usize| {
            let cache = &mut world.hosts[host].cache;
            let file = cache.add_file(layout.clone(), 0);
            (file, cache.open(file), Vec::new())
        };
        let clients = [client(0), client(1)];
        let (expected, state) = (Image::default(), State::Idle);
        let (writer, client, size, next) = (None, 0, 0, 0);
        Self { layout, expected, size, clients, writer, client, state, source, most, next }
    }

    fn objects(&self) -> Vec<Object> {
        self.layout.objects(0..u64::MAX).into_iter().map(|(object, _)| object).collect()
    }

    /// Goes on if something has ended. Returns whether it did.
    fn step(&mut self, world: &mut World, rng: &mut Rng, more: bool, counts: &mut Counts) -> bool {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle if more => self.begin(world, rng, counts),
            State::Idle => return false,
            State::Cancelling(ops, action) => {
                let other = &mut world.hosts[1 - self.client].ends;
                if !ops.iter().all(|op| other.contains_key(op)) {
                    self.state = State::Cancelling(ops, action);
                    return false;
                }
                ops.iter().for_each(|op| drop(other.remove(op)));
                self.run(world, action);
            }
            State::Running(op, action) => {
                let Some(end) = world.hosts[self.client].ends.remove(&op) else {
                    self.state = State::Running(op, action);
                    return false;
                };
                self.end(world, &action, end, counts);
            }
        }
        true
    }

    fn begin(&mut self, world: &mut World, rng: &mut Rng, counts: &mut Counts) {
        self.client = rng.below(2) as usize;
        let action = match rng.below(12) {
            0..3 => Action::Read(random_range(rng, self.most)),
            3..6 => Action::Read(self.next..self.next + 128 * KIB),
            6..9 => Action::Write(random_range(rng, self.most)),
            9 => Action::Truncate(rng.below(self.most)),
            10 => Action::Flush,
            _ => Action::Cancel,
        };
        let is_flush = matches!(action, Action::Flush);
        let other = 1 - self.client;
        let conflicts = action.changes() || self.writer == Some(other);
        if is_flush || !conflicts || self.clients[other].2.is_empty() {
            return self.run(world, action);
        }
        counts.cancels += 1;
        let locks = std::mem::take(&mut self.clients[other].2);
        self.writer = self.writer.filter(|&writer| writer != other);
        let mut ops = Vec::new();
        for object in self.objects() {
            for lock in &locks {
                let cache = &mut world.hosts[other].cache;
                ops.push(cache.handle_cancel(world.now, object, *lock, false));
            }
        }
        self.state = State::Cancelling(ops, action);
    }

    /// The client has its locks: it begins.
    fn run(&mut self, world: &mut World, action: Action) {
        let (now, host) = (world.now, &mut world.hosts[self.client]);
        let objects = self.layout.objects(0..u64::MAX);
        let (file, open, locks) = &mut self.clients[self.client];
        let is_flush = matches!(action, Action::Flush);
        if !is_flush && (locks.is_empty() || action.changes() && self.writer.is_none()) {
            let lock = LockKey(locks.len() as u64 + 1);
            locks.push(lock);
            objects.iter().for_each(|(object, _)| {
                host.cache.handle_lock(*object, lock, 0..u64::MAX, action.changes())
            });
            host.cache.set_size(*file, self.size);
        }
        if action.changes() {
            self.writer = Some(self.client);
        }
        let op = match &action {
            Action::Read(range) => host.cache.handle_read(now, *open, range.clone()),
            Action::Write(range) => {
                self.source += 2;
                host.write(now, *open, range.clone(), self.source)
            }
            Action::Truncate(size) => host.cache.handle_truncate(now, *file, *size),
            Action::Flush => host.cache.handle_flush(now, *open, 0..u64::MAX),
            Action::Cancel => return,
        };
        self.state = State::Running(op, action);
    }

    fn end(&mut self, world: &mut World, action: &Action, end: End, counts: &mut Counts) {
        if !matches!(action, Action::Read(_)) {
            assert_eq!(end, End::Done(Ok(())));
        }
        match action {
            Action::Read(range) => {
                let most = self.size.min(range.start + Settings::READ_MAX);
                let range = range.start.min(self.size)..range.end.min(most);
                self.next = if range.is_empty() { 0 } else { range.end };
                let len = range.end - range.start;
                assert!(end == End::Read(self.expected.slice(range.clone()), len), "{range:?}");
                counts.reads += 1;
            }
            Action::Write(range) => {
                let symbol = Symbol { source: self.source, at: range.start };
                self.expected.put(range.clone(), symbol);
                self.size = self.size.max(range.end);
            }
            Action::Truncate(size) => {
                for (object, range) in self.layout.objects(*size..u64::MAX) {
                    world.punch(object, range);
                }
                self.expected.clear(*size..u64::MAX);
                self.size = *size;
            }
            Action::Flush if self.writer.is_none_or(|writer| writer == self.client) => {
                self.compare(world);
                counts.compared += 1;
            }
            Action::Flush | Action::Cancel => {}
        }
    }

    /// What was flushed is at the targets.
    fn compare(&self, world: &World) {
        let mut found = Image::default();
        for piece in self.layout.pieces(0..self.size) {
            let Place::Object { object, at } = piece.place else { panic!("it has objects") };
            let end = at + (piece.file.end - piece.file.start);
            found.copy(piece.file.start, &world.content(object, at..end), 0..end - at);
        }
        assert!(found == self.expected.slice(0..self.size), "the targets have what was flushed");
    }
}

fn run(seed: u64, most: u64, line: Line, settings: Settings) -> Counts {
    let mut rng = Rng::new(seed);
    let hosts = vec![Host::new(settings), Host::new(settings)];
    let mut world = World::new(line, seed, hosts);
    let stripe = [most >> 8, 64 * KIB, MIB][rng.below(3) as usize];
    let layouts = [(0..2).map(object), (2..4).map(object)];
    let layouts = layouts.map(|objects| Layout::plain(stripe, objects.collect()));
    let mut sources = 0;
    let mut files = layouts.map(|layout| {
        sources += 1;
        File::new(&mut world, layout, sources, most)
    });
    let mut counts = Counts { reads: 0, cancels: 0, compared: 0 };
    let mut left = 200;
    loop {
        let mut is_busy = false;
        for file in &mut files {
            let is_idle = matches!(file.state, State::Idle);
            left -= u32::from(is_idle && left > 0);
            is_busy |= file.step(&mut world, &mut rng, left > 0, &mut counts);
            (0..2).for_each(|host| world.drain(host));
        }
        let all_idle = files.iter().all(|file| matches!(file.state, State::Idle));
        if all_idle && left == 0 {
            break;
        }
        // Time passes while operations are under way, and now and then between them.
        if !is_busy || rng.one_in(3) {
            let end = if is_busy { world.now + Duration::from_millis(3) } else { Time::MAX };
            world.step(end);
        }
    }
    finish(&mut world, &files, settings);
    counts
}

/// Flushes and forgets all: nothing is left.
fn finish(world: &mut World, files: &[File], settings: Settings) {
    for file in files {
        for client in 0..2 {
            let (now, open) = (world.now, file.clients[client].1);
            let op = world.hosts[client].cache.handle_flush(now, open, 0..u64::MAX);
            while !world.hosts[client].ends.contains_key(&op) {
                assert!(world.step(Time::MAX));
            }
        }
        file.compare(world);
        for (client, (id, open, _)) in file.clients.iter().enumerate() {
            world.hosts[client].cache.close(*open);
            assert!(world.hosts[client].cache.forget_file(*id), "it is flushed");
        }
    }
    let end = world.now + Duration::from_secs(60);
    while world.step(end) {}
    for host in &world.hosts {
        assert_eq!(host.cache.gauges(), Gauges::default());
        assert!(host.peak <= settings.memory);
    }
}

#[test]
fn two_clients_see_one_file_whatever_they_do() {
    let line = Line {
        rate: 200_000_000,
        round_trip: Duration::from_millis(2),
        jitter: Duration::from_millis(4),
        commit: Some(Duration::from_millis(20)),
        space: u64::MAX,
        rpc_size: 64 * KIB,
        faults: 0,
    };
    let settings = Settings { memory: 64 * MIB, ..Settings::default() };
    let mut sum = Counts { reads: 0, cancels: 0, compared: 0 };
    for seed in 0..60 {
        // Ages from less than a round trip to more than the run, few or many grants, sooner or later on disk.
        let age_max = Duration::from_millis([1, 20, 5000][seed as usize % 3]);
        let dirty_max = [None, Some(100 * KIB)][seed as usize / 3 % 2];
        let space = [u64::MAX, 150 * KIB, 0][seed as usize / 6 % 3];
        let commit = line.commit.filter(|_| seed % 5 > 0);
        let settings = Settings { age_max, dirty_max, ..settings };
        // Files that fit into memory, or do not.
        let (most, rpc_size) =
            [(MIB, 64 * KIB), (MIB, MIB), (80 * MIB, MIB)][seed as usize / 4 % 3];
        let line = Line { space, commit, rpc_size, ..line };
        let counts = run(seed, most, line, settings);
        sum.reads += counts.reads;
        sum.cancels += counts.cancels;
        sum.compared += counts.compared;
    }
    assert!(sum.reads > 1000 && sum.cancels > 1000 && sum.compared > 100, "they did something");
}
