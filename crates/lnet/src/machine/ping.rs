//! Our own ping info, and the pings that administrators request.
//! Spec: lnet-behaviour §9.1, §9.2, lnet-wire §9.2, §9.3.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Payload, Time};
use fulmar_lnet_wire::ping::{Features, NiEntry, NiStatus, PingInfo};
use fulmar_lnet_wire::{Body, Nid, PING_MATCH_BITS, ProcessId, RESERVED_PORTAL};
use fulmar_wire::Order;

use super::Lnet;
use super::OwnEvent;
use crate::api::{EventKind, MdId, Memory, Output, PingReply, QueryId};
use crate::matching::Owner;
use crate::notice::Notice;
use crate::peers::PeerState;

/// Our own ping info.
#[derive(Debug)]
pub(super) struct OwnInfo {
    pub(super) started: bool,
    pub(super) sequence: u32,
    /// The info as it is sent, until something in it changes.
    bytes: Option<Arc<[u8]>>,
    /// The longest push that is received whole: grows with what peers turn out to have.
    pub(super) push_room: u32,
}

impl Default for OwnInfo {
    fn default() -> Self {
        Self { started: false, sequence: 1, bytes: None, push_room: PingInfo::SIZE_MIN }
    }
}

/// The sink of an administrator's ping, as that of `lnetctl ping`.
const QUERY_SINK: u32 = 3960;

impl Lnet {
    /// Pings a node, from `source` if that is given; [`Output::Pinged`] has the result.
    pub fn ping(
        &mut self,
        now: Time,
        target: ProcessId,
        source: Option<Nid>,
        timeout: Duration,
    ) -> QueryId {
        let query = self.new_query();
        let md = self.begin_ping(now, Owner::Query(query), source, target, QUERY_SINK);
        self.queries.insert(query, (md, target.nid));
        if self.matching.is_live(md) {
            self.matching.expect_response(md, now + timeout);
        }
        self.settle(now);
        query
    }

    pub(super) fn new_query(&mut self) -> QueryId {
        self.next_query += 1;
        QueryId(self.next_query)
    }

    /// Sends a ping with room for so many bytes of ping info. Its owner gets the events.
    pub(super) fn begin_ping(
        &mut self,
        now: Time,
        owner: Owner,
        source: Option<Nid>,
        target: ProcessId,
        sink_len: u32,
    ) -> MdId {
        let md = self.matching.add_own(owner, Memory::Inline, sink_len);
        let body = Body::Get {
            reply: self.matching.handle(md),
            match_bits: PING_MATCH_BITS,
            portal: RESERVED_PORTAL,
            offset: 0,
            sink_len,
        };
        self.request(now, md, source, target, body).expect("the descriptor is new");
        md
    }

    /// Handles an event of a ping that an administrator requested.
    pub(super) fn query_event(&mut self, query: QueryId, event: OwnEvent) {
        let Some((_, target)) = self.queries.get(&query).copied() else { return };
        let result = match (event.kind, event.status) {
            (EventKind::Send, Ok(())) => return,
            (EventKind::Reply, Ok(())) => self.ping_reply(target, &event.bytes),
            (_, status) => Err(status.err().unwrap_or(Errno::ETIMEDOUT)),
        };
        self.queries.remove(&query);
        if result.is_err() {
            self.unlink(event.md);
        }
        self.outputs.push_back(Output::Pinged { query, result });
    }

    fn ping_reply(&mut self, target: Nid, bytes: &[u8]) -> Result<PingReply, Errno> {
        let Ok(decoded) = PingInfo::decode(bytes) else {
            self.notice(Notice::BadPingInfo { from: target, reason: "it does not decode" });
            return Err(Errno::EPROTO);
        };
        let primary = self.peers.primary(target);
        let owner = self.peers.owner(target);
        let multi_rail = owner.is_some_and(|peer| self.peer_has(peer, PeerState::MULTI_RAIL));
        let nids = decoded.info.entries.iter().map(|entry| entry.nid).collect();
        Ok(PingReply { primary, multi_rail, pid: decoded.info.pid, nids })
    }

    /// Returns our own ping info: the interfaces of one network follow each other.
    pub(super) fn own_info(&self) -> PingInfo {
        let mut features = Features::NI_STATUS.with(Features::MULTI_RAIL);
        if !self.routing.advertises() {
            features = features.with(Features::RTE_DISABLED);
        }
        if self.globals.discovery {
            features = features.with(Features::DISCOVERY);
        }
        let mut entries: Vec<NiEntry> = Vec::new();
        for net in self.local_nets() {
            let on_net = self.nis.iter().filter(|ni| ni.config.nid.net() == net);
            entries.extend(on_net.map(|ni| {
                let status = if self.is_up(ni) { NiStatus::UP } else { NiStatus::DOWN };
                NiEntry { nid: ni.config.nid, status }
            }));
        }
        if entries.iter().any(|entry| entry.nid.is_large()) {
            features = features.with(Features::LARGE_ADDR);
        }
        if entries.first().is_some_and(|entry| entry.nid.is_large()) {
            features = features.with(Features::PRIMARY_LARGE);
        }
        // Those with small NIDs come first, as on the wire.
        entries.sort_by_key(|entry| entry.nid.is_large());
        PingInfo { features, pid: self.pid, sequence: self.own.sequence, entries }
    }

    /// Returns our ping info as it is sent.
    pub(super) fn info_bytes(&mut self) -> Arc<[u8]> {
        if let Some(bytes) = &self.own.bytes {
            return bytes.clone();
        }
        let mut bytes = Vec::new();
        self.own_info().encode(Order::Little, &mut bytes);
        let bytes: Arc<[u8]> = bytes.into();
        self.own.bytes = Some(bytes.clone());
        bytes
    }

    /// Returns the part of our ping info that a ping requests.
    pub(super) fn info_part(&mut self, offset: u32, len: u32) -> Payload {
        let bytes = self.info_bytes();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let part = &rest[..rest.len().min(len as usize)];
        match part.len() {
            0 => Payload::Empty,
            whole if whole == bytes.len() => Payload::Inline(bytes),
            _ => Payload::Inline(part.into()),
        }
    }

    /// Our interfaces have changed: peers that track them are notified.
    pub(super) fn info_changed(&mut self) {
        self.own.bytes = None;
        if self.own.started {
            self.own.sequence = self.own.sequence.wrapping_add(1);
            self.own_changed();
            self.peers.push_where_due();
        }
    }

    /// Something in our ping info has changed that is not worth another sequence number.
    pub(super) fn info_edited(&mut self) {
        self.own.bytes = None;
    }

    /// The status of one of our interfaces has changed. The sequence number stays, so that only a
    /// forced push reports it. Spec: lnet-behaviour §9.1.
    pub(super) fn status_changed(&mut self) {
        self.own.bytes = None;
        if self.own.started {
            self.peers.force_push();
        }
    }

    /// Discovery was switched on or off. The sequence number stays, so that only a forced push
    /// reports it to peers that would push to this node.
    pub(super) fn discovery_switched(&mut self) {
        self.own.bytes = None;
        self.own_changed();
        if !self.globals.discovery {
            self.peers.force_push();
        }
    }
}
