//! The arrival of a request, and the checks that come before it waits.
//! Spec: ptlrpc-ldlm-mgs §6.3.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet::Event;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::message::{BulkHash, HeaderFlags, Kind, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, portal};

use super::queue::is_urgent;
use super::replays::is_of_recovery;
use super::server::{PendingRequest, ReplyTo, Server, Stage};
use super::{DropReason, RequestId, TargetState};
use crate::export::Eviction;

/// What becomes of a request that arrives.
enum Arrival {
    Queue,
    Refuse(Errno),
    Drop(DropReason),
}

impl Server {
    /// Handles a message that arrived at a partition.
    pub(super) fn handle_arrival(
        &mut self,
        now: Time,
        partition: usize,
        event: &Event,
        bytes: &[u8],
    ) {
        let Ok(message) = Message::decode(bytes) else {
            return self.partitions[partition].stats.drop(DropReason::Malformed);
        };
        let handle = message.body.handle;
        let export = self.exports.get(handle).map(|_| handle);
        let reply_to = self.reply_to(event, &message, export);
        let arrival = match reply_to {
            Some(reply_to) => self.check(now, event.match_bits, &message, export, reply_to),
            None => Arrival::Drop(DropReason::Malformed),
        };
        let is_urgent = is_urgent(&message.body);
        let part = &mut self.partitions[partition];
        part.stats.depth.add(part.queue.len() as u64);
        let len = bytes.len() as u32;
        let arrival = match arrival {
            Arrival::Queue | Arrival::Refuse(_)
                if !part.shares.take(event.initiator.nid, len, is_urgent) =>
            {
                Arrival::Drop(DropReason::Busy)
            }
            arrival => arrival,
        };
        let (errno, reply_to) = match (arrival, reply_to) {
            (Arrival::Queue, Some(reply_to)) => (None, reply_to),
            (Arrival::Refuse(errno), Some(reply_to)) => (Some(errno), reply_to),
            (Arrival::Drop(why), _) => return part.stats.drop(why),
            (_, None) => unreachable!("a message without an address of its reply is dropped"),
        };
        let pending = PendingRequest {
            partition,
            peer: event.initiator,
            // An evicted client has none.
            export: export.filter(|_| errno.is_none()),
            xid: event.match_bits,
            opcode: message.body.opcode,
            tag: message.body.tag,
            connection_count: message.body.connection_count,
            len,
            is_urgent,
            arrived: now,
            deadline: deadline(now, &message),
            reply_to,
            transno: message.body.transno,
            target: None,
            recovers: None,
            has_early: false,
            stage: Stage::Queued(message.into_owned()),
        };
        self.enter(pending, errno, now);
    }

    /// Gives a request its number, and queues it or refuses it.
    fn enter(&mut self, pending: PendingRequest, errno: Option<Errno>, now: Time) {
        let PendingRequest { partition, peer, export, xid, is_urgent, deadline, reply_to, .. } =
            pending;
        let id = RequestId(self.requests.insert(pending));
        if let Some(errno) = errno {
            return self.refuse(now, id, errno);
        }
        if let Some(export) = export {
            self.in_progress.insert((export, xid), id);
        }
        if reply_to.has_room {
            self.early.set(id, deadline - self.timeouts.early_margin);
        }
        self.partitions[partition].queue.push(peer.nid, id, is_urgent);
    }

    /// Returns where the reply goes. `None`: the message is not a request, or is at no portal of
    /// requests.
    fn reply_to(
        &self,
        event: &Event,
        message: &Message<'_>,
        export: Option<Handle>,
    ) -> Option<ReplyTo> {
        let body = &message.body;
        if body.kind != Kind::REQUEST {
            return None;
        }
        let granted = export.and_then(|export| self.exports.get(export));
        let has_bits = granted.is_some_and(|one| one.flags2.has(ConnectFlags2::REP_MBITS));
        let has_bulk_bits = granted.is_some_and(|one| one.flags.has(ConnectFlags::BULK_MBITS));
        let may_differ = !body.opcode.is_connect() && body.match_bits != 0;
        let own_bits = has_bits && may_differ;
        let may_wait = granted.is_none() && may_differ && body.match_bits != event.match_bits;
        Some(ReplyTo {
            source: event.target.nid,
            target: event.source,
            portal: portal::reply_to(event.portal)?,
            match_bits: if own_bits { body.match_bits } else { event.match_bits },
            other_bits: may_wait.then_some(body.match_bits),
            bulk_bits: if has_bulk_bits { body.match_bits } else { event.match_bits },
            has_room: message.head.flags.has(HeaderFlags::AT_SUPPORT),
            flavor: message.head.flavor.of_reply(),
            bulk: message.bulk.map(|bulk| BulkHash { hash: [0; 8], ..bulk }),
        })
    }

    /// Makes the checks from the export on, in order.
    fn check(
        &mut self,
        now: Time,
        xid: u64,
        message: &Message<'_>,
        export: Option<Handle>,
        reply_to: ReplyTo,
    ) -> Arrival {
        let body = &message.body;
        if let Some(handle) = export {
            let Some(found) = self.exports.get_mut(handle) else { return Arrival::Queue };
            if found.is_outdated(body) {
                return Arrival::Drop(DropReason::Outdated);
            }
            if !found.has_flavor(message.head.flavor) && !body.opcode.is_connect() {
                return Arrival::Drop(DropReason::Flavor);
            }
            found.heard(now);
            let target = self.targets.get(found.target);
            if target.is_some_and(|target| target.state == TargetState::Stopping) {
                return Arrival::Refuse(Errno::ENODEV);
            }
            if is_of_recovery(body) && target.is_some_and(|target| target.recovery.is_none()) {
                self.remove_export(handle, Eviction::Replay);
                return Arrival::Refuse(Errno::ENODEV);
            }
        }
        if body.timeout == 0 {
            return Arrival::Drop(DropReason::NoTime);
        }
        let original = export.and_then(|export| self.in_progress.get(&(export, xid)).copied());
        let Some(id) = original else { return Arrival::Queue };
        if body.flags.has(MessageFlags::RESENT) {
            self.resend(id, message, deadline(now, message), reply_to);
        }
        Arrival::Drop(DropReason::InProgress)
    }

    /// Applies what a later transmission of a request in progress changes.
    fn resend(&mut self, id: RequestId, message: &Message<'_>, deadline: Time, reply_to: ReplyTo) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        pending.deadline = pending.deadline.max(deadline);
        pending.connection_count = message.body.connection_count;
        pending.reply_to = reply_to;
        if reply_to.has_room {
            self.early.set(id, pending.deadline - self.timeouts.early_margin)
        } else {
            self.early.clear(id)
        }
        self.repeat_transfer(id);
    }
}

/// Returns until when a request that arrives now must be answered.
fn deadline(now: Time, message: &Message<'_>) -> Time {
    now + Duration::from_secs(message.body.timeout.into())
}
