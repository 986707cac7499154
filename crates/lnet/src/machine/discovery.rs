//! The messages of discovery, and what its results mean for the rest of the node.
//! Spec: lnet-behaviour §9.3 to §9.5, lnet-wire §9.7.

use std::collections::BTreeSet;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnd::FailureClass;
use fulmar_lnet_wire::ping::{DecodedInfo, Features, PingInfo};
use fulmar_lnet_wire::{Body, Nid, PING_MATCH_BITS, ProcessId, RESERVED_PORTAL};

use super::Lnet;
use super::message::Stage;
use super::{OwnEvent, Work};
use crate::api::{EventKind, Memory, Output, QueryId};
use crate::credits::Allowance;
use crate::health::Target;
use crate::matching::Owner;
use crate::peers::{self, Own, PeerId, PeerNiId, PeerState, Step, Surroundings};

impl Lnet {
    /// Discovers the node with this NID, or learns of it again if `force`;
    /// [`Output::Discovered`] has the result.
    pub fn discover(&mut self, now: Time, nid: Nid, force: bool) -> QueryId {
        let query = self.new_query();
        if nid.is_loopback() || nid.is_any() {
            let result = Err(Errno::EINVAL);
            self.outputs.push_back(Output::Discovered { query, result });
            return query;
        }
        self.peers.discover(nid, force, query);
        self.settle(now);
        query
    }

    /// Gives `peers` what it needs to know of this node.
    pub(super) fn own_changed(&mut self) {
        self.peers.set_own(Own {
            discovers: self.globals.discovery,
            sequence: self.own.sequence,
            max_nids: self.globals.max_interfaces as usize,
        });
    }

    /// Does what follows from changes of the peers.
    #[inline]
    pub(super) fn follow_peers(&mut self, now: Time) {
        if self.peers.has_output() {
            self.drain_peers(now);
        }
    }

    fn drain_peers(&mut self, now: Time) {
        while let Some(output) = self.peers.poll_output() {
            match output {
                peers::Output::Added(id, nid) => self.peer_ni_added(now, id, nid),
                peers::Output::Retired(id) => self.reap(id),
                peers::Output::Moved { from, into } => {
                    self.move_gateway(from, into);
                    self.work.push_back(Work::Pushes(from));
                }
                peers::Output::Verify(id) => self.verify_nid(now, id, None),
                peers::Output::Ask(peer) => self.ask_peer(now, peer),
                peers::Output::Separated(peer) => {
                    if self.routing.is_gateway(peer) {
                        self.work.push_back(Work::Gateways);
                    }
                }
                peers::Output::Removed(peer) => {
                    self.work.push_back(Work::Pushes(peer));
                    if self.routing.forget_gateway(peer) {
                        self.work.push_back(Work::Gateways);
                    }
                }
                peers::Output::Advance(peer) => self.work.push_back(Work::Advance(peer)),
                peers::Output::Launch(message) => self.work.push_back(Work::Launch(message)),
                peers::Output::Fail(message, errno) => {
                    self.finalize_send(now, message, Err(errno));
                }
                peers::Output::Answer(query, result) => {
                    self.outputs.push_back(Output::Discovered { query, result });
                }
                peers::Output::Unlink(md) => self.unlink(md),
                peers::Output::Failed(peer, _) => self.gateway_dead(peer),
                peers::Output::Notice(notice) => self.notice(notice),
            }
        }
    }

    fn peer_ni_added(&mut self, now: Time, id: PeerNiId, nid: Nid) {
        self.peers.plan_ageing(now);
        let allowance: Allowance = self.allowance(nid.net());
        self.credits.add_peer_ni(id, allowance);
        self.backpressure.add(id);
        self.health.add(Target::PeerNi(id));
        self.apply_policy(nid);
    }

    /// Forgets a deleted peer NI once no message holds its credits.
    pub(super) fn reap(&mut self, id: PeerNiId) {
        if self.peers.is_retired(id) && self.credits.is_peer_ni_idle(id) {
            self.peers.forget(id);
            self.credits.remove_peer_ni(id);
            self.backpressure.remove(id);
            self.health.remove(Target::PeerNi(id));
        }
    }

