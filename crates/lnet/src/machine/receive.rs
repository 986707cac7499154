//! Receiving: what becomes of a header. Spec: lnet-behaviour §4.5, §5.2, lnet-wire §8.6.

use fulmar_base::{Errno, MessageId, Payload, Sink, Time};
use fulmar_lnd::{Received, RxId, Verdict};
use fulmar_lnet_wire::{Body, Handle, Header, MTU, Nid, PING_MATCH_BITS, PORTALS, RESERVED_PORTAL};

use super::Lnet;
use super::message::{Arrival, Message, Origin, Stage};
use super::send::is_of_service;
use crate::api::{MdOptions, Output};
use crate::health::Target;
use crate::matching::{Operation, Placement, Query, SearchResult};
use crate::ni::NiId;
use crate::notice::Notice;
use crate::peers::PeerNiId;

impl Lnet {
    /// Handles a header. Its verdict, which names the message, is among the outputs at once.
    pub fn handle_received(&mut self, now: Time, received: Received) {
        let Received { conn, ni, from, header } = received;
        let rx = RxId(self.receiving.insert(None));
        let arrival = Arrival { origin: Origin::Lnd(rx, conn), ni, from };
        if let Err(reason) = self.check_header(&header, ni, from) {
            self.counters.stats.errors += 1;
            self.notice(Notice::ProtocolError { from, reason });
            return self.answer(arrival, Verdict::Reject);
        }
        match self.admit(now, arrival, &header) {
            Ok(sender) if !self.delay_receive(now, arrival, &header) => {
                self.take(now, arrival, header, sender);
            }
            Ok(_) => {}
            Err(reason) => self.drop_message(now, arrival, &header, reason),
        }
        self.settle(now);
    }

    /// Handles a message for a local NID, or one to forward.
    pub(super) fn take(&mut self, now: Time, arrival: Arrival, header: Header, sender: PeerNiId) {
        match header.target == arrival.ni || self.ni_of(header.target).is_some() {
            true if self.hold_request(arrival, &header, sender) => {}
            true => self.dispatch(now, arrival, header),
            false => self.forward(now, arrival, header, sender),
        }
    }

