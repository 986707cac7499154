//! The server side of RPCs: requests in, replies out. Spec: lnet-selftest §2.
//!
//! Framework requests are served one after the other, so that each sees the session as the one
//! before left it. Load requests wait only when very many are being served.

use std::collections::VecDeque;

use fulmar_base::{Errno, Table, Time};
use fulmar_lnet_wire::selftest::{
    BULK_PORTAL, BatchReply, Body, BrwReply, DebugReply, FrameworkCounters, JoinReply, LEN,
    LnetCounters, MakeSessionReply, Message, Name, PingReply, RemoveSessionReply, RpcCounters,
    Service, SessionId, StatReply, TestReply, VERSION,
};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::Order;

use crate::Selftest;
use crate::api::{Done, OperationId, Output, Request};
use crate::brw::Transfer;
use crate::install::Installation;
use crate::notice::Notice;

/// Load RPCs that are served at once: each may hold a buffer of a transfer.
const SERVED_MAX: usize = 4096;
/// Requests of either kind that wait. A node must not drop a request because it is busy; this is
/// far more than well-behaved nodes have outstanding.
const WAITING_MAX: usize = 65_536;

/// Target and source of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) service: Service,
    pub(crate) from: ProcessId,
    pub(crate) to: Nid,
    pub(crate) reply_id: u64,
}

/// A valid request, to be answered.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) client: Client,
    pub(crate) order: Order,
    pub(crate) features: u32,
    pub(crate) body: Body,
}

/// An LNet operation for a request.
#[derive(Debug)]
pub(crate) enum Operation {
    Reply(Client),
    Bulk(Transfer),
    Destinations(Installation),
}

/// The server's tables.
#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) operations: Table<Operation>,
    /// Load requests that wait.
    pub(crate) waiting: VecDeque<Incoming>,
    /// Load RPCs from their request to the end of their reply.
    pub(crate) served: usize,
    /// All counters but `rpcs_sent` and `rpcs_expired`, which the client counts.
    pub(crate) counters: RpcCounters,
}

impl Selftest {
    /// Adds a request to a queue, if valid. Spec: lnet-selftest §2.6.
    pub(crate) fn receive(&mut self, now: Time, request: Request<'_>) {
        count(&mut self.server.counters.rpcs_received);
        let (message, order) = match accept(&request) {
            Ok(accepted) => accepted,
            Err(reason) => {
                count(&mut self.server.counters.rpcs_dropped);
                return self.notice(Notice::BadRequest { from: request.from, reason });
            }
        };
        let Message { version, features, body } = message;
        let service = Service(request.service);
        let Some(reply_id) = reply_id(&body) else { return };
        let client = Client { service, from: request.from, to: request.to, reply_id };
        if version != VERSION {
            self.server.served += usize::from(client.is_load());
            return self.reply(client, refusal(&body, Errno::EPROTO, NOTHING), 0);
        }
        if let Body::Join(join) = &body {
            let (reply, features) = self.console.join(now, features, client.from, join);
            return self.reply(client, Body::JoinReply(reply), features);
        }
        let queue = match client.is_load() {
            true => &mut self.server.waiting,
            false => &mut self.framework.waiting,
        };
        match queue.len() < WAITING_MAX {
            true => queue.push_back(Incoming { client, order, features, body }),
            false => count(&mut self.server.counters.rpcs_dropped),
        }
    }

    /// Starts to serve a waiting load request, if there is one and a slot for it.
    pub(crate) fn serve_load(&mut self) -> bool {
        if self.server.served == SERVED_MAX {
            return false;
        }
        let Some(Incoming { client, order, features, body }) = self.server.waiting.pop_front()
        else {
            return false;
        };
        self.server.served += 1;
        match body {
            Body::Brw(brw) => self.serve_brw(client, order, features, &brw),
            Body::Ping(ping) => self.serve_ping(client, features, &ping),
            other => unreachable!("{other:?} is not a load request"),
        }
        true
    }

    /// Sends a reply: this completes the service of an RPC, except for LNet.
    pub(crate) fn reply(&mut self, client: Client, body: Body, features: u32) {
        let id = self.operate(Operation::Reply(client));
        self.outputs.push_back(Output::Send {
            id,
            source: Some(client.to),
            target: client.from,
            portal: BULK_PORTAL,
            match_bits: client.reply_id,
            bytes: Message::new(features, body).to_bytes().into(),
        });
    }

