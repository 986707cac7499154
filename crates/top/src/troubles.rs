//! What is wrong with a node, in a line each.

use fulmar_text::{count, percent, significant};

use crate::rates::Pair;
use crate::sample::HEALTH_BEST;
use crate::tables::{FREE_MIN, free_share, mark_of_connection};
use crate::view::Mark;

/// The most lines.
const TROUBLES_MAX: usize = 12;

/// Returns what is wrong, the worst first.
pub(crate) fn all(pair: &Pair<'_>) -> Vec<(Mark, String)> {
    let mut all = Vec::new();
    interfaces(pair, &mut all);
    peers(pair, &mut all);
    router(pair, &mut all);
    targets(pair, &mut all);
    messages(pair, &mut all);
    all.sort_by_key(|(mark, _)| *mark);
    let hidden = all.len().saturating_sub(TROUBLES_MAX);
    if hidden > 0 {
        all.truncate(TROUBLES_MAX);
        all.push((Mark::Warn, format!("and {hidden} more: see the marked rows")));
    }
    all
}

type Troubles = Vec<(Mark, String)>;

fn interfaces(pair: &Pair<'_>, all: &mut Troubles) {
    for one in &pair.now.interfaces {
        let nid = &one.nid;
        if !one.is_up {
            all.push((Mark::Bad, format!("interface {nid} is down")));
        } else if one.health < HEALTH_BEST {
            all.push((Mark::Warn, format!("interface {nid} has health {}", one.health)));
        }
        if one.credits < 0 {
            let waiting = count(one.credits.unsigned_abs(), "message");
            all.push((Mark::Warn, format!("{waiting} waiting for a credit of interface {nid}")));
        }
    }
}

fn peers(pair: &Pair<'_>, all: &mut Troubles) {
    for one in &pair.now.peers {
        let nid = &one.nid;
        match one.health {
            HEALTH_BEST.. => {}
            0 => all.push((Mark::Bad, format!("peer {nid} has health 0: nothing arrives there"))),
            health => all.push((Mark::Warn, format!("peer {nid} has health {health}"))),
        }
        if one.credits < 0 {
            let waiting = count(one.waiting(), "message");
            all.push((Mark::Warn, format!("{waiting} waiting for a credit of peer {nid}")));
        }
    }
}

fn router(pair: &Pair<'_>, all: &mut Troubles) {
    for one in pair.now.routers.iter().filter(|one| !one.is_alive) {
        all.push((Mark::Bad, format!("gateway {} does not answer", one.nid)));
    }
    for one in pair.now.routes.iter().filter(|one| !one.is_up) {
        all.push((Mark::Bad, format!("the route to {} by {} is down", one.net, one.gateway)));
    }
    for one in pair.now.pools.iter().filter(|one| one.free < 0) {
        let waiting = count(one.free.unsigned_abs(), "message");
        all.push((Mark::Warn, format!("{waiting} waiting for a {} router buffer", one.name)));
    }
}

fn targets(pair: &Pair<'_>, all: &mut Troubles) {
    for one in &pair.now.targets {
        if let Some(error) = &one.error {
            all.push((Mark::Bad, format!("target {} is not served: {error}", one.name)));
        }
        if let Some(share) = free_share(one).filter(|share| *share < FREE_MIN) {
            all.push((Mark::Warn, format!("target {} has {} free", one.name, percent(share))));
        }
    }
    for one in &pair.now.connections {
        let mark = mark_of_connection(one);
        if mark != Mark::Plain {
            let (device, mount, state) = (&one.device, &one.mount, &one.state);
            all.push((mark, format!("mount {mount}: the connection to {device} is {state}")));
        }
    }
}

/// What has gone wrong between the samples.
fn messages(pair: &Pair<'_>, all: &mut Troubles) {
    let totals = |get: fn(&crate::Totals) -> u64| pair.of(|sample| get(&sample.totals));
    for (rate, what) in [
        (totals(|one| one.dropped), "messages are dropped"),
        (totals(|one| one.failed), "messages fail"),
        (totals(|one| one.resent), "messages are sent again"),
        (totals(|one| one.late_responses), "responses do not arrive in time"),
        (totals(|one| one.broken_connections), "connections break"),
        (totals(|one| one.refused_connections), "connections are refused"),
    ] {
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            all.push((Mark::Warn, format!("{what}: {}/s", significant(rate, 3))));
        }
    }
}
