//! The machine, and its part of [`fulmar_lnet::Service`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::{BufferId, Errno, Table, Time, Timers};
use fulmar_lnet::{
    Event, EventKind, Md, MdId, MdOptions, Me, MePosition, Memory, Op, Service, ServiceConfig,
    ServiceOutput,
};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_lustre_wire::message::{BulkHash, Flavor, Message};
use fulmar_lustre_wire::{Handle, Opcode};

use super::bulk::Transfers;
use super::calls;
use super::difficult::Difficult;
use super::queue::Queue;
use super::recovery::Recovery;
use super::shares::Shares;
use super::targets::Targets;
use super::{PartitionConfig, RequestId, ServerConfig, Stats, TargetState, Task};
use crate::HandleSource;
use crate::export::{Connect, Eviction, Export, Exports, TargetId};
use crate::outputs::Outputs;
use crate::reverse::{self, Reverse};
use crate::timeouts::{Estimate, Limits};

/// All services of a node.
#[derive(Debug)]
pub struct Server {
    pub(super) partitions: Vec<Partition>,
    pub(super) targets: Targets,
    pub(super) exports: Exports,
    /// Requests until their reply is sent, by [`RequestId`].
    pub(super) requests: Table<PendingRequest>,
    /// Requests that wait or are executed, by export and XID.
    pub(super) in_progress: BTreeMap<(Handle, u64), RequestId>,
    /// When early replies are due.
    pub(super) early: Timers<RequestId>,
    /// The descriptors of requests: their partition and portal, by [`Md::user`].
    pub(super) buffers: Vec<(usize, u32)>,
    pub(super) transfers: Transfers,
    pub(super) difficult: Difficult,
    pub(super) reverse: Reverse,
    pub(super) outputs: Outputs<Task>,
    pub(super) timeouts: Limits,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) config: PartitionConfig,
    pub(super) queue: Queue,
    pub(super) shares: Shares,
    /// Seconds from the arrival of a request to its reply.
    pub(super) estimate: Estimate,
    pub(super) stats: Stats,
}

/// A request, until its reply is sent.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) partition: usize,
    pub(super) stage: Stage,
    /// The primary NID of the sender, which holds the place.
    pub(super) peer: ProcessId,
    /// The export that the request names, if it exists.
    pub(super) export: Option<Handle>,
    pub(super) xid: u64,
    pub(super) opcode: Opcode,
    pub(super) tag: u16,
    /// The connection of its last transmission.
    pub(super) connection_count: u32,
    /// Its length in bytes.
    pub(super) len: u32,
    /// Its class in the queue.
    pub(super) is_urgent: bool,
    pub(super) arrived: Time,
    pub(super) deadline: Time,
    pub(super) reply_to: ReplyTo,
    /// The transaction that it replays, or 0.
    pub(super) transno: u64,
    /// The target whose host has it.
    pub(super) target: Option<TargetId>,
    /// The target whose recovery waits for its end.
    pub(super) recovers: Option<TargetId>,
    /// Whether an early reply is being sent.
    pub(super) has_early: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    Queued(Message<'static>),
    /// Its turn comes in the course of a recovery.
    Held(Message<'static>),
    Running {
        connect: Option<ConnectRequest>,
    },
    Replying,
}

/// A CONNECT that the host executes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectRequest {
    pub(super) connect: Connect,
    pub(super) export: Handle,
    pub(super) is_new: bool,
    pub(super) is_reconnect: bool,
}

/// Where the reply to a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyTo {
    /// From our NID that the request was for,
    pub(super) source: Nid,
    /// to the NID that it came from.
    pub(super) target: ProcessId,
    pub(super) portal: u32,
    pub(super) match_bits: u64,
    /// Where a client without a connection waits for the reply instead, if its last one had
    /// `REP_MBITS`, which is not known here.
    pub(super) other_bits: Option<u64>,
    /// The match bits of the last part of the client's bulk data.
    pub(super) bulk_bits: u64,
    /// Whether the client has room for early replies before the reply.
    pub(super) has_room: bool,
    /// How the request is protected, and so the reply.
    pub(super) flavor: Flavor,
    /// In the flavor plain, how bulk data are protected.
    pub(super) bulk: Option<BulkHash>,
}

