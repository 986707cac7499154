//! The client side of RPCs: sends a request, receives a reply and perhaps bulk. Spec: lnet-selftest
//! §2.
//!
//! A call is complete when its request was sent, its reply received and its bulk done, in any
//! order; or when it failed, timed out or was aborted, and LNet no longer uses its memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Span, Table, Time, Timers};
use fulmar_lnet_wire::ProcessId;
use fulmar_lnet_wire::selftest::{Body, Message, MessageType, RpcCounters, Service};
use fulmar_wire::Order;

use crate::api::{Access, Config, OperationId, OperationResult, Output};

/// A call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId(pub(crate) u64);

/// The caller, by its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A unit of a test.
    Unit(u64),
    /// The console.
    Console(u64),
}

/// The bulk of a call.
#[derive(Clone, Debug)]
pub(crate) enum Bulk {
    /// The server stores into the memory.
    Sink(Span),
    /// The server fetches from the memory.
    Source(Span),
    /// The server fetches these few bytes.
    Bytes(Arc<[u8]>),
}

/// The parameters of a call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) target: ProcessId,
    pub(crate) service: Service,
    pub(crate) features: u32,
    pub(crate) bulk: Option<Bulk>,
    /// `None` for no timeout.
    pub(crate) timeout: Option<Duration>,
}

/// A completed call.
#[derive(Debug)]
pub(crate) struct RpcResult {
    pub(crate) call: CallId,
    pub(crate) caller: Caller,
    /// The reply, its features, and the byte order of its sender.
    pub(crate) result: Result<(Body, u32, Order), Errno>,
    /// From the request to the end.
    pub(crate) took: Duration,
}

/// The calls of one node.
#[derive(Debug)]
pub(crate) struct Rpcs {
    calls: Table<CallState>,
    deadlines: Timers<CallId>,
    /// The last match bits used. Replies and bulk share a portal, so they share a counter, which
    /// starts elsewhere after a restart.
    last_match_bits: u64,
    /// `errors`, `rpcs_sent` and `rpcs_expired`; the server counts the others.
    pub(crate) counters: RpcCounters,
    outputs: VecDeque<Output>,
    finished: VecDeque<RpcResult>,
}

/// A call that LNet still works on.
#[derive(Debug)]
struct CallState {
    caller: Caller,
    service: Service,
    started: Time,
    /// The bits of the parts whose operations are not done.
    open: u8,
    /// For a bulk that the server stores: the expected number of bytes.
    due: Option<u32>,
    reply: Option<(Body, u32, Order)>,
    failed: Option<Errno>,
}

/// The LNet operations of a call. An operation is identified by its call and its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Request = 0,
    Reply = 1,
    Bulk = 2,
}

impl Part {
    const ALL: [Self; 3] = [Self::Request, Self::Reply, Self::Bulk];
    /// The value of the part field for operations of the server.
    const FOREIGN: u64 = 3;

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    const fn of(self, call: CallId) -> OperationId {
        OperationId(call.0 << 2 | self as u64)
    }
}

impl OperationId {
    /// Returns the ID of an operation that belongs to no call: the `number`th of the server.
    pub(crate) const fn of_server(number: u64) -> Self {
        Self(number << 2 | Part::FOREIGN)
    }

    /// Returns the number of an operation of the server, unless it belongs to a call.
    pub(crate) const fn server_number(self) -> Option<u64> {
        if self.0 & 3 == Part::FOREIGN { Some(self.0 >> 2) } else { None }
    }

    fn part(self) -> Option<(CallId, Part)> {
        let part = *Part::ALL.get((self.0 & 3) as usize)?;
        Some((CallId(self.0 >> 2), part))
    }
}

