//! Sending: from the call of an application to the LND. Spec: lnet-behaviour §5.1, §6.4, §11.2.

use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnd::{FailureClass, SendError, SendRequest};
use fulmar_lnet_wire::{Body, Handle, Header, Nid, ProcessId, RESERVED_PORTAL};

use super::Lnet;
use super::Work;
use super::message::{Arrival, Hold, Message, Stage, Transmission};
use super::select::{Criteria, Hop, Path};
use crate::api::{Get, MdId, Memory, Output, Put, ServiceId};
use crate::credits::Account;
use crate::health::Target;
use crate::matching::{Owner, Request, StartedRequest};
use crate::ni::NiId;

impl Lnet {
    /// Stores a descriptor's bytes at a portal of another node.
    ///
    /// What goes wrong later, a missing route included, is the status of the SEND event.
    ///
    /// # Errors
    /// ENOENT if the service has no such descriptor, or it is exhausted or made for a match entry, or
    /// is room for received bytes; EIO if a fault rule demands it.
    pub fn put(&mut self, now: Time, service: ServiceId, md: MdId, put: Put) -> Result<(), Errno> {
        let begun = self.begin_put(now, service, md, put);
        self.settle(now);
        begun
    }

    /// Fetches bytes from a portal of another node into a descriptor.
    ///
    /// # Errors
    /// As [`Lnet::put`]; ENOENT if the descriptor is of bytes to send.
    pub fn get(&mut self, now: Time, service: ServiceId, md: MdId, get: Get) -> Result<(), Errno> {
        let begun = self.begin_get(now, service, md, get);
        self.settle(now);
        begun
    }

    pub(super) fn begin_put(
        &mut self,
        now: Time,
        service: ServiceId,
        md: MdId,
        put: Put,
    ) -> Result<(), Errno> {
        let Put { portal, match_bits, offset, header_data, source, .. } = put;
        let target = self.addressed(service, put.target)?;
        if self.faults.fails(target.nid) {
            return Err(Errno::EIO);
        }
        self.matching.bound_len(service, md, |memory| !matches!(memory, Memory::Inline))?;
        let ack = if put.ack { self.matching.handle(md) } else { Handle::NONE };
        let body = Body::Put { ack, match_bits, header_data, portal, offset };
        self.request(now, md, source, target, body)
    }

    pub(super) fn begin_get(
        &mut self,
        now: Time,
        service: ServiceId,
        md: MdId,
        get: Get,
    ) -> Result<(), Errno> {
        let Get { portal, match_bits, offset, source, .. } = get;
        let target = self.addressed(service, get.target)?;
        if self.faults.fails(target.nid) {
            return Err(Errno::EIO);
        }
        let is_right = |memory: &Memory| !matches!(memory, Memory::Bytes(_));
        let sink_len = self.matching.bound_len(service, md, is_right)? as u32;
        let body =
            Body::Get { reply: self.matching.handle(md), match_bits, portal, offset, sink_len };
        self.request(now, md, source, target, body)
    }

    /// Records that an LND has finished with a message.
    pub fn handle_sent(&mut self, now: Time, message: MessageId, result: Result<(), SendError>) {
        let handed = self.messages.get(message).and_then(Message::sending);
        if !handed.is_some_and(|path| path.hold == Hold::Both) {
            return;
        }
        match result {
            Ok(()) => {
                self.sent_well(now, message);
                self.finalize_send(now, message, Ok(()));
            }
            Err(error) => self.send_failed(now, message, error),
        }
        self.settle(now);
    }

    /// Records that an LND cannot move a message now: others may use the credit of the interface.
    pub fn handle_waiting(&mut self, now: Time, message: MessageId) {
        let Some(Stage::Sending(path)) = self.messages.get_mut(message).map(|one| &mut one.stage)
        else {
            return;
        };
        if path.hold != Hold::Both || std::mem::replace(&mut path.waits, true) {
            return;
        }
        let woken = self.credits.give_back(Account::Ni(path.ni));
        self.wake(woken, Hold::Granted);
        self.settle(now);
    }