/// How many descriptors receive requests at each portal: one is always posted.
const BUFFERS: usize = 4;
/// The length of a descriptor. Its memory is that of the requests.
const BUFFER_LEN: u32 = 1 << 20;
/// [`Md::user`] of replies has this bit, and that of early replies is odd.
pub(super) const REPLY: u64 = 1 << 63;
/// [`Md::user`] of bulk data has this bit.
pub(super) const BULK: u64 = 1 << 62;

impl Server {
    /// Options of the service for LNet.
    pub const CONFIG: ServiceConfig = ServiceConfig { own_nids_are_loopback: true };

    /// Creates a server whose targets start. Its first outputs open the portals.
    ///
    /// # Panics
    /// If no replies belong to a portal, a portal is in two partitions, or requests may be longer than
    /// a descriptor.
    pub fn new(config: ServerConfig) -> Self {
        let ServerConfig { key, partitions, targets, exports, timeouts } = config;
        let portals = || partitions.iter().flat_map(|partition| &partition.portals);
        let distinct: BTreeSet<u32> = portals().copied().collect();
        assert_eq!(distinct.len(), portals().count(), "a portal is in two partitions");
        let mut this = Self {
            partitions: Vec::new(),
            targets: Targets::default(),
            exports: Exports::new(HandleSource::new(key), exports),
            requests: Table::default(),
            in_progress: BTreeMap::new(),
            early: Timers::default(),
            buffers: Vec::new(),
            transfers: Transfers::default(),
            difficult: Difficult::default(),
            reverse: calls::reverse(key, timeouts),
            outputs: Outputs::new(),
            timeouts,
        };
        for target in targets {
            this.targets.add(target);
        }
        for partition in partitions {
            this.open_partition(Partition::new(partition, timeouts));
        }
        this
    }

    /// Opens a partition, and posts descriptors at its portals.
    pub(super) fn open_partition(&mut self, partition: Partition) {
        let PartitionConfig { request_max, ref portals, .. } = partition.config;
        assert!(request_max <= BUFFER_LEN, "{request_max} is too much");
        let (place, first) = (self.partitions.len(), self.buffers.len());
        for &portal in portals {
            let reply = fulmar_lustre_wire::portal::reply_to(portal);
            assert!(reply.is_some(), "no replies belong to portal {portal}");
            self.buffers.extend([(place, portal); BUFFERS]);
        }
        self.partitions.push(partition);
        for buffer in first..self.buffers.len() {
            self.attach(buffer);
        }
    }

    /// Says whether a target takes requests.
    ///
    /// # Panics
    /// If there is no such target.
    pub fn set_state(&mut self, target: TargetId, state: TargetState) {
        self.targets[target].state = state;
    }

    /// Says how clients that connect to a target from now on protect their messages, or that they may
    /// choose; others are refused with EACCES. At first it is [`Flavor::NULL`], and a management service
    /// lets them choose. Spec: ptlrpc-ldlm-mgs §9.
    ///
    /// # Panics
    /// If there is no such target.
    pub fn set_flavor(&mut self, target: TargetId, flavor: Option<Flavor>) {
        self.targets[target].flavor = flavor.map(Flavor::word);
    }

    /// Changes the limits of the estimates of service times.
    pub fn set_timeouts(&mut self, timeouts: Limits) {
        self.timeouts = timeouts;
        self.partitions.iter_mut().for_each(|partition| partition.estimate.set_limits(timeouts));
    }

    /// Returns the limits of the estimates of service times.
    pub fn timeouts(&self) -> Limits {
        self.timeouts
    }

