//! Replies. Spec: ptlrpc-ldlm-mgs §6.4, §7.3, §7.4.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Time};
use fulmar_lnet::{Bound, Md, MdOptions, Memory, Op, Put, ServiceOutput};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CONNECT_DATA, Format};
use fulmar_lustre_wire::message::{ConnectOpFlags, Kind, Message};
use fulmar_lustre_wire::{Opcode, Status};

use super::server::{ConnectRequest, REPLY, ReplyTo, Server, Stage};
use super::{DropReason, RequestId, Task};
use crate::import::TargetKind;

impl Server {
    /// Sends the host's reply to a request. The server fills in what it knows: times,
    /// the last transaction on disk, and in a reply to a CONNECT the export.
    ///
    /// A reply with a transaction number, or to a request with a tag, is saved until the client has
    /// it: the request is not executed again if it is resent.
    ///
    /// # Panics
    /// If no such request is executed, its bulk data are being moved, or a reply to a replay has the
    /// number of another transaction.
    pub fn reply(&mut self, now: Time, id: RequestId, reply: Message<'_>) {
        self.reply_as(now, id, reply, false);
    }

    /// The same for a change that the host's locks protect until the client knows of it: the client
    /// acknowledges the reply. [`Task::Confirmed`] follows when it has done so, when the transaction is
    /// on disk, or when the client is gone. Spec: ptlrpc-ldlm-mgs §8.
    ///
    /// # Panics
    /// As [`Server::reply`].
    pub fn reply_difficult(&mut self, now: Time, id: RequestId, reply: Message<'_>) {
        self.reply_as(now, id, reply, true);
    }

    fn reply_as(&mut self, now: Time, id: RequestId, reply: Message<'_>, is_difficult: bool) {
        let partition = self.running(id);
        let (recovers, transno) =
            self.requests.get(id.0).map_or((None, 0), |one| (one.recovers, one.transno));
        if recovers.is_some() && transno != 0 {
            let is_same = [0, transno].contains(&reply.body.transno);
            assert!(is_same, "{:#x} is no reply to {transno:#x}", reply.body.transno);
        }
        let status = reply.body.status;
        if is_difficult {
            self.protect_reply(id, reply.body.transno);
        }
        self.answer(now, id, reply);
        if let Some(target) = recovers {
            self.replay_ended(now, target, id, status);
        }
        self.dispatch(now, partition);
        self.advance(now);
    }

    /// Notes that locks protect a reply, unless its change is safe already.
    fn protect_reply(&mut self, id: RequestId, transno: u64) {
        let Some(pending) = self.requests.get(id.0) else { return };
        let xid = pending.xid;
        let export = pending.export.and_then(|handle| Some((handle, self.exports.get(handle)?)));
        let waiting = export.filter(|(_, export)| {
            let last = self.targets[export.target].last_committed;
            transno == 0 || transno > last
        });
        let confirmed = match waiting {
            Some((handle, export)) => {
                self.difficult.insert((handle, xid), id, export.target, transno)
            }
            None => Some(id),
        };
        if let Some(request) = confirmed {
            self.push_task(Task::Confirmed { request });
        }
    }

    /// Ends a request without a reply: its client sends it again. For failures of bulk transfers.
    ///
    /// # Panics
    /// If no such request is executed, or its bulk data are being moved.
    pub fn discard(&mut self, now: Time, id: RequestId) {
        let partition = self.running(id);
        if let Some(connecting) = self.connecting(id) {
            self.exports.refused(connecting.export, connecting.is_new);
        }
        let recovers = self.requests.get(id.0).and_then(|one| one.recovers);
        self.drop_running(id, DropReason::Discarded);
        if let Some(target) = recovers {
            self.replay_ended(now, target, id, Status::OK);
        }
        self.dispatch(now, partition);
        self.advance(now);
    }

    /// Returns the partition of a request that the host executes.
    pub(super) fn running(&self, id: RequestId) -> usize {
        match self.requests.get(id.0) {
            Some(pending) if matches!(pending.stage, Stage::Running { .. }) => {
                assert!(!self.transfers.has(id), "the data of {id:?} are being moved");
                pending.partition
            }
            _ => panic!("{id:?} is not executed"),
        }
    }

    fn connecting(&self, id: RequestId) -> Option<ConnectRequest> {
        match self.requests.get(id.0)?.stage {
            Stage::Running { connect } => connect,
            Stage::Queued(_) | Stage::Held(_) | Stage::Replying => None,
        }
    }

