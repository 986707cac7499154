//! Runs a plan.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_selftest::console::TestSpec;
use fulmar_sim::{Flow, LaneCounters, TcpId, World};
use fulmar_tune::model::Direction;

use super::build;
use super::outcome::{LinkUse, LoadOutcome, Outcome, Sample};
use super::plan::{Load, Plan, Work};
use super::waits::{Bottleneck, Waits};
use crate::session::{Session, StudyError, Test, brw};

/// Samples of the measurement; the warm-up has as many in the same time.
const SAMPLES: u32 = 100;
/// A line with this share in use counts as full.
const FULL: f64 = 0.96;
/// A connection carries data if it has at least this share of what the busiest one has.
const CARRIES: u64 = 20;

/// Simulates a plan. The same plan gives the same result.
///
/// # Errors
/// If the plan is not possible, or nodes do not answer.
pub fn run(plan: &Plan) -> Result<Outcome, StudyError> {
    let options = build::options(plan)?;
    let mut course = Course::begin(plan, Session::begin(&options)?)?;
    course.pass(plan.warmup)?;
    let from = course.mark();
    course.waits = Waits::default();
    course.pass(plan.time)?;
    Ok(course.outcome(&from))
}

/// The run of a plan.
struct Course<'a> {
    plan: &'a Plan,
    session: Session,
    /// The hosts of each group.
    hosts: Vec<Range<u32>>,
    began: Time,
    samples: Vec<Sample>,
    waits: Waits,
    /// The bytes that each direction of a connection had delivered at the last sample.
    delivered: BTreeMap<(TcpId, u32), u64>,
}

/// The counters at one time.
struct Mark {
    at: Time,
    rpcs: Vec<u64>,
    links: Vec<LaneCounters>,
    /// Of each interface: sent and received bytes.
    cables: Vec<(u64, u64)>,
}

impl<'a> Course<'a> {
    /// Starts all loads.
    fn begin(plan: &'a Plan, mut session: Session) -> Result<Self, StudyError> {
        let hosts = build::hosts(plan);
        for (n, load) in plan.loads.iter().enumerate() {
            session.add(Test {
                name: format!("load-{n}"),
                clients: hosts[load.from].clone(),
                servers: hosts[load.to].clone(),
                spec: spec(load.work),
                concurrency: load.concurrency,
            })?;
        }
        session.start(Duration::ZERO)?;
        let began = session.world.now();
        let (samples, delivered) = (Vec::new(), BTreeMap::new());
        Ok(Self { plan, session, hosts, began, samples, waits: Waits::default(), delivered })
    }

    /// Runs for a time, and takes samples.
    fn pass(&mut self, time: Duration) -> Result<(), StudyError> {
        let begin = self.session.world.now();
        let count = if time.is_zero() { 0 } else { SAMPLES };
        for n in 1..=count {
            let (before, rpcs) = (self.session.world.now(), self.session.counts());
            let due = begin + time * n / SAMPLES;
            self.session
                .until("the next sample", time + TIMEOUT, |session| session.world.now() >= due)?;
            self.sample(before, &rpcs);
        }
        Ok(())
    }

    fn sample(&mut self, before: Time, rpcs: &[u64]) {
        let world = &self.session.world;
        let flows = carrying(world, &mut self.delivered);
        let seconds = world.now().since(before).as_secs_f64().max(1e-9);
        let payload = self.session.counts();
        let payload = payload.iter().zip(rpcs).zip(&self.plan.loads);
        let payload: f64 =
            payload.map(|((now, then), load)| (now - then) as f64 * payload_of(load)).sum();
        let mean = |value: fn(&Flow) -> u64| {
            flows.iter().map(value).sum::<u64>() as f64 / flows.len().max(1) as f64
        };
        self.samples.push(Sample {
            seconds: world.now().since(self.began).as_secs_f64(),
            bytes_per_second: payload / seconds,
            congestion_window: mean(|flow| flow.congestion_window),
            receive_window: mean(|flow| flow.receive_window),
            in_flight: mean(|flow| flow.in_flight),
        });
        let (senders, routers) = (self.senders(), self.routers());
        self.waits.add(&self.session.world, &flows, &senders, &routers);
    }

    /// Returns the nodes that send data.
    fn senders(&self) -> Vec<Range<u32>> {
        let sender = |load: &Load| match load.work {
            Work::Bulk(Direction::Read, _) => self.hosts[load.to].clone(),
            _ => self.hosts[load.from].clone(),
        };
        self.plan.loads.iter().map(sender).collect()
    }

