//! Recovery after a restart of the target. Spec: ptlrpc-ldlm-mgs §14.4, §21.6.
//!
//! ```text
//! Replay ──► ReplayLocks ──► ReplayWait ──► Recover ──► Full
//! each transaction    lock replays     the final ping    requests without a reply
//! waits for its       of the owner                       are sent again
//! reply
//! ```
//!
//! A connection that is lost on the way is resumed where it was, if the target is the same one.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::message::{Message, MessageFlags};

use super::bulk::Transfer;
use super::call::{Call, Purpose};
use super::replay_list::{Key, ReplayRequest};
use super::{Import, Output, RequestId, State, XidSource};
use crate::Xid;
use crate::bulk::Direction;

/// How far the recovery is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    stage: Stage,
    /// The last transaction that the target has executed again.
    replayed: Option<Key>,
    /// The numbers of the requests that are still to be replayed: they have no reply, as far as the target
    /// must know.
    rest: BTreeSet<Xid>,
    /// The transaction that was sent and has no reply.
    sent: Option<Key>,
    /// The owner changes what it keeps for this open.
    owner_takes: Option<RequestId>,
    /// Whether the owner has sent all its lock replays.
    has_all_locks: bool,
    /// Whether an object had another version than before: the target evicts this client.
    version_failed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Requests,
    Locks,
    Final,
}

impl Import {
    /// The most lock replays in flight.
    const LOCKS_IN_FLIGHT_MAX: usize = 8;

    /// Says that an open file is closed: its open is not replayed once the transaction `close` is on
    /// disk. `close` is 0 if the close was no transaction.
    pub fn release(&mut self, open: RequestId, close: u64) {
        self.kept.release(open, close);
    }