    /// Has the LND of an interface report what does not move.
    fn report_waiting(&mut self, ni: NiId) {
        if let Some(ni) = self.ni(ni).map(|ni| ni.config.nid) {
            self.outputs.push_back(Output::ReportWaiting { ni });
        }
    }

    /// Begins an operation of `md` and sends its request.
    pub(super) fn request(
        &mut self,
        now: Time,
        md: MdId,
        source: Option<Nid>,
        target: ProcessId,
        body: Body,
    ) -> Result<(), Errno> {
        let begun = self.matching.begin_request(now, md, &body, self.tracking())?;
        let StartedRequest { owner, payload, operation } = begun;
        let header = Header {
            target: target.nid,
            source: Nid::ANY,
            target_pid: target.pid,
            source_pid: self.pid,
            payload_len: payload.len(),
            body,
        };
        let probe = matches!(owner, Owner::Probe(_));
        let operation = Some(operation);
        let message = Message { payload, operation, probe, ..Message::sent(header, source) };
        let id = self.messages.add(message);
        // Services got the error of a fault rule before they began.
        if !owner.is_service() && self.faults.fails(target.nid) {
            self.finalize_send(now, id, Err(Errno::EIO))
        } else {
            self.launch(now, id)
        }
        Ok(())
    }

    /// Acknowledges a PUT that came by `arrival`.
    pub(super) fn send_ack(&mut self, now: Time, put: &Header, arrival: Arrival, accepted: u32) {
        let Body::Put { ack, match_bits, .. } = put.body else { return };
        let body = Body::Ack { handle: ack, match_bits, accepted };
        let header = self.response_header(put, arrival, body, 0);
        let response = self.response(put, arrival, header);
        let id = self.messages.add(response);
        self.launch(now, id);
    }

    /// Returns a response to `request`: it takes the same path back.
    pub(super) fn response(&self, request: &Header, arrival: Arrival, header: Header) -> Message {
        let routed = request.source.net() != arrival.ni.net();
        let router = routed.then_some(arrival.from);
        let header_source = router.and(Some(request.target));
        let of_service = is_of_service(&request.body);
        Message { router, header_source, of_service, ..Message::sent(header, Some(arrival.ni)) }
    }

    /// Returns the header of the response to `request`: the NIDs change places.
    pub(super) fn response_header(
        &self,
        request: &Header,
        arrival: Arrival,
        body: Body,
        payload_len: u32,
    ) -> Header {
        Header {
            target: request.source,
            source: arrival.ni,
            target_pid: request.source_pid,
            source_pid: self.pid,
            payload_len,
            body,
        }
    }

    /// Finds a path for a message and sends it.
    pub(super) fn launch(&mut self, now: Time, id: MessageId) {
        let message = self.messages.live(id);
        message.stage = Stage::Launched;
        let criteria = Criteria::of(message);
        match self.select(now, criteria) {
            Ok(Path::Loopback) => self.loop_back(now, id),
            Ok(Path::Discover(peer)) => self.park(now, id, peer),
            Ok(Path::Verify(peer_ni)) => self.await_verification(now, id, peer_ni),
            Ok(Path::Via(hop)) => {
                self.commit(now, id, hop);
                self.post_send(now, id);
            }
            Err(errno) => self.finalize_send(now, id, Err(errno)),
        }
    }