impl Rpcs {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            calls: Table::default(),
            deadlines: Timers::default(),
            last_match_bits: first_match_bits(config.wall_clock),
            counters: RpcCounters::default(),
            outputs: VecDeque::new(),
            finished: VecDeque::new(),
        }
    }

    /// Starts a call: offers the memory for replies and bulk, then sends the request. `body` gets
    /// the match bits of the reply and of the bulk, 0 without bulk.
    pub(crate) fn start(
        &mut self,
        now: Time,
        call: Call,
        body: impl FnOnce(u64, u64) -> Body,
    ) -> CallId {
        let Call { caller, target, service, features, bulk, timeout } = call;
        let reply_id = self.match_bits();
        let bulk_id = if bulk.is_some() { self.match_bits() } else { 0 };
        let request = Message::new(features, body(reply_id, bulk_id));
        debug_assert_eq!(Some(request.body.message_type()), service.request_type());

        let bulk_bit = if bulk.is_some() { Part::Bulk.bit() } else { 0 };
        let open = Part::Request.bit() | Part::Reply.bit() | bulk_bit;
        let due = match bulk {
            Some(Bulk::Sink(span)) => Some(span.len),
            _ => None,
        };
        let (reply, failed) = (None, None);
        let pending = CallState { caller, service, started: now, open, due, reply, failed };
        let id = CallId(self.calls.insert(pending));
        if let Some(timeout) = timeout {
            self.deadlines.set(id, now + timeout);
        }
        self.outputs.push_back(Output::OfferReply {
            id: Part::Reply.of(id),
            from: target,
            match_bits: reply_id,
        });
        if let Some(bulk) = bulk {
            self.outputs.push_back(offer(Part::Bulk.of(id), target, bulk_id, bulk));
        }
        self.outputs.push_back(Output::Send {
            id: Part::Request.of(id),
            source: None,
            target,
            portal: service.portal(),
            match_bits: service.0,
            bytes: request.to_bytes().into(),
        });
        id
    }

    /// Cancels a call. It ends with `errno` when LNet no longer uses its memory. Completed calls
    /// are not affected.
    pub(crate) fn abort(&mut self, call: CallId, errno: Errno) {
        if let Some(pending) = self.calls.get_mut(call.0) {
            fail(call, pending, errno, &mut self.outputs);
        }
    }

    /// Handles the end of an operation of a call.
    pub(crate) fn handle_done(
        &mut self,
        now: Time,
        id: OperationId,
        result: Result<OperationResult, Errno>,
    ) {
        let (call, part) = id.part().expect("operations of the server are handled there");
        let pending = self.calls.get_mut(call.0).expect("an operation ends before its call");
        assert!(pending.open & part.bit() != 0, "{part:?} of {call:?} has ended twice");
        pending.open &= !part.bit();
        if result.as_ref().is_err_and(|errno| *errno != Errno::ECANCELED) {
            self.counters.errors = self.counters.errors.wrapping_add(1);
        }
        match part {
            Part::Request if result.is_ok() => {
                self.counters.rpcs_sent = self.counters.rpcs_sent.wrapping_add(1);
            }
            Part::Reply if pending.failed.is_none() => {
                pending.reply = result
                    .as_ref()
                    .ok()
                    .and_then(|done| decode_reply(&done.bytes, pending.service));
            }
            _ => {}
        }
        let refused = pending.reply.as_ref().is_some_and(|(body, ..)| is_refusal(body));
        match (part, result) {
            // The server refuses and transfers nothing: withdrawing the bulk ends it.
            (Part::Bulk, _) if refused => {}
            (Part::Reply, Ok(_)) if refused => {
                withdraw(call, pending, Part::Bulk, &mut self.outputs)
            }
            (Part::Reply, Ok(_)) if pending.reply.is_none() => {
                fail(call, pending, Errno::EBADMSG, &mut self.outputs);
            }
            (Part::Bulk, Ok(done)) if pending.due.is_some_and(|due| done.len != due) => {
                fail(call, pending, Errno::EBADMSG, &mut self.outputs);
            }
            (_, Err(errno)) => fail(call, pending, errno, &mut self.outputs),
            (_, Ok(_)) => {}
        }
        if pending.open == 0 {
            self.finish(now, call);
        }
    }

    /// Cancels the calls past their deadline.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some(call) = self.deadlines.pop_due(now) {
            let pending = self.calls.get_mut(call.0).expect("a finished call has no deadline");
            if pending.failed.is_none() {
                self.counters.rpcs_expired = self.counters.rpcs_expired.wrapping_add(1);
                fail(call, pending, Errno::ETIMEDOUT, &mut self.outputs);
            }
        }
    }

    /// Returns when the next call times out.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Returns the next output, if any.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        loop {
            match self.outputs.pop_front()? {
                // It ended by itself meanwhile.
                Output::Withdraw { id } if !self.is_open(id) => {}
                output => return Some(output),
            }
        }
    }

    /// Returns the next completed call, if any.
    pub(crate) fn poll_finished(&mut self) -> Option<RpcResult> {
        self.finished.pop_front()
    }

    /// Returns the number of calls in progress.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns an inconsistency of the tables, if any.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        for (call, pending) in self.calls.iter() {
            if pending.open == 0 {
                return Err(format!("call {call} has ended, but is kept"));
            }
        }
        let is_timed = |call| self.deadlines.get(CallId(call)).is_some();
        let timed = self.calls.iter().filter(|(call, _)| is_timed(*call)).count();
        if timed == self.deadlines.len() {
            Ok(())
        } else {
            Err(format!("{} deadlines of {timed} calls", self.deadlines.len()))
        }
    }

    fn is_open(&self, id: OperationId) -> bool {
        let Some((call, part)) = id.part() else { return false };
        self.calls.get(call.0).is_some_and(|pending| pending.open & part.bit() != 0)
    }

    fn match_bits(&mut self) -> u64 {
        self.last_match_bits = self.last_match_bits.wrapping_add(1);
        self.last_match_bits
    }

    fn finish(&mut self, now: Time, call: CallId) {
        let pending = self.calls.remove(call.0).expect("a call is completed once");
        self.deadlines.clear(call);
        let CallState { caller, started, reply, failed, .. } = pending;
        let result = match failed {
            Some(errno) => Err(errno),
            None => Ok(reply.expect("a call without a reply has failed")),
        };
        let took = now.since(started);
        self.finished.push_back(RpcResult { call, caller, result, took });
    }
}