    /// Says which transaction of a target is the last on disk. Replies carry it from now on, and
    /// difficult ones up to it are confirmed.
    ///
    /// # Panics
    /// If there is no such target.
    pub fn set_last_committed(&mut self, target: TargetId, transno: u64) {
        self.targets[target].last_committed = transno;
        while let Some(request) = self.difficult.pop_committed(target, transno) {
            self.push_task(Task::Confirmed { request });
        }
    }

    /// Removes a client, as an administrator or a lock manager requests. [`Task::Evicted`] follows, with
    /// the reason `why`. Returns whether there was such an export.
    pub fn evict(&mut self, now: Time, export: Handle, why: Eviction) -> bool {
        let was_there = self.remove_export(export, why);
        self.advance(now);
        was_there
    }

    /// Returns the next task for the host. A machine that contains the server executes all of them before
    /// it passes on the posts, which is what [`fulmar_lnet::Service::poll_output`] returns then.
    pub fn poll_task(&mut self) -> Option<Task> {
        self.outputs.pop_request()
    }

    /// Returns the exports.
    pub fn exports(&self) -> &Exports {
        &self.exports
    }

    /// Returns the numbers of a partition, by its place in the configuration.
    pub fn stats(&self, partition: usize) -> Option<&Stats> {
        self.partitions.get(partition).map(|partition| &partition.stats)
    }

    /// Returns the target of each request of a client that waits until it is executed.
    pub fn queued(&self) -> impl Iterator<Item = TargetId> {
        let waiting = self.partitions.iter().flat_map(|partition| partition.queue.iter());
        let exports = waiting.filter_map(|id| self.exports.get(self.requests.get(id.0)?.export?));
        exports.map(|export| export.target)
    }

    pub(super) fn remove_export(&mut self, handle: Handle, why: Eviction) -> bool {
        let Some(gone) = self.exports.remove(handle) else { return false };
        self.evicted(handle, &gone, why);
        true
    }

    /// Handles the removal of an export that its client did not end.
    pub(super) fn evicted(&mut self, export: Handle, gone: &Export, why: Eviction) {
        self.end_work_of(export, gone);
        let (target, client) = (gone.target, gone.client);
        self.push_task(Task::Evicted { target, export, client, why });
    }

    /// Ends what is done for a client that is gone.
    pub(super) fn end_work_of(&mut self, export: Handle, gone: &Export) {
        self.end_transfers_of(export);
        self.end_calls_of(export);
        self.leave_recovery(gone.target, export);
        while let Some(request) = self.difficult.pop_of(export) {
            self.push_task(Task::Confirmed { request });
        }
    }

    pub(super) fn push_task(&mut self, task: Task) {
        self.outputs.push_back(ServiceOutput::Host(task));
    }

    /// Posts a descriptor for requests.
    fn attach(&mut self, buffer: usize) {
        let Some(&(partition, portal)) = self.buffers.get(buffer) else { return };
        let me = Me {
            match_id: ProcessId::ANY,
            match_bits: 0,
            ignore_bits: u64::MAX,
            unlink: true,
            position: MePosition::After,
        };
        let md = Md {
            buffer: BufferId(0),
            offset: 0,
            len: BUFFER_LEN.into(),
            threshold: None,
            options: MdOptions::OP_PUT.with(MdOptions::MAX_SIZE),
            max_size: self.partitions[partition].config.request_max,
            auto_unlink: true,
            user: buffer as u64,
        };
        let memory = Memory::Inline;
        self.outputs.push_back(ServiceOutput::Post(Op::Attach { portal, me, md, memory }));
    }

    /// Frees the place of a request that has ended.
    pub(super) fn forget(&mut self, id: RequestId) {
        let Some(pending) = self.requests.remove(id.0) else { return };
        self.early.clear(id);
        if let Some(export) = pending.export {
            self.end_progress((export, pending.xid), id);
        }
        self.partitions[pending.partition].shares.give_back(pending.peer.nid, pending.len);
    }

