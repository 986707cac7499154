//! The selftest as a service of LNet: turns outputs of the machine into posts, and events into its
//! inputs.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{BufferId, Errno, Span, Time};
use fulmar_lnet::views::Stats;
use fulmar_lnet::{
    Bound, Event, EventKind, Get, Md, MdId, MdOptions, Me, MePosition, Memory, Op, Put, Service,
    ServiceConfig, ServiceOutput,
};
use fulmar_lnet_wire::selftest::{
    BULK_PORTAL, Damage, LEN, LnetCounters, Service as ServiceNumber, Usage,
};
use fulmar_lnet_wire::{Nid, ProcessId};

use crate::api::{
    Access, CommandId, Config, OperationId, OperationResult, Output, QuestionId, Request, Task,
};
use crate::console::{Answer, KeyedCommand};
use crate::machine::Selftest;
use crate::notice::Notice;

/// The selftest of one node, as a service.
#[derive(Debug)]
pub struct SelftestService {
    machine: Selftest,
    operations: BTreeMap<OperationId, Operation>,
    /// Descriptors to unlink before further outputs of the machine.
    unlinks: VecDeque<MdId>,
}

/// Requests of the service to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Memory, data and measurements.
    Task(Task),
    /// Report the counters of LNet with [`SelftestService::handle_counted`].
    Count {
        /// ID of the query.
        id: QuestionId,
    },
    /// A command has ended.
    Answer {
        /// ID of the command.
        command: CommandId,
        /// The answer.
        answer: Answer,
    },
    /// A notice for the log.
    Notice(Notice),
}

/// An LNet operation of the machine, until its descriptor is unlinked.
#[derive(Debug, Default)]
struct Operation {
    /// Known after the post.
    md: Option<MdId>,
    /// Whether the machine has cancelled it.
    withdrawn: bool,
    /// Its result, once known.
    result: Option<Result<OperationResult, Errno>>,
}

/// [`Md::user`] of the descriptors that receive requests; no operation has this number.
const REQUESTS: u64 = u64::MAX;

impl SelftestService {
    /// Options of the service for LNet.
    pub const CONFIG: ServiceConfig = ServiceConfig { own_nids_are_loopback: true };

    /// Creates a node that is in no session. Its host posts [`SelftestService::portals`] first.
    pub fn new(config: Config) -> Self {
        let machine = Selftest::new(config);
        Self { machine, operations: BTreeMap::new(), unlinks: VecDeque::new() }
    }

    /// Returns the posts that open the request portals. Fails with EPERM on a node whose
    /// application uses one of them in another mode.
    pub fn portals() -> Vec<Op> {
        let open = |service: ServiceNumber| {
            let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
            let md = descriptor(LEN as u64, REQUESTS);
            Op::Attach {
                portal: service.portal(),
                me: Me { unlink: false, ..only(ProcessId::ANY, service.0) },
                md: Md { options, threshold: None, auto_unlink: false, ..md },
                memory: Memory::Inline,
            }
        };
        ServiceNumber::KNOWN.iter().copied().map(open).collect()
    }

    /// Returns the machine for inspection.
    pub fn machine(&self) -> &Selftest {
        &self.machine
    }

    /// Handles a command of an administrator; see [`Selftest::command`].
    pub fn command(&mut self, now: Time, own: Option<Nid>, command: KeyedCommand) -> CommandId {
        self.machine.command(now, own, command)
    }

    /// Handles the answer to [`Task::Check`].
    ///
    /// # Panics
    /// If there is no such query, or it was answered already.
    pub fn handle_checked(&mut self, now: Time, id: QuestionId, result: Result<(), Damage>) {
        self.machine.handle_checked(now, id, result);
    }

    /// Handles the answer to [`Task::Measure`].
    ///
    /// # Panics
    /// If there is no such query, or it was answered already.
    pub fn handle_measured(&mut self, now: Time, id: QuestionId, usage: Usage) {
        self.machine.handle_measured(now, id, usage);
    }

    /// Handles the answer to [`HostRequest::Count`].
    ///
    /// # Panics
    /// If there is no such query, or it was answered already.
    pub fn handle_counted(&mut self, now: Time, id: QuestionId, stats: &Stats) {
        self.machine.handle_counted(now, id, counters(stats));
    }

    fn begin(&mut self, id: OperationId, op: Op) -> ServiceOutput<HostRequest> {
        self.operations.insert(id, Operation::default());
        ServiceOutput::Post(op)
    }

    /// Returns the post or host request for the next output of the machine, if any.
    fn carry_out(&mut self, output: Output) -> Option<ServiceOutput<HostRequest>> {
        let request = match output {
            Output::Withdraw { id } => {
                let operation = self.operations.get_mut(&id)?;
                operation.withdrawn = true;
                return operation.md.map(|md| ServiceOutput::Post(Op::Unlink(md)));
            }
            Output::Count { id } => HostRequest::Count { id },
            Output::Task(task) => HostRequest::Task(task),
            Output::Answer { command, answer } => HostRequest::Answer { command, answer },
            Output::Notice(notice) => HostRequest::Notice(notice),
            output => {
                let (id, op) = operation(output);
                return Some(self.begin(id, op));
            }
        };
        Some(ServiceOutput::Host(request))
    }
}