    fn routers(&self) -> Vec<Range<u32>> {
        let groups = self.plan.groups.iter().zip(&self.hosts);
        groups.filter(|(group, _)| group.router).map(|(_, hosts)| hosts.clone()).collect()
    }

    fn mark(&self) -> Mark {
        let world = &self.session.world;
        Mark {
            at: world.now(),
            rpcs: self.session.counts(),
            links: world.trunks().into_iter().map(|trunk| trunk.carried).collect(),
            cables: world.cables().iter().map(|cable| (cable.sent, cable.received)).collect(),
        }
    }

    fn outcome(self, from: &Mark) -> Outcome {
        let to = self.mark();
        let seconds = to.at.since(from.at).as_secs_f64().max(1e-9);
        let loads = self.plan.loads.iter().enumerate();
        let loads: Vec<LoadOutcome> =
            loads.map(|(n, load)| self.of_load(load, to.rpcs[n] - from.rpcs[n], seconds)).collect();
        let links: Vec<LinkUse> = self.links(from, &to, seconds);
        let world = &self.session.world;
        let is_full = |bits: f64, mbps: u64| bits >= FULL * mbps as f64 * 1e6;
        let mut cables = world.cables().into_iter().zip(&from.cables);
        let cable_is_full = cables.any(|(cable, (sent, received))| {
            let most = (cable.sent - sent).max(cable.received - received);
            is_full(most as f64 * 8.0 / seconds, cable.rate_mbps)
        });
        let bound = match () {
            () if links.iter().any(|link| link.share >= FULL) => Bottleneck::Link,
            () if cable_is_full => Bottleneck::Interfaces,
            () => self.waits.bound(),
        };
        Outcome {
            bytes_per_second: loads.iter().map(|load| load.bytes_per_second).sum(),
            loads,
            links,
            bound,
            waits: self.waits,
            connections: world.flows().count() / 2,
            resent_bytes: world.flows().map(|flow| flow.resent).sum(),
            course: self.samples,
            steps: self.session.steps,
        }
    }

    fn of_load(&self, load: &Load, rpcs: u64, seconds: f64) -> LoadOutcome {
        let rpcs_per_second = rpcs as f64 / seconds;
        let units = self.plan.units(load) as f64;
        LoadOutcome {
            name: self.plan.name_of(load),
            rpcs,
            rpcs_per_second,
            bytes_per_second: rpcs_per_second * payload_of(load),
            mean_latency: (rpcs > 0).then(|| Duration::from_secs_f64(units / rpcs_per_second)),
        }
    }

    fn links(&self, from: &Mark, to: &Mark, seconds: f64) -> Vec<LinkUse> {
        let both = from.links.iter().zip(&to.links).enumerate();
        both.map(|(n, (before, after))| {
            let (link, backward) = (n / 2, n % 2 == 1);
            let bits_per_second = (after.bytes - before.bytes) as f64 * 8.0 / seconds;
            let rate = self.plan.links[link].line.rate_mbps as f64 * 1e6;
            LinkUse {
                name: self.plan.name_of_link(link, backward),
                bits_per_second,
                share: bits_per_second / rate,
                lost: after.lost,
                overflowed: after.overflowed,
                queued_max: after.queued_max,
            }
        })
        .collect()
    }
}

/// Returns the flows that have carried data since the last call.
fn carrying(world: &World, delivered: &mut BTreeMap<(TcpId, u32), u64>) -> Vec<Flow> {
    let mut all: Vec<(Flow, u64)> = Vec::new();
    for flow in world.flows() {
        let before = delivered.insert((flow.tcp, flow.from.0), flow.delivered).unwrap_or(0);
        all.push((flow, flow.delivered - before + flow.in_flight));
    }
    let most = all.iter().map(|(_, moved)| *moved).max().unwrap_or(0);
    let carries = |(_, moved): &(Flow, u64)| *moved > 0 && *moved >= most / CARRIES;
    all.into_iter().filter(carries).map(|(flow, _)| flow).collect()
}

fn payload_of(load: &Load) -> f64 {
    f64::from(load.work.size())
}

fn spec(work: Work) -> TestSpec {
    match work {
        Work::Ping => TestSpec::Ping,
        Work::Bulk(direction, size) => brw(direction, size),
    }
}

/// How long a sample may be late.
const TIMEOUT: Duration = Duration::from_secs(60);
