//! Messages to `0@lo`, which never see an LND. Spec: lnet-behaviour §4.8.
//!
//! No credits, no discovery, no selection. The receiving side completes first.

use fulmar_base::{Errno, MessageId, Payload, Sink, Span, Time};
use fulmar_lnet_wire::{Body, Nid};

use super::Lnet;
use super::message::{Arrival, Message, Origin, Stage};
use crate::api::{CopyId, Output};
use crate::matching::Request;
use crate::ni::NiId;
use crate::peers::PeerNiId;

/// A copy that the owner is making.
#[derive(Debug)]
pub(super) struct LoopbackCopy {
    sender: MessageId,
    receiver: MessageId,
    /// What goes to a service that has no buffer.
    bytes: Vec<u8>,
}

impl Lnet {
    /// Handles the end of an [`Output::Copy`].
    pub fn handle_copied(&mut self, now: Time, copy: CopyId) {
        let Some(LoopbackCopy { sender, receiver, bytes }) = self.copies.remove(&copy) else {
            return;
        };
        self.finalize_receive(now, receiver, Ok(()), bytes);
        self.finalize_send(now, sender, Ok(()));
        self.settle(now);
    }

    /// Receives what the node sends to itself.
    pub(super) fn loop_back(&mut self, now: Time, id: MessageId) {
        let message = self.messages.live(id);
        message.stage = Stage::Looping;
        message.header.source = Nid::LOOPBACK;
        let (header, md) = (message.header, message.md());
        if let (Some(md), Body::Put { .. } | Body::Get { .. }) = (md, header.body) {
            let (ni, peer_ni) = (NiId::LOOPBACK, PeerNiId::NONE);
            let target = Some(Nid::LOOPBACK);
            let request =
                Request { target, put: false, get: false, ni, peer_ni, route: None, at: now };
            self.note_request(md, &header.body, request);
        }
        self.counters.message_born();
        let arrival =
            Arrival { origin: Origin::Loopback(id), ni: Nid::LOOPBACK, from: Nid::LOOPBACK };
        self.dispatch(now, arrival, header);
    }

    /// Moves the payload of `sender` into the sink of `receiver`.
    pub(super) fn loop_copy(
        &mut self,
        now: Time,
        sender: MessageId,
        receiver: MessageId,
        sink: Sink,
    ) {
        let payload = self.messages.live(sender).payload.clone();
        let done = match (payload, sink) {
            (Payload::Span(from), Sink::Span(to)) => {
                let from = Payload::Span(Span { len: to.len, ..from });
                let copying = LoopbackCopy { sender, receiver, bytes: Vec::new() };
                return self.ask_copy(copying, from, Sink::Span(to));
            }
            (Payload::Inline(bytes), Sink::Inline { len }) if self.is_for_service(receiver) => {
                // There is nothing to copy, but a service that answers itself must not go on for
                // ever within one input: its owner is asked in between.
                let bytes = bytes[..len as usize].to_vec();
                let copying = LoopbackCopy { sender, receiver, bytes };
                return self.ask_copy(copying, Payload::Empty, Sink::Discard { len: 0 });
            }
            (Payload::Inline(bytes), Sink::Inline { len }) => Ok(bytes[..len as usize].to_vec()),
            (_, Sink::Discard { .. }) => Ok(Vec::new()),
            // Ping info at 0@lo is for the machine; an application has `Lnet::ping_info`.
            _ => Err(Errno::EOPNOTSUPP),
        };
        let (status, bytes) = match done {
            Ok(bytes) => (Ok(()), bytes),
            Err(errno) => (Err(errno), Vec::new()),
        };
        self.finalize_receive(now, receiver, status, bytes);
        self.finalize_send(now, sender, Ok(()));
    }

    fn ask_copy(&mut self, copying: LoopbackCopy, from: Payload, to: Sink) {
        self.next_copy += 1;
        let copy = CopyId(self.next_copy);
        self.copies.insert(copy, copying);
        self.outputs.push_back(Output::Copy { copy, from, to });
    }

    fn is_for_service(&self, receiver: MessageId) -> bool {
        let md = self.messages.get(receiver).and_then(Message::md);
        md.is_some_and(|md| self.matching.is_of_service(md))
    }

    /// Ends the sending side of a looped message whose receiving side is done.
    pub(super) fn looped(&mut self, now: Time, arrival: Arrival) {
        if let Origin::Loopback(sender) = arrival.origin {
            self.finalize_send(now, sender, Ok(()));
        }
    }
}
