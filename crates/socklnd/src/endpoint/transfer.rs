//! Messages on open connections: sending, receiving, acknowledgements, keepalives.
//! Spec: lnet-wire §6.

use std::time::Duration;

use fulmar_base::{ConnId, Errno, Payload, Time};
use fulmar_lnd::{Output, Received, SendError, SendRequest, Stream};
use fulmar_lnet_wire::header::HeaderForm;
use fulmar_lnet_wire::socklnd::{FrameHeader, Version};
use fulmar_lnet_wire::{Header, Pid, ProcessId};
use fulmar_wire::DecodeError;

use super::links::{Cause, undelivered};
use super::{Socklnd, Timer};
use crate::Counters;
use crate::conn::{Conn, Open, Phase, WriteContent};
use crate::handshake::OUR_ORDER;
use crate::peer::{DialState, PeerKey, QueuedMessage, is_large};
use crate::rx::{Complete, Event, Fault};
use crate::zero_copy::AckResult;

impl Socklnd {
    /// Queues a message on a connection, or until there is one.
    pub(super) fn route(&mut self, now: Time, request: SendRequest) {
        let key = PeerKey { ni: request.ni, peer: next_process(&request) };
        match self.choose(&key, request.payload.len()) {
            Some(conn) => self.transmit(now, conn, request),
            None => self.enqueue(now, key, request),
        }
    }

    /// Sends queued messages, if there is a connection now.
    pub(super) fn flush_queue(&mut self, now: Time, key: &PeerKey) {
        while let Some(queued) = self.peers.get(key).and_then(|peer| peer.queue.front()) {
            let Some(conn) = self.choose(key, queued.request.payload.len()) else { return };
            let peer = self.peers.get_mut(key).expect("a peer with a queue is known");
            let Some(queued) = peer.queue.pop_front() else { return };
            self.transmit(now, conn, queued.request);
        }
    }

    /// Appends to the write queue of a connection.
    pub(super) fn write(&mut self, now: Time, id: ConnId, head: Vec<u8>, written: WriteContent) {
        let conn = self.conns.get_mut(&id).expect("connections with writes are known");
        conn.tx.push(now, head.len() as u64, written);
        let checksum = written == WriteContent::Noop && self.checksums(id);
        self.outputs.push_back(Output::Stream(Stream::Write {
            conn: id,
            head,
            payload: Payload::Empty,
            checksum,
        }));
    }

    /// Writes to a connection that is closed next, so that its end needs no handling.
    pub(super) fn write_last(&mut self, conn: ConnId, head: Vec<u8>) {
        let (payload, checksum) = (Payload::Empty, false);
        self.outputs.push_back(Output::Stream(Stream::Write { conn, head, payload, checksum }));
    }