    /// Records who sent a message, or says why it is dropped. Spec: lnet-behaviour §5.2.
    fn admit(
        &mut self,
        now: Time,
        arrival: Arrival,
        header: &Header,
    ) -> Result<PeerNiId, &'static str> {
        let Some(ni) = self.ni_of(arrival.ni).map(|ni| ni.id) else {
            return Err("our interface is gone");
        };
        self.check_source(arrival, header.source)?;
        self.note_ping(now, arrival, header);
        let ours = header.target == arrival.ni || self.ni_of(header.target).is_some();
        if !ours && !self.forwards() {
            return Err("it is for another network, and we do not route");
        }
        if self.faults.fails(header.source) || self.faults.drop_received(now, header, arrival.ni) {
            return Err("a fault was asked for");
        }
        let sender = self.sender(now, arrival.ni, arrival.from).ok_or("the peer table is full")?;
        self.heard(now, ni, sender, is_of_service(&header.body));
        let source = if header.source == arrival.from {
            Some(sender)
        } else {
            self.peers.find(header.source)
        };
        if let Some(source) = source {
            let pair = (header.source == arrival.from).then_some(arrival.ni);
            self.verify_nid(now, source, pair);
        }
        Ok(sender)
    }

    /// Says why the source of a message is not believed. A node sends as itself; a router brings what
    /// is from networks behind it, and the routes say which those are. Without `drop_asym_route` the
    /// route may go by another router.
    fn check_source(&self, arrival: Arrival, source: Nid) -> Result<(), &'static str> {
        if source == arrival.from {
            return Ok(());
        }
        if source.net() == arrival.ni.net() {
            return Err("its source is not the NID of its connection");
        }
        let sender = self.peers.owner(arrival.from);
        let by_it = sender.and_then(|peer| self.route_by(peer, source.net())).is_some();
        let by_another = !self.globals.drop_asym_route;
        if by_it || (by_another && self.routing.routes_to(source.net()).next().is_some()) {
            Ok(())
        } else {
            Err("no route leads back to its source by the node that brought it")
        }
    }

    /// Something has come from a NID of a peer, by an interface of ours: both work.
    fn heard(&mut self, now: Time, ni: NiId, sender: PeerNiId, request: bool) {
        let Some(peer) = self.peers.heard(now, sender, request) else { return };
        if !self.health.heard(now, Target::PeerNi(sender)) {
            self.raise_peer_ni(now, sender);
        }
        if self.routing.has_routes() {
            self.gateway_alive(peer);
        }
        if !self.health.heard(now, Target::Ni(ni)) {
            self.raise_ni(now, ni);
        }
    }

    /// Handles the end of a message: its payload is where the verdict said, or its connection died,
    /// be that before the verdict, while it waited or halfway.
    ///
    /// The bytes are those of [`Sink::Inline`], none otherwise. After [`Verdict::Reject`] there is
    /// no need to call this; messages that need nothing more are ignored.
    pub fn handle_receive_done(&mut self, now: Time, rx: RxId, result: Result<Vec<u8>, Errno>) {
        let id = match self.receiving.get(rx.0) {
            None => return,
            Some(Some(id)) => *id,
            Some(None) => {
                // It waits, and its payload is unread: its connection has ended.
                self.receiving.remove(rx.0);
                return self.forget_held(rx);
            }
        };
        let (status, bytes) = match result {
            Ok(bytes) => (Ok(()), bytes),
            Err(errno) => (Err(errno), Vec::new()),
        };
        match self.messages.live(id).stage {
            Stage::Delayed(_) => drop(self.forget_delayed(id)),
            Stage::Transit => self.transit_received(now, id, status),
            _ => self.finalize_receive(now, id, status, bytes),
        }
        self.settle(now);
    }

    /// Says what is wrong with a header by which its sender shows that it does not follow the
    /// protocol.
    fn check_header(&self, header: &Header, ni: Nid, from: Nid) -> Result<(), &'static str> {
        if header.check().is_err() {
            return Err("its type may not have so long a payload");
        }
        if header.target.is_loopback() {
            // A router would deliver it to itself, as if it had sent it.
            return Err("it is for 0@lo, which is on no network");
        }
        if header.target != ni && header.target.net() == ni.net() {
            return Err("it is for another node of the network and should have gone there");
        }
        // A router that knows this node by another NID brings what is for it, and cannot do otherwise.
        let routed = header.source != from;
        if header.target != ni && self.ni_of(header.target).is_some() && !routed {
            return Err("it is for another of our interfaces and should have gone there");
        }
        Ok(())
    }

    /// Makes a record of who sent something; the first interface it came by is the one by
    /// which it knows this node.
    pub(super) fn sender(&mut self, now: Time, ni: Nid, from: Nid) -> Option<PeerNiId> {
        if let Some(found) = self.peers.find(from) {
            return Some(found);
        }
        if !self.has_room(now, None) {
            return None;
        }
        self.peers.create(from);
        self.follow_peers(now);
        let found = self.peers.find(from)?;
        self.peers.prefer(found, ni);
        Some(found)
    }

    /// Handles a header for a NID of this node.
    pub(super) fn dispatch(&mut self, now: Time, arrival: Arrival, header: Header) {
        match header.body {
            Body::Put { portal: RESERVED_PORTAL, match_bits, .. } => {
                self.handle_push(now, arrival, header, match_bits);
            }
            Body::Get { portal: RESERVED_PORTAL, match_bits, .. } => {
                self.handle_ping(now, arrival, header, match_bits);
            }
            Body::Put { .. } => self.handle_put(now, arrival, header),
            Body::Get { .. } => self.handle_get(now, arrival, header),
            Body::Reply { .. } => self.handle_reply(now, arrival, header),
            Body::Ack { .. } => self.handle_ack(now, arrival, header),
        }
    }

    fn handle_put(&mut self, now: Time, arrival: Arrival, header: Header) {
        let Some(query) = self.query(&header) else { return };
        match self.search(&query) {
            SearchResult::Found(found) => {
                let id = self.receive(Message::received(header, Stage::Receiving(arrival)));
                self.take_put(now, id, arrival, found);
            }
            SearchResult::Nothing if self.matching.is_lazy(query.portal) => {
                let id = self.receive(Message::received(header, Stage::Delayed(arrival)));
                self.matching.delay(query.portal, id);
                self.answer(arrival, Verdict::Wait);
            }
            missed => self.drop_message(now, arrival, &header, reason(missed, &query)),
        }
    }

    fn handle_get(&mut self, now: Time, arrival: Arrival, header: Header) {
        let (Some(query), Body::Get { reply, .. }) = (self.query(&header), header.body) else {
            return;
        };
        if query.len > MTU {
            // The memory may have as much, but no REPLY can carry it.
            return self.drop_message(
                now,
                arrival,
                &header,
                "it asks for more than a REPLY carries",
            );
        }
        let found = match self.search(&query) {
            SearchResult::Found(found) => found,
            missed => return self.drop_message(now, arrival, &header, reason(missed, &query)),
        };
        let operation = Some(Operation::get(found, &header, arrival.from));
        let payload = self.matching.payload(found);
        self.nothing_follows(arrival);
        self.count_received(arrival, &header, 0);
        let reply = self.reply(&header, arrival, reply, payload);
        self.send_reply(now, arrival, Message { operation, ..reply });
    }

    /// Returns a REPLY to `get`.
    pub(super) fn reply(
        &self,
        get: &Header,
        arrival: Arrival,
        handle: Handle,
        payload: Payload,
    ) -> Message {
        let body = Body::Reply { handle };
        let header = self.response_header(get, arrival, body, payload.len());
        Message { payload, ..self.response(get, arrival, header) }
    }

    /// Sends a REPLY; the receiving side of a looped GET is done with that.
    pub(super) fn send_reply(&mut self, now: Time, arrival: Arrival, reply: Message) {
        let id = self.messages.add(reply);
        self.launch(now, id);
        self.looped(now, arrival);
    }

    fn handle_reply(&mut self, now: Time, arrival: Arrival, header: Header) {
        let (operation, len) = match self.begin_response(arrival, &header) {
            Ok(begun) => begun,
            Err(reason) => return self.drop_message(now, arrival, &header, reason),
        };
        let sink = self.matching.reply_sink(operation.md, len);
        let message = Message::received(header, Stage::Receiving(arrival));
        let id = self.receive(Message { operation: Some(operation), ..message });
        self.accept(now, id, arrival, sink);
    }

    /// An ACK is whole when its header has come, and is never kept as a message.
    fn handle_ack(&mut self, now: Time, arrival: Arrival, header: Header) {
        match self.begin_response(arrival, &header) {
            Ok((operation, _)) => {
                self.counters.message_born();
                self.nothing_follows(arrival);
                self.end_received(now, &operation, &header, arrival, Ok(()), Vec::new());
                self.counters.message_died();
                self.looped(now, arrival);
            }
            Err(reason) => self.drop_message(now, arrival, &header, reason),
        }
    }

    /// Begins the response that an ACK or a REPLY is, and returns how many bytes it moves.
    fn begin_response(
        &mut self,
        arrival: Arrival,
        header: &Header,
    ) -> Result<(Operation, u32), &'static str> {
        let looped = matches!(arrival.origin, Origin::Loopback(_));
        let may_answer = |target, source| self.peers.may_answer(target, source);
        let (md, len) = self.matching.find_response(header, looped, may_answer)?;
        let initiator = self.peers.primary(header.source);
        Ok((Operation::response(md, initiator, len), len))
    }

    /// Gives a PUT the memory that was found for it.
    pub(super) fn take_put(
        &mut self,
        now: Time,
        id: MessageId,
        arrival: Arrival,
        found: Placement,
    ) {
        let sink = self.matching.sink(found);
        let message = self.messages.live(id);
        message.stage = Stage::Receiving(arrival);
        message.operation = Some(Operation::put(found));
        self.accept(now, id, arrival, sink);
    }

    /// Adds a message that is being received.
    pub(super) fn receive(&mut self, message: Message) -> MessageId {
        let origin = message.arrival().map(|arrival| arrival.origin);
        let id = self.messages.add(message);
        if let Some(Origin::Lnd(rx, _)) = origin
            && let Some(reception) = self.receiving.get_mut(rx.0)
        {
            *reception = Some(id);
        }
        self.counters.message_born();
        id
    }

    /// Lets the payload of a message be put into `sink`.
    pub(super) fn accept(&mut self, now: Time, id: MessageId, arrival: Arrival, sink: Sink) {
        match arrival.origin {
            Origin::Lnd(..) => {
                let len = self.messages.live(id).header.payload_len;
                let sink = if sink.is_empty() { Sink::Discard { len } } else { sink };
                self.answer(arrival, Verdict::Receive(sink));
            }
            Origin::Loopback(sender) => self.loop_copy(now, sender, id, sink),
        }
    }

    /// Lets the LND go on behind a header without payload.
    pub(super) fn nothing_follows(&mut self, arrival: Arrival) {
        self.answer(arrival, Verdict::Receive(Sink::Discard { len: 0 }));
    }

    /// Answers the LND what becomes of a message. One that is not kept here is forgotten.
    pub(super) fn answer(&mut self, arrival: Arrival, verdict: Verdict) {
        let Origin::Lnd(rx, conn) = arrival.origin else { return };
        if verdict != Verdict::Wait && self.receiving.get(rx.0) == Some(&None) {
            self.receiving.remove(rx.0);
        }
        self.outputs.push_back(Output::Verdict { ni: arrival.ni, conn, rx, verdict });
    }

    /// Forgets the name of a message that its LND has finished with.
    pub(super) fn received(&mut self, arrival: Arrival) {
        if let Origin::Lnd(rx, _) = arrival.origin {
            self.receiving.remove(rx.0);
        }
    }

    /// Drops a message: its payload is read and forgotten, and nothing is answered.
    pub(super) fn drop_message(
        &mut self,
        now: Time,
        arrival: Arrival,
        header: &Header,
        reason: &'static str,
    ) {
        self.count_dropped(arrival, header);
        self.notice(Notice::Dropped { from: arrival.from, reason });
        self.answer(arrival, Verdict::Receive(Sink::Discard { len: header.payload_len }));
        self.looped(now, arrival);
    }

    /// Returns what a PUT or a GET asks its portal for.
    pub(super) fn query(&self, header: &Header) -> Option<Query> {
        let (operation, portal, match_bits, offset, len) = match header.body {
            Body::Put { portal, match_bits, offset, .. } => {
                (MdOptions::OP_PUT, portal, match_bits, offset, header.payload_len)
            }
            Body::Get { portal, match_bits, offset, sink_len, .. } => {
                (MdOptions::OP_GET, portal, match_bits, offset, sink_len)
            }
            Body::Ack { .. } | Body::Reply { .. } => return None,
        };
        let initiator = self.peers.primary(header.source);
        let pid = header.source_pid;
        Some(Query { operation, initiator, pid, portal, match_bits, offset, len })
    }

    fn search(&mut self, query: &Query) -> SearchResult {
        self.matching.incoming(query, |a, b| self.peers.same_peer(a, b))
    }

    fn handle_ping(&mut self, now: Time, arrival: Arrival, header: Header, match_bits: u64) {
        let Body::Get { reply, offset, sink_len, .. } = header.body else { return };
        if match_bits != PING_MATCH_BITS {
            return self.drop_message(now, arrival, &header, "portal 0 answers pings only");
        }
        if self.ignores_ping(arrival) {
            return self.drop_message(now, arrival, &header, "this interface is out of use");
        }
        let payload = self.info_part(offset, sink_len);
        self.nothing_follows(arrival);
        self.count_received(arrival, &header, 0);
        let reply = self.reply(&header, arrival, reply, payload);
        self.send_reply(now, arrival, reply);
    }

    fn handle_push(&mut self, now: Time, arrival: Arrival, header: Header, match_bits: u64) {
        if match_bits != PING_MATCH_BITS {
            return self.drop_message(now, arrival, &header, "portal 0 takes pushes only");
        }
        let len = header.payload_len.min(self.own.push_room);
        let id = self.receive(Message::received(header, Stage::Receiving(arrival)));
        let sink = if len == 0 { Sink::Discard { len } } else { Sink::Inline { len } };
        self.accept(now, id, arrival, sink);
    }
}

fn reason(missed: SearchResult, query: &Query) -> &'static str {
    match missed {
        SearchResult::TooLong => "it is longer than the memory that it matches",
        _ if query.portal >= PORTALS => "there is no such portal",
        _ => "nothing matches it",
    }
}
