//! Lanes and paths: the network that the options describe, with its queues.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{Rng, Time};

use crate::lane::{Lane, LaneCounters};
use crate::options::{Duplex, Line, Network, Options, Topology, Trunk};
use crate::{CableUse, HostId, Port};

/// The number of a lane.
pub(crate) type LaneId = u32;

/// The lanes that a stream passes, and those of its acknowledgements.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) forward: Box<[LaneId]>,
    pub(crate) backward: Box<[LaneId]>,
    /// The largest extra delay of a burst.
    pub(crate) jitter: Duration,
    /// The longest burst in bytes: a sixteenth of the bandwidth-delay product, and an eighth of the
    /// shortest queue.
    pub(crate) burst_max: u64,
}

/// Traffic of one direction of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkUse {
    /// The number of the trunk.
    pub trunk: usize,
    /// The source site.
    pub from: usize,
    /// The destination site.
    pub to: usize,
    /// Its counters.
    pub carried: LaneCounters,
}

/// The whole network.
#[derive(Debug)]
pub(crate) struct Fabric {
    lanes: Vec<Lane>,
    /// By host and interface.
    ports: Vec<Vec<Option<Plug>>>,
    /// For each site, its neighbours and the trunks to them.
    neighbours: Vec<BTreeMap<usize, Vec<TrunkDirection>>>,
    trunks: Vec<Trunk>,
    /// Number of connections between two sites that were distributed over their trunks.
    assigned: BTreeMap<(usize, usize), u64>,
}

/// A cable to an interface.
#[derive(Clone, Copy, Debug)]
struct Plug {
    site: usize,
    /// The lane from the host; `inward` is the lane to it, the same one for half duplex.
    out: LaneId,
    inward: LaneId,
}

/// One direction of a trunk, and its number.
#[derive(Clone, Copy, Debug)]
struct TrunkDirection {
    trunk: usize,
    lane: LaneId,
}

impl Fabric {
    /// Builds the network of a run.
    pub(crate) fn new(options: &Options, rng: &mut Rng) -> Self {
        let mut fabric = Self {
            lanes: Vec::new(),
            ports: Vec::new(),
            neighbours: Vec::new(),
            trunks: Vec::new(),
            assigned: BTreeMap::new(),
        };
        let Network { topology, .. } = &options.network;
        for host in (0..options.hosts()).map(HostId) {
            let cables = cables(topology, options.ports(host), rng);
            let plugs = cables.into_iter().map(|cable| {
                let (site, line) = cable?;
                let (out, inward) = fabric.lay(&line, rng);
                Some(Plug { site, out, inward })
            });
            let plugs = plugs.collect();
            fabric.ports.push(plugs);
        }
        if let Topology::Sites { sites, trunks } = topology {
            fabric.neighbours = vec![BTreeMap::new(); sites.len()];
            fabric.trunks = trunks.clone();
            for (number, trunk) in trunks.iter().enumerate() {
                fabric.join(number, trunk, rng);
            }
        }
        fabric
    }

    /// Adds the lanes of both directions of a line.
    fn lay(&mut self, line: &Line, rng: &mut Rng) -> (LaneId, LaneId) {
        let first = self.lanes.len() as LaneId;
        self.lanes.push(Lane::new(line.clone(), rng));
        if line.duplex == Duplex::Half {
            return (first, first);
        }
        self.lanes.push(Lane::new(line.clone(), rng));
        (first, first + 1)
    }

    fn join(&mut self, number: usize, trunk: &Trunk, rng: &mut Rng) {
        let (one, other) = trunk.between;
        let (forward, backward) = self.lay(&trunk.line, rng);
        for (from, to, lane) in [(one, other, forward), (other, one, backward)] {
            let between = TrunkDirection { trunk: number, lane };
            self.neighbours[from].entry(to).or_default().push(between);
        }
    }

    /// Returns the path of a new connection between two interfaces, if there is one.
    pub(crate) fn path(&mut self, from: Port, to: Port) -> Option<Path> {
        let (source, target) = (self.plug(from)?, self.plug(to)?);
        let (mut forward, mut backward) = (vec![source.out], vec![source.inward]);
        let mut site = source.site;
        for next in self.sites_between(source.site, target.site)? {
            let (out, inward) = self.assign(site, next)?;
            forward.push(out);
            backward.push(inward);
            site = next;
        }
        forward.push(target.inward);
        backward.push(target.out);
        backward.reverse();
        Some(self.measured(forward, backward))
    }

