//! Completion, the one place where operations end. Spec: lnet-behaviour §4.2, §5.3.
//!
//! The event comes first, then the credits return, then what waited for them goes on.

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnet_wire::{Body, Handle, Header, Nid};

use super::Lnet;
use super::message::{Arrival, Message, Stage};
use crate::api::{EventDone, MdId};
use crate::matching::Operation;

impl Lnet {
    /// Handles the return of the handler of an event with [`Event::done`](crate::Event::done).
    pub fn handle_event_done(&mut self, now: Time, done: EventDone) {
        let id = MessageId(done.0);
        let Some(message) = self.messages.get(id) else { return };
        let Stage::InHandler(arrival) = message.stage else { return };
        let message = self.messages.remove(id);
        self.counters.message_died();
        let accepted = message.operation.as_ref().map_or(0, Operation::moved);
        let put = message.header;
        self.messages.recycle(message);
        self.send_ack(now, &put, arrival, accepted);
        self.settle(now);
    }

    /// Ends a message that this node sent, or that never found a path.
    pub(super) fn finalize_send(&mut self, now: Time, id: MessageId, status: Result<(), Errno>) {
        let message = self.messages.remove(id);
        if message.is_committed() {
            self.counters.message_died();
        }
        if let Some(operation) = &message.operation {
            let ended = self.matching.end(operation, &message.header, Nid::ANY, status, None);
            self.deliver(ended, Vec::new());
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
        self.messages.recycle(message);
    }

    /// Ends the receiving of a message; `bytes` is what went to the machine itself.
    pub(super) fn finalize_receive(
        &mut self,
        now: Time,
        id: MessageId,
        status: Result<(), Errno>,
        bytes: Vec<u8>,
    ) {
        let message = self.messages.live(id);
        let arrival = message.arrival().expect("what is received has arrived");
        let (header, md) = (message.header, message.md());
        self.received(arrival);
        let Some(md) = md else { return self.finalize_push(now, id, status, bytes) };
        if status.is_ok() && self.matching.is_acknowledged(md, &header) {
            let message = self.messages.live(id);
            message.stage = Stage::InHandler(arrival);
            let done = Some(EventDone(id.0));
            let operation = message.operation.as_ref().expect("it has a descriptor");
            let moved = operation.moved();
            let ended = self.matching.end(operation, &header, arrival.from, status, done);
            self.count_received(arrival, &header, moved);
            return self.deliver(ended, bytes);
        }
        let message = self.messages.remove(id);
        self.counters.message_died();
        let operation = message.operation.expect("it has a descriptor");
        self.end_received(now, &operation, &header, arrival, status, bytes);
    }

    /// Ends an operation that was received and that is not acknowledged.
    pub(super) fn end_received(
        &mut self,
        now: Time,
        operation: &Operation,
        header: &Header,
        arrival: Arrival,
        status: Result<(), Errno>,
        bytes: Vec<u8>,
    ) {
        if let Some(request) = self.matching.request_of(operation.md) {
            self.count_response(now, &header.body, request);
        }
        if status.is_ok() {
            self.count_received(arrival, header, operation.moved());
        }
        let ended = self.matching.end(operation, header, arrival.from, status, None);
        self.deliver(ended, bytes);
    }

    /// Ends a push to this node: uses its ping info, then acknowledges it.
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
        self.push_received(now, header.source, &bytes, header.payload_len);
        if matches!(header.body, Body::Put { ack, .. } if ack != Handle::NONE) {
            self.acknowledge_push(now, header, arrival, accepted);
        }
    }

    /// Unlinks a descriptor. If nothing is under way there is an UNLINK event now.
    pub(super) fn unlink(&mut self, md: MdId) {
        if let Some(ended) = self.matching.unlink(md).filter(|ended| ended.owner.is_service()) {
            self.deliver(ended, Vec::new());
        }
    }
}
