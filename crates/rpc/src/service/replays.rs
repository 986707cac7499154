//! Targets that recover: the requests that are held, and the end. Spec: ptlrpc-ldlm-mgs §15.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::format::Format;
use fulmar_lustre_wire::message::{Body, ConnectOpFlags, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid};

use super::recovery::{Recovery, Step, Turn, Window};
use super::server::{ConnectRequest, Server, Stage};
use super::{DropReason, RequestId, Task};
use crate::export::{Eviction, TargetId};

/// A client as a target knows it from its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownClient {
    /// Its UUID.
    pub client: Uuid,
    /// The last reply of each of its slots that was a transaction on disk.
    pub replies: Vec<SavedReply>,
}

/// A reply that a host wrote to disk together with its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedReply {
    /// The tag of the request.
    pub tag: u16,
    /// Its XID.
    pub xid: u64,
    /// The reply as the host gave it to [`Server::reply`], with the transaction number.
    pub reply: Message<'static>,
}

/// What is executed or held while a target recovers.
const OPERATIONS: &[Opcode] = &[
    Opcode::MDS_CLOSE,
    Opcode::MDS_SYNC,
    Opcode::OBD_PING,
    Opcode::MDS_REINT,
    Opcode::OUT_UPDATE,
    Opcode::MDS_BATCH,
    Opcode::SEQ_QUERY,
    Opcode::FLD_QUERY,
    Opcode::FLD_READ,
    Opcode::LDLM_ENQUEUE,
    Opcode::OST_CREATE,
    Opcode::OST_DESTROY,
    Opcode::OST_PUNCH,
    Opcode::OST_SETATTR,
    Opcode::OST_SYNC,
    Opcode::OST_WRITE,
    Opcode::OST_FALLOCATE,
    Opcode::MDS_HSM_PROGRESS,
    Opcode::MDS_HSM_STATE_SET,
    Opcode::MDS_HSM_REQUEST,
    Opcode::MDS_HSM_DATA_VERSION,
];

impl Server {
    /// Begins the recovery of a target that knows these clients from its disk. For a target that starts,
    /// after [`Server::set_last_committed`]. Returns the export of each client. Without clients there is
    /// nothing to recover.
    ///
    /// Until [`Task::Recovered`], requests for the host are replays in the order of their transactions,
    /// whose numbers are in their bodies. A replay of a transaction that is on disk opens a file again and
    /// changes nothing else. New transactions must have higher numbers than all replays.
    ///
    /// # Panics
    /// If there is no such target, or it has exports.
    pub fn recover(
        &mut self,
        now: Time,
        target: TargetId,
        clients: &[KnownClient],
        window: Window,
    ) -> Vec<Handle> {
        let is_new = self.exports.iter().all(|(_, export)| export.target != target);
        assert!(is_new, "a target recovers before it has clients");
        let restored = clients.iter().map(|known| {
            let export = self.exports.restore(now, target, known.client);
            for SavedReply { tag, xid, reply } in &known.replies {
                if let Some(export) = self.exports.get_mut(export) {
                    export.restore(*xid, *tag, reply.to_bytes().into());
                }
            }
            export
        });
        let restored: Vec<Handle> = restored.collect();
        if !restored.is_empty() {
            let target = &mut self.targets[target];
            target.recovery = Some(Recovery::new(window, &restored, target.last_committed));
        }
        restored
    }

    /// Returns whether a target recovers.
    pub fn recovers(&self, target: TargetId) -> bool {
        self.targets.get(target).is_some_and(|target| target.recovery.is_some())
    }

    /// Ends the recovery of a target: evicts all clients that have not completed theirs.
    pub fn abort_recovery(&mut self, now: Time, target: TargetId) {
        let late = self.recovery(target).map(Recovery::abort).unwrap_or_default();
        for export in late {
            self.remove_export(export, Eviction::Recovery);
        }
        self.advance(now);
    }

    fn recovery(&mut self, target: TargetId) -> Option<&mut Recovery> {
        self.targets.get_mut(target)?.recovery.as_mut()
    }

    /// Decides when a request is executed that has passed all other checks.
    pub(super) fn turn(
        &mut self,
        target: TargetId,
        id: RequestId,
        body: &Body,
    ) -> Result<Turn, Errno> {
        let (export, opcode) = (body.handle, body.opcode);
        let disconnect = self.targets[target].config.kind.disconnect().opcode;
        let Some(recovery) = self.recovery(target) else {
            return if is_of_recovery(body) {
                self.remove_export(export, Eviction::Replay);
                Err(Errno::ENODEV)
            } else {
                Ok(Turn::Now)
            };
        };
        let is_replay = body.transno != 0 && opcode != Opcode::OBD_PING;
        let is_always = [disconnect, Opcode::OBD_IDX_READ, Opcode::LDLM_CANCEL].contains(&opcode);
        let turn = if is_always {
            Turn::Now
        } else if !OPERATIONS.contains(&opcode) {
            return Err(Errno::EAGAIN);
        } else if body.flags.has(MessageFlags::LOCK_REPLAY_DONE) && opcode == Opcode::OBD_PING {
            recovery.complete(export, id)?
        } else if body.flags.has(MessageFlags::REQ_REPLAY_DONE) && opcode == Opcode::LDLM_ENQUEUE {
            recovery.replay_lock(export, id)?
        } else if is_replay {
            recovery.replay(export, body.transno, id)?
        } else if recovery.is_member(export) && !changes_nothing(opcode) {
            // A new change must not come before the replays.
            return Err(Errno::EAGAIN);
        } else {
            Turn::Now
        };
        if let Some(pending) = self.requests.get_mut(id.0) {
            let is_counted = turn != Turn::Now || is_replay && !is_always;
            pending.recovers = is_counted.then_some(target);
        }
        Ok(turn)
    }

