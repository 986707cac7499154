//! Requests with bulk data: they end, and are sent again, when LNet has released the memory.
//! Spec: ptlrpc-ldlm-mgs §3.3, §3.6.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::message::Message;

use super::call::{Call, Purpose};
use super::{Import, Output, RequestId, TransmissionId};
use crate::bulk::{Bulk, Direction};
use crate::{Xid, XidSource};

/// What became of the bulk data of a transmission, when LNet does not use their memory any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkResult {
    /// The bytes that were moved.
    pub bytes: u64,
    /// Why not all parts were moved, if so.
    pub result: Result<(), Errno>,
}

/// Bulk data of a transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostedBulk {
    /// Their memory.
    pub bulk: Bulk,
    /// The match bits of the first part; those of the others follow.
    pub first_bits: u64,
}

/// The bulk data of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transfer {
    /// LNet does not have their memory.
    Idle,
    /// They were posted for this transmission.
    Posted(TransmissionId),
    /// They were moved.
    Over(BulkResult),
}

/// What follows when LNet has released the memory of a transmission that was withdrawn.
#[derive(Debug)]
pub(super) enum Release {
    /// The request has ended.
    End { request: RequestId, result: Result<Box<Message<'static>>, Errno> },
    /// The request is sent again.
    Resend(RequestId),
}

/// The match bits of a transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    /// The number of the request.
    pub(super) xid: Xid,
    /// Those of the reply.
    pub(super) reply: u64,
    /// Those of the first and the last part of the bulk data.
    pub(super) first: u64,
    /// In the body: 0 if the target derives all from the number.
    pub(super) body: u64,
}

impl Import {
    /// Chooses the match bits of the next transmission of a request. A target that does not grant
    /// separate ones for bulk data gets a new number each time: that of the last part.
    pub(super) fn number(&mut self, xids: &mut XidSource, id: RequestId) -> Option<Bits> {
        let call = self.calls.get_mut(id.0)?;
        let parts = call.request.bulk.as_ref().map(|bulk| bulk.parts().len() as u64);
        let has_bulk_bits = self.granted.flags.has(ConnectFlags::BULK_MBITS);
        let after_first = parts.map_or(0, |count| count - 1);
        let is_replay = matches!(call.purpose, Purpose::Replay(_)) && !call.resent;
        if parts.is_some() && !has_bulk_bits && !is_replay {
            let last = xids.allocate().0 + after_first;
            if let Some(old) = call.xid.replace(Xid(last)) {
                self.unreplied.remove(&old);
            }
        }
        let xid = *call.xid.get_or_insert_with(|| xids.allocate());
        let is_fresh = call.resent && has_bulk_bits;
        self.unreplied.insert(xid);
        let has_reply_bits = self.granted.flags2.has(ConnectFlags2::REP_MBITS);
        let has_bits = has_reply_bits || (parts.is_some() && has_bulk_bits);
        let first = match has_bulk_bits {
            true if is_fresh && has_bits => xids.allocate().0,
            true => xid.0,
            false => xid.0 - after_first,
        };
        let last = first + after_first;
        let reply = if has_reply_bits { last } else { xid.0 };
        Some(Bits { xid, reply, first, body: if has_bits { last } else { 0 } })
    }

    /// Handles the end of the bulk data of a transmission: LNet does not use their memory any more.
    /// Each transmission with bulk data has one.
    pub fn handle_bulk(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        id: TransmissionId,
        moved: BulkResult,
    ) {
        if let Some(request) = self.replaying.remove(&id) {
            self.release_data(request);
        }
        match self.releasing.remove(&id) {
            Some(Release::End { request, result }) => self.report(request, result, moved.bytes),
            Some(Release::Resend(request)) => {
                if let Some(call) = self.calls.get_mut(request.0) {
                    call.transfer = Transfer::Idle;
                    self.wait_in_order(request);
                    self.send_waiting(now, xids);
                }
            }
            None => {
                let Some(&request) = self.in_flight.get(&id) else { return };
                let Some(call) = self.calls.get_mut(request.0) else { return };
                call.transfer = Transfer::Over(moved);
                if let Some(reply) = call.reply.take() {
                    self.conclude(request, reply);
                    self.send_waiting(now, xids);
                }
            }
        }
    }

