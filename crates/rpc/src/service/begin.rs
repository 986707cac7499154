//! Requests whose turn it is. Spec: ptlrpc-ldlm-mgs §6.3.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::format::TARGET_UUID;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid};

use super::recovery::{Recovery, Turn};
use super::server::{ConnectRequest, Server, Stage};
use super::targets::Target;
use super::{DropReason, Request, RequestId, TargetState, Task};
use crate::export::{Connect, Eviction, TargetId, Verdict};

/// What becomes of a request whose turn has come.
enum NextStep {
    Execute(TargetId, Handle),
    Hold,
    /// It is answered or dropped.
    Ended,
}

impl Server {
    /// Begins the requests of a partition that may be executed now.
    pub(super) fn dispatch(&mut self, now: Time, partition: usize) {
        while let Some(id) = self.partitions[partition].queue.pop() {
            self.begin(now, id);
        }
    }

    fn begin(&mut self, now: Time, id: RequestId) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        let stage = std::mem::replace(&mut pending.stage, Stage::Running { connect: None });
        let Stage::Queued(message) = stage else { unreachable!("only queued requests begin") };
        let (partition, xid, peer) = (pending.partition, pending.xid, pending.peer);
        let is_late = pending.deadline <= now;
        let (arrived, count) = (pending.arrived, pending.connection_count);
        let recovers = pending.recovers;
        let export = pending.export.and_then(|handle| self.exports.get(handle));
        let is_outdated = export.is_some_and(|export| count < export.connection_count);
        let part = &mut self.partitions[partition];
        part.stats.waiting.add_time(now.since(arrived));
        part.stats.active.add(part.queue.running().into());
        if let Some(target) = recovers {
            return self.execute_held(now, id, target, message);
        }
        if is_late {
            return self.drop_running(id, DropReason::Late);
        }
        if is_outdated {
            return self.drop_running(id, DropReason::Outdated);
        }
        let begun = if message.body.opcode.is_connect() {
            self.begin_connect(now, id, &message, peer)
        } else {
            self.begin_other(now, id, &message, xid)
        };
        match begun {
            Ok(NextStep::Execute(target, export)) => self.execute(id, target, export, message),
            Ok(NextStep::Hold) => self.hold(id, message),
            Ok(NextStep::Ended) => {}
            Err(errno) => self.refuse(now, id, errno),
        }
    }

    fn execute(
        &mut self,
        id: RequestId,
        target: TargetId,
        export: Handle,
        message: Message<'static>,
    ) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        pending.target = Some(target);
        let (from, peer, xid) = (pending.reply_to.target, pending.peer, pending.xid);
        let recovery = self.targets[target].recovery.as_ref();
        let checks_versions = recovery.is_some_and(Recovery::checks_versions);
        let request = Request { id, target, export, xid, from, peer, checks_versions, message };
        self.push_task(Task::Execute(Box::new(request)));
    }

    /// Executes a request of a recovery, however late: others depend on it.
    fn execute_held(
        &mut self,
        now: Time,
        id: RequestId,
        target: TargetId,
        message: Message<'static>,
    ) {
        let export = message.body.handle;
        match self.exports.get(export) {
            Some(_) => self.execute(id, target, export, message),
            None => {
                self.drop_running(id, DropReason::Outdated);
                self.replay_ended(now, target, id, Status::OK);
            }
        }
    }

    /// Begins a CONNECT: the export is to be connected.
    fn begin_connect(
        &mut self,
        now: Time,
        id: RequestId,
        message: &Message<'_>,
        peer: ProcessId,
    ) -> Result<NextStep, Errno> {
        let target = self.target_of(message)?;
        let connect = Connect::decode(message, peer)?;
        let recovery = self.targets[target].recovery.as_mut();
        let recovers = recovery.map(|recovery| recovery.begin(now)).is_some();
        let Self { exports, in_progress, .. } = self;
        let others = |export: Handle| {
            in_progress.range((export, 0)..=(export, u64::MAX)).any(|(_, &other)| other != id)
        };
        let admission = exports.admit(now, target, &connect, recovers, others)?;
        if let Some((export, gone)) = admission.evicted {
            self.evicted(export, &gone, Eviction::Replaced);
        }
        let export = admission.export;
        let (is_new, is_reconnect) = (admission.is_new, admission.is_reconnect);
        if let Some(pending) = self.requests.get_mut(id.0) {
            let connect = Some(ConnectRequest { connect, export, is_new, is_reconnect });
            pending.stage = Stage::Running { connect };
        }
        Ok(NextStep::Execute(target, export))
    }

    /// Returns the target that a CONNECT names, if it takes connects of this kind.
    fn target_of(&self, message: &Message<'_>) -> Result<TargetId, Errno> {
        let name: Uuid = message.require(&TARGET_UUID).map_err(|_| Errno::EINVAL)?;
        let mut targets = self.targets.iter();
        let found =
            targets.find(|(_, target)| target.config.name == name || target.config.uuid == name);
        let (id, target) = found.ok_or(Errno::ENODEV)?;
        let used = message.head.flavor.word();
        match target.state {
            TargetState::Stopping => Err(Errno::ENODEV),
            TargetState::Starting => Err(Errno::EAGAIN),
            TargetState::Open if target.config.kind.connect().opcode != message.body.opcode => {
                Err(Errno::EOPNOTSUPP)
            }
            TargetState::Open if target.flavor.is_some_and(|one| one != used) => Err(Errno::EACCES),
            TargetState::Open => Ok(id),
        }
    }

    /// Begins any other request.
    fn begin_other(
        &mut self,
        now: Time,
        id: RequestId,
        message: &Message<'_>,
        xid: u64,
    ) -> Result<NextStep, Errno> {
        let body = &message.body;
        let export = self.exports.get_mut(body.handle).ok_or(Errno::ENOTCONN)?;
        if !export.is_connected() {
            return Err(Errno::ENOTCONN);
        }
        export.check_xid(xid, body)?;
        let target = export.target;
        let Target { config, state, .. } = &self.targets[target];
        if *state == TargetState::Stopping {
            return Err(Errno::ENODEV);
        }
        let is_client = config.kind.is_client();
        let is_ping = body.opcode == Opcode::OBD_PING && !is_client;
        let is_disconnect = body.opcode == config.kind.disconnect().opcode && !is_client;
        let is_known = is_ping || is_disconnect || config.operations.contains(&body.opcode);
        if !is_known {
            return Err(Errno::EOPNOTSUPP);
        }
        if body.service != body.opcode.service() {
            return Err(Errno::EINVAL);
        }
        match export.begin(xid, body) {
            Verdict::Refuse(errno) => return Err(errno),
            Verdict::Execute if !is_client && !message.has_main_buffer() => {
                return Err(Errno::EFAULT);
            }
            Verdict::Execute => match self.turn(target, id, body)? {
                Turn::Now if !is_ping => return Ok(NextStep::Execute(target, body.handle)),
                Turn::Now => self.answer(now, id, Message::reply(message.format(), Status::OK)),
                Turn::Held => return Ok(NextStep::Hold),
                Turn::Instead(earlier) => {
                    self.drop_held(earlier);
                    return Ok(NextStep::Hold);
                }
                Turn::Duplicate => self.drop_running(id, DropReason::Stale),
            },
            Verdict::Answer(reply) => self.repeat(now, id, &reply),
            Verdict::Drop => self.drop_running(id, DropReason::Stale),
        }
        Ok(NextStep::Ended)
    }

    /// Ends a request that began, without a reply.
    pub(super) fn drop_running(&mut self, id: RequestId, why: DropReason) {
        let Some(pending) = self.requests.get(id.0) else { return };
        let part = &mut self.partitions[pending.partition];
        part.queue.end(pending.peer.nid, pending.is_urgent);
        part.stats.drop(why);
        self.forget(id);
    }
}
