//! Nodes serve each other while hostile hosts act: no message between nodes goes to a hostile host,
//! no node takes a hostile host for a node, and every operation ends in time.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lnet::views::Peer;
use fulmar_lnet::{Event, EventKind};
use fulmar_lnet_wire::Header;

use super::ledger::{Ledger, Operation};
use super::rails::operation_of;
use super::{Verdict, require};
use crate::HostId;
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;

const CHECKER: &str = "hostile";

/// The checker of runs with hostile hosts.
#[derive(Debug)]
pub(crate) struct Hostile {
    /// In what time an operation must end, if there are no other faults.
    time_to_serve: Option<Duration>,
    /// Whether there are routers.
    is_routed: bool,
}

impl Hostile {
    pub(super) fn new(options: &Options) -> Option<Self> {
        let time_to_serve = options.time_to_serve();
        let is_routed = options.rails.as_ref().is_some_and(|rails| !rails.routers.is_empty());
        options.hostile.is_some().then_some(Self { time_to_serve, is_routed })
    }

    pub(super) fn observe(
        &self,
        world: &World,
        ledger: &Ledger,
        incarnation: u32,
        signal: &Signal,
    ) -> Verdict {
        match signal {
            Signal::Wrote { host, peer, header, .. } => {
                goes_to_its_target(world, ledger, (*host, *peer), header)
            }
            Signal::Event { host, event } => {
                senders_are_who_they_are(world, ledger, *host, event)?;
                let number = ledger.own_operation(*host, incarnation, event);
                let number = number.filter(|_| event.unlinked);
                number.map_or(Ok(()), |number| self.ends_in_time(world, ledger, number))
            }
            _ => Ok(()),
        }
    }

    fn ends_in_time(&self, world: &World, ledger: &Ledger, number: usize) -> Verdict {
        let operation = &ledger.operations[number];
        let Some(most) = self.time_to_serve.filter(|_| waits_for_nodes_only(operation)) else {
            return Ok(());
        };
        let most = if self.is_routed && waits_behind_its_own(ledger, operation) {
            most + GIVE_UP
        } else {
            most
        };
        let took = world.now().since(operation.started);
        require(took <= most, CHECKER, || {
            format!("operation {number} took {took:?} of {most:?}: {operation:?}")
        })
    }

    /// Checks a node after all notifications.
    pub(super) fn settled(&self, world: &World, host: HostId, peers: &[Peer]) -> Verdict {
        for peer in peers {
            // A hostile host may list any NID, but no node lists a NID of another.
            let owner = world.host_of(peer.primary).filter(|owner| !world.is_hostile(*owner));
            let own = |nid| owner.is_none() || world.host_of(nid) == owner;
            require(peer.nis.iter().all(|ni| own(ni.nid)), CHECKER, || {
                let nids: Vec<_> = peer.nis.iter().map(|ni| ni.nid).collect();
                format!("{host} takes {nids:?} for one node, {}", peer.primary)
            })?;
        }
        tables_are_bounded(world, host, peers)
    }
}

/// Returns whether the end of an operation depends on nodes only, and on no timeout.
fn waits_for_nodes_only(operation: &Operation) -> bool {
    use super::ledger::{Action, Expect};
    let silent = operation.action == Action::Put { ack: false };
    operation.honest && operation.expect != Expect::Anything && (operation.answer || silent)
}

/// Returns whether a node of the operation sends to hostile hosts too. A router keeps few messages of
/// one sender, so what the sender has for others waits there until the router gives these up.
fn waits_behind_its_own(ledger: &Ledger, operation: &Operation) -> bool {
    let nodes = [operation.md.host, operation.target];
    let mut others = ledger.operations.iter().filter(|other| !other.honest);
    others
        .any(|other| nodes.contains(&other.md.host) && other.started + GIVE_UP >= operation.started)
}

/// No message for a node is written to a hostile host, and each operation has a NID of its target.
fn goes_to_its_target(
    world: &World,
    ledger: &Ledger,
    (host, peer): (HostId, HostId),
    header: &Header,
) -> Verdict {
    let target = world.host_of(header.target);
    let of_node = target.is_some_and(|target| !world.is_hostile(target));
    require(!of_node || !world.is_hostile(peer), CHECKER, || {
        format!("{host} gives a message for a node to {peer}, which is hostile: {header:?}")
    })?;
    if world.host_of(header.source) != Some(host) {
        return Ok(());
    }
    // A hostile host may list NIDs of nodes, and then gets its own messages there.
    let wanted = operation_of(ledger, header).map(|number| &ledger.operations[number]);
    let wanted = wanted.filter(|operation| operation.honest).map(|operation| operation.target);
    require(wanted.is_none_or(|wanted| target == Some(wanted)), CHECKER, || {
        format!("{host} sends an operation for {wanted:?} to {target:?}: {header:?}")
    })
}

/// The initiator of an event is the node whose operation it is, or else a hostile host.
fn senders_are_who_they_are(
    world: &World,
    ledger: &Ledger,
    host: HostId,
    event: &Event,
) -> Verdict {
    let number = match event.kind {
        EventKind::Put => ledger.put_of(event.header_data),
        EventKind::Get => ledger.operation_of(event.match_bits),
        _ => return Ok(()),
    };
    let [initiator, source] = [event.initiator, event.source].map(|id| world.host_of(id.nid));
    let own = number.map(|number| ledger.operations[number].md.host);
    let is_right = |claimed: Option<HostId>| match own {
        Some(own) => claimed == Some(own) || event.source.nid.is_loopback(),
        None => claimed.is_some_and(|claimed| world.is_hostile(claimed)),
    };
    // Until a NID that a hostile host lists has answered a ping, it counts as that host's.
    let listed = world.is_listed_by_hostile(host, event.source.nid);
    require((is_right(initiator) || listed) && is_right(source), CHECKER, || {
        format!("{host} believes that a message of {own:?} is from {initiator:?}: {event:?}")
    })
}

/// What a node keeps for its peers stays within the bounds of SECURITY.md.
fn tables_are_bounded(world: &World, host: HostId, peers: &[Peer]) -> Verdict {
    let Some(node) = world.node(host) else { return Ok(()) };
    let mut conns: BTreeMap<_, usize> = BTreeMap::new();
    for conn in node.socklnd().conns() {
        *conns.entry((conn.ni, conn.peer, conn.kind.0)).or_default() += 1;
    }
    let most = conns.values().max().copied().unwrap_or(0);
    require(most <= CONNS_OF_KIND_MAX, CHECKER, || {
        format!("{host} has {most} connections of one kind with one peer")
    })?;
    let nids: usize = peers.iter().map(|peer| peer.nis.len()).sum();
    require(nids <= PEER_NIS_MAX, CHECKER, || format!("{host} knows {nids} NIDs"))
}

/// How long a node tries to connect to a peer that does not answer its hello.
const GIVE_UP: Duration = Duration::from_secs(50);
/// The bounds of SECURITY.md.
const CONNS_OF_KIND_MAX: usize = 127;
const PEER_NIS_MAX: usize = 65_536;