    /// Ties a message to its path.
    fn commit(&mut self, now: Time, id: MessageId, hop: Hop) {
        self.stamp(hop);
        let Hop { ni, next: peer_ni, last, route } = hop;
        let own = self.ni(ni).expect("selection returns what exists");
        let (source, deadline) = (own.config.nid, now + self.send_timeout(own.lnd_timeout));
        let target = self.peers.ni(last).expect("selection returns what exists").nid();
        let message = self.messages.live(id);
        let in_transit = message.transit.is_some();
        if !in_transit {
            message.header.source = message.header_source.unwrap_or(source);
        }
        message.header.target = target;
        let hold = Hold::Nothing;
        let (md, body) = (message.md(), message.header.body);
        let of_service = message.of_service || is_of_service(&body);
        let response = !in_transit && matches!(body, Body::Ack { .. } | Body::Reply { .. });
        let waits = false;
        let path = Transmission { ni, peer_ni, deadline, committed: now, waits, response, hold };
        message.stage = Stage::Sending(path);
        self.peers.used(now, peer_ni, false);
        // A router does not know who is behind the next router.
        self.peers.used(now, last, of_service && (!in_transit || route.is_none()));
        if response {
            self.backpressure.begin(peer_ni);
        }
        if let (Some(md), Body::Put { .. } | Body::Get { .. }) = (md, body) {
            let request = Request {
                target: Some(target),
                put: false,
                get: false,
                ni,
                peer_ni,
                route,
                at: now,
            };
            self.note_request(md, &body, request);
        }
        if !in_transit {
            self.counters.message_born();
        }
        self.routing.count(route);
    }

    /// Returns how long a message may take to reach its LND. Spec: lnet-behaviour §11.2.
    fn send_timeout(&self, lnd_timeout: Duration) -> Duration {
        if lnd_timeout.is_zero() {
            Duration::from_secs(self.globals.transaction_timeout.into())
        } else {
            lnd_timeout * (self.globals.retry_count + 1) + Duration::from_secs(1)
        }
    }

    pub(super) fn note_request(&mut self, md: MdId, body: &Body, request: Request) {
        let same_peer = |a, b| self.peers.same_peer(a, b);
        self.matching.note_request(md, body, request, same_peer);
    }

    /// Acquires the credits that a message still lacks, and hands it over when it has both.
    ///
    /// A message that waited comes here again with the credit that it waited for: its deadline
    /// and its descriptor may have gone meanwhile, or itself, or it has left that path.
    pub(super) fn post_send(&mut self, now: Time, id: MessageId) {
        let ready =
            |path: &Transmission| matches!(path.hold, Hold::Nothing | Hold::Peer | Hold::Granted);
        let path = self.messages.get(id).and_then(Message::sending).filter(ready);
        let Some(mut path) = path else { return };
        if path.deadline < now {
            let (class, errno) = (FailureClass::NetworkTimeout, Errno::ETIMEDOUT);
            return self.send_failed(now, id, SendError { class, errno });
        }
        if self.is_aborted(id) {
            return self.finalize_send(now, id, Err(Errno::ECANCELED));
        }
        if path.hold == Hold::Nothing {
            let len = self.messages.live(id).header.payload_len;
            if self.credits.take(Account::Peer(path.peer_ni, len), id) != Some(true) {
                return self.messages.live(id).hold(Hold::WaitsForPeer);
            }
            self.messages.live(id).hold(Hold::Peer);
            path.hold = Hold::Peer;
        }
        if path.hold == Hold::Peer {
            match self.credits.take(Account::Ni(path.ni), id) {
                Some(true) => {}
                Some(false) => {
                    self.messages.live(id).hold(Hold::WaitsForNi);
                    return self.report_waiting(path.ni);
                }
                None => return self.finalize_send(now, id, Err(Errno::ESHUTDOWN)),
            }
        }
        self.messages.live(id).hold(Hold::Both);
        if !self.delay_send(now, id) {
            self.hand_over(now, id, path);
        }
    }

    /// Hands over a message that a rule has delayed, however long that was.
    pub(super) fn post_delayed(&mut self, now: Time, id: MessageId) {
        let path = self.messages.get(id).and_then(Message::sending);
        let Some(path) = path.filter(|path| path.hold == Hold::Delayed) else { return };
        self.messages.live(id).hold(Hold::Both);
        if self.is_aborted(id) {
            self.finalize_send(now, id, Err(Errno::ECANCELED))
        } else {
            self.hand_over(now, id, path)
        }
    }