    pub(super) fn sent(&mut self, now: Time, id: ConnId, bytes: u64) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return self.sent_before_end(now, id, bytes);
        };
        let Phase::Open(Open { key, .. }) = &conn.phase else {
            return conn.tx.advance(now, bytes, |_| {});
        };
        let zero_copy = self.peers.get_mut(key).map(|peer| &mut peer.zero_copy);
        let zero_copy = zero_copy.expect("a peer with a connection is known");
        let (counters, outputs) = (&mut self.counters, &mut self.outputs);
        conn.tx.advance(now, bytes, |written| {
            if let Some(sent) = count(counters, written, |cookie| zero_copy.written(now, cookie)) {
                outputs.push_back(sent);
            }
        });
    }

    /// Handles an item read from an open connection.
    pub(super) fn handle_event(&mut self, now: Time, id: ConnId, event: Result<Event, Fault>) {
        match event {
            Ok(Event::More) => {}
            Ok(Event::Keepalive) => self.counters.keepalives_received += 1,
            Ok(Event::Acknowledged(cookies)) => self.acknowledged(now, id, cookies),
            Ok(Event::Header(header, acknowledged)) => {
                self.receive(now, id, header);
                if acknowledged != 0 {
                    self.acknowledged(now, id, [0, acknowledged]);
                }
            }
            Ok(Event::Complete(complete)) => self.complete(now, id, complete),
            Err(fault) => self.fault(now, id, fault),
        }
    }

    /// Sends a keepalive to a silent peer. The timer does not hold the time of the last byte:
    /// otherwise it would have to be reset for every message.
    pub(super) fn handle_keepalive_timer(&mut self, now: Time, key: PeerKey) {
        let Some(peer) = self.peers.get(&key) else { return };
        let alive = |conn: &Conn| conn.heard().max(conn.tx.progress());
        let last = peer.links.iter().map(|link| alive(&self.conns[&link.conn])).max();
        let quiet_until = last.unwrap_or(now) + self.config.keepalive;
        if quiet_until > now {
            return self.timers.set(Timer::Keepalive(key), quiet_until);
        }
        let pause = self.config.keepalive.max(KEEPALIVE_INTERVAL);
        self.timers.set(Timer::Keepalive(key), now + pause);
        let conn = peer.keepalive_conn();
        // Queued bytes serve as a keepalive once the socket accepts them.
        if let Some(conn) = conn.filter(|conn| self.conns[conn].tx.queued() == 0) {
            self.counters.keepalives_sent += 1;
            self.send_noop(now, conn, FrameHeader::KEEPALIVE);
        }
    }

    /// Closes an open connection without progress, or schedules the next check.
    pub(super) fn look_for_stall(&mut self, now: Time, id: ConnId) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Phase::Open(open) = &conn.phase else { return };
        let timeout = self.timeout_of(open.key.ni);
        let deadline = |since: Option<Time>| since.map_or(Time::MAX, |since| since + timeout);
        let receive = deadline(open.rx.stalled_since());
        let zero_copy = self.peers.get(&open.key).and_then(|peer| peer.zero_copy.waits_since(id));
        let send = deadline(conn.tx.stalled_since()).min(deadline(zero_copy));
        if receive.min(send) > now {
            // A later stall has a later deadline.
            self.timers.set(Timer::Conn(id), receive.min(send).min(now + timeout));
            let (key, heard) = (open.key, open.rx.last());
            let last = heard.max(conn.tx.progress());
            return self.check_retired(now, (id, key), last, heard);
        }
        self.counters.stalled += 1;
        let cause = if send <= now { Cause::SendStall } else { Cause::ReceiveStall };
        self.fail_conn(now, id, cause);
    }

    fn enqueue(&mut self, now: Time, key: PeerKey, request: SendRequest) {
        if !self.nis.contains_key(&key.ni) {
            return self.fail_message(&request, SendError::local_error(Errno::ENODEV));
        }
        if key.dial_addrs(self.config.accept_port).is_none() {
            return self.fail_message(&request, SendError::remote_error(Errno::EHOSTUNREACH));
        }
        let (down, timeout) = (self.is_down(&key.ni), self.timeout_of(key.ni));
        let peer = self.peers.entry(key).or_default();
        if let DialState::BackedOff = peer.dialler.state {
            let errno = if down { Errno::ENETDOWN } else { Errno::EHOSTUNREACH };
            return self.fail_message(&request, undelivered(down, errno));
        }
        if let DialState::Idle = peer.dialler.state {
            peer.dialler.begin_round(now, timeout);
        }
        self.outputs.push_back(Output::Waiting { message: request.message });
        peer.queue.push_back(QueuedMessage { since: now, request });
        self.settle(now, key);
    }

    /// Returns the connection for a message: of those that serve it best, the one with the shortest
    /// queue, then the least recently used.
    fn choose(&self, key: &PeerKey, payload_len: u32) -> Option<ConnId> {
        let peer = self.peers.get(key)?;
        let large = is_large(&self.config, peer.known?.version, payload_len);
        let load = |id: &ConnId| {
            let conn = &self.conns[id];
            match &conn.phase {
                Phase::Open(open) => (conn.tx.queued(), open.last_used),
                Phase::Dialling(_) | Phase::Calling(..) | Phase::Called(..) => {
                    unreachable!("links are open connections")
                }
            }
        };
        peer.candidates(large).min_by_key(load)
    }

    fn transmit(&mut self, now: Time, id: ConnId, request: SendRequest) {
        let conn = self.conns.get_mut(&id).expect("an open connection was chosen");
        let Phase::Open(open) = &mut conn.phase else {
            unreachable!("an open connection was chosen")
        };
        let SendRequest { message, header, payload, .. } = request;
        assert_eq!(header.payload_len, payload.len(), "the header of {message:?} is wrong");
        let version = open.rx.version();
        let form = version.header_form();
        if form == HeaderForm::Small && (header.target.is_large() || header.source.is_large()) {
            // A neighbour of a router may have an older version than the ends of the route.
            let result = Err(SendError::local_error(Errno::EOPNOTSUPP));
            return self.outputs.push_back(Output::Sent { message, result });
        }
        let asks = self.config.zc_min_payload.is_some_and(|least| payload.len() >= least);
        let (frame, written) = match self.peers.get_mut(&open.key) {
            Some(peer) if asks && version != Version::V1 => {
                let cookie = peer.zero_copy.ask(message, id);
                let written = WriteContent::ZeroCopy(message, payload.len(), cookie);
                (FrameHeader::zero_copy(cookie), written)
            }
            _ => (FrameHeader::lnet(), WriteContent::Message(message, payload.len())),
        };
        let mut head = Vec::with_capacity(FrameHeader::LEN + form.len());
        if version != Version::V1 {
            frame.encode(OUR_ORDER, &mut head);
        }
        header.encode(form, &mut head);
        self.transmitted += 1;
        open.last_used = self.transmitted;
        let len = head.len() as u64 + u64::from(payload.len());
        let waits = now < open.slow_until;
        conn.tx.push(now, len, written);
        let checksum = version == Version::V2 && self.config.enable_csum;
        self.outputs.push_back(Output::Stream(Stream::Write { conn: id, head, payload, checksum }));
        if waits {
            self.outputs.push_back(Output::Waiting { message });
        }
    }

    fn receive(&mut self, now: Time, id: ConnId, mut header: Header) {
        let Some(Conn { phase: Phase::Open(open), .. }) = self.conns.get(&id) else { return };
        let Open { key, imposed, on_probation, .. } = *open;
        if imposed {
            header.source = key.peer.nid;
            header.source_pid = key.peer.pid;
        }
        self.counters.messages_received += 1;
        let received = Received { conn: id, ni: key.ni, from: key.peer.nid, header };
        self.outputs.push_back(Output::Received(received));
        if on_probation {
            self.prove(now, id, key);
        }
    }

    fn complete(&mut self, now: Time, id: ConnId, complete: Complete) {
        let Complete { rx, payload_len, cookie, inline } = complete;
        self.counters.payload_received += u64::from(payload_len);
        self.outputs.push_back(Output::Completed { rx, result: Ok(inline) });
        if cookie == 0 {
            return;
        }
        let queued = self.conns.get(&id).map_or(0, |conn| conn.tx.noops());
        if queued >= ACKS_MAX {
            let (field, got) = ("unread acknowledgements", queued as u64);
            return self.fault(now, id, Fault::Malformed(DecodeError::Range { field, got }));
        }
        self.counters.zc_acks_sent += 1;
        self.send_noop(now, id, cookie);
    }

    /// Handles acknowledgements of messages by the peer.
    fn acknowledged(&mut self, now: Time, id: ConnId, cookies: [u64; 2]) {
        let Some(Conn { phase: Phase::Open(open), .. }) = self.conns.get(&id) else { return };
        let paired = open.rx.version() >= Version::V3;
        let Some(peer) = self.peers.get_mut(&open.key) else { return };
        match peer.zero_copy.acknowledged(cookies, paired) {
            Ok(AckResult { messages, late }) => {
                self.counters.zc_acks_received += 1;
                self.counters.late_cookies += late;
                let sent = |message| Output::Sent { message, result: Ok(()) };
                self.outputs.extend(messages.into_iter().map(sent));
            }
            Err(cookie) => self.fault(now, id, Fault::Cookie(cookie)),
        }
    }

    fn send_noop(&mut self, now: Time, conn: ConnId, cookie: u64) {
        let mut head = Vec::with_capacity(FrameHeader::LEN);
        FrameHeader::acknowledge(cookie).encode(OUR_ORDER, &mut head);
        self.write(now, conn, head, WriteContent::Noop);
    }

    fn checksums(&self, id: ConnId) -> bool {
        let open = self.conns.get(&id).map(|conn| &conn.phase);
        let old = matches!(open, Some(Phase::Open(open)) if open.rx.version() == Version::V2);
        old && self.config.enable_csum
    }
}

