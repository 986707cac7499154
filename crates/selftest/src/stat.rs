//! Statistics of a node: counters for all consoles, and latencies for Fulmar consoles.
//! Spec: lnet-selftest §5.5, §12.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{
    Body, FrameworkCounters, Histogram, LnetCounters, MEASURE, MeasureReply, RpcCounters, Stat,
    StatReply, Usage,
};

use crate::Selftest;
use crate::api::{Output, Task};
use crate::framework::Outcome;
use crate::machine::Question;
use crate::serve::{Client, refusal};
use crate::session::Session;

/// Statistics of the successful RPCs of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measures {
    rpcs: u64,
    bytes: u64,
    min_ns: u64,
    max_ns: u64,
    histogram: Histogram,
}

impl Measures {
    /// Counts an RPC.
    pub(crate) fn count(&mut self, took: Duration, bytes: u32) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.min_ns = if self.rpcs == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.rpcs += 1;
        self.bytes += u64::from(bytes);
        self.histogram.record(ns);
    }
}

impl Selftest {
    pub(crate) fn stat(&mut self, client: Client, request: Stat) -> Outcome {
        let errno = match self.sessions.find(request.session) {
            _ if !request.session.is_valid() => Errno::EINVAL,
            None => Errno::ESRCH,
            Some(_) => {
                let output = if request.kind & !BUCKET == MEASURE {
                    let first = (request.kind & BUCKET) as usize;
                    Output::Task(Task::Measure { id: self.ask(Question::Cost(client, first)) })
                } else {
                    Output::Count { id: self.ask(Question::Counters(client)) }
                };
                self.outputs.push_back(output);
                return Outcome::Later;
            }
        };
        let session = self.sessions.current_id();
        Outcome::Reply(refusal(&Body::Stat(request), errno, session))
    }

    /// Answers a query for counters with those of LNet and of this crate.
    pub(crate) fn counted(&mut self, now: Time, client: Client, lnet: LnetCounters) {
        let found = self.sessions.current().expect("a session does not end during a query");
        let body = Body::StatReply(StatReply {
            status: 0,
            session: found.id,
            framework: FrameworkCounters {
                running_ms: now.since(found.started).as_millis() as u32,
                active_batches: found.active as u32,
                zombie_sessions: self.sessions.zombies() as u32,
                brw_errors: found.brw_errors,
                ping_errors: found.ping_errors,
            },
            rpc: self.rpc_counters(),
            lnet,
        });
        self.framework_served(now, client, body);
    }

    /// Answers a query for latencies, with buckets from `first` on, and the resource usage of the
    /// node.
    pub(crate) fn measured(&mut self, now: Time, client: Client, first: usize, usage: Usage) {
        let found = self.sessions.current().expect("a session does not end during a query");
        let body = Body::Measured(found.measured(first, usage));
        self.framework_served(now, client, body);
    }

    /// Returns the counters of client and server.
    fn rpc_counters(&self) -> RpcCounters {
        let (client, server) = (self.rpcs.counters, self.server.counters);
        RpcCounters {
            errors: client.errors.wrapping_add(server.errors),
            rpcs_sent: client.rpcs_sent,
            rpcs_expired: client.rpcs_expired,
            ..server
        }
    }
}

/// The bits of [`Stat::kind`] with the number of a bucket.
const BUCKET: u32 = 0xffff;

impl Session {
    fn measured(&self, first: usize, usage: Usage) -> MeasureReply {
        let Measures { rpcs, bytes, min_ns, max_ns, histogram } = &self.measures;
        MeasureReply {
            status: 0,
            session: self.id,
            rpcs: *rpcs,
            bytes: *bytes,
            min_ns: *min_ns,
            max_ns: *max_ns,
            usage,
            slice: histogram.slice(first),
        }
    }
}
