//! Replies to requests. Spec: ptlrpc-ldlm-mgs §6.2, §7.4.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::message::{Container, Kind, Message};

use super::call::SendState;
use super::{Arrival, Import, Purpose, RequestId, Timer, XidSource};

impl Import {
    pub(super) fn handle_call_reply(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        id: RequestId,
        arrival: Arrival<'_>,
    ) {
        let Some(call) = self.calls.get(id.0) else { return };
        let Some(sent) = call.sent.filter(|_| call.reply.is_none()) else { return };
        let opcode = call.request.message.body.opcode;
        if sent.has_early && arrival.offset == 0 {
            return self.handle_early(id, sent, arrival);
        }
        if arrival.sent_len > arrival.bytes.len() {
            return self.enlarge(now, xids, id, arrival.sent_len);
        }
        let format = call.request.message.format();
        let reply = Message::decode(arrival.bytes).ok().map(|reply| reply.answering(format));
        let policy = self.target.flavor.policy();
        match reply.filter(|reply| {
            let is_reply = reply.body.kind != Kind::REQUEST && reply.body.opcode == opcode;
            is_reply && reply.head.flavor.policy() == policy
        }) {
            Some(reply) => self.handle_answer(now, xids, id, sent, Box::new(reply.into_owned())),
            None => {
                self.end(id, Err(Errno::EPROTO));
                self.send_waiting(now, xids);
            }
        }
    }

    /// Handles an early reply: the server needs longer.
    fn handle_early(&mut self, id: RequestId, sent: SendState, arrival: Arrival<'_>) {
        if arrival.sent_len > arrival.bytes.len() {
            return;
        }
        let Ok(early) = Message::decode(arrival.bytes) else { return };
        if early.has_early_checksum() {
            self.replies.set(id, self.timeouts.extended(sent.at, early.body.timeout));
        }
    }

    /// Sends a request again, once, with room for its whole reply.
    fn enlarge(&mut self, now: Time, xids: &mut XidSource, id: RequestId, len: usize) {
        let Some(call) = self.calls.get_mut(id.0) else { return };
        if call.enlarged || len > Container::LEN_MAX {
            self.end(id, Err(Errno::EOVERFLOW));
            return self.send_waiting(now, xids);
        }
        (call.enlarged, call.resent, call.request.reply_len) = (true, true, len);
        let sent = call.sent.take();
        self.forget_transmission(id, sent.map(|sent| sent.id));
        if self.may_resend(id) {
            self.transmit(now, xids, id);
        }
    }

    /// Handles a complete reply.
    fn handle_answer(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        id: RequestId,
        sent: SendState,
        reply: Box<Message<'static>>,
    ) {
        let Some(call) = self.calls.get_mut(id.0) else { return };
        let portal = call.request.portal.unwrap_or(self.target.kind.portal());
        let purpose = call.purpose;
        let (body, trip) = (reply.body, now.since(sent.at));
        self.timeouts.measure(now, portal, body.timeout, trip, body.service_time);
        self.stats.replied(body.opcode, trip);
        self.kept.commit(body.last_committed);
        self.release_dropped();
        match (body.status.errno(), body.kind) {
            (Some(Errno::EINPROGRESS), _) if purpose == Purpose::Owner => {
                return self.postpone(now, xids, id);
            }
            (Some(errno @ (Errno::ENOTCONN | Errno::ENODEV)), Kind::ERROR) => {
                return self.lose(now, xids, errno);
            }
            _ => {}
        }
        if let Purpose::Replay(key) = purpose {
            self.end(id, Err(Errno::ECANCELED));
            return self.replayed(now, xids, key, reply);
        }
        if purpose == Purpose::Owner {
            self.search.answered();
            self.keep(id, &reply);
        }
        match (body.status.errno(), body.kind) {
            (Some(errno), Kind::ERROR) => self.end(id, Err(errno)),
            _ => self.conclude(id, reply),
        }
        match (purpose, body.status.errno()) {
            (Purpose::EndOfReplay, None) => self.recovered(now, xids),
            (Purpose::EndOfReplay | Purpose::LockReplay, Some(errno)) => {
                self.lose(now, xids, errno);
            }
            (Purpose::LockReplay, None) => self.send_lock_replays(now, xids),
            _ => {
                self.expect_commit(now);
                self.send_waiting(now, xids);
            }
        }
    }

    /// Asks soon whether the target has written its transactions, if it does not say so by itself.
    fn expect_commit(&mut self, now: Time) {
        let at = now + self.ping_interval();
        if self.timers.get(Timer::Ping).is_some_and(|ping| ping > at) {
            self.timers.set(Timer::Ping, at);
        }
    }

    /// Sends a request again later, with a new number: the server has not finished it.
    fn postpone(&mut self, now: Time, xids: &mut XidSource, id: RequestId) {
        let Some(call) = self.calls.get_mut(id.0) else { return };
        let portal = call.request.portal.unwrap_or(self.target.kind.portal());
        let after = call.postpone(self.timeouts.service(portal));
        let (xid, sent) = (call.xid.take(), call.sent.take());
        call.resent = false;
        self.forget_transmission(id, sent.map(|sent| sent.id));
        if let Some(xid) = xid {
            self.unreplied.remove(&xid);
        }
        self.timers.set(Timer::Postponed(id), now + after);
        self.send_waiting(now, xids);
    }
}
