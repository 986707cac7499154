//! After its restart a server learns the locks from those who hold them. Spec: ptlrpc-ldlm-mgs §21.6.
//!
//! An enqueue without reply is not replayed: the import sends the request itself again.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{LockDesc, LockFlags, LockMode};
use fulmar_lustre_wire::{Handle, Status};

use super::grant::{called_bits, is_blocked};
use super::lock::{Marks, State};
use super::{Answer, Extra, LockId, Namespace, Output, request};

/// A replay under way.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The locks before this place are replayed or in flight.
    next: u32,
    in_flight: BTreeSet<LockId>,
}

impl Namespace {
    /// The server has lost all locks: [`Output::Replay`] of each follows, then [`Output::Replayed`]. Cancels
    /// without reply are forgotten with their locks.
    pub fn replay(&mut self, now: Time) {
        self.ready.clear();
        self.cancels.clear();
        self.forget_early_handles();
        let places: Vec<u32> = self.locks.places(0).collect();
        for place in places {
            let lock = self.locks.at_mut(place);
            lock.server = Handle::NONE;
            lock.marks.clear(Marks::REPLAYING);
            lock.marks.clear(Marks::REDUCED);
            match lock.state {
                State::Sent => self.forget_completion(place),
                State::Flushed => self.finish(place),
                State::Granted if lock.marks.has(Marks::CANCEL_ON_BLOCK) => {
                    self.call(place, Marks::WHOLE);
                    self.settle(now, place);
                }
                _ => {}
            }
        }
        self.replay = Some(Replay::default());
        self.send_replays();
    }

    fn send_replays(&mut self) {
        let max = self.settings.replays_max.max(1);
        while let Some(replay) = &self.replay
            && replay.in_flight.len() < max
        {
            let mut places = self.locks.places(replay.next);
            let Some(place) = places.find(|&place| self.is_lost(place)) else { break };
            drop(places);
            let lock = self.locks.id(place);
            if let Some(replay) = &mut self.replay {
                replay.next = place + 1;
                replay.in_flight.insert(lock);
            }
            self.send_replay(place);
        }
        if self.replay.as_ref().is_some_and(|replay| replay.in_flight.is_empty()) {
            self.replay = None;
            self.outputs.push_back(Output::Replayed);
        }
    }

    /// Returns whether the server must learn of a lock.
    fn is_lost(&self, place: u32) -> bool {
        let lock = self.locks.at(place);
        let is_on_server = matches!(lock.state, State::Waiting | State::Granted | State::Flushing);
        is_on_server && lock.server.is_none() && !lock.marks.has(Marks::CANCEL_ON_BLOCK)
    }

    fn send_replay(&mut self, place: u32) {
        let (resource, id) = (self.resource(place), self.locks.id(place));
        let policy = self.cover(place).policy;
        let lock = self.locks.at_mut(place);
        lock.marks.set(Marks::REPLAYING);
        let (flag, granted) = match lock.state {
            State::Waiting => (LockFlags::BLOCK_WAIT, LockMode(0)),
            _ => (LockFlags::BLOCK_GRANTED, lock.mode()),
        };
        let desc = LockDesc { resource, requested: lock.mode(), granted, policy };
        let request = request(LockFlags::REPLAY | flag, 0, desc, vec![self.cookie(id)]);
        self.outputs.push_back(Output::Replay { lock: id, request });
    }

    /// Handles the reply to a replay. [`Output::Reconnect`] follows if the server does not accept the lock.
    pub fn handle_replayed(&mut self, now: Time, id: LockId, result: Result<Answer<'_>, Errno>) {
        let Some(replay) = &mut self.replay else { return };
        if !replay.in_flight.remove(&id) {
            return;
        }
        let result = match (self.locks.place(id), result) {
            (None, _) => Ok(()),
            (Some(place), Ok(answer)) => self.take_replayed(now, place, answer),
            (Some(_), Err(errno)) => Err(errno),
        };
        if result.is_err() {
            self.replay = None;
            self.outputs.push_back(Output::Reconnect);
        }
        self.send_replays();
    }

    fn take_replayed(&mut self, now: Time, place: u32, answer: Answer<'_>) -> Result<(), Errno> {
        let reply = answer.reply.filter(|reply| !reply.handle.is_none());
        let Some(reply) = reply.filter(|_| answer.status == Status::OK) else {
            return Err(Errno::EPROTO);
        };
        let lock = self.locks.at_mut(place);
        lock.server = reply.handle;
        lock.marks.clear(Marks::REPLAYING);
        if lock.marks.has(Marks::REDUCED) {
            self.send_convert(place);
        }
        if reply.flags.has(LockFlags::AST_SENT) {
            self.call_bits(place, called_bits(&reply.lock));
        }
        match self.locks.at(place).state {
            State::Flushed => self.finish(place),
            State::Waiting if !is_blocked(reply.flags) => {
                self.adopt(place, reply.lock.granted, &reply.lock)?;
                self.grant(now, place, Extra::default())?;
            }
            _ => self.settle(now, place),
        }
        Ok(())
    }

    pub(super) fn check_replay(&self) {
        let replaying = |place: &u32| self.locks.at(*place).marks.has(Marks::REPLAYING);
        if let Some(replay) = &self.replay {
            for place in self.locks.places(0).filter(replaying) {
                assert!(replay.in_flight.contains(&self.locks.id(place)), "{place} is replayed");
            }
        }
    }
}