    /// Lets a request wait that has begun.
    pub(super) fn hold(&mut self, id: RequestId, message: Message<'static>) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        pending.stage = Stage::Held(message);
        self.partitions[pending.partition].queue.end(pending.peer.nid, pending.is_urgent);
    }

    /// Handles a client that has connected to a target that recovers.
    pub(super) fn join(&mut self, now: Time, connecting: &ConnectRequest) -> bool {
        let ConnectRequest { connect, export, .. } = connecting;
        let Some(found) = self.exports.get(*export) else { return false };
        let target = &mut self.targets[found.target];
        let last_committed = target.last_committed;
        let Some(recovery) = &mut target.recovery else { return false };
        // One that is on disk takes part, whatever it says now: others wait for it.
        if connect.is_lightweight() && !recovery.is_member(*export) {
            return false;
        }
        let replays = connect.op_flags.has(ConnectOpFlags::TRANSNO);
        let first = replays.then_some(connect.asked.transno);
        recovery.join(now, *export, connect.estimate, first, last_committed);
        true
    }

    /// Ends the requests of a client that is gone which wait in the recovery of a target.
    pub(super) fn leave_recovery(&mut self, target: TargetId, export: Handle) {
        let held = self.recovery(target).map(|recovery| recovery.leave(export)).unwrap_or_default();
        for id in held {
            self.drop_held(id);
        }
    }

    pub(super) fn drop_held(&mut self, id: RequestId) {
        if let Some(pending) = self.requests.get(id.0) {
            self.partitions[pending.partition].stats.drop(DropReason::Outdated);
        }
        self.forget(id);
    }

    /// Handles the end of a request that the host has executed for a recovery.
    pub(super) fn replay_ended(
        &mut self,
        now: Time,
        target: TargetId,
        id: RequestId,
        status: Status,
    ) {
        let version_failed = status.errno() == Some(Errno::EOVERFLOW);
        if let Some(recovery) = self.recovery(target) {
            recovery.ended(now, id, version_failed);
        }
    }

    /// Handles the passing of time.
    pub(super) fn expire_recoveries(&mut self, now: Time) {
        let recoveries = self.targets.recoveries();
        let late: Vec<Handle> =
            recoveries.flat_map(|(_, recovery)| recovery.handle_timeout(now)).collect();
        for export in late {
            self.remove_export(export, Eviction::Recovery);
        }
    }

    /// Lets all recoveries go on as far as they can. At the end of each input.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some((target, step)) = self.targets.poll_recovery() {
            match step {
                Step::Execute(id) => self.release(now, id),
                Step::Finish { pings, failed } => {
                    self.finish_recovery(now, target, pings, failed);
                }
            }
        }
    }

    /// Lets a held request take its turn.
    fn release(&mut self, now: Time, id: RequestId) {
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        let (partition, node) = (pending.partition, pending.peer.nid);
        let stage = std::mem::replace(&mut pending.stage, Stage::Replying);
        let Stage::Held(message) = stage else { unreachable!("only held requests are released") };
        pending.stage = Stage::Queued(message);
        pending.is_urgent = true;
        self.partitions[partition].queue.push(node, id, true);
        self.dispatch(now, partition);
    }

    fn finish_recovery(
        &mut self,
        now: Time,
        target: TargetId,
        pings: Vec<RequestId>,
        failed: Vec<Handle>,
    ) {
        self.targets[target].recovery = None;
        self.exports.recovered(now, target);
        self.push_task(Task::Recovered { target });
        for id in pings {
            let Some(pending) = self.requests.get_mut(id.0) else { continue };
            pending.stage = Stage::Running { connect: None };
            let opcode = pending.opcode;
            self.partitions[pending.partition].queue.begin(pending.peer.nid, pending.is_urgent);
            self.answer(now, id, Message::reply(Format::of(opcode), Status::OK));
        }
        for export in failed {
            self.remove_export(export, Eviction::Recovery);
        }
    }
}

/// Returns whether a request is sent only to a target that recovers.
pub(super) fn is_of_recovery(body: &Body) -> bool {
    let flags = MessageFlags::REPLAY | MessageFlags::REQ_REPLAY_DONE;
    body.flags.without(flags) != body.flags || body.transno != 0
}

/// Returns whether an operation may be executed before the replays.
fn changes_nothing(opcode: Opcode) -> bool {
    let harmless = [Opcode::OBD_PING, Opcode::SEQ_QUERY, Opcode::FLD_QUERY, Opcode::FLD_READ];
    harmless.contains(&opcode)
}