    /// Returns whether LNet has released the memory of all requests that have ended.
    pub fn is_released(&self) -> bool {
        self.releasing.is_empty() && self.replaying.is_empty()
    }

    /// Returns the length in bytes of the bulk data that are kept for replay.
    pub fn kept_data(&self) -> u64 {
        self.kept.data_len()
    }

    /// Gives back the memory of requests that are not kept any more.
    pub(super) fn release_dropped(&mut self) {
        for request in self.kept.take_dropped() {
            let is_ending = |release: &Release| matches!(release, Release::End { request: other, .. } if *other == request);
            // A request that has not ended says at its end that it is not kept.
            let is_open = self.calls.get(request.0).is_some();
            if !is_open && !self.releasing.values().any(is_ending) {
                self.release_data(request);
            }
        }
    }

    /// Gives back the memory of a request that has ended, if it is not kept and no replay uses it.
    fn release_data(&mut self, request: RequestId) {
        let is_used = self.replaying.values().any(|other| *other == request);
        if !is_used && !self.kept.contains(request) {
            self.outputs.push_back(Output::Released { request });
        }
    }

    /// Reports the end of a request.
    fn report(
        &mut self,
        request: RequestId,
        result: Result<Box<Message<'static>>, Errno>,
        moved: u64,
    ) {
        let keeps_data = self.kept.keeps_data(request);
        self.outputs.push_back(Output::Done { request, result, moved, keeps_data });
    }

    /// Ends a request whose reply has come: if the server sends bulk data, when they have arrived. Data
    /// that the server fetches are not needed any more, whether it has fetched them now or has answered
    /// an earlier transmission.
    pub(super) fn conclude(&mut self, id: RequestId, reply: Box<Message<'static>>) {
        let Some(call) = self.calls.get_mut(id.0) else { return };
        let direction = call.request.bulk.as_ref().map(|bulk| bulk.direction());
        let result = match call.transfer {
            Transfer::Posted(_)
                if direction == Some(Direction::ToClient)
                    && reply.body.status.errno().is_none() =>
            {
                call.reply = Some(reply);
                return;
            }
            // The server says that it has stored all, but not all has arrived.
            Transfer::Over(BulkResult { result: Err(_), .. })
                if direction == Some(Direction::ToClient)
                    && reply.body.status.errno().is_none() =>
            {
                Err(Errno::EIO)
            }
            _ => Ok(reply),
        };
        self.end(id, result);
    }

    /// Reports the end of a request, at once or when LNet has released its memory.
    pub(super) fn done(
        &mut self,
        request: RequestId,
        transfer: Transfer,
        result: Result<Box<Message<'static>>, Errno>,
    ) {
        let moved = match transfer {
            Transfer::Posted(id) => {
                self.releasing.insert(id, Release::End { request, result });
                return;
            }
            Transfer::Over(moved) => moved.bytes,
            Transfer::Idle => 0,
        };
        self.report(request, result, moved);
    }

    /// Returns whether a request that is to be sent again can be; otherwise it is sent when its
    /// memory is released.
    pub(super) fn may_resend(&mut self, id: RequestId) -> bool {
        match self.calls.get(id.0).map(|call| call.transfer) {
            Some(Transfer::Posted(transmission)) => {
                self.releasing.insert(transmission, Release::Resend(id));
                false
            }
            _ => true,
        }
    }

    /// Queues a request that was sent before: ahead of those with higher numbers.
    fn wait_in_order(&mut self, id: RequestId) {
        let xid = |id: RequestId| self.calls.get(id.0).and_then(|call| call.xid);
        let own = xid(id);
        let is_later = |other| xid(other).is_none_or(|other| Some(other) > own);
        let Some(lane) = self.calls.get(id.0).map(Call::lane) else { return };
        self.waiting.insert(lane, id, is_later);
    }
}
