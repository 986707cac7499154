//! What the closed-form model of `tune` says of a plan.

use std::time::Duration;

use fulmar_sim::options::Control;
use fulmar_tune::model::{self, Hold, Load, Nic, Prediction, Routers, Settings, Sharing};

use super::plan::{Group, Link, Plan, Port, Work};
use crate::scenario::Credits;

/// Returns the prediction of the closed-form model, if it covers the plan: one bulk load between
/// two sites with direct links, with routers at no end, at one or at both.
pub fn closed(plan: &Plan) -> Option<Prediction> {
    let [load] = &plan.loads[..] else { return None };
    let Work::Bulk(direction, size) = load.work else { return None };
    let (clients, servers) = (&plan.groups[load.from], &plan.groups[load.to]);
    let ([near], [far]) = (&clients.ports[..], &servers.ports[..]) else { return None };
    let links: Vec<&Link> = plan.links.iter().filter(|link| joins(link, near, far)).collect();
    let delay = links.iter().map(|link| link.line.delay).min()?;
    let rtt = 2 * (near.cable.delay + delay + far.cable.delay);
    let bits = links.iter().map(|link| link.line.rate_mbps * 1_000_000).sum();
    let path = model::Path::of_line(bits, plan.tcp.mtu, rtt);
    let load = Load {
        clients: clients.count,
        servers: servers.count.min(clients.count),
        pairs: clients.count,
        concurrency: load.concurrency,
        rpc_bytes: size.into(),
        message_bytes: size.into(),
        direction,
        kind: model::Kind::Selftest,
    };
    let nic_mbps = near.cable.rate_mbps.min(far.cable.rate_mbps);
    let settings = Settings {
        peer_credits: plan.credits.peer_credits,
        credits: plan.credits.credits,
        socket_buffer: window(plan, &links, rtt),
        bulk_connections: plan.credits.conns_per_peer,
        hold: hold(&plan.credits, size),
        cache: None,
        nic: Some(Nic { rate: payload(plan, nic_mbps) }),
        routers: routers(plan, near, far)?,
    };
    Some(model::predict(&path, &load, &settings))
}

fn joins(link: &Link, near: &Port, far: &Port) -> bool {
    let (one, other) = link.between;
    (one, other) == (near.site, far.site) || (other, one) == (near.site, far.site)
}

fn payload(plan: &Plan, mbps: u64) -> u64 {
    model::payload_rate(mbps * 1_000_000, plan.tcp.mtu)
}

/// Returns the most bytes in flight of a connection.
fn window(plan: &Plan, links: &[&Link], rtt: Duration) -> u64 {
    let tcp = &plan.tcp;
    let loss = links.iter().map(|link| f64::from(link.line.loss_ppb) / 1e9).fold(0.0, f64::max);
    let congestion = match tcp.congestion {
        Control::Bbr => u64::MAX,
        Control::Cubic | Control::Reno => {
            model::cubic_window(model::segment_bytes(tcp.mtu), rtt, loss)
        }
    };
    tcp.read_buffer.min(tcp.write_buffer).min(congestion)
}

fn hold(credits: &Credits, size: u32) -> Hold {
    match credits.zc_min_payload {
        Some(least) if size >= least => Hold::RoundTrip,
        _ => Hold::Written,
    }
}

/// Returns the routers of the ends; `None` if they are not as the model assumes.
fn routers(plan: &Plan, near: &Port, far: &Port) -> Option<Option<Routers>> {
    let all = || plan.groups.iter().filter(|group| group.router);
    if all().next().is_none() {
        return Some(None);
    }
    let is_at = |group: &Group, end: &Port| group.ports.iter().all(|port| port.site == end.site);
    let at = |end: &Port| all().filter(|group| is_at(group, end)).collect::<Vec<_>>();
    let (at_clients, at_servers) = (at(near), at(far));
    if at_clients.len().max(at_servers.len()) > 1
        || at_clients.len() + at_servers.len() != all().count()
    {
        return None;
    }
    let number = |groups: &[&Group]| groups.iter().map(|group| group.count).sum();
    let rate = all().flat_map(|group| &group.ports).map(|port| port.cable.rate_mbps).min()?;
    Some(Some(Routers {
        at_clients: number(&at_clients),
        at_servers: number(&at_servers),
        rate: payload(plan, rate),
        router_credits: match plan.peer_buffer_credits {
            0 => plan.credits.peer_credits,
            credits => credits,
        },
        large_buffers: plan.buffers.large,
        sharing: Sharing::ByTarget,
    }))
}
