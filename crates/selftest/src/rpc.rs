//! The client side of RPCs: a request out, a reply and perhaps bulk in. Spec: lnet-selftest §2.
//!
//! A call is over when its request is sent, its reply is here and its bulk is done, in whatever
//! order; or when it failed, ran out of time or was aborted, and LNet has let go of all its memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Span, Table, Time, Timers};
use fulmar_lnet_wire::ProcessId;
use fulmar_lnet_wire::selftest::{Body, Message, MessageType, RpcCounters, Service};
use fulmar_wire::Order;

use crate::api::{Access, Config, Done, OperationId, Output};

/// A call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId(pub(crate) u64);

/// Who called, in his own words.
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
    /// The server stores into it.
    Sink(Span),
    /// The server fetches from it.
    Source(Span),
    /// The server fetches these few bytes.
    Bytes(Arc<[u8]>),
}

/// What is to be called.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) target: ProcessId,
    pub(crate) service: Service,
    pub(crate) features: u32,
    pub(crate) bulk: Option<Bulk>,
    /// `None` for ever.
    pub(crate) timeout: Option<Duration>,
}

/// A call that is over.
#[derive(Debug)]
pub(crate) struct Finished {
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
    calls: Table<Pending>,
    deadlines: Timers<CallId>,
    /// The last match bits that were given out. Replies and bulk share a portal, so they share a
    /// counter, and a restarted node does not begin where it began before.
    last_match_bits: u64,
    /// `errors`, `rpcs_sent` and `rpcs_expired`; the others are the server's.
    pub(crate) counters: RpcCounters,
    outputs: VecDeque<Output>,
    finished: VecDeque<Finished>,
}

/// A call that LNet still has a hand in.
#[derive(Debug)]
struct Pending {
    caller: Caller,
    service: Service,
    started: Time,
    /// The bits of the parts whose operations are not done.
    open: u8,
    /// Of a bulk that the server stores: how many bytes are due.
    due: Option<u32>,
    reply: Option<(Body, u32, Order)>,
    failed: Option<Errno>,
}

/// What LNet does for a call. An operation is named by its call and its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Request = 0,
    Reply = 1,
    Bulk = 2,
}

impl Part {
    const ALL: [Self; 3] = [Self::Request, Self::Reply, Self::Bulk];
    /// What the number of an operation has in place of a part if it is none of a call.
    const FOREIGN: u64 = 3;

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    const fn of(self, call: CallId) -> OperationId {
        OperationId(call.0 << 2 | self as u64)
    }
}

impl OperationId {
    /// Returns the name of an operation that belongs to no call: the `number`th of the server.
    pub(crate) const fn of_server(number: u64) -> Self {
        Self(number << 2 | Part::FOREIGN)
    }

    /// Returns which operation of the server this is, unless it belongs to a call.
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

    /// Calls: offers the memory for what is to come, then sends the request. `body` is given the
    /// match bits of the reply and of the bulk, 0 without bulk.
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
        let pending = Pending { caller, service, started: now, open, due, reply, failed };
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

    /// Gives a call up. It is finished, with `errno`, when LNet has let go of its memory. A call
    /// that is finished already is left alone.
    pub(crate) fn abort(&mut self, call: CallId, errno: Errno) {
        if let Some(pending) = self.calls.get_mut(call.0) {
            fail(call, pending, errno, &mut self.outputs);
        }
    }

    /// Takes the end of an operation of a call.
    pub(crate) fn handle_done(&mut self, now: Time, id: OperationId, result: Result<Done, Errno>) {
        let (call, part) = id.part().expect("the server takes the end of its own operations");
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
            // The server says no and moves nothing: the bulk ends as we withdraw it.
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

    /// Gives up the calls whose time is over.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some(call) = self.deadlines.pop_due(now) {
            let pending = self.calls.get_mut(call.0).expect("a finished call has no deadline");
            if pending.failed.is_none() {
                self.counters.rpcs_expired = self.counters.rpcs_expired.wrapping_add(1);
                fail(call, pending, Errno::ETIMEDOUT, &mut self.outputs);
            }
        }
    }

    /// Returns when the next call runs out of time.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Returns the next thing to do, if any.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        loop {
            match self.outputs.pop_front()? {
                // It ended by itself in the meantime.
                Output::Withdraw { id } if !self.is_open(id) => {}
                output => return Some(output),
            }
        }
    }

    /// Returns the next call that is over, if any.
    pub(crate) fn poll_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Returns how many calls are under way.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns what is wrong with the tables, which nothing should be.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        for (call, pending) in self.calls.iter() {
            if pending.open == 0 {
                return Err(format!("call {call} is over, but kept"));
            }
        }
        let is_timed = |call| self.deadlines.get(CallId(call)).is_some();
        let timed = self.calls.iter().filter(|(call, _)| is_timed(*call)).count();
        match timed == self.deadlines.len() {
            true => Ok(()),
            false => Err(format!("{} deadlines of {timed} calls", self.deadlines.len())),
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
        let pending = self.calls.remove(call.0).expect("a call is finished once");
        self.deadlines.clear(call);
        let Pending { caller, started, reply, failed, .. } = pending;
        let result = match failed {
            Some(errno) => Err(errno),
            None => Ok(reply.expect("a call without a reply has failed")),
        };
        let took = now.since(started);
        self.finished.push_back(Finished { call, caller, result, took });
    }
}

/// Returns what match bits are counted from: the low 16 bits of the seconds, as a kernel node has
/// them, and then those of their fraction, or who restarts within a second would repeat himself.
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

/// Notes why a call failed, and takes back what it has offered. The first reason counts.
fn fail(call: CallId, pending: &mut Pending, errno: Errno, outputs: &mut VecDeque<Output>) {
    if pending.failed.is_none() {
        pending.failed = Some(errno);
        for part in Part::ALL {
            withdraw(call, pending, part, outputs);
        }
    }
}

fn withdraw(call: CallId, pending: &Pending, part: Part, outputs: &mut VecDeque<Output>) {
    if pending.open & part.bit() != 0 {
        outputs.push_back(Output::Withdraw { id: part.of(call) });
    }
}

/// Reads a reply; `None` if it is none of this service. Spec: lnet-selftest §2.7.
fn decode_reply(bytes: &[u8], service: Service) -> Option<(Body, u32, Order)> {
    let (message, order) = Message::decode(bytes).ok()?;
    let expected = MessageType(service.request_type()?.0 + 1);
    let is_right = message.body.message_type() == expected;
    is_right.then_some((message.body, message.features, order))
}

/// Returns whether the server of a request with bulk has refused it.
fn is_refusal(body: &Body) -> bool {
    match body {
        Body::BrwReply(reply) => reply.status != 0,
        Body::TestReply(reply) => reply.status != 0,
        _ => false,
    }
}
