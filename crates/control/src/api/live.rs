//! What a node says of itself at a moment, and what the web page shows of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fulmar_lnet::views::{self, Traffic};
use fulmar_top::{
    Answer, Interface, Latency, Model, Peer, Pool, Route, Router, Sample, Target, Totals, Transit,
    View, parameters,
};

use super::error::AdminError;
use super::metrics::resident_bytes;
use super::operations::{
    Admin, Counters, NetShow, ParameterShow, PeerShow, RouteShow, RoutersShow, RoutingShow,
    StatsShow, TargetShow,
};
use crate::show::{self, Ni, POOLS, SocklndCounters, Stats};

/// The least time between two samples: however many pages are open, the node is examined once in it.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

/// What the page shows: a model that gets samples only while a browser shows it.
#[derive(Debug)]
pub(super) struct Live(Mutex<LiveModel>);

#[derive(Debug)]
struct LiveModel {
    model: Model,
    /// When the last sample was taken.
    taken: Option<Instant>,
}

impl Live {
    pub(super) fn new() -> Self {
        let model = Model::new(["this node".to_owned()]);
        Self(Mutex::new(LiveModel { model, taken: None }))
    }

    fn watched(&self) -> MutexGuard<'_, LiveModel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is shown now.
    pub(super) fn view(&self, admin: &dyn Admin) -> Result<View, AdminError> {
        let mut watched = self.watched();
        if watched.taken.is_none_or(|taken| taken.elapsed() >= INTERVAL_MIN) {
            let sample = sample(admin)?;
            watched.model.handle_answer(0, Answer::Sample(Box::new(sample)));
            watched.taken = Some(Instant::now());
        }
        Ok(watched.model.view())
    }
}

/// Returns what the node says of itself; of one that has failed only that.
pub(super) fn sample(admin: &dyn Admin) -> Result<Sample, AdminError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let failed =
        || admin.failure().map(|why| Sample { at_ms, failure: Some(why), ..Sample::default() });
    if let Some(failed) = failed() {
        return Ok(failed);
    }
    let sample = running(admin, at_ms)?;
    // The failure may have been in the middle of that.
    Ok(failed().unwrap_or(sample).bound())
}

fn running(admin: &dyn Admin, at_ms: u64) -> Result<Sample, AdminError> {
    let nets = admin.net_show(NetShow::default())?;
    let nis: Vec<&Ni> =
        nets.iter().flat_map(|net| &net.nis).filter(|ni| ni.lnd.is_some()).collect();
    let peers = admin.peer_show(PeerShow::default())?;
    let (stats, socklnd) = (admin.stats_show(StatsShow {})?, admin.socklnd_counters(Counters {})?);
    let routing = admin.routing_show(RoutingShow {})?;
    let (pools, transits) = router(&routing);
    Ok(Sample {
        at_ms,
        name: nis.first().map(|ni| ni.view.nid.to_string()).unwrap_or_default(),
        failure: None,
        totals: totals(&stats, &socklnd),
        interfaces: nis.iter().map(|ni| interface(ni)).collect(),
        peers_known: peers.iter().map(|peer| peer.nis.len() as u64).sum(),
        peers: peers.iter().flat_map(|one| one.nis.iter().map(|ni| peer(one, ni))).collect(),
        routes: admin.route_show(RouteShow {})?.iter().map(route).collect(),
        routers: admin.routers_show(RoutersShow {})?.iter().map(gateway).collect(),
        routing: routing.is_known().then(|| routing.state.to_string()),
        pools,
        transits,
        targets: targets(admin)?,
        connections: Vec::new(),
    })
}

fn totals(stats: &Stats, socklnd: &SocklndCounters) -> Totals {
    let broken = socklnd.malformed + socklnd.silent + socklnd.stalled + socklnd.handshake_failures;
    let refused = socklnd.refused_unprivileged
        + socklnd.refused_handshakes
        + socklnd.refused_identity
        + socklnd.refused_nid;
    Totals {
        active: stats.msgs_alloc,
        sent: stats.send_count,
        received: stats.recv_count,
        routed: stats.route_count,
        sent_bytes: stats.send_length,
        received_bytes: stats.recv_length,
        routed_bytes: stats.route_length,
        dropped: stats.drop_count,
        failed: stats.errors,
        resent: stats.resend_count,
        late_responses: stats.response_timeout_count,
        broken_connections: broken,
        refused_connections: refused,
        resident_bytes: resident_bytes().unwrap_or(0),
    }
}

