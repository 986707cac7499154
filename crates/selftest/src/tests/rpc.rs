//! The client side of RPCs, in isolation. Spec: lnet-selftest §2.

use std::time::Duration;

use fulmar_base::{BufferId, Errno, Span, Time};
use fulmar_lnet_wire::selftest::{Body, Brw, BrwReply, Direction, PingReply, Service};

use super::*;
use crate::rpc::{Bulk, Call, Caller, RpcResult, Rpcs};
use crate::{Config, OperationId, OperationResult, Output};

const TIMEOUT: Duration = Duration::from_secs(64);
const SPAN: Span = Span { buffer: BufferId(5), offset: 0, len: 64 };

/// A read that has been sent.
struct Read {
    rpcs: Rpcs,
    reply: OperationId,
    bulk: OperationId,
    send: OperationId,
}

impl Read {
    fn start() -> Self {
        let mut rpcs = Rpcs::new(&Config { wall_clock: 3_000_000_000, ..Config::default() });
        let call = Call {
            caller: Caller::Unit(4),
            target: ProcessId::lustre(SERVER),
            service: Service::BRW,
            features: 1,
            bulk: Some(Bulk::Sink(SPAN)),
            timeout: Some(TIMEOUT),
        };
        rpcs.start(Time::ZERO, call, |reply_id, bulk_id| {
            Body::Brw(Brw { reply_id, bulk_id, direction: Direction::READ, len: 64, flags: 1 })
        });
        let (first, second) = ((3 << 48) + 1, (3 << 48) + 2);
        let Some(Output::OfferReply { id: reply, match_bits, .. }) = rpcs.poll_output() else {
            panic!("the reply comes first");
        };
        assert_eq!(match_bits, first);
        let Some(Output::OfferBulk { id: bulk, match_bits, span: SPAN, .. }) = rpcs.poll_output()
        else {
            panic!("then the bulk");
        };
        assert_eq!(match_bits, second);
        let Some(Output::Send { id: send, portal: 50, match_bits: 11, .. }) = rpcs.poll_output()
        else {
            panic!("and then the request");
        };
        assert_eq!(rpcs.poll_output(), None);
        Self { rpcs, reply, bulk, send }
    }

    fn reply_with(&mut self, body: Body) {
        let bytes = message(body).to_bytes();
        let done = OperationResult { len: 160, bytes };
        self.rpcs.handle_done(Time(7), self.reply, Ok(done));
    }

    fn brw_reply(&mut self, status: u32) {
        self.reply_with(Body::BrwReply(BrwReply { status }));
    }

    fn end(&mut self, id: OperationId, result: Result<u32, Errno>) {
        let done = result.map(|len| OperationResult { len, bytes: Vec::new() });
        self.rpcs.handle_done(Time(9), id, done);
    }

    fn withdrawn(&mut self) -> Vec<OperationId> {
        let outputs = std::iter::from_fn(|| self.rpcs.poll_output());
        let withdrawn = |output| match output {
            Output::Withdraw { id } => id,
            other => panic!("{other:?}"),
        };
        outputs.map(withdrawn).collect()
    }

    fn result(&mut self) -> Option<Result<u32, Errno>> {
        let RpcResult { result, .. } = self.rpcs.poll_finished()?;
        self.rpcs.check_invariants().unwrap();
        assert_eq!((self.rpcs.len(), self.rpcs.poll_timeout()), (0, None));
        Some(result.map(|(body, ..)| match body {
            Body::BrwReply(reply) => reply.status,
            other => panic!("{other:?}"),
        }))
    }
}

#[test]
fn a_call_ends_when_all_parts_are_done_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut read = Read::start();
        for part in order {
            assert_eq!(read.result(), None);
            match part {
                0 => read.end(read.send, Ok(160)),
                1 => read.brw_reply(0),
                _ => read.end(read.bulk, Ok(64)),
            }
        }
        assert_eq!(read.result(), Some(Ok(0)));
        assert_eq!(read.withdrawn(), []);
    }
}

#[test]
fn a_refused_call_withdraws_its_bulk_and_is_not_a_failure() {
    let mut read = Read::start();
    read.end(read.send, Ok(160));
    read.brw_reply(22);
    assert_eq!(read.withdrawn(), [read.bulk]);
    assert_eq!(read.result(), None, "the memory may still be in use");
    read.end(read.bulk, Err(Errno::ECANCELED));
    assert_eq!(read.result(), Some(Ok(22)));
    assert_eq!(read.rpcs.counters.errors, 0);
}

#[test]
fn a_timed_out_call_waits_for_its_memory() {
    let mut read = Read::start();
    read.end(read.send, Ok(160));
    read.rpcs.handle_timeout(Time::ZERO + TIMEOUT - Duration::from_nanos(1));
    assert_eq!(read.withdrawn(), []);
    read.rpcs.handle_timeout(Time::ZERO + TIMEOUT);
    assert_eq!(read.withdrawn(), [read.reply, read.bulk]);
    read.rpcs.abort(crate::rpc::CallId(0), Errno::EINTR);
    read.end(read.reply, Err(Errno::ECANCELED));
    read.end(read.bulk, Ok(64));
    assert_eq!(read.result(), Some(Err(Errno::ETIMEDOUT)));
    let counters = read.rpcs.counters;
    assert_eq!((counters.rpcs_expired, counters.rpcs_sent, counters.errors), (1, 1, 0));
}

#[test]
fn completed_operations_are_not_withdrawn() {
    let mut read = Read::start();
    read.rpcs.abort(crate::rpc::CallId(0), Errno::EINTR);
    read.end(read.bulk, Ok(64));
    assert_eq!(read.withdrawn(), [read.send, read.reply]);
    read.end(read.send, Ok(160));
    read.end(read.reply, Err(Errno::ECANCELED));
    assert_eq!(read.result(), Some(Err(Errno::EINTR)));
}

#[test]
fn a_request_that_cannot_be_sent_fails_the_call() {
    let mut read = Read::start();
    read.end(read.send, Err(Errno::EHOSTUNREACH));
    assert_eq!(read.withdrawn(), [read.reply, read.bulk]);
    read.end(read.reply, Err(Errno::ECANCELED));
    read.end(read.bulk, Err(Errno::ECANCELED));
    assert_eq!(read.result(), Some(Err(Errno::EHOSTUNREACH)));
    assert_eq!((read.rpcs.counters.errors, read.rpcs.counters.rpcs_sent), (1, 0));
}

#[test]
fn invalid_replies_and_short_data_fail_the_call() {
    let mut read = Read::start();
    read.end(read.send, Ok(160));
    read.reply_with(Body::PingReply(PingReply { status: 0, magic: 0, sequence: 0 }));
    assert_eq!(read.withdrawn(), [read.bulk]);
    read.end(read.bulk, Err(Errno::ECANCELED));
    assert_eq!(read.result(), Some(Err(Errno::EBADMSG)));

    let mut read = Read::start();
    read.end(read.send, Ok(160));
    read.end(read.bulk, Ok(63));
    assert_eq!(read.withdrawn(), [read.reply]);
    read.brw_reply(0);
    assert_eq!(read.result(), Some(Err(Errno::EBADMSG)));
}
