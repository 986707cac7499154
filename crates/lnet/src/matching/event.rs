//! The events of operations. Spec: lnet-behaviour §4.
//!
//! An event is made when its operation ends: until then a message holds only what cannot be read
//! from its header.

use fulmar_lnet_wire::{Body, Header, Nid, ProcessId};

use crate::api::{Event, EventKind, MdId};

use super::portal::Placement;

/// An operation of a descriptor, which a message carries.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) md: MdId,
    pub(super) detail: Detail,
}

/// What the event of an operation says beyond the header of its message.
#[derive(Debug)]
pub(super) enum Detail {
    /// A request of ours: a SEND event.
    Sent,
    /// Something that was received; `len` bytes at `offset` of the descriptor were moved.
    Received { initiator: Nid, offset: u64, len: u32 },
    /// A GET that was received: the message is the REPLY to it.
    Answered(Box<Event>),
}

impl Operation {
    /// Returns the operation of a PUT that was received.
    pub(crate) fn put(found: Placement) -> Self {
        let Placement { md, initiator, offset, len, .. } = found;
        Self { md, detail: Detail::Received { initiator, offset, len } }
    }

    /// Returns the operation of an ACK or a REPLY that was received.
    pub(crate) fn response(md: MdId, initiator: Nid, len: u32) -> Self {
        Self { md, detail: Detail::Received { initiator, offset: 0, len } }
    }

    /// Returns the operation of a GET that was received from `sender`.
    pub(crate) fn get(found: Placement, header: &Header, sender: Nid) -> Self {
        let event = Self::put(found).event(header, sender);
        Self { md: found.md, detail: Detail::Answered(Box::new(event)) }
    }

    /// Returns how many bytes were moved.
    pub(crate) fn moved(&self) -> u32 {
        match &self.detail {
            Detail::Sent => 0,
            Detail::Received { len, .. } => *len,
            Detail::Answered(event) => event.mlength,
        }
    }

    /// Returns the event, which lacks what only the descriptor knows.
    pub(super) fn event(&self, header: &Header, sender: Nid) -> Event {
        match &self.detail {
            Detail::Sent => self.send_event(header),
            Detail::Received { initiator, offset, len } => {
                self.receive_event(header, sender, *initiator, (*offset, *len))
            }
            Detail::Answered(event) => **event,
        }
    }

    /// The source of a request is not known before a path is, and stays open in its event.
    fn send_event(&self, header: &Header) -> Event {
        let source = ProcessId { nid: Nid::ANY, pid: header.source_pid };
        let offset = match header.body {
            Body::Put { offset, .. } | Body::Get { offset, .. } => offset.into(),
            Body::Ack { .. } | Body::Reply { .. } => 0,
        };
        Event {
            initiator: source,
            source,
            sender: Nid::ANY,
            rlength: header.payload_len,
            mlength: header.payload_len,
            offset,
            ..event(EventKind::Send, self.md, header)
        }
    }

    fn receive_event(
        &self,
        header: &Header,
        sender: Nid,
        initiator: Nid,
        (offset, len): (u64, u32),
    ) -> Event {
        let (kind, rlength) = match header.body {
            Body::Ack { .. } => (EventKind::Ack, 0),
            Body::Put { .. } => (EventKind::Put, header.payload_len),
            Body::Get { sink_len, .. } => (EventKind::Get, sink_len),
            Body::Reply { .. } => (EventKind::Reply, header.payload_len),
        };
        Event {
            initiator: ProcessId { nid: initiator, pid: header.source_pid },
            source: ProcessId { nid: header.source, pid: header.source_pid },
            sender,
            rlength,
            mlength: len,
            offset,
            ..event(kind, self.md, header)
        }
    }
}

/// Returns what all events of messages have in common.
fn event(kind: EventKind, md: MdId, header: &Header) -> Event {
    let (portal, match_bits, header_data) = match header.body {
        Body::Put { portal, match_bits, header_data, .. } => (portal, match_bits, header_data),
        Body::Get { portal, match_bits, .. } => (portal, match_bits, 0),
        Body::Ack { match_bits, .. } => (0, match_bits, 0),
        Body::Reply { .. } => (0, 0, 0),
    };
    let target = ProcessId { nid: header.target, pid: header.target_pid };
    Event {
        kind,
        target,
        portal,
        match_bits,
        header_data,
        unlinked: false,
        ..Event::unlinked(md, 0)
    }
}
