//! Operations of descriptors, from their beginning to their event.

use std::time::Duration;

use fulmar_base::{Errno, Payload, Sink, Time};
use fulmar_lnet_wire::{Body, Handle, Header, Nid};

use crate::api::{EventDone, EventKind, MdId, MdOptions};

use super::descriptor::{Descriptor, Owner, Request};
use super::event::{Detail, Operation};
use super::portal::{Placement, SearchResult};
use super::{Completion, Matching};

/// The bits of `response_tracking`.
const TRACK_GETS: u32 = 1;
const TRACK_PUTS: u32 = 2;

/// Which responses are awaited, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracking {
    /// [`Globals::response_tracking`](crate::Globals::response_tracking).
    pub(crate) bits: u32,
    pub(crate) timeout: Duration,
}

impl Tracking {
    fn covers(self, md: &Descriptor, body: &Body) -> bool {
        let bit = match *body {
            Body::Get { .. } => TRACK_GETS,
            Body::Put { ack, .. } if ack != Handle::NONE => TRACK_PUTS,
            _ => return false,
        };
        let options = md.md.options;
        (options.has(MdOptions::TRACK_RESPONSE) || self.bits & bit != 0)
            && !options.has(MdOptions::NO_TRACK_RESPONSE)
    }
}

/// A request that has begun.
#[derive(Debug)]
pub(crate) struct StartedRequest {
    pub(crate) owner: Owner,
    /// What follows the header.
    pub(crate) payload: Payload,
    pub(crate) operation: Operation,
}

/// A descriptor whose response is late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) md: MdId,
    pub(crate) owner: Owner,
    pub(crate) request: Option<Request>,
}

impl Matching {
    /// Begins an operation of `md` that sends a request, and awaits the response if it is tracked.
    pub(crate) fn begin_request(
        &mut self,
        now: Time,
        md: MdId,
        body: &Body,
        tracking: Tracking,
    ) -> Result<StartedRequest, Errno> {
        let usable =
            |found: &&mut Descriptor| !found.zombie && !found.passive && found.threshold != Some(0);
        let found = self.mds.get_mut(md).filter(usable).ok_or(Errno::ENOENT)?;
        found.begin();
        let payload = match body {
            Body::Put { .. } => found.payload(0, found.md.len as u32),
            _ => Payload::Empty,
        };
        let owner = found.owner;
        if tracking.covers(found, body) {
            found.awaited += 1;
            self.mds.expect_response(md, now + tracking.timeout);
        }
        Ok(StartedRequest { owner, payload, operation: Operation { md, detail: Detail::Sent } })
    }

    /// Sets the deadline of the response that `md` awaits.
    pub(crate) fn expect_response(&mut self, md: MdId, at: Time) {
        self.mds.expect_response(md, at);
    }

    /// Notes where the request of `md` went.
    pub(crate) fn note_request(
        &mut self,
        md: MdId,
        body: &Body,
        request: Request,
        same_peer: impl FnOnce(Nid, Nid) -> bool,
    ) {
        if let Some(found) = self.mds.get_mut(md) {
            found.note_request(body, request, same_peer);
        }
    }

    /// Returns what was last requested with `md`.
    pub(crate) fn request_of(&self, md: MdId) -> Option<Request> {
        self.mds.get(md)?.request
    }

    /// Begins the operation that a search has found. An exhausted descriptor is taken off its
    /// entry, so that the next message does not find it.
    pub(super) fn begin(&mut self, matched: SearchResult) -> SearchResult {
        let SearchResult::Found(found) = matched else { return matched };
        let md = self.mds.get_mut(found.md).expect("the search found it");
        md.begin();
        md.offset = found.offset + u64::from(found.len);
        if md.md.auto_unlink && md.is_exhausted() {
            md.zombie = true;
            md.me = None;
            self.portals.detach(found.me);
        }
        matched
    }

    /// Returns where the bytes of an operation go.
    pub(crate) fn sink(&self, found: Placement) -> Sink {
        self.begun(found.md).sink(found.offset, found.len)
    }