    fn measured(&self, forward: Vec<LaneId>, backward: Vec<LaneId>) -> Path {
        let lines = || forward.iter().map(|lane| &self.lane(*lane).line);
        let delay: Duration = lines().map(|line| line.delay).sum();
        let jitter = lines().map(|line| line.jitter).sum();
        let rate = lines().map(|line| line.rate_mbps).min().unwrap_or(1);
        let bytes_per_us = rate as f64 / 8.0;
        let burst_max = (bytes_per_us * 2.0 * delay.as_nanos() as f64 / 1e3 / PARTS) as u64;
        let queue = lines().map(|line| line.queue).min().unwrap_or(u64::MAX);
        let burst_max = burst_max.min(queue / QUEUE_PARTS);
        Path { forward: forward.into(), backward: backward.into(), jitter, burst_max }
    }

    /// Returns the same path in the other direction.
    pub(crate) fn reverse(&self, path: &Path) -> Path {
        self.measured(path.backward.to_vec(), path.forward.to_vec())
    }

    fn plug(&self, port: Port) -> Option<Plug> {
        *self.ports.get(port.host.0 as usize)?.get(usize::from(port.index))?
    }

    /// Returns the lane by which an interface sends.
    pub(crate) fn lane_of(&self, port: Port) -> Option<LaneId> {
        self.plug(port).map(|plug| plug.out)
    }

    pub(crate) fn lane(&self, lane: LaneId) -> &Lane {
        &self.lanes[lane as usize]
    }

    pub(crate) fn lane_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane as usize]
    }

    /// Returns the time that a small packet takes over these lanes, with their current queues.
    pub(crate) fn time_over(&self, lanes: &[LaneId], now: Time) -> Duration {
        let each = lanes.iter().map(|lane| {
            let lane = self.lane(*lane);
            lane.line.delay + lane.backlog(now)
        });
        each.sum()
    }

    /// Returns the sites after the first on the shortest path between two.
    fn sites_between(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut came_from = BTreeMap::from([(from, from)]);
        let mut open = VecDeque::from([from]);
        while let Some(site) = open.pop_front() {
            if site == to {
                break;
            }
            for next in self.neighbours.get(site)?.keys() {
                if !came_from.contains_key(next) {
                    came_from.insert(*next, site);
                    open.push_back(*next);
                }
            }
        }
        let mut sites = Vec::new();
        let mut site = to;
        while site != from {
            sites.push(site);
            site = *came_from.get(&site)?;
        }
        sites.reverse();
        Some(sites)
    }

    /// Assigns a connection to one of the trunks between two sites.
    fn assign(&mut self, from: usize, to: usize) -> Option<(LaneId, LaneId)> {
        let assigned = self.assigned.entry((from.min(to), from.max(to))).or_default();
        let forward = self.neighbours[from].get(&to)?;
        let turn = (u128::from(assigned.wrapping_mul(GOLDEN)) * forward.len() as u128) >> 64;
        let chosen = *forward.get(turn as usize)?;
        *assigned += 1;
        let backward = self.neighbours[to].get(&from)?.iter().find(|b| b.trunk == chosen.trunk)?;
        Some((chosen.lane, backward.lane))
    }

    /// Returns the traffic of the cables of a host.
    pub(crate) fn cables(&self, host: HostId) -> impl Iterator<Item = CableUse> {
        let plugs = self.ports.get(host.0 as usize).into_iter().flatten().flatten();
        plugs.map(move |plug| CableUse {
            host,
            rate_mbps: self.lane(plug.out).line.rate_mbps,
            sent: self.lane(plug.out).carried.bytes,
            received: self.lane(plug.inward).carried.bytes,
        })
    }

    /// Returns the traffic of each direction of each trunk; both are equal for half duplex.
    pub(crate) fn trunks(&self) -> Vec<TrunkUse> {
        let mut all = Vec::new();
        for (number, Trunk { between: (one, other), .. }) in self.trunks.iter().enumerate() {
            for (from, to) in [(*one, *other), (*other, *one)] {
                let found = self.neighbours[from].get(&to);
                let lane = found.and_then(|all| all.iter().find(|b| b.trunk == number));
                let carried = lane.map_or(LaneCounters::default(), |b| self.lane(b.lane).carried);
                all.push(TrunkUse { trunk: number, from, to, carried });
            }
        }
        all
    }
}

