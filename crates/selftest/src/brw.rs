//! The BRW test: bulk reads and writes, client and server side. Spec: lnet-selftest §6.1, §10.
//!
//! The server transfers the data before it replies. The sender fills every word; the offset of the
//! data within local memory has no effect on the peer, so the offset parameter of a test is checked
//! and then ignored.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{
    Body, Brw, BrwReply, Check, Damage, Direction, FEATURE_BULK_LEN, FEATURES, Service, TestKind,
    WORD,
};
use fulmar_wire::Order;

use crate::Selftest;
use crate::api::{OperationResult, Output};
use crate::machine::Question;
use crate::memory::{BULK_LEN_MAX, Loan};
use crate::notice::Notice;
use crate::rpc::{Bulk, Call, CallId, Caller};
use crate::serve::{Client, Operation};
use crate::unit::{Failure, UnitId};

/// Page size of this side: the unit of lengths without the feature of byte lengths.
const PAGE: u32 = 4096;

/// The parameters of the units of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) direction: Direction,
    pub(crate) check: Check,
    pub(crate) len: u32,
}

impl Transfers {
    /// Parses the parameters of a test; `None` if invalid.
    ///
    /// A client sends nothing that crashes a kernel server: lengths that are not a multiple of a
    /// word, and DISCARD, which only the latest releases support. Spec: lnet-selftest §10.1, §21.
    pub(crate) fn of_test(kind: &TestKind) -> Option<Self> {
        let (direction, flags, len, offset) = match *kind {
            TestKind::Brw { direction, flags, len, offset } => {
                (direction, flags.into(), len, offset)
            }
            TestKind::BrwPages { direction, pages, flags } => {
                (direction, flags, pages.checked_mul(PAGE)?, 0)
            }
            TestKind::Ping { .. } | TestKind::Unknown { .. } => return None,
        };
        let check = Check(flags);
        let is_good = Direction::KNOWN.contains(&direction)
            && matches!(check, Check::NONE | Check::SIMPLE | Check::FULL)
            && is_transfer(len)
            && (offset % PAGE).is_multiple_of(WORD as u32);
        is_good.then_some(Self { direction, check, len })
    }
}

/// A transfer on the server side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) client: Client,
    order: Order,
    features: u32,
    direction: Direction,
    check: Check,
    loan: Loan,
}

impl Selftest {
    /// Starts the transfer of a request, or refuses it. The request does not name its session:
    /// there must be one of which this node is a server.
    pub(crate) fn serve_brw(
        &mut self,
        now: Time,
        client: Client,
        order: Order,
        features: u32,
        brw: &Brw,
    ) {
        let serves = self.sessions.current().is_some_and(|session| session.serves_bulk);
        let valid = validate(brw, features);
        let valid = valid.and(if serves { Ok(()) } else { Err((Errno::ESRCH, features)) });
        if let Err((errno, features)) = valid {
            let status = errno.0 as u32;
            return self.reply(now, client, Body::BrwReply(BrwReply { status }), features);
        }
        let (source, target, match_bits) = (client.to, client.from, brw.bulk_id);
        let (direction, check) = (brw.direction, Check(brw.flags));
        let loan = match direction {
            Direction::READ => self.memory.source(brw.len, check),
            _ => self.memory.sink(brw.len, check),
        };
        let span = loan.span;
        let transfer = Transfer { client, order, features, direction, check, loan };
        let id = self.operate(now, Operation::Bulk(transfer));
        self.outputs.push_back(match direction {
            Direction::READ => Output::PutBulk { id, source, target, match_bits, span },
            _ => Output::GetBulk { id, source, target, match_bits, span },
        });
    }

