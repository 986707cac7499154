//! Requests of a console to a node, and parsing of the replies. Spec: lnet-selftest §5.

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{
    Batch, BatchId, BatchOperation, Body, DebugReply, DebugRequest, Destination, MEASURE,
    MakeSession, MeasureReply, Name, RemoveSession, Service, SessionId, Stat, StatReply, Test,
    TestKind,
};
use fulmar_lnet_wire::{Nid, ProcessId};

use crate::rpc::Bulk;

use super::api::{PingInfo, Stats};
use super::distribute::Distribution;

/// The request of a transaction to each node.
#[derive(Debug)]
pub(super) enum Ask {
    /// Enter the session.
    Make { force: bool, name: Name },
    /// Leave the session.
    Remove,
    /// Report the session.
    Debug,
    /// Run or stop a batch, or report what runs.
    Batch { call: BatchCall, of_servers: bool },
    /// Install a test. The parts are its servers, and then its clients.
    Install(Install),
    /// Report counters.
    Stat,
    /// Report measurements of Fulmar nodes.
    Measure,
}

/// Parameters that are the same for all nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchCall {
    pub(super) batch: BatchId,
    pub(super) operation: BatchOperation,
    pub(super) test: u32,
    pub(super) argument: u32,
}

/// A test, with the parameters for its nodes.
#[derive(Debug)]
pub(super) struct Install {
    pub(super) batch: BatchId,
    pub(super) kind: TestKind,
    pub(super) loops: u32,
    pub(super) concurrency: u32,
    pub(super) distribution: Distribution,
    pub(super) servers: Vec<Nid>,
}

impl Install {
    /// Returns the client number of a part; `None` for a server.
    fn client(&self, part: usize) -> Option<usize> {
        part.checked_sub(self.servers.len())
    }

    /// Returns the servers of a client.
    fn destinations(&self, client: usize) -> Vec<ProcessId> {
        let servers = self.distribution.servers_of(client);
        let nids = servers.filter_map(|server| self.servers.get(server));
        nids.map(|nid| ProcessId::lustre(*nid)).collect()
    }

    fn request(&self, session: SessionId, part: usize, reply_id: u64, bulk_id: u64) -> Test {
        let is_client = self.client(part).is_some();
        let load = self.distribution.server_load(self.concurrency);
        Test {
            reply_id,
            bulk_id,
            session,
            batch: self.batch,
            loops: if is_client { self.loops } else { load },
            concurrency: self.concurrency,
            is_client,
            stop_on_error: true,
            destinations: if is_client { self.distribution.span() } else { 0 },
            kind: self.kind,
        }
    }
}

/// A reply of a node.
#[derive(Debug)]
pub(super) struct ParsedReply {
    pub(super) status: u32,
    /// The session of the node.
    pub(super) session: SessionId,
    pub(super) news: News,
}

/// Further contents.
#[derive(Debug)]
pub(super) enum News {
    None,
    /// Seconds of silence after which the node leaves the session.
    Timeout(u32),
    Active(u32),
    Session(PingInfo),
    Stats(Stats),
    Measured(Box<MeasureReply>),
}

impl Ask {
    pub(super) fn service(&self) -> Service {
        match self {
            Self::Make { .. } => Service::MAKE_SESSION,
            Self::Remove => Service::REMOVE_SESSION,
            Self::Debug => Service::DEBUG,
            Self::Batch { .. } => Service::BATCH,
            Self::Install(_) => Service::TEST,
            Self::Stat | Self::Measure => Service::QUERY_STAT,
        }
    }

    /// Returns the data that the node of a part fetches with the request: the destinations of a
    /// client.
    pub(super) fn bulk(&self, part: usize, features: u32) -> Option<Bulk> {
        let Self::Install(install) = self else { return None };
        let destinations = install.destinations(install.client(part)?);
        Some(Bulk::Bytes(Destination::encode_list(&destinations, features).into()))
    }