/// Counts a complete write, and returns its notification. `acknowledged` is the result of a message
/// with a cookie, if it ends now.
pub(super) fn count(
    counters: &mut Counters,
    written: WriteContent,
    acknowledged: impl FnOnce(u64) -> Option<Result<(), SendError>>,
) -> Option<Output> {
    let (message, payload_len, result) = match written {
        WriteContent::Handshake | WriteContent::Noop => return None,
        WriteContent::Message(message, len) => (message, len, Some(Ok(()))),
        WriteContent::ZeroCopy(message, len, cookie) => (message, len, acknowledged(cookie)),
    };
    counters.messages_sent += 1;
    counters.payload_sent += u64::from(payload_len);
    result.map(|result| Output::Sent { message, result })
}

/// Returns the remote process of the connection. A peer with an invented PID keeps that PID, all
/// others have the PID of Lustre.
fn next_process(request: &SendRequest) -> ProcessId {
    let Header { target, target_pid, .. } = request.header;
    let invented = target == request.next_hop && target_pid.0 & Pid::USER_FLAG != 0;
    let pid = if invented { target_pid } else { Pid::LUSTRE };
    ProcessId { nid: request.next_hop, pid }
}

/// The least interval between two keepalives. Spec: lnet-wire §6.4.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A peer with this many unread acknowledgements does not read at all. Its own LNet limits it to
/// 256 messages in flight.
const ACKS_MAX: usize = 4096;
