//! Turns a plan into options of the simulator.
//!
//! ```text
//! hosts:  0 console, beside the first clients | the nodes of each group
//! ```

use std::ops::Range;

use fulmar_sim::Options;
use fulmar_sim::options::{Network, Rails, Selftest, Site, Trunk};

use super::plan::{Link, Plan, Port};
use crate::session::StudyError;

/// The most nodes of a plan.
const NODES_MAX: u32 = 10_000;
/// The most interfaces of a node.
const PORTS_MAX: usize = 8;

/// Returns the hosts of each group.
pub(super) fn hosts(plan: &Plan) -> Vec<Range<u32>> {
    let mut next = 1;
    let range = |count: u32| {
        let hosts = next..next + count;
        next = hosts.end;
        hosts
    };
    plan.groups.iter().map(|group| group.count).map(range).collect()
}

/// Returns the options of the run.
///
/// # Errors
/// If the plan has no load, refers to what it does not have, or is too large.
pub(super) fn options(plan: &Plan) -> Result<Options, StudyError> {
    check(plan).map_err(StudyError)?;
    if let Some(site) = cut_off(plan) {
        return Err(StudyError(format!(
            "no link leads from the site {} to the site {}: add one, or links by another site",
            plan.sites[0], plan.sites[site]
        )));
    }
    let hosts = hosts(plan);
    let count = hosts.last().map_or(1, |range| range.end);
    let rails = rails(plan, &hosts);
    let unreachable = |load: &&super::plan::Load| {
        let (from, to) = (hosts[load.from].start, hosts[load.to].start);
        !reaches(&rails, from, to) || !reaches(&rails, to, from)
    };
    if let Some(load) = plan.loads.iter().find(unreachable) {
        return Err(StudyError(format!(
            "{}: no network joins the two: give both a network, or add a router",
            plan.name_of(load)
        )));
    }
    let credits = &plan.credits;
    Ok(Options {
        seed: plan.seed,
        network: network(plan, &hosts),
        peer_credits: credits.peer_credits,
        credits: credits.credits,
        conns_per_peer: credits.conns_per_peer,
        zc_min_payload: credits.zc_min_payload,
        rails: Some(rails),
        selftest: Some(Selftest::default()),
        ..Options::plain(count)
    })
}

/// Returns a site that cannot be reached from the first one.
fn cut_off(plan: &Plan) -> Option<usize> {
    let mut reached = vec![false; plan.sites.len()];
    *reached.first_mut()? = true;
    for _ in &plan.links {
        for Link { between: (one, other), .. } in &plan.links {
            let either = reached[*one] || reached[*other];
            (reached[*one], reached[*other]) = (either, either);
        }
    }
    reached.iter().position(|reached| !reached)
}

fn check(plan: &Plan) -> Result<(), String> {
    let nodes = plan.groups.iter().fold(0_u32, |sum, group| sum.saturating_add(group.count));
    if nodes > NODES_MAX {
        return Err(format!(
            "{nodes} nodes are too many: lower the counts to {NODES_MAX} together"
        ));
    }
    if plan.loads.is_empty() {
        return Err("there is no load: give one".into());
    }
    let site = |site: usize| site < plan.sites.len();
    let is_whole = plan.links.iter().all(|link| site(link.between.0) && site(link.between.1))
        && plan.groups.iter().flat_map(|group| &group.ports).all(|port| site(port.site))
        && plan.loads.iter().all(|load| load.from.max(load.to) < plan.groups.len());
    if !is_whole {
        return Err("it refers to a site or to nodes that it does not have".into());
    }
    if let Some(group) = plan
        .groups
        .iter()
        .find(|group| group.count == 0 || group.ports.is_empty() || group.ports.len() > PORTS_MAX)
    {
        return Err(format!("{}: nodes need 1 to {PORTS_MAX} interfaces", group.name));
    }
    Ok(())
}

/// Returns the interfaces of the console: those of the first client.
fn of_console(plan: &Plan) -> &[Port] {
    &plan.groups[plan.loads[0].from].ports
}

fn rails(plan: &Plan, hosts: &[Range<u32>]) -> Rails {
    let nets = |ports: &[Port]| ports.iter().map(|port| port.net).collect::<Vec<u16>>();
    let of_group =
        |(group, hosts): (&super::plan::Group, &Range<u32>)| vec![nets(&group.ports); hosts.len()];
    let mut interfaces = vec![nets(of_console(plan))];
    interfaces.extend(plan.groups.iter().zip(hosts).flat_map(of_group));
    let routers = plan.groups.iter().zip(hosts).filter(|(group, _)| group.router);
    let routers: Vec<u32> = routers.flat_map(|(_, hosts)| hosts.clone()).collect();
    let mut rails = Rails::new(interfaces, &routers);
    rails.routing.buffers = plan.buffers;
    rails.routing.peer_buffer_credits = plan.peer_buffer_credits;
    rails
}

/// Returns whether a host is on a network of another, or has a route to one.
fn reaches(rails: &Rails, from: u32, to: u32) -> bool {
    let own = |host: u32| &rails.interfaces[host as usize];
    let routes = || rails.routes.iter().filter(|(host, _)| host.0 == from);
    own(to)
        .iter()
        .any(|net| own(from).contains(net) || routes().any(|(_, route)| route.net.number() == *net))
}

fn network(plan: &Plan, hosts: &[Range<u32>]) -> Network {
    let mut sites: Vec<Site> = plan.sites.iter().map(|_| Site { ports: Vec::new() }).collect();
    let mut plug = |ports: &[Port], hosts: Range<u32>| {
        for (index, port) in ports.iter().enumerate() {
            let site = std::mem::replace(&mut sites[port.site], Site { ports: Vec::new() });
            sites[port.site] = site.and(hosts.clone(), index as u8, port.cable.clone());
        }
    };
    plug(of_console(plan), 0..1);
    for (group, hosts) in plan.groups.iter().zip(hosts) {
        plug(&group.ports, hosts.clone());
    }
    let trunks = plan.links.iter();
    let trunks = trunks.map(|link| Trunk { between: link.between, line: link.line.clone() });
    let network = Network::sites(sites, trunks.collect());
    Network { tcp: plan.tcp.clone(), ..network }
}
