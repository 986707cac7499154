//! The description of a path: sites, links, nodes and loads.

use std::time::Duration;

use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Line, Tcp};
use fulmar_tune::model::Direction;

use crate::scenario::Credits;

/// A network of the user's own, its load, and how long it is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The names of the sites; each has a switch.
    pub sites: Vec<String>,
    /// The lines between sites.
    pub links: Vec<Link>,
    /// The nodes.
    pub groups: Vec<Group>,
    /// The loads; all begin at the same time.
    pub loads: Vec<Load>,
    /// The settings of every node.
    pub credits: Credits,
    /// The buffers of every router.
    pub buffers: RouterBuffers,
    /// Concurrent messages that a router forwards for one peer; 0 for its `peer_credits`.
    pub peer_buffer_credits: u32,
    /// The TCP settings of every host.
    pub tcp: Tcp,
    /// The seed of losses and jitter.
    pub seed: u64,
    /// How long the load runs before it is measured.
    pub warmup: Duration,
    /// How long it is measured.
    pub time: Duration,
}

/// A line between the switches of two sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The numbers of the sites.
    pub between: (usize, usize),
    /// Its properties, in each direction.
    pub line: Line,
}

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The number of nodes.
    pub count: u32,
    /// Whether they forward messages.
    pub router: bool,
    /// Their interfaces.
    pub ports: Vec<Port>,
}

/// An interface of each node of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The number of the site at whose switch it is.
    pub site: usize,
    /// The number of its LNet network: 1 is `tcp1`.
    pub net: u16,
    /// The cable to the switch.
    pub cable: Line,
}

/// RPCs from the nodes of one group to those of another: client *i* uses server *i* modulo their
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of the group of clients.
    pub from: usize,
    /// The number of the group of servers.
    pub to: usize,
    /// The RPCs.
    pub work: Work,
    /// RPCs of each client in flight.
    pub concurrency: u32,
}

/// A kind of RPC of LNet selftest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A small request and its reply.
    Ping,
    /// A transfer of so many bytes: a multiple of 8, at most 1 MiB.
    Bulk(Direction, u32),
}

impl Work {
    /// Returns the payload of an RPC, in bytes.
    pub fn size(self) -> u32 {
        match self {
            Self::Ping => 0,
            Self::Bulk(_, size) => size,
        }
    }

    /// Returns the name that `lst` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Bulk(direction, _) => direction.name(),
        }
    }
}

impl Plan {
    /// Returns a description of a load.
    pub fn name_of(&self, load: &Load) -> String {
        let name = |group: usize| self.groups[group].name.as_str();
        format!("{} {} -> {}", load.work.name(), name(load.from), name(load.to))
    }

    /// Returns a description of one direction of a link.
    pub fn name_of_link(&self, link: usize, backward: bool) -> String {
        let (one, other) = self.links[link].between;
        let (from, to) = if backward { (other, one) } else { (one, other) };
        format!("link {} -> {}", self.sites[from], self.sites[to])
    }

    /// Returns the number of all RPCs in flight.
    pub fn units(&self, load: &Load) -> u64 {
        u64::from(self.groups[load.from].count) * u64::from(load.concurrency)
    }
}
