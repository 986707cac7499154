//! Compares the credits of nodes with our own count of their messages. Checks invariants 1, 2 and 4
//! of lnet-behaviour §17.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet::FaultKind;
use fulmar_lnet::views::{Peer, PeerNi};
use fulmar_lnet_wire::Nid;
use fulmar_node::Node;

use super::{Verdict, require};
use crate::options::Options;
use crate::signal::Signal;
use crate::world::World;
use crate::{HostId, TcpId};

const CHECKER: &str = "credits";

/// The messages that each node has written and its sockets have not taken completely.
#[derive(Debug)]
pub(crate) struct Recount {
    peer_credits: u32,
    /// Interfaces are removed and added: a removed peer NI and its successor have separate credits,
    /// so our count is not a limit.
    renewed: bool,
    /// Messages hold their credits until peers acknowledge them, which is not seen here.
    acknowledged: bool,
    writing: BTreeMap<(HostId, TcpId), u32>,
    towards: BTreeMap<(HostId, Nid), u32>,
    peers: BTreeMap<(HostId, TcpId), Nid>,
}

impl Recount {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            peer_credits: options.peer_credits,
            renewed: options.faults.rails.removals > 0,
            acknowledged: options.zc_min_payload.is_some(),
            writing: BTreeMap::new(),
            towards: BTreeMap::new(),
            peers: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, signal: &Signal) -> Verdict {
        match signal {
            Signal::Wrote { host, peer_ni: peer, tcp, .. } => {
                *self.writing.entry((*host, *tcp)).or_default() += 1;
                self.peers.insert((*host, *tcp), *peer);
                let towards = self.towards.entry((*host, *peer)).or_default();
                *towards += 1;
                let (towards, credits) = (*towards, self.peer_credits);
                require(self.renewed || towards <= credits, CHECKER, || {
                    format!("{host} has {towards} messages for {peer} in its LND, of {credits}")
                })
            }
            Signal::Taken { host, tcp } => {
                self.give_back(*host, *tcp, 1);
                Ok(())
            }
            Signal::Ended { host, tcp } => {
                if let Some(left) = self.writing.remove(&(*host, *tcp)) {
                    self.give_back(*host, *tcp, left);
                }
                self.peers.remove(&(*host, *tcp));
                Ok(())
            }
            Signal::Crashed { host } => {
                self.writing.retain(|(one, _), _| one != host);
                self.towards.retain(|(one, _), _| one != host);
                self.peers.retain(|(one, _), _| one != host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn give_back(&mut self, host: HostId, tcp: TcpId, count: u32) {
        if let Some(writing) = self.writing.get_mut(&(host, tcp)) {
            *writing -= count;
        }
        let peer = self.peers.get(&(host, tcp));
        if let Some(towards) = peer.and_then(|peer| self.towards.get_mut(&(host, *peer))) {
            *towards -= count;
        }
    }

    /// Checks a node after all notifications.
    pub(super) fn settled(&self, world: &World, host: HostId, peers: &[Peer]) -> Verdict {
        let Some(node) = world.node(host) else { return Ok(()) };
        let own = node.lnet().check_invariants();
        require(own.is_ok(), CHECKER, || format!("{host}: {own:?}"))?;
        // A paused node has not been notified yet of the data that its sockets took.
        if world.is_paused(host) { Ok(()) } else { self.settled_node(world, host, node, peers) }
    }

    fn settled_node(&self, world: &World, host: HostId, node: &Node, peers: &[Peer]) -> Verdict {
        let delayed = delayed(node);
        let waiting = waiting_for_connections(node);
        // A message that waits for an NI credit holds a peer credit already.
        let nis: i64 = node.lnet().nis().iter().map(|ni| (-ni.credits).max(0)).sum();
        for peer_ni in peers.iter().flat_map(|peer| &peer.nis) {
            let &PeerNi { nid, credits, credits_max, credits_min, .. } = peer_ni;
            require(credits_min <= credits && credits <= credits_max, CHECKER, || {
                format!("{host}: {nid:?} has {credits} credits of {credits_min}..{credits_max}")
            })?;
            let Some(peer) = world.port_of(nid) else { continue };
            let held = credits_max - credits.max(0);
            let written = self.towards.get(&(host, nid)).copied().unwrap_or(0);
            let waiting = waiting.get(&nid).copied().unwrap_or(0);
            let counted = i64::from(written) + waiting;
            let bounded = counted <= held && (self.acknowledged || held <= counted + nis + delayed);
            require(self.renewed || bounded, CHECKER, || {
                format!(
                    "{host} holds {held} credits of {peer}, for {written} messages being written, \
                     {waiting} that wait for a connection, at most {nis} that wait for the \
                     interface and at most {delayed} that a rule delays"
                )
            })?;
        }
        Ok(())
    }

    /// Checks that each node is idle.
    pub(super) fn idle(&self, world: &World, now: Time) -> Verdict {
        for host in world.host_ids() {
            let Some(node) = world.node(host) else { continue };
            let idle = node.lnet().is_idle();
            require(idle.is_ok(), "idle", || format!("{host} at {now}: {idle:?}"))?;
            let left = node.lnet().stats().msgs_alloc;
            require(left == 0, "idle", || format!("{host} at {now}: {left} messages are left"))?;
            for peer_ni in node.lnet().peers().into_iter().flat_map(|peer| peer.nis) {
                let full = peer_ni.credits == peer_ni.credits_max && peer_ni.queued_bytes == 0;
                require(full, "idle", || format!("{host} at {now}: {peer_ni:?}"))?;
            }
        }
        Ok(())
    }
}

/// Returns how many messages fault rules have delayed so far.
fn delayed(node: &Node) -> i64 {
    let rules = node.lnet().faults().into_iter();
    let delays = rules.filter(|fault| fault.rule.kind() == FaultKind::Delay);
    delays.map(|fault| fault.hits.total() as i64).sum()
}

/// Returns how many messages for each NID wait for a connection.
fn waiting_for_connections(node: &Node) -> BTreeMap<Nid, i64> {
    let mut waiting = BTreeMap::new();
    for info in node.socklnd().peers() {
        *waiting.entry(info.peer.nid).or_default() += info.queued_messages as i64;
    }
    waiting
}
