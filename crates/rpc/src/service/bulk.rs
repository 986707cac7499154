//! Bulk transfers of the requests that the host executes. Spec: ptlrpc-ldlm-mgs §3.5.
//!
//! ```text
//! transfer --> operations under way --> all over --------------> Transferred: the bytes
//!    ^            |          | failed, late, client gone
//!    |            |          +--> withdrawn --> all released --> Transferred: why
//!    |            +-- request sent again
//!    |                         +--> withdrawn --> all released --+
//!    +-----------------------------------------------------------+
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Span, Table, Time, Timers};
use fulmar_lnet::{
    Bound, Event, EventKind, Get, Md, MdId, MdOptions, Memory, Op, Put, ServiceOutput,
};
use fulmar_lustre_wire::Handle;

use super::server::{BULK, ReplyTo, Server, Stage};
use super::{RequestId, Task};
use crate::bulk::{Bulk, Direction, PartBits};
use crate::outputs::Outputs;

/// A transfer takes no longer, even if the client has more time. Spec: ptlrpc-ldlm-mgs §3.5.
const TIMEOUT: Duration = Duration::from_secs(100);

/// All transfers.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    by_request: BTreeMap<RequestId, Transfer>,
    /// The operations that LNet has, by [`Md::user`] without [`BULK`].
    operations: Table<Operation>,
    /// When transfers are late.
    timers: Timers<RequestId>,
}

#[derive(Debug)]
struct Transfer {
    bulk: Bulk,
    parts_max: u32,
    begun: Time,
    /// The operations that LNet has.
    operations: Vec<u64>,
    moved: u64,
    /// Why it was withdrawn, if it was.
    failed: Option<Errno>,
    /// Whether it begins again when LNet has released its memory.
    is_repeated: bool,
    /// Whether the host has given it up with its target.
    is_abandoned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    request: RequestId,
    len: u32,
    /// Whether all its bytes were moved.
    is_complete: bool,
    /// Known after the post.
    md: Option<MdId>,
    is_withdrawn: bool,
}

impl Server {
    /// Moves the bulk data of a request: fetches them into memory, or stores them from there. The
    /// client has at most `parts_max` parts, a power of two: 1, or for reads and writes what the
    /// request says. What it has more than `bulk` is transferred without bytes.
    ///
    /// [`Task::Transferred`] follows. Until then the memory is LNet's, and the request cannot be
    /// answered.
    ///
    /// # Panics
    /// If no such request is executed, or its data are being moved already.
    pub fn transfer(&mut self, now: Time, id: RequestId, bulk: Bulk, parts_max: u32) {
        self.running(id);
        let transfer = Transfer {
            bulk,
            parts_max,
            begun: now,
            operations: Vec::new(),
            moved: 0,
            failed: None,
            is_repeated: false,
            is_abandoned: false,
        };
        let old = self.transfers.by_request.insert(id, transfer);
        assert!(old.is_none(), "the data of {id:?} are being moved");
        self.begin_transfer(now, id);
    }

    /// Returns how many bytes of a transfer under way have been moved.
    pub fn progress(&self, id: RequestId) -> Option<u64> {
        self.transfers.by_request.get(&id).map(|transfer| transfer.moved)
    }

    fn begin_transfer(&mut self, now: Time, id: RequestId) {
        let Some(pending) = self.requests.get(id.0) else { return };
        let Some(transfer) = self.transfers.by_request.get_mut(&id) else { return };
        (transfer.begun, transfer.moved) = (now, 0);
        (transfer.failed, transfer.is_repeated) = (None, false);
        let to = pending.reply_to;
        let promised = PartBits::new(to.bulk_bits, transfer.parts_max);
        let Some(promised) = promised.filter(|one| one.count >= transfer.bulk.parts().len()) else {
            return self.end_transfer(now, id, Err(Errno::EPROTO));
        };
        self.transfers.timers.set(id, pending.deadline.min(now + TIMEOUT));
        for part in 0..promised.count {
            let span = transfer.bulk.parts().get(part).copied().unwrap_or(NOTHING);
            let (request, len) = (id, span.len);
            let (is_complete, md, is_withdrawn) = (false, None, false);
            let operation = Operation { request, len, is_complete, md, is_withdrawn };
            let number = self.transfers.operations.insert(operation);
            transfer.operations.push(number);
            let match_bits = promised.first + part as u64;
            let op = operation_of(&transfer.bulk, span, to, match_bits, BULK | number);
            self.outputs.push_back(ServiceOutput::Post(op));
        }
    }

