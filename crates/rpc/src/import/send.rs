//! Sending: what is filled in with each transmission. Spec: ptlrpc-ldlm-mgs §3.3, §6.1, §12.1.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, CONNECTION, SELINUX_POLICY, TARGET_UUID,
};
use fulmar_lustre_wire::message::{
    Body, BulkHash, ConnectOpFlags, Head, HeaderFlags, Message, MessageFlags, len_with,
};
use fulmar_lustre_wire::{Status, portal};

use super::bulk::{PostedBulk, Transfer};
use super::call::SendState;
use super::wait_queue::Lane;
use super::{
    CONNECT_TIMEOUT, EMPTY_LEN, Handshake, Import, Output, Purpose, ReplyRoom, RequestId, State,
    Timer, Transmission, TransmissionId,
};
use crate::timeouts::estimate;
use crate::{Xid, XidSource};

/// How long a target has to write what it has changed, before it is asked.
const COMMIT_INTERVAL: Duration = Duration::from_secs(7);

/// Newer servers may reply to a connect with longer data: the room for them.
const NEWER_DATA: usize = 128;

impl Import {
    /// Sends what waits, as far as the state and the limit allow.
    pub(super) fn send_waiting(&mut self, now: Time, xids: &mut XidSource) {
        while self.state == State::Full
            && self.handshake.is_none()
            && self.own_in_flight() < self.target.in_flight_max
            && !self.kept.is_full()
        {
            let Self { waiting, slots, .. } = self;
            let next = waiting.pop(|lane| match lane {
                Lane::Ordinary => true,
                Lane::Modifying => slots.is_free(false),
                Lane::Close => slots.is_free(true),
            });
            let Some(id) = next else { break };
            if let Some(call) =
                self.calls.get_mut(id.0).filter(|call| call.lane() != Lane::Ordinary)
            {
                call.slot = Some(self.slots.take(call.request.is_close()));
            }
            self.transmit(now, xids, id);
        }
        self.note_idle(now);
    }

    /// Returns the number of requests of the owner in flight.
    fn own_in_flight(&self) -> usize {
        self.in_flight.len() - self.pings
    }

    /// Sends a request, perhaps again.
    pub(super) fn transmit(&mut self, now: Time, xids: &mut XidSource, id: RequestId) {
        let transmission = self.new_transmission();
        let has_early = self.granted.flags.has(ConnectFlags::AT);
        let Some(bits) = self.number(xids, id) else { return };
        let Some(call) = self.calls.get_mut(id.0) else { return };
        call.sent = Some(SendState { id: transmission, at: now, has_early });
        let bulk = call.request.bulk.clone();
        let bulk = bulk.map(|bulk| PostedBulk { bulk, first_bits: bits.first });
        if bulk.is_some() {
            call.transfer = Transfer::Posted(transmission);
        }
        let (resent, purpose, slot) = (call.resent, call.purpose, call.slot);
        let (reply_len, own_portal) = (call.request.reply_len, call.request.portal);
        let (mut head, mut body) = (call.request.message.head, call.request.message.body);
        let portal = own_portal.unwrap_or(self.target.kind.portal());
        let timeout = self.timeouts.service(portal);

        self.sign(&mut head, &mut body);
        let room = expect_reply(&mut head, reply_len, has_early);
        body.match_bits = bits.body;
        if let Some(slot) = slot {
            body.tag = slot.tag;
        }
        body.timeout = timeout;
        body.last_xid = self.last_replied();
        if resent {
            body.flags = body.flags | MessageFlags::RESENT;
        }
        body.flags = body.flags | progress(purpose);
        self.in_flight.insert(transmission, id);
        self.note_sent(id, resent, purpose);
        let deadline = now + seconds(timeout + self.timeouts.network());
        self.replies.set(id, deadline);
        let mut bytes = Vec::new();
        if let Some(call) = self.calls.get_mut(id.0) {
            if bulk.is_some() && head.flavor.has_bulk() {
                call.request.message.bulk.get_or_insert(BulkHash::INTEGRITY);
            }
            call.request.message.encode_as(&head, &body, &mut bytes);
        }
        self.emit(now, transmission, (portal, bits.xid), (bits.reply, room), bytes, bulk);
    }

    fn note_sent(&mut self, id: RequestId, resent: bool, purpose: Purpose) {
        self.stats.repeated += u64::from(resent);
        if purpose == Purpose::Ping {
            return;
        }
        self.stats.in_flight.add(self.own_in_flight() as u64);
        let bulk = |id: &RequestId| self.calls.get(id.0)?.request.bulk.as_ref();
        let Some(sent) = bulk(&id) else { return };
        let (direction, len) = (sent.direction(), sent.len());
        let of_kind = |id: &&RequestId| bulk(id).is_some_and(|one| one.direction() == direction);
        let count = self.in_flight.values().filter(of_kind).count();
        let transfers = self.stats.transfers(direction);
        transfers.in_flight.add(count as u64);
        transfers.bytes.add(len);
    }

    /// Returns the number up to which all requests have replies.
    fn last_replied(&self) -> u64 {
        let first = self.unreplied.first().copied();
        first.into_iter().chain(self.first_to_replay()).min().map_or(0, |xid| xid.0 - 1)
    }