    /// Returns the bytes that a GET fetches.
    pub(crate) fn payload(&self, found: Placement) -> Payload {
        self.begun(found.md).payload(found.offset, found.len)
    }

    fn begun(&self, md: MdId) -> &Descriptor {
        self.mds.get(md).expect("an operation keeps its descriptor")
    }

    /// Begins the response that the ACK or the REPLY `header` is. `from_self`: it came by `0@lo`.
    ///
    /// The handle alone would be enough for a peer that follows the rules, but it can be guessed.
    /// The response must come from the node that the request went to, from any of its NIDs.
    ///
    /// # Errors
    /// Why the message is to be dropped.
    pub(crate) fn find_response(
        &mut self,
        header: &Header,
        from_self: bool,
        may_answer: impl FnOnce(Nid, Nid) -> bool,
    ) -> Result<(MdId, u32), &'static str> {
        let (handle, acknowledged) = match header.body {
            Body::Ack { handle, accepted, .. } => (handle, Some(accepted)),
            Body::Reply { handle } => (handle, None),
            Body::Put { .. } | Body::Get { .. } => return Err("it is not a response"),
        };
        let md = MdId(handle.object);
        let found = self.mds.get_mut(md).filter(|_| handle.interface == self.cookie);
        let found = found.filter(|found| !found.zombie && !found.passive);
        let found =
            found.filter(|found| found.threshold != Some(0)).ok_or("no operation waits for it")?;
        let request = found.request.ok_or("no operation waits for it")?;
        let expected = if acknowledged.is_some() { request.put } else { request.get };
        let from_target = |nid: Nid| nid == header.source || may_answer(nid, header.source);
        if !expected || !(from_self || request.target.is_none_or(from_target)) {
            return Err("it does not answer what was asked");
        }
        let len = match acknowledged {
            Some(accepted) => accepted,
            None => found.room_for_reply(header.payload_len)?,
        };
        found.begin();
        found.awaited = found.awaited.saturating_sub(1);
        if found.awaited == 0 {
            self.mds.forget_response(md);
        }
        Ok((md, len))
    }

    /// Returns where the `len` bytes of a REPLY go.
    pub(crate) fn reply_sink(&self, md: MdId, len: u32) -> Sink {
        self.begun(md).sink(0, len)
    }

    /// Returns whether a PUT that was received is acknowledged.
    pub(crate) fn is_acknowledged(&self, md: MdId, header: &Header) -> bool {
        let found = self.begun(md);
        matches!(header.body, Body::Put { ack, .. } if ack != Handle::NONE)
            && !found.md.options.has(MdOptions::ACK_DISABLE)
            && !found.aborted
    }

    /// Ends an operation, and the descriptor if that was the last. `header` is that of its message,
    /// which came from `sender` if it was received. `done` becomes that of the event.
    pub(crate) fn end(
        &mut self,
        operation: &Operation,
        header: &Header,
        sender: Nid,
        status: Result<(), Errno>,
        done: Option<EventDone>,
    ) -> Completion {
        let md = operation.md;
        let found = self.mds.get_mut(md).expect("an operation keeps its descriptor");
        found.refs -= 1;
        let status = if found.aborted { status.and(Err(Errno::ETIMEDOUT)) } else { status };
        let unlinked = found.refs == 0 && found.is_finished();
        let (owner, me, user) = (found.owner, found.me, found.md.user);
        if unlinked {
            if let Some(me) = me {
                self.portals.detach(me);
            }
            self.mds.remove(md);
        }
        let mut event = operation.event(header, sender);
        (event.status, event.user, event.unlinked, event.done) = (status, user, unlinked, done);
        debug_assert!(event.kind != EventKind::Unlink, "no operation is an unlinking");
        Completion { owner, event }
    }

    /// Returns the first descriptor whose response is late. It awaits none from now on, but is
    /// still to be unlinked.
    pub(crate) fn pop_late(&mut self, now: Time) -> Option<Late> {
        let md = self.mds.pop_late(now)?;
        let found = self.begun(md);
        Some(Late { md, owner: found.owner, request: found.request })
    }
}
