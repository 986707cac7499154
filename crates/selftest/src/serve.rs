//! The server side of RPCs: requests in, replies out. Spec: lnet-selftest §2.
//!
//! Framework requests are served one after the other, so that each sees the session as the one
//! before left it; none of them waits for a peer. A request holds a share of a budget from when it
//! is served to the end of its reply, and waits if its peer has its share already.

use std::time::Duration;

use fulmar_base::{Errno, Table, Time};
use fulmar_lnet_wire::selftest::{
    BULK_PORTAL, BatchReply, Body, BrwReply, Check, DebugReply, Direction, FrameworkCounters,
    JoinReply, LEN, LnetCounters, MakeSessionReply, Message, Name, PingReply, RemoveSessionReply,
    RpcCounters, Service, SessionId, StatReply, TestReply, VERSION,
};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::Order;

use crate::Selftest;
use crate::api::{OperationId, OperationResult, Output, Request};
use crate::brw::Transfer;
use crate::install::Installation;
use crate::memory;
use crate::notice::Notice;
use crate::shares::{Limits, Shares};

/// What a request costs in addition to its own bulk memory: more than LNet and this machine keep
/// for it, so that few enough are served at once.
const REQUEST: u32 = 64 << 10;
/// What requests of the load may cost, in bytes. A node must not drop a request because it is busy,
/// so far more may wait than well-behaved nodes have outstanding.
const LOAD: Limits = Limits {
    whole: 1 << 30,
    peer: 512 << 20,
    crowded: 16 << 20,
    waiting: 65_536,
    waiting_peer: 16_384,
    waiting_crowded: 1024,
};
/// What requests of consoles may cost: a console has one outstanding for each command.
const FRAMEWORK: Limits = Limits {
    whole: 256 << 20,
    peer: 4 << 20,
    crowded: 1 << 20,
    waiting: 16_384,
    waiting_peer: 4096,
    waiting_crowded: 256,
};
/// How long a request may wait, and then an operation for it may last, at least: its client has
/// given up by then.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(64);
/// How often late requests and operations are searched.
const SWEEP_INTERVAL: Duration = Duration::from_secs(8);

/// Target and source of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) service: Service,
    pub(crate) from: ProcessId,
    pub(crate) to: Nid,
    pub(crate) reply_id: u64,
    /// What it holds of the budget until its reply is sent.
    pub(crate) cost: u32,
}

/// A valid request, to be answered.
#[derive(Debug)]
pub(crate) struct ServiceRequest {
    pub(crate) client: Client,
    pub(crate) received: Time,
    pub(crate) order: Order,
    pub(crate) version: u32,
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

/// An operation, and since when it is in progress.
#[derive(Debug)]
pub(crate) struct InProgress {
    pub(crate) operation: Operation,
    /// `None` once it is withdrawn.
    since: Option<Time>,
}

/// The server's tables.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) operations: Table<InProgress>,
    /// The requests of the load.
    pub(crate) load: Shares<ServiceRequest>,
    /// The requests of consoles.
    pub(crate) framework: Shares<ServiceRequest>,
    /// When late operations are searched next, if there are any. Only requests behind one wait.
    pub(crate) next_sweep: Option<Time>,
    /// All counters but `rpcs_sent` and `rpcs_expired`, which the client counts.
    pub(crate) counters: RpcCounters,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            operations: Table::default(),
            load: Shares::new(LOAD),
            framework: Shares::new(FRAMEWORK),
            next_sweep: None,
            counters: RpcCounters::default(),
        }
    }
}

impl Server {
    fn shares(&mut self, client: &Client) -> &mut Shares<ServiceRequest> {
        if client.is_load() { &mut self.load } else { &mut self.framework }
    }

    /// Returns whether an operation, if it is one of the server, is in progress.
    pub(crate) fn is_open(&self, id: OperationId) -> bool {
        id.server_number().is_none_or(|number| self.operations.get(number).is_some())
    }

    /// Releases what a request held.
    fn release(&mut self, client: &Client) {
        self.shares(client).give_back(client.from.nid, client.cost);
    }
}