    pub(super) fn end_progress(&mut self, key: (Handle, u64), id: RequestId) {
        if let Entry::Occupied(found) = self.in_progress.entry(key)
            && *found.get() == id
        {
            found.remove();
        }
    }

    /// Handles the acknowledgement of a reply.
    fn handle_ack(&mut self, user: u64) {
        let id = RequestId((user & !REPLY) >> 1);
        let pending = self.requests.get(id.0);
        let key = pending.and_then(|pending| Some((pending.export?, pending.xid)));
        if let Some(request) = key.and_then(|key| self.difficult.remove(key)) {
            self.push_task(Task::Confirmed { request });
        }
    }

    fn handle_sent(&mut self, user: u64, result: Result<(), Errno>) {
        let id = RequestId((user & !REPLY) >> 1);
        let is_early = user & 1 == 1;
        let Some(pending) = self.requests.get_mut(id.0) else { return };
        if result.is_err() {
            self.partitions[pending.partition].stats.lost += 1;
        }
        if is_early { pending.has_early = false } else { self.forget(id) }
    }
}

impl Partition {
    pub(super) fn new(config: PartitionConfig, limits: Limits) -> Self {
        Self {
            queue: Queue::new(config.running_max),
            shares: Shares::new(config.bounds),
            estimate: Estimate::new(limits, 0),
            stats: Stats::default(),
            config,
        }
    }
}

impl Service for Server {
    type Request = Task;

    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>) {
        if event.user & REPLY != 0 {
            if event.kind == EventKind::Ack && event.status.is_ok() {
                self.handle_ack(event.user);
            }
            if event.unlinked {
                self.handle_sent(event.user, event.status);
            }
            return;
        }
        if event.user & BULK != 0 {
            return self.handle_bulk_event(now, event);
        }
        if event.user & reverse::USER != 0 {
            self.reverse.handle_event(now, event, &bytes);
            return self.drain_calls();
        }
        let buffer = event.user as usize;
        if event.unlinked && event.kind != EventKind::Unlink {
            self.attach(buffer);
        }
        if event.kind != EventKind::Put || event.status.is_err() {
            return;
        }
        if let Some(&(partition, _)) = self.buffers.get(buffer) {
            self.handle_arrival(now, partition, event, &bytes);
            self.dispatch(now, partition);
            self.advance(now);
        }
    }

    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        if user & (REPLY | BULK) == BULK {
            return self.handle_bulk_posted(now, user, result);
        }
        if user & (REPLY | reverse::USER) == reverse::USER {
            self.reverse.handle_posted(now, user, result);
            return self.drain_calls();
        }
        let Err(errno) = result else { return };
        if user & REPLY != 0 {
            self.handle_sent(user, Err(errno));
        } else if let Some(&(_, portal)) = self.buffers.get(user as usize) {
            self.push_task(Task::PortalFailed { portal, errno });
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.early.pop_due(now) {
            self.announce(now, id);
        }
        self.end_late_transfers(now);
        self.reverse.handle_timeout(now);
        self.drain_calls();
        let estimates = self.partitions.iter().map(|partition| partition.estimate.seconds());
        let estimate = estimates.max().unwrap_or_default();
        while let Some((export, gone)) = self.exports.pop_silent(now, estimate) {
            self.evicted(export, &gone, Eviction::Silence);
        }
        self.expire_recoveries(now);
        self.advance(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let recoveries = self.targets.iter().filter_map(|(_, target)| target.recovery.as_ref());
        let windows = recoveries.filter_map(Recovery::poll_timeout);
        let others = [
            self.early.next(),
            self.exports.poll_timeout(),
            self.transfers.poll_timeout(),
            self.reverse.poll_timeout(),
        ];
        windows.chain(others.into_iter().flatten()).min()
    }

    fn poll_output(&mut self) -> Option<ServiceOutput<Task>> {
        self.outputs.pop_front()
    }
}