impl Service for SelftestService {
    type Request = HostRequest;

    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>) {
        if event.user == REQUESTS {
            if event.kind == EventKind::Put && event.status.is_ok() {
                let (from, to) = (event.source, event.target.nid);
                let request = Request { service: event.match_bits, from, to, bytes: &bytes };
                self.machine.handle_request(now, request);
            }
            return;
        }
        let id = OperationId(event.user);
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let done = event.status.map(|()| OperationResult { len: event.mlength, bytes });
        match event.kind {
            // The GET was sent: its REPLY decides.
            EventKind::Send if !event.unlinked && done.is_ok() => {}
            EventKind::Unlink => {
                operation.result.get_or_insert(Err(Errno::ECANCELED));
            }
            _ => {
                operation.result.get_or_insert(done);
            }
        }
        if event.unlinked {
            let ended = self.operations.remove(&id).and_then(|operation| operation.result);
            self.machine.handle_done(now, id, ended.unwrap_or(Err(Errno::EIO)));
        } else if event.status.is_err() {
            // The response will not arrive: the last event shows when the memory is free.
            self.unlinks.push_back(event.md);
        }
    }

    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        let id = OperationId(user);
        match result {
            Ok(md) => {
                let Some(operation) = self.operations.get_mut(&id) else { return };
                operation.md = Some(md);
                if operation.withdrawn {
                    self.unlinks.push_back(md);
                }
            }
            Err(errno) => {
                if self.operations.remove(&id).is_some() {
                    self.machine.handle_done(now, id, Err(errno));
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.machine.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    fn poll_output(&mut self) -> Option<ServiceOutput<HostRequest>> {
        if let Some(md) = self.unlinks.pop_front() {
            return Some(ServiceOutput::Post(Op::Unlink(md)));
        }
        loop {
            let output = self.machine.poll_output()?;
            if let Some(output) = self.carry_out(output) {
                return Some(output);
            }
        }
    }
}

/// Returns the LNet operation for an output of the machine, with its ID.
fn operation(output: Output) -> (OperationId, Op) {
    match output {
        Output::OfferReply { id, from, match_bits } => {
            let md = Md { options: put_once(), ..descriptor(LEN as u64, id.0) };
            (id, offer(from, match_bits, md, Memory::Inline))
        }
        Output::OfferBulk { id, from, match_bits, access, span } => {
            let options = match access {
                Access::Put => put_once(),
                Access::Get => get_once(),
            };
            let md = Md { options, ..over(span, id) };
            (id, offer(from, match_bits, md, Memory::Buffer))
        }
        Output::OfferBytes { id, from, match_bits, bytes } => {
            let md = Md { options: get_once(), ..descriptor(bytes.len() as u64, id.0) };
            (id, offer(from, match_bits, md, Memory::Bytes(bytes)))
        }
        Output::Send { id, source, target, portal, match_bits, bytes } => {
            let md = descriptor(bytes.len() as u64, id.0);
            (id, put((md, Memory::Bytes(bytes)), source, target, (portal, match_bits)))
        }
        Output::PutBulk { id, source, target, match_bits, span } => {
            let from = (over(span, id), Memory::Buffer);
            (id, put(from, Some(source), target, (BULK_PORTAL, match_bits)))
        }
        Output::GetBulk { id, source, target, match_bits, span } => {
            (id, get((over(span, id), Memory::Buffer), source, target, match_bits))
        }
        Output::GetBytes { id, source, target, match_bits, len } => {
            let into = (descriptor(len.into(), id.0), Memory::Inline);
            (id, get(into, source, target, match_bits))
        }
        Output::Withdraw { .. }
        | Output::Count { .. }
        | Output::Task(_)
        | Output::Answer { .. }
        | Output::Notice(_) => unreachable!("{output:?} is not an LNet operation"),
    }
}

fn counters(stats: &Stats) -> LnetCounters {
    LnetCounters {
        msgs_alloc: stats.msgs_alloc as u32,
        msgs_max: stats.msgs_max as u32,
        errors: stats.errors as u32,
        send_count: stats.send_count as u32,
        recv_count: stats.recv_count as u32,
        route_count: stats.route_count as u32,
        drop_count: stats.drop_count as u32,
        send_length: stats.send_length,
        recv_length: stats.recv_length,
        route_length: stats.route_length,
        drop_length: stats.drop_length,
    }
}

/// Returns a descriptor for one operation.
fn descriptor(len: u64, user: u64) -> Md {
    Md {
        buffer: BufferId(0),
        offset: 0,
        len,
        threshold: Some(1),
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: true,
        user,
    }
}

fn over(span: Span, id: OperationId) -> Md {
    let Span { buffer, offset, len } = span;
    Md { buffer, offset, ..descriptor(len.into(), id.0) }
}

fn put_once() -> MdOptions {
    MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE)
}

fn get_once() -> MdOptions {
    MdOptions::OP_GET.with(MdOptions::MANAGE_REMOTE)
}

fn only(from: ProcessId, match_bits: u64) -> Me {
    let position = MePosition::After;
    Me { match_id: from, match_bits, ignore_bits: 0, unlink: true, position }
}

fn offer(from: ProcessId, match_bits: u64, md: Md, memory: Memory) -> Op {
    Op::Attach { portal: BULK_PORTAL, me: only(from, match_bits), md, memory }
}

fn put(
    (md, memory): (Md, Memory),
    source: Option<Nid>,
    target: ProcessId,
    (portal, match_bits): (u32, u64),
) -> Op {
    let put = Put { ack: false, source, target, portal, match_bits, offset: 0, header_data: 0 };
    Op::Put { from: Bound::New(md, memory), put }
}

fn get((md, memory): (Md, Memory), source: Nid, target: ProcessId, match_bits: u64) -> Op {
    let get = Get { source: Some(source), target, portal: BULK_PORTAL, match_bits, offset: 0 };
    Op::Get { into: Bound::New(Md { threshold: Some(2), ..md }, memory), get }
}