    /// Returns the message of a request that may be sent again, to change it. For what the reply to an
    /// open has added, and for the handle in the close of an open that was replayed.
    pub fn message_mut(&mut self, id: RequestId) -> Option<&mut Message<'static>> {
        match self.calls.get_mut(id.0) {
            Some(call) if call.purpose == Purpose::Owner => Some(&mut call.request.message),
            _ => self.kept.message_mut(id),
        }
    }

    /// Returns how many requests are kept for replay.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns the last transaction on disk that the target has reported.
    pub fn committed(&self) -> u64 {
        self.kept.committed()
    }

    /// Goes on after [`Output::Replayed`].
    pub fn continue_replay(&mut self, now: Time, xids: &mut XidSource, open: RequestId) {
        if self.progress.owner_takes == Some(open) && self.state == State::Replay {
            self.progress.owner_takes = None;
            self.replay_next(now, xids);
        }
    }

    /// Says that all locks are replayed as soon as the present lock replays have ended. Only in
    /// [`State::ReplayLocks`].
    pub fn locks_replayed(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == State::ReplayLocks {
            self.progress.has_all_locks = true;
            self.send_lock_replays(now, xids);
        }
    }

    /// Begins the recovery, or goes on with it. `is_same`: the target knows what was replayed.
    pub(super) fn recover(&mut self, now: Time, xids: &mut XidSource, is_same: bool) {
        if !is_same {
            self.progress = Progress::default();
        }
        self.progress.owner_takes = None;
        self.progress.has_all_locks = false;
        match self.progress.stage {
            Stage::Requests => {
                let rest = self.kept.after(self.progress.replayed).map(|((_, xid), _)| xid);
                self.progress.rest = rest.collect();
                if !self.progress.rest.is_empty() {
                    self.set_state(State::Replay);
                }
                self.replay_next(now, xids);
            }
            Stage::Locks => self.replay_locks(now, xids),
            Stage::Final => self.end_recovery(now, xids),
        }
    }

    /// Forgets what could be replayed: the target has forgotten this client, or has all of it.
    pub(super) fn forget_recovery(&mut self) {
        self.progress = Progress::default();
    }

    /// Returns the lowest number that will be replayed.
    pub(super) fn first_to_replay(&self) -> Option<Xid> {
        self.progress.rest.first().copied()
    }

    fn replay_next(&mut self, now: Time, xids: &mut XidSource) {
        let next = self.kept.after(self.progress.replayed).next();
        let Some((key, kept, request)) =
            next.map(|(key, kept)| (key, kept.id, kept.request.clone()))
        else {
            return self.replay_locks(now, xids);
        };
        let mut call = Call::new(request, Purpose::Replay(key));
        call.xid = Some(key.1);
        call.resent = self.progress.sent == Some(key);
        self.progress.sent = Some(key);
        let id = RequestId(self.calls.insert(call));
        self.transmit(now, xids, id);
        if let Some(Transfer::Posted(transmission)) = self.calls.get(id.0).map(|call| call.transfer)
        {
            self.replaying.insert(transmission, kept);
        }
    }

    /// Handles the reply to a replay. A failure is one of the operation, which may have failed the first
    /// time too.
    pub(super) fn replayed(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        key: Key,
        reply: Box<Message<'static>>,
    ) {
        let body = reply.body;
        if body.transno != 0 && body.transno != key.0 {
            return self.lose(now, xids, Errno::EPROTO);
        }
        if body.status.errno() == Some(Errno::EOVERFLOW) {
            self.progress.version_failed = true;
        }
        self.progress.replayed = Some(key);
        self.progress.rest.remove(&key.1);
        self.progress.sent = None;
        match self.kept.get(key).filter(|kept| kept.is_open).map(|kept| kept.id) {
            Some(request) => {
                self.progress.owner_takes = Some(request);
                self.outputs.push_back(Output::Replayed { request, reply });
            }
            None => self.replay_next(now, xids),
        }
    }

    fn replay_locks(&mut self, now: Time, xids: &mut XidSource) {
        self.progress.rest.clear();
        self.progress.stage = Stage::Locks;
        if self.progress.version_failed || !self.target.replays_locks {
            return self.end_recovery(now, xids);
        }
        self.set_state(State::ReplayLocks);
    }

    /// Sends the lock replays that wait, as far as the limit allows; the final ping follows the last.
    pub(super) fn send_lock_replays(&mut self, now: Time, xids: &mut XidSource) {
        let max = Self::LOCKS_IN_FLIGHT_MAX.min(self.target.in_flight_max).max(1);
        while self.state == State::ReplayLocks && self.in_flight.len() < max {
            let Some(id) = self.lock_replays.pop_front() else { break };
            self.transmit(now, xids, id);
        }
        let is_done = self.lock_replays.is_empty() && self.in_flight.is_empty();
        if self.state == State::ReplayLocks && self.progress.has_all_locks && is_done {
            self.end_recovery(now, xids);
        }
    }

    fn end_recovery(&mut self, now: Time, xids: &mut XidSource) {
        self.progress.stage = Stage::Final;
        self.set_state(State::ReplayWait);
        self.send_own(now, xids, Purpose::EndOfReplay);
    }

    /// Handles the reply to the final ping: the target has recovered.
    pub(super) fn recovered(&mut self, now: Time, xids: &mut XidSource) {
        let version_failed = self.progress.version_failed;
        self.forget_recovery();
        if version_failed {
            // The next answer to a connect says that the client is evicted.
            self.lose(now, xids, Errno::EOVERFLOW)
        } else {
            self.set_state(State::Recover);
            self.resume(now, xids);
        }
    }

    /// Keeps a request that was a transaction, before it ends.
    pub(super) fn keep(&mut self, id: RequestId, reply: &Message<'_>) {
        let Some(call) = self.calls.get(id.0) else { return };
        let (transno, request) = (reply.body.transno, &call.request);
        // Data that the server sends are nothing to repeat.
        let bulk = request.bulk.as_ref();
        if bulk.is_some_and(|bulk| bulk.direction() == Direction::ToClient) {
            return;
        }
        let is_kept = self.is_replayable && request.is_replayed && transno != 0;
        let (Some(xid), true) = (call.xid, is_kept) else { return };
        let is_open = request.is_open && reply.body.status.errno().is_none();
        let mut request = request.clone();
        let body = &mut request.message.body;
        (body.transno, body.pre_versions) = (transno, reply.body.pre_versions);
        body.flags = body.flags | MessageFlags::REPLAY;
        body.tag = call.slot.map_or(0, |slot| slot.tag);
        self.kept.keep((transno, xid), ReplayRequest { id, request, is_open });
    }
}