    /// Lets a message wait until its peer is discovered.
    pub(super) fn park(&mut self, now: Time, message: MessageId, peer: PeerId) {
        if let Err(errno) = self.peers.park(message, peer) {
            return self.finalize_send(now, message, Err(errno));
        }
        self.messages.live(message).stage = Stage::Parked;
        self.follow_peers(now);
    }

    /// Does the next thing for a peer under discovery.
    pub(super) fn advance(&mut self, now: Time, peer: PeerId) {
        match self.peers.step(peer) {
            Some(Step::Ping(len)) => self.send_ping(now, peer, len),
            Some(Step::Push) => self.send_push(now, peer),
            None => {}
        }
        self.follow_peers(now);
        self.acknowledge_pushes(now, peer);
    }

    fn send_ping(&mut self, now: Time, peer: PeerId, len: u32) {
        let Some(target) = self.contact(peer) else {
            return self.peers.failed(peer, Errno::EHOSTUNREACH);
        };
        let md = self.begin_ping(now, Owner::Ping(peer), None, ProcessId::lustre(target), len);
        self.peers.ping_sent(peer, md);
    }

    /// Pushes our ping info: along the path of the latest ping reply, or, if none came, by the
    /// pair of interfaces that is the least busy.
    fn send_push(&mut self, now: Time, peer: PeerId) {
        let pair = self.peers.peer(peer).and_then(|found| found.pair());
        let pair = pair.filter(|(own, theirs)| {
            self.ni_of(*own).is_some() && self.peers.owner(*theirs) == Some(peer)
        });
        let (source, target) = match pair {
            Some((own, theirs)) => (Some(own), Some(theirs)),
            None => (None, self.best_nid(now, peer).or_else(|| self.contact(peer))),
        };
        let Some(target) = target else {
            return self.peers.failed(peer, Errno::EHOSTUNREACH);
        };
        let bytes = self.info_bytes();
        let len = bytes.len() as u32;
        let owner = Owner::Push(peer, self.own.sequence);
        let md = self.matching.add_own(owner, Memory::Bytes(bytes), len);
        self.peers.push_sent(peer, md);
        let body = Body::Put {
            ack: self.matching.handle(md),
            match_bits: PING_MATCH_BITS,
            header_data: 0,
            portal: RESERVED_PORTAL,
            offset: 0,
        };
        let target = ProcessId::lustre(target);
        self.request(now, md, source, target, body).expect("the descriptor is new");
    }

    /// Handles an event of the ping of a peer.
    pub(super) fn discovery_ping_event(&mut self, now: Time, peer: PeerId, event: OwnEvent) {
        let OwnEvent { md, kind, status, pair, bytes, .. } = event;
        let answer = match (kind, status) {
            (EventKind::Send, Ok(())) => return,
            (EventKind::Reply, Ok(())) => Ok((pair, &bytes[..])),
            (_, status) => Err(status.err()),
        };
        if let Some(decoded) = self.peers.ping_ended(now, peer, md, answer) {
            self.learn(now, peer, pair.1, &decoded);
        }
        self.follow_peers(now);
    }

