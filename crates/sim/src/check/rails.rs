//! Checks announced interfaces, health and the choice of interfaces: invariants 27, 32 and 33 of
//! lnet-behaviour §17.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lnet::views::Peer;
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Body, Header, Nid, RESERVED_PORTAL};

use super::ledger::Ledger;
use super::{Verdict, require};
use crate::HostId;
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;

const CHECKER: &str = "rails";
/// The maximum health.
const HEALTH_MAX: u32 = 1000;

/// What each node announced, and the sources that it used.
#[derive(Debug)]
pub(crate) struct Rails {
    /// The interfaces that a node announced with each sequence number.
    announced: BTreeMap<(HostId, u32), Vec<Nid>>,
    /// The source NID that each node uses for a target that is not multi-rail.
    sources: BTreeMap<(HostId, Nid), Nid>,
    /// No interface is removed.
    constant: bool,
    insensitive: bool,
    /// There are no faults, so no pair of NIDs fails and is replaced by another.
    calm: bool,
}

impl Rails {
    pub(super) fn new(options: &Options) -> Self {
        let insensitive =
            options.rails.as_ref().is_some_and(|rails| rails.globals.health_sensitivity == 0);
        let constant = options.faults.rails.removals == 0;
        let calm = options.faults.is_none();
        Self { announced: BTreeMap::new(), sources: BTreeMap::new(), constant, insensitive, calm }
    }

    pub(super) fn observe(&mut self, world: &World, ledger: &Ledger, signal: &Signal) -> Verdict {
        match signal {
            Signal::Wrote { host, header, info, .. } => {
                if world.host_of(header.source) != Some(*host) {
                    return Ok(());
                }
                if let Some(info) = info {
                    self.a_change_has_a_new_sequence(*host, info)?;
                }
                if self.calm {
                    given_pairs_are_kept(*host, ledger, header)?;
                }
                self.one_source_for_peers_without_multi_rail(world, *host, ledger, header)
            }
            Signal::Crashed { host } => {
                self.announced.retain(|(one, _), _| one != host);
                self.sources.retain(|(one, _), _| one != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// 27: one sequence number always has the same interfaces. A small buffer may truncate the
    /// list, and a change of status keeps the number.
    fn a_change_has_a_new_sequence(&mut self, host: HostId, info: &PingInfo) -> Verdict {
        let now: Vec<Nid> = info.entries.iter().map(|entry| entry.nid).collect();
        let before = self.announced.entry((host, info.sequence)).or_insert_with(|| now.clone());
        let common = before.len().min(now.len());
        let same = before[..common] == now[..common];
        let verdict = require(same, CHECKER, || {
            format!(
                "{host} announces {now:?} with the sequence number of {before:?}: {}",
                info.sequence
            )
        });
        if now.len() > before.len() {
            *before = now;
        }
        verdict
    }

    /// 33: a peer that is not multi-rail receives all requests from one NID.
    fn one_source_for_peers_without_multi_rail(
        &mut self,
        world: &World,
        host: HostId,
        ledger: &Ledger,
        header: &Header,
    ) -> Verdict {
        let given = operation_of(ledger, header).and_then(|n| ledger.operations[n].pair);
        // Without discovery no peer is multi-rail.
        let discovers = world.node(host).is_some_and(|node| node.lnet().globals().discovery);
        if discovers || !self.constant || !matches!(given, Some((None, _))) {
            return Ok(());
        }
        let source = *self.sources.entry((host, header.target)).or_insert(header.source);
        require(source == header.source, CHECKER, || {
            format!("{host} used {source} for {}, and now {}", header.target, header.source)
        })
    }

    /// 32: health stays within its limits, and does not change without sensitivity.
    pub(super) fn health_is_bounded(&self, world: &World, host: HostId, peers: &[Peer]) -> Verdict {
        let Some(lnet) = world.node(host).map(|node| node.lnet()) else { return Ok(()) };
        let own = lnet.nis().into_iter().map(|ni| (ni.nid, ni.health.value));
        let peers = peers.iter().flat_map(|peer| &peer.nis);
        for (nid, health) in own.chain(peers.map(|ni| (ni.nid, ni.health.value))) {
            let bounded = health <= HEALTH_MAX && (!self.insensitive || health == HEALTH_MAX);
            require(bounded, CHECKER, || format!("{host}: the health of {nid} is {health}"))?;
        }
        Ok(())
    }
}

/// 33: a message with a given source goes from exactly that NID to exactly the given target.
fn given_pairs_are_kept(host: HostId, ledger: &Ledger, header: &Header) -> Verdict {
    let Some(number) = operation_of(ledger, header) else { return Ok(()) };
    let Some((Some(source), target)) = ledger.operations[number].pair else { return Ok(()) };
    let pair = (header.source, header.target);
    require(pair == (source, target), CHECKER, || {
        format!("{host}: operation {number} should go from {source} to {target}, but goes {pair:?}")
    })
}

/// Returns the operation of a request.
pub(super) fn operation_of(ledger: &Ledger, header: &Header) -> Option<usize> {
    match header.body {
        Body::Put { portal: RESERVED_PORTAL, .. } | Body::Get { portal: RESERVED_PORTAL, .. } => {
            None
        }
        Body::Put { header_data, .. } => ledger.put_of(header_data),
        Body::Get { match_bits, .. } => ledger.operation_of(match_bits),
        _ => None,
    }
}

/// 27: at the end every node knows all interfaces of its multi-rail peers, by their push.
/// A NID that was the primary NID for a while may be left over as a separate peer.
pub(super) fn peers_know_all_interfaces(world: &World) -> Verdict {
    for (host, other) in pairs(world) {
        let (Some(node), Some(actual)) = (world.node(host), world.node(other)) else { continue };
        let actual = actual.lnet().nis().into_iter().map(|ni| ni.nid);
        let actual: Vec<Nid> = actual.filter(|nid| !nid.is_loopback()).collect();
        let peers = node.lnet().peers();
        let found = peers.iter().find(|peer| Some(&peer.primary) == actual.first());
        let Some(peer) = found.filter(|peer| peer.multi_rail) else { continue };
        let known: BTreeSet<Nid> = peer.nis.iter().map(|ni| ni.nid).collect();
        let apart: BTreeSet<Nid> = peers.iter().map(|peer| peer.primary).collect();
        let complete = actual.iter().all(|nid| known.contains(nid) || apart.contains(nid))
            && known.iter().all(|nid| actual.contains(nid));
        require(complete, CHECKER, || {
            format!("{host} knows {known:?} of {}, which has {actual:?}", peer.primary)
        })?;
    }
    Ok(())
}

fn pairs(world: &World) -> impl Iterator<Item = (HostId, HostId)> {
    let all = || world.host_ids();
    all().flat_map(move |host| all().map(move |other| (host, other))).filter(|(a, b)| a != b)
}
