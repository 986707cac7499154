//! RPCs that fail, evictions, interrupts, changes of settings: whatever happens, each operation ends once and
//! nothing is left.

use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_data::stripes::{Layout, Target};
use fulmar_data::{FileId, Gauges, LockKey, OpId, OpenId, Settings};

use crate::host::{End, Host};
use crate::world::{Line, MIB, World, object};

struct Run {
    world: World,
    rng: Rng,
    file: FileId,
    open: OpenId,
    /// What has not ended.
    ops: Vec<OpId>,
    failed: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let line = Line {
            rate: 100_000_000,
            round_trip: Duration::from_millis(2),
            jitter: Duration::from_millis(3),
            commit: Some(Duration::from_millis(20)).filter(|_| !seed.is_multiple_of(3)),
            space: if seed.is_multiple_of(4) { 100_000 } else { u64::MAX },
            rpc_size: MIB / 4,
            faults: 1 + seed % 7,
        };
        let settings = Settings { memory: Settings::MEMORY_MIN, ..Settings::default() };
        let mut world = World::new(line, seed, vec![Host::new(settings)]);
        let layout = Layout::plain(MIB / 8, (0..4).map(object).collect());
        let file = world.hosts[0].cache.add_file(layout, 20 * MIB);
        let open = world.hosts[0].cache.open(file);
        let mut run = Self { world, rng: Rng::new(seed), file, open, ops: Vec::new(), failed: 0 };
        (0..4).for_each(|ost| run.lock(ost));
        run
    }

    fn lock(&mut self, ost: u32) {
        let cache = &mut self.world.hosts[0].cache;
        cache.handle_lock(object(ost), LockKey(1), 0..u64::MAX, true);
    }

    fn act(&mut self) {
        let start = self.rng.below(20 * MIB);
        let range = start..start + self.rng.below(3 * MIB) + 1;
        let (now, host) = (self.world.now, &mut self.world.hosts[0]);
        let ost = self.rng.below(4) as u32;
        match self.rng.below(20) {
            0..6 => self.ops.push(host.cache.handle_read(now, self.open, range)),
            6..12 => self.ops.push(host.write(now, self.open, range, 1)),
            12 => self.ops.push(host.cache.handle_flush(now, self.open, range)),
            13 => self.ops.push(host.cache.handle_punch(now, self.file, range)),
            14 => {
                let discard = self.rng.one_in(2);
                self.ops.push(host.cache.handle_cancel(now, object(ost), LockKey(1), discard));
                self.lock(ost);
            }
            15 => {
                host.cache.handle_evicted(now, Target::Ost(ost));
                self.world.connect(0, Target::Ost(ost));
                self.lock(ost);
            }
            16 => {
                let rpcs_in_flight = Some(self.rng.below(5) as u32).filter(|&rpcs| rpcs > 1);
                let dirty_max = Some(self.rng.below(MIB)).filter(|&bytes| bytes > 4096);
                let memory = Settings::MEMORY_MIN + self.rng.below(MIB);
                let settings =
                    Settings { memory, rpcs_in_flight, dirty_max, ..Settings::default() };
                host.cache.configure(now, settings);
            }
            17 => host.cache.set_synchronous(self.file, self.rng.one_in(3)),
            _ => {
                let op = self.ops.get(self.rng.below(self.ops.len() as u64) as usize);
                let _ = op.map(|op| host.cache.handle_interrupt(now, *op));
            }
        }
        self.world.drain(0);
    }

    fn finish(&mut self) {
        while !self.ops.is_empty() {
            assert!(self.world.step(Time::MAX), "{:?} end", self.ops);
            self.collect();
        }
    }

    /// Collects the ends of operations. Each is one that was not collected before.
    fn collect(&mut self) {
        for (op, end) in std::mem::take(&mut self.world.hosts[0].ends) {
            let at =
                self.ops.iter().position(|other| *other == op).expect("an operation ends once");
            self.ops.swap_remove(at);
            self.failed += u64::from(end == End::Done(Err(Errno::EIO)));
        }
    }
}

#[test]
fn each_operation_ends_once_whatever_fails() {
    let mut failed = 0;
    for seed in 0..40 {
        let mut run = Run::new(seed);
        for _ in 0..150 {
            run.act();
            let end = run.world.now + Duration::from_micros(run.rng.below(2000));
            while run.world.step(end) {}
            run.collect();
        }
        run.finish();
        // What was written while an earlier flush was under way.
        let (now, open) = (run.world.now, run.open);
        run.ops.push(run.world.hosts[0].cache.handle_flush(now, open, 0..u64::MAX));
        run.finish();
        let cache = &mut run.world.hosts[0].cache;
        cache.close(run.open);
        assert!(cache.forget_file(run.file), "nothing is dirty");
        let end = run.world.now + Duration::from_secs(30);
        while run.world.step(end) {}
        let host = &run.world.hosts[0];
        assert_eq!(host.cache.gauges(), Gauges::default());
        assert!(host.peak <= Settings::MEMORY_MIN + MIB);
        failed += run.failed;
    }
    assert!(failed > 100, "{failed} operations have failed");
}
