//! Requests that end, and connections that are lost. Spec: ptlrpc-ldlm-mgs §14.5.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::message::Message;

use super::{Import, Output, Purpose, RequestId, State, Timer, TransmissionId, XidSource};

impl Import {
    /// Ends a request.
    pub(super) fn end(&mut self, id: RequestId, result: Result<Box<Message<'static>>, Errno>) {
        let Some(call) = self.calls.remove(id.0) else { return };
        self.forget_transmission(id, call.sent.map(|sent| sent.id));
        self.timers.clear(Timer::Postponed(id));
        if let Some(xid) = call.xid {
            self.unreplied.remove(&xid);
        }
        if let Some(slot) = call.slot {
            self.slots.give_back(slot);
        }
        match call.purpose {
            Purpose::Replay(_) => {}
            Purpose::Owner | Purpose::LockReplay => self.done(id, call.transfer, result),
            Purpose::Ping | Purpose::EndOfReplay => self.pings -= 1,
        }
    }

    /// Ends a request with EINTR, unless it is under way. One that was sent on a connection that is lost is not sent again;
    /// the target may have executed it. Returns whether it has ended.
    pub fn withdraw(&mut self, now: Time, xids: &mut XidSource, id: RequestId) -> bool {
        let is_waiting = self.waiting.remove(id);
        if is_waiting {
            self.end(id, Err(Errno::EINTR));
            self.send_waiting(now, xids);
        }
        is_waiting
    }

    /// Stops to expect a reply to the last transmission of a request.
    pub(super) fn forget_transmission(&mut self, id: RequestId, sent: Option<TransmissionId>) {
        self.replies.clear(id);
        if let Some(sent) = sent
            && self.in_flight.remove(&sent).is_some()
        {
            self.outputs.push_back(Output::Withdraw(sent));
        }
    }

    /// Ends all requests.
    pub(super) fn fail_all(&mut self, errno: Errno) {
        self.waiting.clear();
        self.lock_replays.clear();
        let ids: Vec<u64> = self.calls.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.end(RequestId(id), Err(errno));
        }
    }

    /// Loses the connection, and searches the target. What was sent and not answered is sent again,
    /// before what waits, when the import is connected. Spec: ptlrpc-ldlm-mgs §14.5.
    pub(super) fn lose(&mut self, now: Time, xids: &mut XidSource, errno: Errno) {
        self.timers.clear(Timer::Ping);
        self.timers.clear(Timer::Idle);
        let mut sent: Vec<RequestId> = std::mem::take(&mut self.in_flight).into_values().collect();
        sent.sort_by_key(|id| self.calls.get(id.0).and_then(|call| call.xid));
        for id in sent.into_iter().rev() {
            self.replies.clear(id);
            let Some(call) = self.calls.get_mut(id.0) else { continue };
            if let Some(sent) = call.sent.take() {
                self.outputs.push_back(Output::Withdraw(sent.id));
            }
            (call.resent, call.reply) = (true, None);
            let lane = call.lane();
            let is_kept = call.request.resend && call.purpose == Purpose::Owner;
            match is_kept {
                true if self.may_resend(id) => self.waiting.push_front(lane, id),
                true => {}
                false => self.end(id, Err(Errno::ETIMEDOUT)),
            }
        }
        for id in std::mem::take(&mut self.lock_replays) {
            self.end(id, Err(errno));
        }
        self.set_state(State::Disconnected(errno));
        match errno {
            // The node answers, but does not know this client any more.
            Errno::ENOTCONN | Errno::ENODEV | Errno::EOVERFLOW => {
                self.connect_at(now, xids, self.search.same(now))
            }
            _ => self.search_next(now, xids),
        }
    }
}