/// Returns the site and the cable of each interface of a host.
fn cables(topology: &Topology, ports: Vec<Port>, rng: &mut Rng) -> Vec<Option<(usize, Line)>> {
    match topology {
        Topology::Mesh { cable, delay_min, delay_max } => {
            let half = |delay: &Duration| delay.as_nanos() as u64 / 2;
            let delay = Duration::from_nanos(rng.between(half(delay_min), half(delay_max)));
            // The cables at both ends of a path each add half of the jitter.
            let line = Line { delay, jitter: cable.jitter / 2, ..cable.clone() };
            vec![Some((0, line)); ports.len()]
        }
        Topology::Sites { sites, .. } => {
            let cable = |port| {
                let mut all = sites.iter().enumerate();
                all.find_map(|(number, site)| Some((number, site.cable(port)?.clone())))
            };
            ports.into_iter().map(cable).collect()
        }
    }
}

/// The longest burst as a fraction of the bandwidth-delay product, and of a queue.
const PARTS: f64 = 16.0;
const QUEUE_PARTS: u64 = 8;
/// Its multiples are spread evenly, and so is every second or third of them: the types of
/// connections alternate, and the connections of each type must be spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Rails, Site};

    fn port(host: u32, index: u8) -> Port {
        Port { host: HostId(host), index }
    }

    fn fabric(options: &Options) -> Fabric {
        Fabric::new(options, &mut Rng::new(1))
    }

    /// Two sites, two trunks of 25 ms between them, and a third site behind the second.
    fn sites() -> Options {
        let cable = Line::new(10_000, Duration::from_micros(10));
        let ocean = Line::new(50_000, Duration::from_millis(25));
        let sites = vec![
            Site::of(0..2, cable.clone()).and(1..2, 1, cable.clone()),
            Site::of(2..3, cable.clone()),
            Site::of(3..4, cable),
        ];
        let trunk = |one, other| Trunk { between: (one, other), line: ocean.clone() };
        let trunks = vec![trunk(0, 1), trunk(1, 0), trunk(1, 2)];
        let rails = Rails::new(vec![vec![0], vec![0, 0], vec![0], vec![0]], &[]);
        Options { network: Network::sites(sites, trunks), ..Options::plain_on(rails) }
    }

    #[test]
    fn connections_between_two_sites_are_spread_evenly_over_their_trunks() {
        let mut fabric = fabric(&sites());
        let paths: Vec<Path> =
            (0..100).map(|_| fabric.path(port(0, 0), port(2, 0)).unwrap()).collect();
        let all = &paths;
        assert!(paths.iter().all(|path| path.forward.len() == 3 && path.backward.len() == 3));
        let delay = |path: &Path| fabric.time_over(&path.forward, Time::ZERO);
        assert!(paths.iter().all(|path| delay(path) == Duration::from_micros(25_020)));
        let of = |paths: &mut dyn Iterator<Item = &Path>| {
            paths.filter(|path| path.forward[1] == all[0].forward[1]).count()
        };
        assert!((45..=55).contains(&of(&mut all.iter())));
        assert!((22..=28).contains(&of(&mut all.iter().step_by(2))), "of one type");
        let backward = fabric.reverse(&paths[0]);
        assert_eq!(
            (&backward.forward, &backward.backward),
            (&paths[0].backward, &paths[0].forward)
        );
        // 10 Gbit/s for 50 ms are 62.5 MB.
        assert!((3_900_000..=3_920_000).contains(&paths[0].burst_max), "{}", paths[0].burst_max);
    }

    #[test]
    fn a_path_is_the_shortest_one_and_may_not_exist() {
        let mut options = sites();
        let mut all = fabric(&options);
        assert_eq!(all.path(port(1, 1), port(3, 0)).unwrap().forward.len(), 4);
        assert_eq!(all.path(port(0, 0), port(1, 1)).unwrap().forward.len(), 2);
        if let Topology::Sites { trunks, .. } = &mut options.network.topology {
            trunks.pop();
        }
        assert!(fabric(&options).path(port(0, 0), port(3, 0)).is_none());
        assert!(fabric(&options).path(port(0, 1), port(2, 0)).is_none());
    }

    #[test]
    fn the_delay_in_a_mesh_is_the_sum_of_both_hosts_delays() {
        let mut fabric = fabric(&Options::plain(3));
        let path = fabric.path(port(0, 0), port(2, 0)).unwrap();
        assert_eq!(fabric.time_over(&path.forward, Time::ZERO), Duration::from_micros(50));
        assert_eq!(path.forward.len(), 2);
    }
}
