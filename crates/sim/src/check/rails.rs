//! What holds of interfaces, of what nodes say of them, and of which of them are used. Guards 27,
//! 32 and 33 of lnet-behaviour §17.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::{Body, Header, Nid, RESERVED_PORTAL};

use super::ledger::Ledger;
use super::{Verdict, require};
use crate::HostId;
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;

const CHECKER: &str = "rails";
/// The health of what never failed.
const HEALTH_MAX: u32 = 1000;

/// What each node has said of itself, and from where it speaks.
#[derive(Debug)]
pub(crate) struct Rails {
    /// The interfaces that a node named with each sequence number.
    said: BTreeMap<(HostId, u32), Vec<Nid>>,
    /// By which NID a peer that is not multi-rail knows a node: of each node and target.
    faces: BTreeMap<(HostId, Nid), Nid>,
    /// No interface goes.
    constant: bool,
    insensitive: bool,
    /// Nothing goes wrong: no pair of NIDs breaks, and has to be replaced by another.
    calm: bool,
}

impl Rails {
    pub(super) fn new(options: &Options) -> Self {
        let insensitive =
            options.rails.as_ref().is_some_and(|rails| rails.globals.health_sensitivity == 0);
        let constant = options.faults.rails.removals == 0;
        let calm = options.faults.is_none();
        Self { said: BTreeMap::new(), faces: BTreeMap::new(), constant, insensitive, calm }
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
                self.one_face_for_those_with_one_rail(world, *host, ledger, header)
            }
            Signal::Crashed { host } => {
                self.said.retain(|(one, _), _| one != host);
                self.faces.retain(|(one, _), _| one != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// 27: under one sequence number the same interfaces are named. A small sink may cut the list,
    /// and what a node thinks of their status is pushed with the same number.
    fn a_change_has_a_new_sequence(&mut self, host: HostId, info: &PingInfo) -> Verdict {
        let now: Vec<Nid> = info.entries.iter().map(|entry| entry.nid).collect();
        let before = self.said.entry((host, info.sequence)).or_insert_with(|| now.clone());
        let common = before.len().min(now.len());
        let same = before[..common] == now[..common];
        let verdict = require(same, CHECKER, || {
            format!("{host} says {now:?} with the number of {before:?}: {}", info.sequence)
        });
        if now.len() > before.len() {
            *before = now;
        }
        verdict
    }

    /// 33: a peer that is not multi-rail hears all requests from one NID.
    fn one_face_for_those_with_one_rail(
        &mut self,
        world: &World,
        host: HostId,
        ledger: &Ledger,
        header: &Header,
    ) -> Verdict {
        let given = operation_of(ledger, header).and_then(|n| ledger.operations[n].pair);
        // Where nobody discovers, nobody is multi-rail.
        let discovers = world.node(host).is_some_and(|node| node.lnet().globals().discovery);
        if discovers || !self.constant || !matches!(given, Some((None, _))) {
            return Ok(());
        }
        let face = *self.faces.entry((host, header.target)).or_insert(header.source);
        require(face == header.source, CHECKER, || {
            format!("{host} is {face} for {}, and now {}", header.target, header.source)
        })
    }

    /// 32: health stays within its bounds, and without sensitivity where it was.
    pub(super) fn health_is_bounded(&self, world: &World, host: HostId) -> Verdict {
        let Some(lnet) = world.node(host).map(|node| node.lnet()) else { return Ok(()) };
        let own = lnet.nis().into_iter().map(|ni| (ni.nid, ni.health.value));
        let peers = lnet.peers().into_iter().flat_map(|peer| peer.nis);
        for (nid, health) in own.chain(peers.map(|ni| (ni.nid, ni.health.value))) {
            let bounded = health <= HEALTH_MAX && (!self.insensitive || health == HEALTH_MAX);
            require(bounded, CHECKER, || format!("{host}: the health of {nid} is {health}"))?;
        }
        Ok(())
    }
}

/// 33: where a source is given, exactly that NID writes to exactly the one addressed.
fn given_pairs_are_kept(host: HostId, ledger: &Ledger, header: &Header) -> Verdict {
    let Some(number) = operation_of(ledger, header) else { return Ok(()) };
    let Some((Some(source), target)) = ledger.operations[number].pair else { return Ok(()) };
    let pair = (header.source, header.target);
    require(pair == (source, target), CHECKER, || {
        format!("{host}: operation {number} is for {source} to {target}, and goes {pair:?}")
    })
}

/// Returns the operation whose request a header is.
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

/// 27: in the end whoever knows a node as multi-rail knows its interfaces: it was told by a push.
/// A NID that was the first of a node for a while may be left over as a node of its own.
pub(super) fn everybody_knows_the_interfaces(world: &World) -> Verdict {
    for (host, other) in pairs(world) {
        let (Some(node), Some(there)) = (world.node(host), world.node(other)) else { continue };
        let there = there.lnet().nis().into_iter().map(|ni| ni.nid);
        let there: Vec<Nid> = there.filter(|nid| !nid.is_loopback()).collect();
        let peers = node.lnet().peers();
        let found = peers.iter().find(|peer| Some(&peer.primary) == there.first());
        let Some(peer) = found.filter(|peer| peer.multi_rail) else { continue };
        let known: BTreeSet<Nid> = peer.nis.iter().map(|ni| ni.nid).collect();
        let apart: BTreeSet<Nid> = peers.iter().map(|peer| peer.primary).collect();
        let complete = there.iter().all(|nid| known.contains(nid) || apart.contains(nid))
            && known.iter().all(|nid| there.contains(nid));
        require(complete, CHECKER, || {
            format!("{host} knows {known:?} of {}, which has {there:?}", peer.primary)
        })?;
    }
    Ok(())
}

fn pairs(world: &World) -> impl Iterator<Item = (HostId, HostId)> {
    let all = || world.host_ids();
    all().flat_map(move |host| all().map(move |other| (host, other))).filter(|(a, b)| a != b)
}
