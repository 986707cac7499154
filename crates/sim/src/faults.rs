//! The faults of a run, and when they occur.

use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_lnet::Forwarding;

use crate::options::{Options, RailFaults, Rails, pick};
use crate::queue::Queue;
use crate::world::World;
use crate::{HostId, Port};

/// A fault, or its end.
#[derive(Clone, Debug)]
enum Fault {
    Reset(HostId, HostId, bool),
    Crash(HostId, bool),
    Restart(HostId),
    Partition(HostId, HostId),
    Heal(HostId, HostId),
    Pause(HostId, Duration),
    SlowReader(HostId, Option<Duration>),
    Disconnect(HostId, HostId),
    Drift(HostId, i32),
    Cut(Port, bool),
    Restore(Port),
    Remove(Port),
    Add(Port),
    Switch(Port, bool),
    Forwarding(HostId, Forwarding),
}

/// The faults that have not occurred yet.
#[derive(Debug, Default)]
pub struct Schedule {
    queue: Queue<Fault>,
}

impl Schedule {
    /// Draws the faults of a run.
    pub fn new(options: &Options) -> Self {
        let mut draw = Draw {
            rng: Rng::new(options.seed ^ FAULT_STREAM),
            nodes: options.nodes.into(),
            bunches: options.bunch_times(),
            longest: options.faults.longest,
        };
        let mut queue = Queue::default();
        let faults = &options.faults;
        for _ in 0..faults.resets {
            let (one, other) = draw.pair();
            queue.push(draw.time(), Fault::Reset(one, other, draw.rng.one_in(2)));
        }
        for _ in 0..faults.crashes {
            let (at, host) = (draw.time(), draw.host());
            queue.push(at, Fault::Crash(host, draw.rng.one_in(2)));
            queue.push(at + draw.duration(), Fault::Restart(host));
        }
        for _ in 0..faults.partitions {
            let (at, (one, other)) = (draw.time(), draw.pair());
            queue.push(at, Fault::Partition(one, other));
            queue.push(at + draw.duration(), Fault::Heal(one, other));
        }
        for _ in 0..faults.pauses {
            let (at, host) = (draw.time(), draw.host());
            queue.push(at, Fault::Pause(host, draw.duration()));
        }
        for _ in 0..faults.slow_readers {
            let (at, host) = (draw.time(), draw.host());
            let pause = Duration::from_micros(draw.rng.between(1, 100_000));
            queue.push(at, Fault::SlowReader(host, Some(pause)));
            queue.push(at + draw.duration(), Fault::SlowReader(host, None));
        }
        for _ in 0..faults.disconnects {
            let (one, other) = draw.pair();
            queue.push(draw.time(), Fault::Disconnect(one, other));
        }
        for _ in 0..faults.clocks {
            let ppm = draw.rng.between(0, 2 * DRIFT_MAX) as i32 - DRIFT_MAX as i32;
            queue.push(draw.time(), Fault::Drift(draw.host(), ppm));
        }
        if let Some(rails) = &options.rails {
            draw.rails(&mut queue, &faults.rails, rails);
        }
        // Faults after the safety phase are dropped.
        Self { queue }
    }

    /// Returns the time of the next fault.
    pub fn next(&self) -> Option<Time> {
        self.queue.next()
    }

    /// Injects the next fault. Returns the host whose node has started, if any.
    pub fn inject(&mut self, world: &mut World) -> Option<HostId> {
        match self.queue.pop()?.1 {
            Fault::Reset(one, other, lossy) => world.reset(one, other, lossy),
            Fault::Crash(host, silently) => world.crash(host, silently),
            Fault::Restart(host) if world.node(host).is_none() => {
                world.restart(host);
                return Some(host);
            }
            Fault::Restart(_) => {}
            Fault::Partition(one, other) => world.partition(one, other),
            Fault::Heal(one, other) => world.heal(one, other),
            Fault::Pause(host, duration) => world.pause(host, duration),
            Fault::SlowReader(host, pause) => world.slow_reader(host, pause),
            Fault::Disconnect(one, other) => world.disconnect(one, other),
            Fault::Drift(host, ppm) => world.drift(host, ppm),
            Fault::Cut(port, reported) => world.cut_link(port, reported),
            Fault::Restore(port) => world.restore_link(port),
            Fault::Remove(port) => world.remove_ni(port),
            Fault::Add(port) => world.add_ni(port),
            Fault::Switch(port, enabled) => world.switch_ni(port, enabled),
            Fault::Forwarding(host, word) => drop(world.set_forwarding(host, word)),
        }
        None
    }
}

/// Returns the fault that ends a fault of an interface.
type Ending = fn(Port) -> Fault;

struct Draw {
    rng: Rng,
    nodes: u64,
    bunches: Vec<Time>,
    longest: Duration,
}

impl Draw {
    /// Draws the faults of interfaces and routers.
    fn rails(&mut self, queue: &mut Queue<Fault>, faults: &RailFaults, rails: &Rails) {
        let ports: Vec<Port> =
            (0..self.nodes as u32).flat_map(|host| rails.ports(HostId(host))).collect();
        let mut on_ports = |draw: &mut Self, count, begin: &dyn Fn(Port) -> Fault, end: Ending| {
            for _ in 0..count {
                let (at, port) = (draw.time(), *pick(&mut draw.rng, &ports));
                queue.push(at, begin(port));
                queue.push(at + draw.duration(), end(port));
            }
        };
        on_ports(self, faults.cuts, &|port| Fault::Cut(port, true), Fault::Restore);
        on_ports(self, faults.silent_cuts, &|port| Fault::Cut(port, false), Fault::Restore);
        on_ports(self, faults.removals, &Fault::Remove, Fault::Add);
        let put_back = |port| Fault::Switch(port, true);
        on_ports(self, faults.switches, &|port| Fault::Switch(port, false), put_back);
        if rails.routers.is_empty() {
            return;
        }
        for _ in 0..faults.router_crashes {
            let (at, host) = (self.time(), *pick(&mut self.rng, &rails.routers));
            queue.push(at, Fault::Crash(host, self.rng.one_in(2)));
            queue.push(at + self.duration(), Fault::Restart(host));
        }
        for (count, word) in
            [(faults.stops, Forwarding::Disable), (faults.drains, Forwarding::Drain)]
        {
            for _ in 0..count {
                let (at, host) = (self.time(), *pick(&mut self.rng, &rails.routers));
                queue.push(at, Fault::Forwarding(host, word));
                queue.push(at + self.duration(), Fault::Forwarding(host, Forwarding::Enable));
            }
        }
    }

    fn host(&mut self) -> HostId {
        HostId(self.rng.below(self.nodes) as u32)
    }

    fn pair(&mut self) -> (HostId, HostId) {
        let (one, other) = (self.rng.below(self.nodes), self.rng.below(self.nodes - 1));
        (HostId(one as u32), HostId((other + u64::from(other >= one)) as u32))
    }

    fn time(&mut self) -> Time {
        // Most faults of idle nodes find no bugs, so faults follow the operations closely.
        let late = *pick(&mut self.rng, &[1_000_000, 100_000_000, 2_000_000_000]);
        *pick(&mut self.rng, &self.bunches) + Duration::from_nanos(self.rng.below(late))
    }

    fn duration(&mut self) -> Duration {
        Duration::from_nanos(self.rng.below(self.longest.as_nanos() as u64))
    }
}

/// The largest drift of a clock, in parts per million.
const DRIFT_MAX: u64 = 1_000;
/// Gives the faults a random stream of their own.
const FAULT_STREAM: u64 = 0x6661_756c_7473_0000;
