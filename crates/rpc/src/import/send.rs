//! Sending: what is filled in with each transmission. Spec: ptlrpc-ldlm-mgs §3.3, §6.1, §12.1.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, CONNECTION, SELINUX_POLICY, TARGET_UUID,
};
use fulmar_lustre_wire::message::{
    Body, ConnectOpFlags, EARLY_LEN, HeaderFlags, Message, MessageFlags, len_with,
};
use fulmar_lustre_wire::{Status, portal};

use super::call::Sent;
use super::{
    CONNECT_TIMEOUT, EMPTY_LEN, Handshake, Import, Output, Purpose, RequestId, State, Timer,
    Transmission, TransmissionId,
};
use crate::timeouts::estimate;
use crate::{Xid, XidSource};

/// Newer servers may reply to a connect with longer data: the room for them.
const NEWER_DATA: usize = 128;

impl Import {
    /// Sends what waits, as far as the state and the limit allow.
    pub(super) fn send_waiting(&mut self, now: Time, xids: &mut XidSource) {
        while self.state == State::Full && self.own_in_flight() < self.target.in_flight_max {
            let Some(id) = self.waiting.pop_front() else { break };
            self.transmit(now, xids, id);
        }
    }

    /// Returns the number of requests of the owner in flight.
    fn own_in_flight(&self) -> usize {
        self.in_flight.len() - usize::from(self.ping.is_some())
    }

    /// Sends a request, perhaps again.
    pub(super) fn transmit(&mut self, now: Time, xids: &mut XidSource, id: RequestId) {
        let transmission = self.new_transmission();
        let has_early = self.granted.flags.has(ConnectFlags::AT);
        let Some(call) = self.calls.get_mut(id.0) else { return };
        let xid = *call.xid.get_or_insert_with(|| xids.allocate());
        call.sent = Some(Sent { id: transmission, at: now, has_early });
        let (resent, purpose) = (call.resent, call.purpose);
        let (reply_len, own_portal) = (call.request.reply_len, call.request.portal);
        let mut message = call.request.message.clone();
        self.unreplied.insert(xid);
        let portal = own_portal.unwrap_or(self.target.kind.portal());
        let timeout = self.timeouts.service(portal);

        self.sign(&mut message);
        message.head.reply_room = reply_len as u32;
        message.head.flags = HeaderFlags::CKSUM_INCOMPAT18;
        if has_early {
            message.head.flags = message.head.flags | HeaderFlags::AT_SUPPORT;
        }
        let reply_bits = self.reply_bits(xids, xid, resent, &mut message.body);
        message.body.timeout = timeout;
        message.body.last_xid = self.last_replied();
        if resent {
            message.body.flags = message.body.flags | MessageFlags::RESENT;
        }
        if purpose == Purpose::EndOfReplay {
            message.body.flags =
                message.body.flags | MessageFlags::REQ_REPLAY_DONE | MessageFlags::LOCK_REPLAY_DONE;
        }
        let reply_room = reply_len + if has_early { EARLY_LEN } else { 0 };
        self.in_flight.insert(transmission, id);
        let deadline = now + seconds(timeout + self.timeouts.network());
        self.timers.set(Timer::Reply(id), deadline);
        self.emit(now, transmission, portal, (xid, reply_bits), reply_room, &message);
    }

    /// Returns the match bits of the reply: the number of the request, or, if the target grants it,
    /// bits that each transmission has of its own.
    fn reply_bits(&self, xids: &mut XidSource, xid: Xid, resent: bool, body: &mut Body) -> u64 {
        if !self.granted.flags2.has(ConnectFlags2::REP_MBITS) {
            return xid.0;
        }
        let fresh = resent && self.granted.flags.has(ConnectFlags::BULK_MBITS);
        body.match_bits = if fresh { xids.allocate().0 } else { xid.0 };
        body.match_bits
    }

    /// Returns the number up to which all requests have replies.
    fn last_replied(&self) -> u64 {
        self.unreplied.first().map_or(0, |xid| xid.0 - 1)
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
        self.sign(&mut message);
        let reply_room = len_with(&[Body::LEN, ConnectData::LEN + NEWER_DATA]);
        message.head.reply_room = reply_room as u32;
        message.body.timeout = CONNECT_TIMEOUT;
        message.body.service_time = estimate(self.timeouts.service(portal));
        if self.export.is_none() {
            message.body.connect_flags = ConnectOpFlags::INITIAL;
        }
        self.handshake = Some(Handshake::Connect { id, sent: now });
        self.set_state(State::Connecting);
        let deadline = now + seconds(CONNECT_TIMEOUT + self.timeouts.network());
        self.timers.set(Timer::Answer, deadline);
        self.emit(now, id, portal, (xid, xid.0), reply_room, &message);
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
            ..self.granted
        }
    }

    pub(super) fn send_disconnect(&mut self, now: Time, xids: &mut XidSource) {
        let (id, xid) = (self.new_transmission(), xids.allocate());
        let portal = self.target.kind.portal();
        let has_early = self.granted.flags.has(ConnectFlags::AT);
        let timeout = self.timeouts.service(portal);
        let mut message = Message::request(self.target.kind.disconnect());
        self.sign(&mut message);
        message.head.reply_room = EMPTY_LEN as u32;
        message.head.flags = HeaderFlags::CKSUM_INCOMPAT18;
        if has_early {
            message.head.flags = message.head.flags | HeaderFlags::AT_SUPPORT;
        }
        let reply_bits = self.reply_bits(xids, xid, false, &mut message.body);
        message.body.timeout = timeout;
        self.handshake = Some(Handshake::Disconnect { id });
        self.timers.set(Timer::Answer, now + seconds(timeout.min(CONNECT_TIMEOUT)));
        let reply_room = EMPTY_LEN + if has_early { EARLY_LEN } else { 0 };
        self.emit(now, id, portal, (xid, reply_bits), reply_room, &message);
        self.timers.clear(Timer::Ping);
    }

    /// Fills in the sender and the connection.
    fn sign(&self, message: &mut Message<'_>) {
        let sender = self.target.sender;
        message.head.flavor = self.target.kind.flavor();
        let body = &mut message.body;
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
        portal: u32,
        (xid, reply_bits): (Xid, u64),
        reply_room: usize,
        message: &Message<'_>,
    ) {
        let reply_portal = portal::reply_to(portal).expect("requests are sent to request portals");
        let (to, bytes) = (ProcessId::lustre(self.nid()), message.to_bytes());
        self.timers.set(Timer::Ping, now + self.target.ping_interval);
        self.outputs.push_back(Output::Transmit(Transmission {
            id,
            to,
            portal,
            xid,
            reply_portal,
            reply_bits,
            reply_room,
            bytes,
        }));
    }

    fn new_transmission(&mut self) -> TransmissionId {
        self.next_transmission += 1;
        TransmissionId(self.next_transmission)
    }
}

pub(super) fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
