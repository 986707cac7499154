//! Clusters in which some hosts are hostile.

use std::fmt;
use std::time::Duration;

use fulmar_base::Rng;
use fulmar_lnet::RouterBuffers;

use super::network::{Line, Network, Topology};
use super::{Faults, Options, pick};
use crate::HostId;

/// The hostile hosts of a run. Their numbers follow those of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostile {
    /// Number of hostile hosts.
    pub hosts: u32,
    /// Number of actions of each.
    pub acts: u32,
    /// Whether they keep their connections at the end, without reading or writing; otherwise they
    /// close them.
    pub stays: bool,
}

impl Options {
    /// Draws the options of a run with hostile hosts. Half of the runs have no other faults: in these
    /// the operations between nodes must succeed in time.
    pub fn draw_hostile(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ HOSTILE_STREAM);
        let rng = &mut rng;
        let mut options = match rng.below(4) {
            0 => Self::draw_rails(seed),
            1 => Self::draw_routed(seed),
            _ => Self::draw(seed),
        };
        if rng.one_in(2) {
            options.faults = Faults::default();
        }
        if options.faults.is_none() {
            options.old_nodes = 0;
            options.network = even_network(rng);
        }
        options.lateness = LATENESS;
        options.operations = options.operations.min(OPERATIONS_MAX);
        let hosts = rng.between(1, 3) as u32;
        if let Some(rails) = &mut options.rails {
            let routed = !rails.routers.is_empty();
            for _ in 0..hosts {
                rails.interfaces.push(vec![if routed { rng.below(2) as u16 } else { 0 }]);
            }
            // A previous hop may hold as many buffers as it has credits, in messages that it does not
            // complete. A router has more than that.
            rails.routing.buffers = RouterBuffers { tiny: 512, small: 512, large: 64 };
        }
        let acts = rng.between(20, 150) as u32;
        Self { hostile: Some(Hostile { hosts, acts, stays: rng.one_in(2) }), ..options }
    }

    /// Returns the number of nodes and hostile hosts.
    pub(crate) fn hosts(&self) -> u32 {
        self.nodes + self.hostile.as_ref().map_or(0, |hostile| hostile.hosts)
    }

    /// Returns whether a host is hostile.
    pub(crate) fn is_hostile(&self, host: HostId) -> bool {
        (self.nodes..self.hosts()).contains(&host.0)
    }

    /// Returns the hostile hosts.
    pub(crate) fn hostile_hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (self.nodes..self.hosts()).map(HostId)
    }

    /// Returns in what time an operation between two nodes ends in a run with hostile hosts and
    /// without other faults; `None` for other runs.
    ///
    /// Before the operation are a connection, the discovery of the peer in both directions, in which
    /// the ACK of a push may wait for a second for a ping, and at most all other operations of the
    /// run. A window carries the largest message in a few round trips.
    pub(crate) fn time_to_serve(&self) -> Option<Duration> {
        self.hostile.as_ref().filter(|_| self.faults.is_none())?;
        let windows = fulmar_lnet_wire::MTU / WINDOW_MIN as u32 + 1;
        let round_trips = SETUP_ROUND_TRIPS + self.operations * windows;
        let lateness = self.lateness * self.operations;
        Some(2 * CLAIM_WAIT + ROUND_TRIP_MAX * round_trips + lateness)
    }
}

/// Draws a network without losses, in which waits of seconds have other causes than TCP.
fn even_network(rng: &mut Rng) -> Network {
    let delay_max = DELAY_MAX / *pick(rng, &[1, 10, 1000]);
    let line = Line { jitter: delay_max / *pick(rng, &[1, 100]), ..Line::new(10_000, delay_max) };
    let mut network = Network::draw(rng, true);
    network.topology = Topology::Mesh { cable: line, delay_min: delay_max / 4, delay_max };
    network.tcp = network.tcp.with_buffers(*pick(rng, &[WINDOW_MIN, 8 << 20]));
    network
}

impl fmt::Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, acts, stays } = self;
        write!(f, "{hosts} hosts, {acts} actions each, stays {stays}")
    }
}

/// Longest delay before an application posts a request buffer: hostile messages use them up.
const LATENESS: Duration = Duration::from_millis(10);
const OPERATIONS_MAX: u32 = 60;
/// How long the ACK of a push waits for the ping that confirms a claim.
const CLAIM_WAIT: Duration = Duration::from_secs(1);
/// Dialling, hello, ping and push by each side, and the growth of a TCP window.
const SETUP_ROUND_TRIPS: u32 = 30;
const DELAY_MAX: Duration = Duration::from_millis(5);
/// Twice the delay and the jitter of the two cables, through two routers.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(3 * 2 * 2 * 5);
const WINDOW_MIN: u64 = 1 << 20;
/// Gives these options a random stream of their own.
const HOSTILE_STREAM: u64 = 0x686f_7374_696c_6500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_hostile_hosts_on_every_kind_of_network() {
        let all: Vec<Options> = (0..60).map(Options::draw_hostile).collect();
        let routed =
            |options: &&Options| options.rails.as_ref().is_some_and(|r| !r.routers.is_empty());
        assert!(all.iter().any(|options| options.rails.is_none()));
        assert!(all.iter().filter(routed).any(|options| options.time_to_serve().is_some()));
        assert!(all.iter().filter(routed).any(|options| options.time_to_serve().is_none()));
        for options in &all {
            let hostile = options.hostile.as_ref().expect("drawn");
            assert_eq!(options.hosts(), options.nodes + hostile.hosts);
            assert!(!options.is_hostile(HostId(0)) && options.is_hostile(HostId(options.nodes)));
            assert!(options.hostile_hosts().all(|host| !options.ports(host).is_empty()));
        }
    }
}