    /// Handles the end of the bulk transfer. After a failure the client gets no reply, since it
    /// could not tell whether the data may still arrive.
    pub(crate) fn transferred(
        &mut self,
        now: Time,
        transfer: Transfer,
        result: Result<OperationResult, Errno>,
    ) {
        let Transfer { client, direction, loan, .. } = transfer;
        let counters = &mut self.server.counters;
        let len = u64::from(loan.span.len);
        let is_whole = match (result, direction) {
            (Ok(_), Direction::READ) => {
                counters.bulk_put = counters.bulk_put.wrapping_add(len);
                true
            }
            (Ok(done), _) => {
                counters.bulk_get = counters.bulk_get.wrapping_add(done.len.into());
                done.len == loan.span.len
            }
            (Err(_), _) => false,
        };
        if is_whole && loan.is_checked() {
            let question = Question::Transfer(transfer);
            return self.ask_check(question, loan.span, transfer.check, transfer.order);
        }
        self.memory.give_back(loan);
        if is_whole {
            let reply = Body::BrwReply(BrwReply { status: 0 });
            self.reply(now, client, reply, transfer.features);
        } else {
            self.drop_rpc(client)
        }
    }

    /// Handles the result of the check of data that a client wrote.
    pub(crate) fn transfer_checked(
        &mut self,
        now: Time,
        transfer: Transfer,
        result: Result<(), Damage>,
    ) {
        self.memory.give_back_checked(transfer.loan);
        let Transfer { client, features, .. } = transfer;
        let status = match result {
            Ok(()) => 0,
            Err(Damage { offset, got }) => {
                self.notice(Notice::Corrupted { peer: client.from, offset, got });
                Errno::EBADMSG.0 as u32
            }
        };
        self.reply(now, client, Body::BrwReply(BrwReply { status }), features);
    }

    /// Sends a request of a unit.
    pub(crate) fn call_brw(&mut self, now: Time, id: UnitId, transfers: Transfers) -> CallId {
        let Transfers { direction, check, len } = transfers;
        let (loan, bulk) = match direction {
            Direction::READ => {
                let loan = self.memory.sink(len, check);
                (loan, Bulk::Sink(loan.span))
            }
            _ => {
                let loan = self.memory.source(len, check);
                (loan, Bulk::Source(loan.span))
            }
        };
        let instance = self.instances.get_mut(id.instance);
        instance.units[id.index].loan = Some(loan);
        let call = Call {
            caller: Caller::Unit(id.number()),
            target: instance.peer(id),
            service: Service::BRW,
            features: instance.features,
            bulk: Some(bulk),
            timeout: self.config.load_timeout(),
        };
        let flags = check.0;
        self.rpcs.start(now, call, |reply_id, bulk_id| {
            Body::Brw(Brw { reply_id, bulk_id, direction, len, flags })
        })
    }
}

/// Checks the status of a reply; the data is checked separately.
pub(crate) fn judge(reply: &Body) -> Result<(), Failure> {
    match reply {
        Body::BrwReply(BrwReply { status: 0 }) => Ok(()),
        Body::BrwReply(BrwReply { status }) => {
            let errno = i32::try_from(*status).map_or(Errno::EPROTO, Errno);
            Err(Failure::Reply(errno))
        }
        other => unreachable!("{other:?} is not the reply to a BRW"),
    }
}

/// Returns why a request is refused, and the features of the reply: 0 where a kernel server leaves
/// the field unset.
fn validate(brw: &Brw, features: u32) -> Result<(), (Errno, u32)> {
    let is_known =
        Direction::KNOWN.contains(&brw.direction) && Check::KNOWN.contains(&Check(brw.flags));
    if !is_known {
        return Err((Errno::EINVAL, 0));
    }
    if features & !FEATURES != 0 {
        return Err((Errno::EPROTO, FEATURES));
    }
    if features & FEATURE_BULK_LEN == 0 && !brw.len.is_multiple_of(PAGE) {
        return Err((Errno::EINVAL, 0));
    }
    if is_transfer(brw.len) { Ok(()) } else { Err((Errno::EINVAL, features)) }
}

/// Returns whether the length of a transfer is valid.
fn is_transfer(len: u32) -> bool {
    (1..=BULK_LEN_MAX).contains(&len) && len.is_multiple_of(WORD as u32)
}