    /// Connects to the present NID.
    pub(super) fn send_connect(&mut self, now: Time, xids: &mut XidSource) {
        self.timers.clear(Timer::Retry);
        self.search.attempt(now);
        self.connection_count += 1;
        let (id, xid) = (self.new_transmission(), xids.allocate());
        let portal = self.target.kind.portal();
        let mut message = Message::request(self.target.kind.connect())
            .with(&TARGET_UUID, &self.target.uuid)
            .with(&CLIENT_UUID, &self.target.client)
            .with(&CONNECTION, &self.target.connection)
            .with(&CONNECT_DATA, &self.connect_data())
            .with_bytes(&SELINUX_POLICY, &[][..]);
        self.sign(&mut message.head, &mut message.body);
        let len = len_with(&[Body::LEN, ConnectData::LEN + NEWER_DATA]);
        message.head.reply_room = len as u32;
        let room = ReplyRoom { len: self.target.flavor.wrapped_len(len), early: 0 };
        message.body.timeout = CONNECT_TIMEOUT;
        message.body.service_time = estimate(self.timeouts.service(portal));
        if self.export.is_none() {
            message.body.connect_flags = ConnectOpFlags::INITIAL;
        }
        if self.kept.len() > 0 {
            message.body.connect_flags = message.body.connect_flags | ConnectOpFlags::TRANSNO;
        }
        self.handshake = Some(Handshake::Connect { id, sent: now });
        self.set_state(State::Connecting);
        let deadline = now + seconds(CONNECT_TIMEOUT + self.timeouts.search());
        self.timers.set(Timer::Answer, deadline);
        self.emit(now, id, (portal, xid), (xid.0, room), message.to_bytes(), None);
    }

    /// Returns what is requested: the first time what the owner wants, later with the values that
    /// the target has chosen.
    fn connect_data(&self) -> ConnectData {
        let wanted = self.target.data;
        if !self.is_known {
            return wanted;
        }
        ConnectData {
            flags: wanted.flags,
            flags2: wanted.flags2,
            version: wanted.version,
            grant: self.held.unwrap_or(self.granted.grant),
            transno: self.kept.after(None).next().map_or(0, |((transno, _), _)| transno),
            ..self.granted
        }
    }

    pub(super) fn send_disconnect(&mut self, now: Time, xids: &mut XidSource, is_idle: bool) {
        let (id, xid) = (self.new_transmission(), xids.allocate());
        let portal = self.target.kind.portal();
        let has_early = self.granted.flags.has(ConnectFlags::AT);
        let timeout = self.timeouts.service(portal);
        let mut message = Message::request(self.target.kind.disconnect());
        self.sign(&mut message.head, &mut message.body);
        let room = expect_reply(&mut message.head, EMPTY_LEN, has_early);
        if self.granted.flags2.has(ConnectFlags2::REP_MBITS) {
            message.body.match_bits = xid.0;
        }
        message.body.timeout = timeout;
        self.handshake = Some(Handshake::Disconnect { id, is_idle });
        self.timers.set(Timer::Answer, now + seconds(timeout.min(CONNECT_TIMEOUT)));
        self.emit(now, id, (portal, xid), (xid.0, room), message.to_bytes(), None);
        self.timers.clear(Timer::Ping);
    }

    /// Fills in the sender and the connection.
    fn sign(&self, head: &mut Head, body: &mut Body) {
        let sender = self.target.sender;
        head.flavor = self.target.flavor.from_part(self.target.kind.part());
        body.handle = self.export;
        body.connection_count = self.connection_count;
        body.status = Status(sender.pid);
        (body.uid, body.gid, body.job) = (sender.uid, sender.gid, Some(sender.job));
        body.flags = body.flags | MessageFlags::PACK_UID_GID;
    }

    fn emit(
        &mut self,
        now: Time,
        id: TransmissionId,
        (portal, xid): (u32, Xid),
        (reply_bits, room): (u64, ReplyRoom),
        bytes: Vec<u8>,
        bulk: Option<PostedBulk>,
    ) {
        let reply_portal = portal::reply_to(portal).expect("requests are sent to request portals");
        let to = ProcessId::lustre(self.nid());
        self.timers.set(Timer::Ping, now + self.ping_interval());
        self.outputs.push_back(Output::Transmit(Transmission {
            id,
            to,
            portal,
            xid,
            reply_portal,
            reply_bits,
            room,
            bytes,
            bulk,
        }));
    }

    /// Returns after which silence to ping: soon, if the target will have news about what it has
    /// written. Spec: ptlrpc-ldlm-mgs §16.1.
    pub(super) fn ping_interval(&self) -> Duration {
        let interval = self.target.ping_interval;
        if self.kept.has_uncommitted() { interval.min(COMMIT_INTERVAL) } else { interval }
    }

    fn new_transmission(&mut self) -> TransmissionId {
        self.next_transmission += 1;
        TransmissionId(self.next_transmission)
    }
}

/// Asks in the head of a request for a reply of at most `len` bytes, and returns the room for it.
/// `has_early`: early replies may come. Spec: ptlrpc-ldlm-mgs §7.3.
pub(crate) fn expect_reply(head: &mut Head, len: usize, has_early: bool) -> ReplyRoom {
    head.reply_room = len as u32;
    head.flags = HeaderFlags::CKSUM_INCOMPAT18;
    let len = head.flavor.wrapped_len(len);
    if !has_early {
        return ReplyRoom { len, early: 0 };
    }
    head.flags = head.flags | HeaderFlags::AT_SUPPORT;
    let early = head.flavor.early_len();
    ReplyRoom { len: len + early, early }
}

/// What a request says about the progress of a recovery.
fn progress(purpose: Purpose) -> MessageFlags {
    match purpose {
        Purpose::LockReplay => MessageFlags::REQ_REPLAY_DONE,
        Purpose::EndOfReplay => MessageFlags::REQ_REPLAY_DONE | MessageFlags::LOCK_REPLAY_DONE,
        // A replay is marked in its message.
        Purpose::Owner | Purpose::Ping | Purpose::Replay(_) => MessageFlags::NONE,
    }
}

pub(super) fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