    /// Handles an event of an operation.
    pub(super) fn handle_bulk_event(&mut self, now: Time, event: &Event) {
        let number = event.user & !BULK;
        let Some(operation) = self.transfers.operations.get_mut(number) else { return };
        let id = operation.request;
        match (event.kind, event.status) {
            (EventKind::Ack | EventKind::Reply, Ok(())) if event.mlength == operation.len => {
                operation.is_complete = true;
                if let Some(transfer) = self.transfers.by_request.get_mut(&id) {
                    transfer.moved += u64::from(operation.len);
                }
            }
            (EventKind::Send, Ok(())) if operation.is_complete || !event.unlinked => {}
            (_, Err(errno)) => self.fail_transfer(id, errno),
            // It was shorter, or LNet has given it up without an answer.
            (_, Ok(())) => self.fail_transfer(id, Errno::ETIMEDOUT),
        }
        if event.unlinked {
            self.end_operation(now, number, id);
        }
    }

    /// Handles the result of the post of an operation.
    pub(super) fn handle_bulk_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        let number = user & !BULK;
        let Some(operation) = self.transfers.operations.get_mut(number) else { return };
        match result {
            Ok(md) => {
                operation.md = Some(md);
                if operation.is_withdrawn {
                    self.outputs.push_back(ServiceOutput::Post(Op::Unlink(md)));
                }
            }
            Err(errno) => {
                let id = operation.request;
                self.fail_transfer(id, errno);
                self.end_operation(now, number, id);
            }
        }
    }

    /// Begins the transfer of a request again, since its client has sent it again and has withdrawn
    /// the memory of the earlier transmission.
    pub(super) fn repeat_transfer(&mut self, id: RequestId) {
        if let Some(transfer) = self.transfers.by_request.get_mut(&id) {
            transfer.is_repeated = true;
            self.transfers.withdraw(id, &mut self.outputs);
        }
    }

    /// Ends the transfers of a client that is gone.
    pub(super) fn end_transfers_of(&mut self, export: Handle) {
        if self.transfers.by_request.is_empty() {
            return;
        }
        let of_it = self.in_progress.range((export, 0)..=(export, u64::MAX));
        let ids: Vec<RequestId> = of_it.map(|(_, &id)| id).collect();
        for id in ids {
            if let Some(transfer) = self.transfers.by_request.get_mut(&id) {
                transfer.is_repeated = false;
                transfer.failed = None;
            }
            self.fail_transfer(id, Errno::ENOTCONN);
        }
    }

    /// Ends the transfers whose time is over.
    pub(super) fn end_late_transfers(&mut self, now: Time) {
        while let Some(id) = self.transfers.timers.pop_due(now) {
            let Some(transfer) = self.transfers.by_request.get(&id) else { continue };
            let Some(pending) = self.requests.get(id.0) else { continue };
            // An early reply may have given it more time.
            let limit = pending.deadline.min(transfer.begun + TIMEOUT);
            if limit > now {
                self.transfers.timers.set(id, limit)
            } else {
                self.fail_transfer(id, Errno::ETIMEDOUT)
            }
        }
    }

    /// Withdraws a transfer, which ends with this error.
    fn fail_transfer(&mut self, id: RequestId, errno: Errno) {
        if let Some(transfer) = self.transfers.by_request.get_mut(&id) {
            transfer.failed.get_or_insert(errno);
            self.transfers.withdraw(id, &mut self.outputs);
        }
    }

    /// Notes that LNet has released an operation, and ends the transfer with the last one.
    fn end_operation(&mut self, now: Time, number: u64, id: RequestId) {
        self.transfers.operations.remove(number);
        let Some(transfer) = self.transfers.by_request.get_mut(&id) else { return };
        transfer.operations.retain(|&one| one != number);
        if !transfer.operations.is_empty() {
            return;
        }
        if transfer.is_repeated {
            return self.begin_transfer(now, id);
        }
        let result = transfer.failed.map_or(Ok(transfer.moved), Err);
        self.end_transfer(now, id, result);
    }

    fn end_transfer(&mut self, now: Time, id: RequestId, result: Result<u64, Errno>) {
        let Some(transfer) = self.transfers.by_request.remove(&id) else { return };
        self.transfers.timers.clear(id);
        if let Some(pending) = self.requests.get(id.0) {
            let stats = &mut self.partitions[pending.partition].stats;
            match result {
                Ok(bytes) => {
                    stats.moved = stats.moved.saturating_add(bytes);
                    stats.transfers.add_time(now.since(transfer.begun));
                }
                Err(errno) => *stats.not_moved.entry(errno).or_default() += 1,
            }
        }
        if !transfer.is_abandoned {
            return self.push_task(Task::Transferred { request: id, result });
        }
        let Some(partition) = self.requests.get(id.0).map(|pending| pending.partition) else {
            return;
        };
        self.refuse(now, id, Errno::ENODEV);
        self.dispatch(now, partition);
    }

    /// Checks that each transfer belongs to a request that is executed, and each operation to a
    /// transfer.
    pub(super) fn check_transfers(&self) -> Result<(), String> {
        let Transfers { by_request, operations, timers } = &self.transfers;
        for (id, transfer) in by_request {
            let stage = self.requests.get(id.0).map(|pending| &pending.stage);
            if !matches!(stage, Some(Stage::Running { .. })) {
                return Err(format!("the data of {id:?} are moved, but it is not executed"));
            }
            if transfer.operations.is_empty() {
                return Err(format!("the transfer of {id:?} has no operation"));
            }
        }
        let counted: usize = by_request.values().map(|transfer| transfer.operations.len()).sum();
        if counted == operations.len() && timers.len() <= by_request.len() {
            Ok(())
        } else {
            Err(format!("{} operations of bulk, {counted} counted", operations.len()))
        }
    }
}

