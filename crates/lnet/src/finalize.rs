//! Completion, the one place where operations end. Spec: lnet-behaviour §4.2, §5.3.
//!
//! The event comes first, then the credits return, then what waited for them goes on.

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnet_wire::{Body, Handle};

use crate::Lnet;
use crate::api::{Event, EventDone, MdId, MdOptions};
use crate::message::{Message, Stage, unlink_event};

impl Lnet {
    /// Takes the news that the handler of an event with [`Event::done`] has returned.
    pub fn handle_event_done(&mut self, now: Time, done: EventDone) {
        let id = MessageId(done.0);
        let Some(message) = self.messages.get(id) else { return };
        let Stage::InHandler(arrival) = message.stage else { return };
        let message = self.messages.remove(id);
        self.counters.message_died();
        let accepted = message.event.map_or(0, |event| event.mlength);
        self.send_ack(now, &message.header, arrival, accepted);
        self.settle(now);
    }

    /// Ends a message that we sent, or that never found a path.
    pub(crate) fn finalize_send(&mut self, now: Time, id: MessageId, status: Result<(), Errno>) {
        let message = self.messages.remove(id);
        if message.is_committed() {
            self.counters.message_died();
        }
        if let (Some(md), Some(event)) = (message.md, message.event) {
            self.end_operation(md, event, status, Vec::new());
        }
        self.count_sent(now, &message, status.is_ok());
        if let Stage::Sending(path) = message.stage {
            self.release(path, message.header.payload_len);
        }
        if let Some(transit) = &message.transit {
            if status.is_err() {
                self.drop_in_transit(&message, transit);
            }
            self.leave_router(transit, message.target);
        }
    }

    /// Ends the receiving of a message; `bytes` is what went to the machine itself.
    pub(crate) fn finalize_receive(
        &mut self,
        now: Time,
        id: MessageId,
        status: Result<(), Errno>,
        bytes: Vec<u8>,
    ) {
        let message = self.messages.live(id);
        let (arrival, md) = (message.arrival(), message.md);
        let arrival = arrival.expect("what is received has arrived");
        self.received(arrival);
        let Some(md) = md else { return self.finalize_push(now, id, status, bytes) };
        let wants_ack = status.is_ok() && self.wants_ack(id, md);
        let message = self.messages.live(id);
        let mut event = message.event.expect("an operation has an event");
        if wants_ack {
            message.stage = Stage::InHandler(arrival);
            event.done = Some(EventDone(id.0));
        }
        let header = message.header;
        if let Some(request) = self.mds.get(md).and_then(|found| found.request) {
            self.count_response(now, &header.body, request);
        }
        if status.is_ok() {
            self.count_received(arrival, &header, event.mlength);
        }
        self.end_operation(md, event, status, bytes);
        if !wants_ack {
            self.messages.remove(id);
            self.counters.message_died();
        }
    }

    /// Returns whether a PUT that came well is to be acknowledged.
    fn wants_ack(&self, id: MessageId, md: MdId) -> bool {
        let (Some(message), Some(found)) = (self.messages.get(id), self.mds.get(md)) else {
            return false;
        };
        matches!(message.header.body, Body::Put { ack, .. } if ack != Handle::NONE)
            && !found.md.options.has(MdOptions::ACK_DISABLE)
            && !found.aborted
    }

    /// Ends a push to us: acknowledges it, then looks at what it says.
    fn finalize_push(
        &mut self,
        now: Time,
        id: MessageId,
        status: Result<(), Errno>,
        bytes: Vec<u8>,
    ) {
        let Message { header, stage, .. } = *self.messages.remove(id);
        self.counters.message_died();
        let Stage::Receiving(arrival) = stage else { return };
        if status.is_err() {
            return;
        }
        let accepted = bytes.len() as u32;
        self.count_received(arrival, &header, accepted);
        if matches!(header.body, Body::Put { ack, .. } if ack != Handle::NONE) {
            self.send_ack(now, &header, arrival, accepted);
        }
        self.push_received(now, header.source, &bytes, header.payload_len);
    }

    /// Ends one operation of a descriptor, and the descriptor if that was the last.
    pub(crate) fn end_operation(
        &mut self,
        md: MdId,
        event: Event,
        status: Result<(), Errno>,
        bytes: Vec<u8>,
    ) {
        let found = self.mds.get_mut(md).expect("an operation keeps its descriptor");
        found.refs -= 1;
        let status = match found.aborted {
            true => status.and(Err(Errno::ETIMEDOUT)),
            false => status,
        };
        let unlinked = found.refs == 0 && found.is_finished();
        let (owner, me) = (found.owner, found.me);
        if unlinked {
            if let Some(me) = me {
                self.portals.detach(me);
            }
            self.untrack(md);
            self.mds.remove(md);
        }
        self.deliver(owner, Event { status, unlinked, ..event }, bytes);
    }

    /// Unlinks a descriptor. If nothing is under way there is an UNLINK event now.
    pub(crate) fn unlink(&mut self, md: MdId) {
        let Some(found) = self.mds.get_mut(md) else { return };
        if found.zombie {
            return;
        }
        found.zombie = true;
        found.aborted = found.refs > 0;
        let (idle, owner) = (found.refs == 0, found.owner);
        let me = found.me.take();
        let event = unlink_event(md, found);
        if let Some(me) = me {
            self.portals.detach(me);
        }
        self.untrack(md);
        if idle {
            self.mds.remove(md);
            if owner.is_user() {
                self.deliver(owner, event, Vec::new());
            }
        }
    }
}