fn round_trips(traffic: &Traffic) -> Latency {
    Latency { samples: traffic.get_rtt.samples, sum_nsec: traffic.get_rtt.sum_nsec }
}

/// Returns the failures of all classes.
fn failures(health: &views::Health) -> u64 {
    let views::Health { interrupts, dropped, aborted, no_route, timeouts, .. } = *health;
    let all =
        [interrupts, dropped, aborted, no_route, timeouts, health.error, health.network_timeout];
    all.into_iter().map(u64::from).sum()
}

fn interface(ni: &Ni) -> Interface {
    let views::Ni { nid, up, credits, credits_min, credits_max, health, traffic, .. } = &ni.view;
    Interface {
        nid: nid.to_string(),
        device: ni.interface.clone().unwrap_or_default(),
        is_up: *up,
        health: health.value.into(),
        credits: *credits,
        credits_min: *credits_min,
        credits_max: *credits_max,
        sent: traffic.sent.total(),
        received: traffic.received.total(),
        dropped: traffic.dropped.total(),
        failures: failures(health),
        round_trips: round_trips(traffic),
    }
}

fn peer(of: &show::Peer, ni: &views::PeerNi) -> Peer {
    let views::PeerNi { nid, credits, credits_min, credits_max, queued_bytes, health, .. } = ni;
    Peer {
        primary: of.primary.to_string(),
        nid: nid.to_string(),
        health: health.value.into(),
        credits: *credits,
        credits_min: *credits_min,
        credits_max: *credits_max,
        queued_bytes: *queued_bytes,
        sent: ni.traffic.sent.total(),
        received: ni.traffic.received.total(),
        dropped: ni.traffic.dropped.total(),
        failures: failures(health),
        round_trips: round_trips(&ni.traffic),
    }
}

fn route(route: &show::Route) -> Route {
    Route {
        net: route.net.to_string(),
        gateway: route.gateway.to_string(),
        is_up: route.up,
        messages: route.messages,
        median_nsec: route.latency.p50_nsec,
        p99_nsec: route.latency.p99_nsec,
    }
}

fn gateway(router: &show::Router) -> Router {
    Router { nid: router.nid.to_string(), is_alive: router.alive }
}

fn router(routing: &show::Routing) -> (Vec<Pool>, Vec<Transit>) {
    if !routing.is_known() {
        return (Vec::new(), Vec::new());
    }
    let pool = |(name, pool): (&str, &views::Pool)| Pool {
        name: name.to_owned(),
        buffers: pool.buffers.into(),
        allocated: pool.allocated.into(),
        free: pool.credits,
        free_min: pool.credits_min,
    };
    let transit = |one: &views::Transit| Transit {
        from: one.from.to_string(),
        to: one.to.to_string(),
        messages: one.messages,
        bytes: one.bytes,
        median_nsec: one.latency.p50_nsec,
        p99_nsec: one.latency.p99_nsec,
    };
    let pools = POOLS.into_iter().zip(&routing.pools).map(pool).collect();
    (pools, routing.transits.iter().map(transit).collect())
}

/// Returns the targets with what their parameters say.
pub(super) fn targets(admin: &dyn Admin) -> Result<Vec<Target>, AdminError> {
    let target = |one: show::Target| Target {
        name: if one.name == "-" { one.directory } else { one.name },
        kind: one.kind,
        error: one.error,
        clients: one.clients as u64,
        in_hand: one.in_hand as u64,
        queued: one.queued as u64,
        ..Target::default()
    };
    let mut targets: Vec<Target> =
        admin.target_show(TargetShow {})?.into_iter().map(target).collect();
    if !targets.is_empty() {
        let patterns = parameters::OF_TARGETS.map(str::to_owned).to_vec();
        let shown = admin.parameter_show(ParameterShow { patterns, modules: false })?;
        let shown: Vec<_> = shown.into_iter().map(|one| (one.name, one.value)).collect();
        parameters::describe(&mut targets, &shown);
    }
    Ok(targets)
}
