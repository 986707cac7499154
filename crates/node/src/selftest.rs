//! LNet selftest over the core: what its machine wants done becomes PUTs, GETs and memory
//! descriptors, and their events become what it waits for.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Errno, Span, Time};
use fulmar_lnet::{
    Event, EventKind, Get, Lnet, Md, MdId, MdOptions, Me, MePosition, Put, ServiceMemory,
};
use fulmar_lnet_wire::selftest::{BULK_PORTAL, LEN, LnetCounters, Service as ServiceNumber};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_selftest::console::Keyed;
use fulmar_selftest::{
    Access, CommandId, Config, Done, OperationId, Output as Wish, Request, Selftest,
};

use crate::outputs::{Notice, Output};

/// The selftest machine, and what LNet does for it.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) machine: Selftest,
    operations: BTreeMap<OperationId, Operation>,
}

/// Something that LNet does for the machine, until its descriptor is unlinked.
#[derive(Debug)]
struct Operation {
    md: MdId,
    /// How it ended, once that is known.
    result: Option<Result<Done, Errno>>,
}

/// [`Md::user`] of the descriptors that receive requests; no operation has this number.
const REQUESTS: u64 = u64::MAX;

impl Service {
    /// Makes the machine and opens its portals.
    pub(crate) fn open(now: Time, config: Config, lnet: &mut Lnet) -> Result<Self, Errno> {
        for service in ServiceNumber::KNOWN {
            let me = Me {
                match_id: ProcessId::ANY,
                match_bits: service.0,
                ignore_bits: 0,
                unlink: false,
                position: MePosition::After,
            };
            let me = lnet.me_attach(service.portal(), me)?;
            let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE);
            let md = Md { threshold: None, auto_unlink: false, ..descriptor(LEN as u64, REQUESTS) };
            lnet.service_attach(now, me, Md { options, ..md }, ServiceMemory::Room)?;
        }
        Ok(Self { machine: Selftest::new(config), operations: BTreeMap::new() })
    }

    /// Begins a command of an administrator.
    pub(crate) fn command(&mut self, now: Time, lnet: &Lnet, command: Keyed) -> CommandId {
        self.machine.command(now, lnet.first_small_nid(), command)
    }

    /// Takes an event of one of our descriptors.
    pub(crate) fn handle_event(
        &mut self,
        now: Time,
        lnet: &mut Lnet,
        event: &Event,
        bytes: Vec<u8>,
    ) {
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
        let done = event.status.map(|()| Done { len: event.mlength, bytes });
        match event.kind {
            // Of a GET that is on its way: the REPLY is what counts.
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
            // The response will not come: the last event tells when the memory is free.
            let _ = lnet.md_unlink(now, operation.md);
        }
    }

    /// Does one thing that the machine wants, or returns what only the owner can do.
    pub(crate) fn carry_out(&mut self, now: Time, lnet: &mut Lnet, wish: Wish) -> Option<Output> {
        let (id, begun) = match wish {
            Wish::OfferReply { id, from, match_bits } => {
                let md = Md { options: put_once(), ..descriptor(LEN as u64, id.0) };
                (id, offer(now, lnet, from, match_bits, md, ServiceMemory::Room))
            }
            Wish::OfferBulk { id, from, match_bits, access, span } => {
                let options = match access {
                    Access::Put => put_once(),
                    Access::Get => get_once(),
                };
                let md = Md { options, ..over(span, id) };
                (id, offer(now, lnet, from, match_bits, md, ServiceMemory::Bulk))
            }
            Wish::OfferBytes { id, from, match_bits, bytes } => {
                let md = Md { options: get_once(), ..descriptor(bytes.len() as u64, id.0) };
                (id, offer(now, lnet, from, match_bits, md, ServiceMemory::Bytes(bytes)))
            }
            Wish::Send { id, source, target, portal, match_bits, bytes } => {
                let md = descriptor(bytes.len() as u64, id.0);
                let memory = ServiceMemory::Bytes(bytes);
                (id, put(now, lnet, (md, memory), source, target, (portal, match_bits)))
            }
            Wish::PutBulk { id, source, target, match_bits, span } => {
                let of = (over(span, id), ServiceMemory::Bulk);
                (id, put(now, lnet, of, Some(source), target, (BULK_PORTAL, match_bits)))
            }
            Wish::GetBulk { id, source, target, match_bits, span } => {
                let of = (over(span, id), ServiceMemory::Bulk);
                (id, get(now, lnet, of, source, target, match_bits))
            }
            Wish::GetBytes { id, source, target, match_bits, len } => {
                let of = (descriptor(len.into(), id.0), ServiceMemory::Room);
                (id, get(now, lnet, of, source, target, match_bits))
            }
            Wish::Withdraw { id } => {
                if let Some(operation) = self.operations.get(&id) {
                    // Unlinked already: its last event is on its way.
                    let _ = lnet.md_unlink(now, operation.md);
                }
                return None;
            }
            Wish::Count { id } => {
                self.machine.handle_counted(now, id, counters(lnet));
                return None;
            }
            Wish::Task(task) => return Some(Output::Task(task)),
            Wish::Answer { command, answer } => return Some(Output::Answer { command, answer }),
            Wish::Notice(notice) => return Some(Output::Notice(Notice::Selftest(notice))),
        };
        match begun {
            Ok(md) => drop(self.operations.insert(id, Operation { md, result: None })),
            Err(errno) => self.machine.handle_done(now, id, Err(errno)),
        }
        None
    }
}

fn counters(lnet: &Lnet) -> LnetCounters {
    let stats = lnet.stats();
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

/// What we send to ourselves does not leave the node.
fn local(lnet: &Lnet, process: ProcessId) -> ProcessId {
    let nid = if lnet.is_own(process.nid) { Nid::LOOPBACK } else { process.nid };
    ProcessId { nid, ..process }
}

/// A descriptor for one operation.
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

fn offer(
    now: Time,
    lnet: &mut Lnet,
    from: ProcessId,
    match_bits: u64,
    md: Md,
    memory: ServiceMemory,
) -> Result<MdId, Errno> {
    let match_id = local(lnet, from);
    let position = MePosition::After;
    let me = Me { match_id, match_bits, ignore_bits: 0, unlink: true, position };
    let me = lnet.me_attach(BULK_PORTAL, me)?;
    lnet.service_attach(now, me, md, memory)
}

fn put(
    now: Time,
    lnet: &mut Lnet,
    (md, memory): (Md, ServiceMemory),
    source: Option<Nid>,
    target: ProcessId,
    (portal, match_bits): (u32, u64),
) -> Result<MdId, Errno> {
    let target = local(lnet, target);
    let md = lnet.service_bind(md, memory)?;
    let header_data = 0;
    let put = Put { md, ack: false, source, target, portal, match_bits, offset: 0, header_data };
    lnet.put(now, put)?;
    Ok(md)
}

fn get(
    now: Time,
    lnet: &mut Lnet,
    (md, memory): (Md, ServiceMemory),
    source: Nid,
    target: ProcessId,
    match_bits: u64,
) -> Result<MdId, Errno> {
    let target = local(lnet, target);
    let md = lnet.service_bind(Md { threshold: Some(2), ..md }, memory)?;
    let source = Some(source);
    let get = Get { md, source, target, portal: BULK_PORTAL, match_bits, offset: 0 };
    lnet.get(now, get)?;
    Ok(md)
}