impl Transfers {
    /// Returns whether the data of a request are being moved.
    pub(super) fn has(&self, id: RequestId) -> bool {
        self.by_request.contains_key(&id)
    }

    /// Gives up the transfer of a request whose target is gone: the request ends with it. Returns whether
    /// there is one.
    pub(super) fn abandon(&mut self, id: RequestId) -> bool {
        let Some(transfer) = self.by_request.get_mut(&id) else { return false };
        (transfer.is_abandoned, transfer.is_repeated) = (true, false);
        true
    }

    /// Returns when a transfer is late next.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Unlinks what LNet has of a transfer.
    fn withdraw(&mut self, id: RequestId, outputs: &mut Outputs<Task>) {
        let Some(transfer) = self.by_request.get(&id) else { return };
        for &number in &transfer.operations {
            let Some(operation) = self.operations.get_mut(number) else { continue };
            let is_first = !std::mem::replace(&mut operation.is_withdrawn, true);
            if let Some(md) = operation.md.filter(|_| is_first) {
                outputs.push_back(ServiceOutput::Post(Op::Unlink(md)));
            }
        }
    }
}

/// What is transferred for parts of the client that the host has nothing for.
const NOTHING: Span = Span { buffer: BufferId(0), offset: 0, len: 0 };

/// Returns the operation that moves a part.
fn operation_of(bulk: &Bulk, span: Span, to: ReplyTo, match_bits: u64, user: u64) -> Op {
    let memory = match bulk.direction() {
        _ if span.len > 0 => Memory::Buffer,
        Direction::ToServer => Memory::Inline,
        Direction::ToClient => Memory::Bytes([].into()),
    };
    let md = Md {
        buffer: span.buffer,
        offset: span.offset,
        len: span.len.into(),
        // The request, and the ACK or the REPLY.
        threshold: Some(2),
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: true,
        user,
    };
    let (source, target, portal) = (Some(to.source), to.target, bulk.portal());
    let bound = Bound::New(md, memory);
    match bulk.direction() {
        Direction::ToServer => {
            Op::Get { into: bound, get: Get { source, target, portal, match_bits, offset: 0 } }
        }
        Direction::ToClient => {
            let (ack, offset, header_data) = (true, 0, 0);
            let put = Put { ack, source, target, portal, match_bits, offset, header_data };
            Op::Put { from: bound, put }
        }
    }
}