    /// Handles an event of the push to a peer.
    pub(super) fn push_event(&mut self, now: Time, peer: PeerId, sequence: u32, event: OwnEvent) {
        let result = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => return,
            (EventKind::Ack, Ok(())) => Ok(()),
            (_, status) => Err(status.err().unwrap_or(Errno::ETIMEDOUT)),
        };
        self.peers.push_ended(peer, event.md, sequence, result);
        self.follow_peers(now);
    }

    /// Uses ping info that is whole.
    pub(super) fn learn(&mut self, now: Time, peer: PeerId, from: Nid, decoded: &DecodedInfo) {
        self.own.push_room = self.own.push_room.max(decoded.size).min(PingInfo::SIZE_MAX);
        self.gateway_described(peer, &decoded.info);
        let ours = self.own_nids();
        let behind = self.nets_behind(peer);
        let gateways: Vec<PeerId> = self.routing.gateways().collect();
        let known = Surroundings { ours: &ours, behind: &behind, gateways: &gateways };
        let merged = self.peers.merge(now, peer, from, decoded, known);
        self.follow_peers(now);
        // Only now is it known which NIDs are its own.
        self.note_statuses(now, merged, &decoded.info);
        self.peers.resume(merged);
        if merged != peer {
            self.peers.resume(peer);
        }
        self.follow_peers(now);
    }

    /// Uses the states of a peer's interfaces. One that goes down loses health once; one that was
    /// never heard of and is up has it all.
    fn note_statuses(&mut self, now: Time, peer: PeerId, info: &PingInfo) {
        let mut gone = BTreeSet::new();
        for (id, up) in self.peers.note_statuses(peer, info) {
            if up {
                self.peer_ni_is_back(now, id);
            } else {
                self.lower_peer_ni(now, id, FailureClass::RemoteDropped);
                gone.insert(id);
            }
        }
        if !gone.is_empty() {
            self.leave(|path| gone.contains(&path.peer_ni));
        }
    }

    /// Handles the ping info that a peer has pushed to this node. It is answered by a push of our own,
    /// without a ping.
    pub(super) fn push_received(&mut self, now: Time, from: Nid, bytes: &[u8], sent: u32) {
        let Some(peer) = self.peers.owner(from) else { return };
        if !self.peers.may_use_push(now, peer) {
            return;
        }
        let reason = match PingInfo::decode(bytes) {
            Ok(decoded) if decoded.size as usize <= bytes.len() => {
                if decoded.info.features.has(Features::MULTI_RAIL) {
                    self.learn(now, peer, from, &decoded);
                }
                return;
            }
            Ok(decoded) => {
                // Room for it next time, if the peer has so much to report.
                let size = decoded.size.min(sent).max(self.own.push_room);
                self.own.push_room = size.min(PingInfo::SIZE_MAX);
                "it is cut off"
            }
            Err(_) => "it does not decode",
        };
        self.peers.bad_push(peer, from, reason);
        self.follow_peers(now);
    }

    /// Adds a peer, or NIDs to a peer that has this primary NID. What is configured wins over
    /// what discovery finds.
    ///
    /// # Errors
    /// EINVAL if a NID is ours, `0@lo` or a wildcard; EEXIST if another configured peer has one;
    /// EPERM if the peer is configured otherwise as to multi-rail.
    pub fn peer_add(
        &mut self,
        now: Time,
        primary: Nid,
        nids: &[Nid],
        multi_rail: bool,
    ) -> Result<(), Errno> {
        let usable = |nid: &Nid| !nid.is_any() && !nid.is_loopback() && self.ni_of(*nid).is_none();
        let all_usable = usable(&primary) && nids.iter().all(usable);
        if !all_usable || (!multi_rail && nids.iter().any(|nid| *nid != primary)) {
            return Err(Errno::EINVAL);
        }
        self.peers.configure(primary, nids, multi_rail)?;
        self.settle(now);
        Ok(())
    }

    /// Deletes NIDs of a peer, or all of it if its primary NID is among them or none is given.
    ///
    /// # Errors
    /// ENOENT if no peer has this primary NID, or it has not these NIDs.
    pub fn peer_del(&mut self, now: Time, primary: Nid, nids: &[Nid]) -> Result<(), Errno> {
        self.peers.deconfigure(primary, nids)?;
        self.settle(now);
        Ok(())
    }

    /// Sets the state bits of a peer, for tests of discovery.
    ///
    /// # Errors
    /// ENOENT if no peer has this NID.
    pub fn set_peer_state(&mut self, now: Time, nid: Nid, state: u32) -> Result<(), Errno> {
        let peer = self.peers.owner(nid).ok_or(Errno::ENOENT)?;
        self.peers.set_state(peer, state);
        self.settle(now);
        Ok(())
    }

    pub(super) fn peer_has(&self, peer: PeerId, state: PeerState) -> bool {
        self.peers.has(peer, state)
    }
}