    /// Returns the request for the node of a part. `bucket` is the first requested bucket of
    /// measurements.
    pub(super) fn request(
        &self,
        session: SessionId,
        part: usize,
        bucket: u32,
        (reply_id, bulk_id): (u64, u64),
    ) -> Body {
        match self {
            Self::Make { force, name } => {
                let (force, name) = (u32::from(*force), *name);
                Body::MakeSession(MakeSession { reply_id, session, force, name })
            }
            Self::Remove => Body::RemoveSession(RemoveSession { reply_id, session }),
            Self::Debug => Body::Debug(DebugRequest { reply_id, session, flags: 0 }),
            Self::Batch { call, .. } => {
                let BatchCall { batch, operation, test, argument } = *call;
                Body::Batch(Batch { reply_id, session, batch, operation, test, argument })
            }
            Self::Install(install) => Body::Test(install.request(session, part, reply_id, bulk_id)),
            Self::Stat => Body::Stat(Stat { reply_id, session, kind: 0 }),
            Self::Measure => Body::Stat(Stat { reply_id, session, kind: MEASURE | bucket }),
        }
    }

    /// Parses a reply.
    ///
    /// # Errors
    /// EBADMSG if it is the reply to another request.
    pub(super) fn read(&self, reply: Body) -> Result<ParsedReply, Errno> {
        let (status, session, news) = match (self, reply) {
            (Self::Make { .. }, Body::MakeSessionReply(r)) => {
                (r.status, r.session, News::Timeout(r.timeout))
            }
            (Self::Remove, Body::RemoveSessionReply(r)) => (r.status, r.session, News::None),
            (Self::Debug, Body::DebugReply(r)) => {
                (r.status, r.session, News::Session(ping_info(&r)))
            }
            (Self::Batch { .. }, Body::BatchReply(r)) => {
                (r.status, r.session, News::Active(r.active))
            }
            (Self::Install(_), Body::TestReply(r)) => (r.status, r.session, News::None),
            (Self::Stat | Self::Measure, Body::StatReply(r)) => {
                (r.status, r.session, News::Stats(stats(&r)))
            }
            (Self::Measure, Body::Measured(r)) => {
                (r.status, r.session, News::Measured(Box::new(r)))
            }
            _ => return Err(Errno::EBADMSG),
        };
        Ok(ParsedReply { status, session, news })
    }

    /// Returns by the status whether a node has executed the request.
    ///
    /// # Errors
    /// The status as an error number.
    pub(super) fn judge(&self, status: u32) -> Result<(), Errno> {
        /// The largest error number of Linux.
        const ERRNO_MAX: u32 = 4095;
        let errno = match status {
            0 => return Ok(()),
            1..=ERRNO_MAX => Errno(status as i32),
            _ => Errno::EPROTO,
        };
        let is_stop = |call: &BatchCall| call.operation == BatchOperation::STOP;
        match self {
            // It has already left, or never was in the session.
            Self::Remove if errno == Errno::ESRCH => Ok(()),
            Self::Batch { call, .. } if is_stop(call) && errno == Errno::EPERM => Ok(()),
            _ => Err(errno),
        }
    }
}

fn ping_info(reply: &DebugReply) -> PingInfo {
    PingInfo {
        name: reply.name.to_string(),
        console: reply.session.is_valid().then_some(reply.session.nid),
        timeout: reply.timeout,
    }
}

fn stats(reply: &StatReply) -> Stats {
    let StatReply { framework, rpc, lnet, .. } = reply;
    Stats {
        running_ms: framework.running_ms,
        active_batches: framework.active_batches,
        zombie_sessions: framework.zombie_sessions,
        brw_errors: framework.brw_errors,
        ping_errors: framework.ping_errors,
        rpc_errors: rpc.errors,
        rpcs_sent: rpc.rpcs_sent,
        rpcs_received: rpc.rpcs_received,
        rpcs_dropped: rpc.rpcs_dropped,
        rpcs_expired: rpc.rpcs_expired,
        bulk_get: rpc.bulk_get,
        bulk_put: rpc.bulk_put,
        send_count: lnet.send_count,
        recv_count: lnet.recv_count,
        drop_count: lnet.drop_count,
        send_length: lnet.send_length,
        recv_length: lnet.recv_length,
    }
}