impl Selftest {
    /// Serves a request, if valid, or lets it wait. Spec: lnet-selftest §2.6.
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
        let cost = cost(&body);
        let client = Client { service, from: request.from, to: request.to, reply_id, cost };
        let incoming = ServiceRequest { client, received: now, order, version, features, body };
        if client.is_load() && self.server.load.take(client.from.nid, cost) {
            return self.serve_load(now, incoming);
        }
        if self.server.shares(&client).push(client.from.nid, cost, incoming).is_err() {
            count(&mut self.server.counters.rpcs_dropped);
        }
    }

    /// Serves a request of the load.
    pub(crate) fn serve_load(&mut self, now: Time, incoming: ServiceRequest) {
        let ServiceRequest { client, order, version, features, body, .. } = incoming;
        match body {
            body if version != VERSION => self.refuse_version(now, client, &body),
            Body::Brw(brw) => self.serve_brw(now, client, order, features, &brw),
            Body::Ping(ping) => self.serve_ping(now, client, features, &ping),
            other => unreachable!("{other:?} is not a load request"),
        }
    }

    pub(crate) fn refuse_version(&mut self, now: Time, client: Client, body: &Body) {
        self.reply(now, client, refusal(body, Errno::EPROTO, NOTHING), 0);
    }

    /// Sends a reply: this completes the service of an RPC, except for LNet.
    pub(crate) fn reply(&mut self, now: Time, client: Client, body: Body, features: u32) {
        let id = self.operate(now, Operation::Reply(client));
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
        self.server.release(&client);
    }

    /// Returns the ID of a new operation of the server.
    pub(crate) fn operate(&mut self, now: Time, operation: Operation) -> OperationId {
        if self.server.next_sweep.is_none() {
            self.server.next_sweep = Some(now + SWEEP_INTERVAL);
        }
        let since = Some(now);
        OperationId::of_server(self.server.operations.insert(InProgress { operation, since }))
    }

    /// Handles the end of an operation of the server.
    pub(crate) fn server_done(
        &mut self,
        now: Time,
        number: u64,
        result: Result<OperationResult, Errno>,
    ) {
        let ended = self.server.operations.remove(number).expect("an operation ends once");
        if result.as_ref().is_err_and(|errno| *errno != Errno::ECANCELED) {
            count(&mut self.server.counters.errors);
        }
        match ended.operation {
            Operation::Reply(client) => match result {
                Ok(_) => self.server.release(&client),
                Err(_) => self.drop_rpc(client),
            },
            Operation::Bulk(transfer) => self.transferred(now, transfer, result),
            Operation::Destinations(test) => self.destinations_fetched(now, test, result),
        }
    }

    /// Drops the requests that wait too long, and withdraws the operations that last too long: their
    /// peers do not answer.
    pub(crate) fn sweep(&mut self, now: Time) {
        if self.server.next_sweep.is_none_or(|at| at > now) {
            return;
        }
        let limit = REQUEST_TIMEOUT.max(self.config.rpc_timeout);
        self.withdraw(|one| one.since.is_some_and(|since| now.since(since) >= limit));
        for shares in [&mut self.server.load, &mut self.server.framework] {
            for _late in shares.withdraw(|waiting| now.since(waiting.received) >= limit) {
                count(&mut self.server.counters.rpcs_dropped);
            }
        }
        let is_idle = self.server.operations.is_empty();
        self.server.next_sweep = (!is_idle).then(|| now + SWEEP_INTERVAL);
    }

    /// Withdraws what the session that has ended still transfers.
    pub(crate) fn abort_transfers(&mut self) {
        let of_session = |operation: &Operation| !matches!(operation, Operation::Reply(_));
        self.withdraw(|one| one.since.is_some() && of_session(&one.operation));
    }

    fn withdraw(&mut self, is_it: impl Fn(&InProgress) -> bool) {
        let operations = &mut self.server.operations;
        let found = operations.iter().filter(|(_, one)| is_it(one));
        let numbers: Vec<u64> = found.map(|(number, _)| number).collect();
        for number in numbers {
            operations.get_mut(number).expect("it was just found").since = None;
            self.outputs.push_back(Output::Withdraw { id: OperationId::of_server(number) });
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
    /// Returns whose request it is for.
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Reply(client) => client,
            Self::Bulk(transfer) => &transfer.client,
            Self::Destinations(test) => &test.client,
        }
    }
}

/// Returns what a request costs while it is served.
fn cost(body: &Body) -> u32 {
    match body {
        Body::Brw(brw) if brw.direction == Direction::WRITE => {
            REQUEST + memory::sink_cost(brw.len, Check(brw.flags))
        }
        _ => REQUEST,
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
    if expected == Some(message.body.message_type()) {
        Ok((message, order))
    } else {
        Err("it is for another service")
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