    /// Completes the service of an RPC without a reply.
    pub(crate) fn drop_rpc(&mut self, client: Client) {
        count(&mut self.server.counters.rpcs_dropped);
        self.server.served -= usize::from(client.is_load());
    }

    /// Returns the ID of a new operation of the server.
    pub(crate) fn operate(&mut self, operation: Operation) -> OperationId {
        OperationId::of_server(self.server.operations.insert(operation))
    }

    /// Handles the end of an operation of the server.
    pub(crate) fn server_done(&mut self, now: Time, number: u64, result: Result<Done, Errno>) {
        let operation = self.server.operations.remove(number);
        if result.as_ref().is_err_and(|errno| *errno != Errno::ECANCELED) {
            count(&mut self.server.counters.errors);
        }
        match operation.expect("an operation ends once") {
            Operation::Reply(client) => match result {
                Ok(_) => self.server.served -= usize::from(client.is_load()),
                Err(_) => self.drop_rpc(client),
            },
            Operation::Bulk(transfer) => self.transferred(transfer, result),
            Operation::Destinations(test) => self.destinations_fetched(now, test, result),
        }
    }
}

impl Client {
    /// Returns whether the operation belongs to the load and not to sessions and tests.
    pub(crate) fn is_load(&self) -> bool {
        matches!(self.service, Service::BRW | Service::PING)
    }
}

impl Operation {
    /// Returns whether the request is for the load.
    pub(crate) fn is_load(&self) -> bool {
        match self {
            Self::Reply(client) => client.is_load(),
            Self::Bulk(_) => true,
            Self::Destinations(_) => false,
        }
    }
}

// Counters have 32 bits on the wire, and wrap.
pub(crate) fn count(counter: &mut u32) {
    *counter = counter.wrapping_add(1);
}

/// Features of a reply that has none.
pub(crate) const NOTHING: SessionId = SessionId { nid: Nid::from_small(0), stamp: 0 };

fn accept(request: &Request<'_>) -> Result<(Message, Order), &'static str> {
    if request.bytes.len() != LEN {
        return Err("its length is not 160 bytes");
    }
    let (message, order) = Message::decode(request.bytes).map_err(|_| "it cannot be decoded")?;
    let expected = Service(request.service).request_type();
    match expected == Some(message.body.message_type()) {
        true => Ok((message, order)),
        false => Err("it is for another service"),
    }
}

/// Returns the match bits of the reply to a request; `None` for other messages.
fn reply_id(body: &Body) -> Option<u64> {
    Some(match body {
        Body::MakeSession(request) => request.reply_id,
        Body::RemoveSession(request) => request.reply_id,
        Body::Debug(request) => request.reply_id,
        Body::Batch(request) => request.reply_id,
        Body::Test(request) => request.reply_id,
        Body::Stat(request) => request.reply_id,
        Body::Join(request) => request.reply_id,
        Body::Brw(request) => request.reply_id,
        Body::Ping(request) => request.reply_id,
        _ => return None,
    })
}

/// Returns a reply that refuses `request`, with only the current session in it.
///
/// # Panics
/// If `request` is not a request.
pub(crate) fn refusal(request: &Body, errno: Errno, session: SessionId) -> Body {
    let status = errno.0 as u32;
    let name = Name::EMPTY;
    match request {
        Body::MakeSession(_) => {
            Body::MakeSessionReply(MakeSessionReply { status, session, timeout: 0, name })
        }
        Body::RemoveSession(_) => Body::RemoveSessionReply(RemoveSessionReply { status, session }),
        Body::Debug(_) => {
            Body::DebugReply(DebugReply { status, session, timeout: 0, batches: 0, name })
        }
        Body::Batch(_) => Body::BatchReply(BatchReply { status, session, active: 0, time: 0 }),
        Body::Test(_) => Body::TestReply(TestReply { status, session }),
        Body::Stat(_) => Body::StatReply(StatReply {
            status,
            session,
            framework: FrameworkCounters::default(),
            rpc: RpcCounters::default(),
            lnet: LnetCounters::default(),
        }),
        Body::Join(_) => Body::JoinReply(JoinReply { status, session, timeout: 0, name }),
        Body::Brw(_) => Body::BrwReply(BrwReply { status }),
        Body::Ping(_) => Body::PingReply(PingReply { status, magic: 0, sequence: 0 }),
        other => unreachable!("{other:?} is not a request"),
    }
}