/// Returns the start of the match bits: the low 16 bits of the seconds, as in a kernel node, and
/// then those of their fraction, so that a restart within a second does not repeat them.
fn first_match_bits(wall_clock: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let fraction = ((wall_clock % SECOND) << 16) / SECOND;
    (wall_clock / SECOND) << 48 | (fraction << 32)
}

fn offer(id: OperationId, from: ProcessId, match_bits: u64, bulk: Bulk) -> Output {
    match bulk {
        Bulk::Sink(span) => Output::OfferBulk { id, from, match_bits, access: Access::Put, span },
        Bulk::Source(span) => Output::OfferBulk { id, from, match_bits, access: Access::Get, span },
        Bulk::Bytes(bytes) => Output::OfferBytes { id, from, match_bits, bytes },
    }
}

/// Records why a call failed, and withdraws its offers. The first reason counts.
fn fail(call: CallId, pending: &mut CallState, errno: Errno, outputs: &mut VecDeque<Output>) {
    if pending.failed.is_none() {
        pending.failed = Some(errno);
        for part in Part::ALL {
            withdraw(call, pending, part, outputs);
        }
    }
}

fn withdraw(call: CallId, pending: &CallState, part: Part, outputs: &mut VecDeque<Output>) {
    if pending.open & part.bit() != 0 {
        outputs.push_back(Output::Withdraw { id: part.of(call) });
    }
}

/// Decodes a reply; `None` if it belongs to another service. Spec: lnet-selftest §2.7.
fn decode_reply(bytes: &[u8], service: Service) -> Option<(Body, u32, Order)> {
    let (message, order) = Message::decode(bytes).ok()?;
    let expected = MessageType(service.request_type()?.0 + 1);
    let is_right = message.body.message_type() == expected;
    is_right.then_some((message.body, message.features, order))
}

/// Returns whether the server has refused a request with bulk.
fn is_refusal(body: &Body) -> bool {
    match body {
        Body::BrwReply(reply) => reply.status != 0,
        Body::TestReply(reply) => reply.status != 0,
        _ => false,
    }
}