    /// Answers a request with an error before the host has seen it.
    pub(super) fn refuse(&mut self, now: Time, id: RequestId, errno: Errno) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        let part = &mut self.partitions[pending.partition];
        part.stats.refuse(errno);
        if matches!(pending.stage, Stage::Queued(_)) {
            pending.stage = Stage::Running { connect: None };
            part.queue.begin(pending.peer.nid, pending.is_urgent);
        }
        let (format, status) = (Format::of(pending.opcode), Status::failed(errno));
        let mut error = Message::error(format, status);
        error.body.opcode = pending.opcode;
        self.answer(now, id, error);
    }

    /// Completes a reply and sends it.
    pub(super) fn answer(&mut self, now: Time, id: RequestId, mut reply: Message<'_>) {
        if let Some(connecting) = self.connecting(id) {
            reply = self.finish_connect(now, connecting, reply);
        }
        let Some(pending) = self.requests.get(id.0) else { return };
        let (xid, tag, opcode) = (pending.xid, pending.tag, pending.opcode);
        pending.reply_to.protect(&mut reply);
        let elapsed = elapsed(now, pending.arrived);
        let is_replay = pending.recovers.is_some() && pending.transno != 0;
        let estimate = &mut self.partitions[pending.partition].estimate;
        if pending.recovers.is_none() {
            // How long clients wait for each other says nothing about the service.
            estimate.measure(now, elapsed);
        }
        reply.body.service_time = elapsed;
        let handle = pending.export;
        let export = handle.and_then(|handle| self.exports.get_mut(handle));
        let is_error = reply.body.kind == Kind::ERROR;
        let target = export.as_ref().map(|export| &self.targets[export.target]);
        let is_settled = target.is_some_and(|target| target.recovery.is_none());
        reply.body.timeout = if is_error && !is_settled { 0 } else { estimate.seconds() };
        if let (Some(export), Some(target)) = (export, target) {
            reply.body.last_committed = target.last_committed;
            let kind = target.config.kind;
            let bytes: Arc<[u8]> = reply.to_bytes().into();
            let is_kept = reply.body.transno != 0 || tag != 0;
            let is_disconnect = opcode == kind.disconnect().opcode && !kind.is_client();
            let ends = is_disconnect && reply.body.status == Status::OK;
            if is_kept && !opcode.is_connect() {
                export.save(xid, tag, is_replay, bytes.clone());
            }
            if let Some(handle) = handle.filter(|_| ends)
                && let Some(gone) = self.exports.remove(handle)
            {
                self.end_work_of(handle, &gone);
            }
            self.send(now, id, bytes);
        } else {
            self.send(now, id, reply.to_bytes().into());
        }
    }

    /// Sends a saved reply again, with the last transaction that is on disk now.
    pub(super) fn repeat(&mut self, now: Time, id: RequestId, reply: &[u8]) {
        let Some(pending) = self.requests.get(id.0) else { return };
        self.partitions[pending.partition].stats.repeated += 1;
        let export = pending.export.and_then(|handle| self.exports.get(handle));
        let target = export.map(|export| &self.targets[export.target]);
        let mut reply = Message::decode(reply).expect("it was encoded here");
        pending.reply_to.protect(&mut reply);
        reply.body.last_committed = target.map_or(0, |target| target.last_committed);
        self.send(now, id, reply.to_bytes().into());
    }

    /// Connects the client, if the target has granted it and no later attempt has succeeded.
    fn finish_connect<'a>(
        &mut self,
        now: Time,
        connecting: ConnectRequest,
        mut reply: Message<'a>,
    ) -> Message<'a> {
        let ConnectRequest { connect, export, is_new, is_reconnect } = connecting;
        let granted = match reply.get(&CONNECT_DATA) {
            Ok(Some(data)) if reply.body.status == Status::OK => granted(&connect.asked, data),
            _ => {
                self.exports.refused(export, is_new);
                return reply;
            }
        };
        if let Err(errno) = self.exports.connected(now, export, &connect, &granted) {
            self.exports.refused(export, is_new);
            return Message::error(reply.format(), Status::failed(errno));
        }
        let target = self.exports.get(export).map(|export| export.target);
        let target = target.and_then(|target| self.targets.get(target));
        let is_reconnect = match target.map(|target| target.config.kind) {
            Some(TargetKind::Mgs) => connect.count > 1,
            _ => is_reconnect,
        };
        // What is on disk needs no replay.
        reply.body.last_committed =
            target.filter(|_| !is_new).map_or(0, |target| target.last_committed);
        if is_reconnect {
            reply.body.connect_flags = reply.body.connect_flags | ConnectOpFlags::RECONNECT;
        }
        self.repeat_calls_of(now, export);
        if self.join(now, &connecting) {
            reply.body.connect_flags = reply.body.connect_flags | ConnectOpFlags::RECOVERING;
        }
        reply.body.handle = export;
        reply.with(&CONNECT_DATA, &granted)
    }

    fn send(&mut self, now: Time, id: RequestId, bytes: Arc<[u8]>) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        pending.stage = Stage::Replying;
        let (export, xid, opcode) = (pending.export, pending.xid, pending.opcode);
        let to = pending.reply_to;
        let ReplyTo { has_room, flavor, .. } = to;
        let offset = if has_room { flavor.reply_offset() as u32 } else { 0 };
        let waited = now.since(pending.arrived);
        let part = &mut self.partitions[pending.partition];
        part.queue.end(pending.peer.nid, pending.is_urgent);
        // Peers choose operations: only known ones have numbers of their own.
        let is_known = Format::of(opcode).opcode == opcode;
        let counted = if is_known { opcode } else { Opcode(0) };
        part.stats.operations.entry(counted).or_default().add_time(waited);
        if let Some(export) = export {
            self.end_progress((export, xid), id);
        }
        self.early.clear(id);
        if let Some(match_bits) = to.other_bits {
            self.put(id, ReplyTo { match_bits, ..to }, bytes.clone(), offset, true);
        }
        self.put(id, to, bytes, offset, false);
    }

    /// Sends bytes to a client. The request is over once what is not early was sent.
    fn put(&mut self, id: RequestId, to: ReplyTo, bytes: Arc<[u8]>, offset: u32, is_early: bool) {
        let Some(pending) = self.requests.get(id.0) else { return };
        let key = pending.export.map(|export| (export, pending.xid));
        let ack = !is_early && key.is_some_and(|key| self.difficult.has(key));
        let md = Md {
            buffer: BufferId(0),
            offset: 0,
            len: bytes.len() as u64,
            threshold: Some(1 + u32::from(ack)),
            options: MdOptions::default(),
            max_size: 0,
            auto_unlink: true,
            user: REPLY | id.0 << 1 | u64::from(is_early),
        };
        let put = Put {
            ack,
            source: Some(to.source),
            target: to.target,
            portal: to.portal,
            match_bits: to.match_bits,
            offset,
            header_data: 0,
        };
        let from = Bound::New(md, Memory::Bytes(bytes));
        self.outputs.push_back(ServiceOutput::Post(Op::Put { from, put }));
    }

    /// Announces that a request takes longer, if the estimate allows it. Spec: ptlrpc-ldlm-mgs §7.5.
    pub(super) fn announce(&mut self, now: Time, id: RequestId) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        if pending.export.is_some_and(|export| self.exports.get(export).is_none()) {
            return;
        }
        let elapsed = elapsed(now, pending.arrived);
        let recovers = pending.recovers.and_then(|target| self.targets.get(target));
        let recovery = recovers.and_then(|target| target.recovery.as_ref());
        let part = &mut self.partitions[pending.partition];
        let timeout = match recovery {
            Some(recovery) => {
                elapsed.saturating_add(recovery.extra().min(self.timeouts.early_extra))
            }
            None => {
                part.estimate.measure(now, elapsed.saturating_add(self.timeouts.early_extra));
                part.estimate.seconds()
            }
        };
        let deadline = pending.arrived + Duration::from_secs(timeout.into());
        if deadline <= pending.deadline || pending.has_early {
            return;
        }
        pending.deadline = deadline;
        pending.has_early = true;
        part.stats.early += 1;
        let to = pending.reply_to;
        let flavor = to.flavor;
        let early = Message::early_reply(flavor, pending.opcode, timeout, elapsed);
        self.early.set(id, deadline - self.timeouts.early_margin);
        self.put(id, to, early.to_bytes().into(), 0, true);
    }
}

impl ReplyTo {
    /// Protects a reply as its request is. Where the request says how bulk data are protected, the
    /// reply does too.
    fn protect(&self, reply: &mut Message<'_>) {
        reply.head.flavor = self.flavor;
        reply.bulk = reply.bulk.or(self.bulk);
    }
}

/// Returns what is granted: nothing that the client does not request.
fn granted(asked: &ConnectData, data: ConnectData) -> ConnectData {
    ConnectData {
        flags: ConnectFlags(data.flags.0 & asked.flags.0),
        flags2: ConnectFlags2(data.flags2.0 & asked.flags2.0),
        ..data
    }
}

/// Returns the seconds since the arrival, at least 1.
fn elapsed(now: Time, arrived: Time) -> u32 {
    u32::try_from(now.since(arrived).as_secs()).unwrap_or(u32::MAX).max(1)
}