    /// Returns whether the descriptor of a message was unlinked while it was under way.
    pub(super) fn is_aborted(&self, id: MessageId) -> bool {
        let md = self.messages.get(id).and_then(Message::md);
        md.is_some_and(|md| self.matching.is_aborted(md))
    }

    fn hand_over(&mut self, now: Time, id: MessageId, path: Transmission) {
        let message = self.messages.live(id);
        let (header, in_transit) = (message.header, message.transit.is_some());
        if in_transit && self.is_dead(path) {
            return self.send_failed(now, id, SendError::remote_dropped(Errno::EHOSTUNREACH));
        }
        if let Some(class) = self.faults.fail_sent(now, &header) {
            return self.send_failed(now, id, SendError { class, errno: Errno::EIO });
        }
        // A PUT is answered at least by the services of the other node.
        if matches!(header.body, Body::Put { .. } | Body::Get { .. }) {
            self.health.asked(now, Target::Ni(path.ni));
            self.health.asked(now, Target::PeerNi(path.peer_ni));
        }
        let ni = self.ni(path.ni).expect("it holds a credit of this interface").config.nid;
        let next_hop = self.peers.ni(path.peer_ni).expect("a path keeps its peer NI").nid();
        let request = SendRequest {
            message: id,
            ni,
            next_hop,
            header,
            payload: self.messages.live(id).payload.clone(),
        };
        self.outputs.push_back(Output::Send(request));
    }

    /// Returns whether the next hop does not live, where that is watched.
    fn is_dead(&self, path: Transmission) -> bool {
        self.ni(path.ni).is_some_and(|ni| ni.config.tunables.peer_timeout > 0)
            && self.peers.ni(path.peer_ni).is_some_and(|next| !next.is_alive())
    }

    /// Removes a message from the queue that it waits in. It keeps the credit that it holds.
    pub(super) fn withdraw(&mut self, id: MessageId) {
        let message = self.messages.live(id);
        let path = message.sending().expect("only committed messages wait");
        let len = message.header.payload_len;
        let hold = match path.hold {
            Hold::WaitsForPeer => {
                self.credits.withdraw(Account::Peer(path.peer_ni, len), id);
                Hold::Nothing
            }
            Hold::WaitsForNi => {
                self.credits.withdraw(Account::Ni(path.ni), id);
                Hold::Peer
            }
            hold => hold,
        };
        self.messages.live(id).hold(hold);
    }

    /// Gives back the credits of a message, the interface's first, and wakes the messages that get them.
    pub(super) fn release(&mut self, path: Transmission, payload_len: u32) {
        if !path.waits && matches!(path.hold, Hold::Both | Hold::Delayed | Hold::Granted) {
            // The interface may have been removed, and its credits with it.
            let woken = self.credits.give_back(Account::Ni(path.ni));
            self.wake(woken, Hold::Granted);
        }
        if matches!(path.hold, Hold::Both | Hold::Delayed | Hold::Granted | Hold::Peer) {
            let woken = self.credits.give_back(Account::Peer(path.peer_ni, payload_len));
            self.wake(woken, Hold::Peer);
        }
        if path.response && self.backpressure.end(path.peer_ni) {
            self.work.push_back(Work::Requests(path.peer_ni));
        }
        self.reap(path.peer_ni);
    }

    /// Notes at once that a message no longer waits: before its turn comes, it may be taken off
    /// its path.
    fn wake(&mut self, woken: Option<MessageId>, hold: Hold) {
        if let Some(id) = woken {
            self.messages.live(id).hold(hold);
            self.work.push_back(Work::Post(id));
        }
    }
}

/// Returns whether a message is a request for a service or of one, and not of LNet itself.
pub(super) fn is_of_service(body: &Body) -> bool {
    match *body {
        Body::Put { portal, .. } | Body::Get { portal, .. } => portal != RESERVED_PORTAL,
        Body::Ack { .. } | Body::Reply { .. } => false,
    }
}
