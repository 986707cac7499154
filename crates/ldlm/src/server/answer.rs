//! Replies to enqueues. Spec: ptlrpc-ldlm-mgs §21.2.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::ldlm::{LockFlags, LockReply, OstLvb};

use super::api::{IntentResult, Output, RequestId};
use super::enqueue::ReplyContext;
use super::lock::{Flags, Kind};
use super::namespace::Namespace;

impl Namespace {
    pub(super) fn refuse(&mut self, request: RequestId, errno: Errno) {
        self.reply(request, Status::failed(errno), LockReply::default(), None);
    }

    /// Answers without a lock.
    pub(super) fn abort(&mut self, request: RequestId, result: IntentResult, lvb: Option<OstLvb>) {
        let IntentResult { disposition: result1, status: result2 } = result;
        let reply = LockReply { result1, result2, ..Default::default() };
        self.reply(request, Status::LOCK_ABORTED, reply, lvb);
    }

    pub(super) fn reply(
        &mut self,
        request: RequestId,
        status: Status,
        reply: LockReply,
        lvb: Option<OstLvb>,
    ) {
        let reply = Box::new(reply);
        self.outputs.push_back(Output::Reply { request, status, reply, lvb });
    }

    /// Answers with a lock as it is now.
    pub(super) fn reply_lock(&mut self, now: Time, id: u32, asked: &ReplyContext) {
        let ReplyContext { request, flags, result, .. } = *asked;
        let lock = &self.locks[id];
        let (is_granted, place) = (lock.is_granted, lock.resource);
        let resource = &self.resources[place];
        let kind = resource.kind;
        let mut reply = LockReply {
            flags,
            lock: lock.desc(kind, resource.id),
            handle: lock.handle,
            result1: result.disposition,
            result2: result.status,
            ..Default::default()
        };
        if !is_granted {
            reply.flags = reply.flags.with(LockFlags::BLOCK_GRANTED);
            if kind == Kind::Extent {
                reply.flags = reply.flags.with(LockFlags::NO_TIMEOUT);
            }
        }
        let features = self.exports[lock.export].features;
        let more = resource.more.as_ref();
        if features.contention && more.is_some_and(|more| more.contention.is_contended(now)) {
            reply.flags = reply.flags.with(LockFlags::CONTENTION);
        }
        let with_lvb = !flags.has(LockFlags::REPLAY) && lock.claim(kind).has_lvb();
        let lvb = if with_lvb { resource.lvb() } else { None };
        let is_asked_back = is_granted && lock.flags.has(Flags::BLOCKS);
        if is_asked_back {
            reply.flags = reply.flags.with(LockFlags::AST_SENT);
            if kind == Kind::Inodebits {
                reply.lock.policy.words[1] = self.bits_wanted(id);
            }
        }
        let goes = is_asked_back && lock.flags.has(Flags::CANCEL_ON_BLOCK);
        self.reply(request, Status::OK, reply, lvb);
        if goes {
            self.remove(id);
        } else if is_asked_back {
            self.start_timer(now, id);
        }
    }

    /// Returns the bits of a granted lock that waiting locks want.
    pub(super) fn bits_wanted(&self, id: u32) -> u64 {
        let lock = &self.locks[id];
        let resource = &self.resources[lock.resource];
        let claim = lock.claim(resource.kind);
        let waiting = resource.waiting().map(|waiter| &self.locks[waiter.lock]);
        let blocked = waiting.filter(|other| claim.conflicts(&other.claim(resource.kind)));
        blocked.fold(0, |bits, other| bits | other.part.bits(other.requested))
    }
}
