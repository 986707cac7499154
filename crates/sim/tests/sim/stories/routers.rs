//! Scenarios with routers between networks.

use std::time::Duration;

use super::common::{cluster, cluster_of, end, faulty, pass, port, put_acked, until};
use fulmar_lnet::views::{Route, RoutingState};
use fulmar_lnet::{Forwarding, RouterBuffers};
use fulmar_lnet_wire::MTU;
use fulmar_sim::options::{Rails, Tcp};
use fulmar_sim::{Cluster, HostId, Options};

const A: HostId = HostId(0);
const B: HostId = HostId(1);
/// The router between both networks.
const R: HostId = HostId(2);
const S: HostId = HostId(3);

/// Returns two networks with one node each, and this number of routers between them.
fn between(routers: u32) -> Rails {
    let mut interfaces = vec![vec![0], vec![1]];
    interfaces.extend(vec![vec![0, 1]; routers as usize]);
    let all: Vec<u32> = (2..2 + routers).collect();
    Rails::new(interfaces, &all)
}

fn routes(cluster: &Cluster, host: HostId) -> Vec<Route> {
    cluster.world.node(host).expect("the node is up").lnet().routes()
}

fn is_up(cluster: &Cluster, host: HostId) -> bool {
    routes(cluster, host).iter().any(|route| route.up)
}

/// Returns the number of messages that a router has forwarded.
fn forwarded(cluster: &Cluster, host: HostId) -> u64 {
    cluster.world.node(host).expect("the node is up").lnet().stats().route_count
}

fn pools(cluster: &Cluster, host: HostId) -> [(i64, i64); 3] {
    let routing = cluster.world.node(host).expect("the node is up").lnet().routing();
    routing.pools.map(|pool| (pool.credits, pool.credits_min))
}

#[test]
fn every_length_passes_a_router_in_a_buffer_of_its_class() {
    // The checkers compare headers and data with those that were sent.
    for (len, class) in [(1, 1), (4096, 1), (4097, 2), (MTU - 1, 2), (MTU, 2)] {
        let mut rails = between(1);
        rails.routing.buffers = RouterBuffers { tiny: 4, small: 4, large: 4 };
        let mut cluster = cluster(rails);
        put_acked(&mut cluster, (A, B), 0);
        let large_before = pools(&cluster, R)[2].1;
        assert_eq!(large_before, 4, "no large buffer was used");
        put_acked(&mut cluster, (A, B), len);
        put_acked(&mut cluster, (B, A), len);
        let used_large = pools(&cluster, R)[2].1 < 4;
        assert_eq!(used_large, class == 2, "{len} bytes");
        assert!(pools(&cluster, R)[0].1 < 4, "ACKs are tiny");
        end(cluster);
    }
}

#[test]
fn a_message_that_waits_for_a_large_buffer_blocks_no_others() {
    const SLOW: HostId = B;
    const OTHER: HostId = HostId(3);
    const SECOND: HostId = HostId(4);
    let mut rails = Rails::new(vec![vec![0], vec![1], vec![0, 1], vec![1], vec![0]], &[2]);
    rails.routing.buffers = RouterBuffers { tiny: 8, small: 8, large: 1 };
    let mut options = faulty(rails);
    options.network.tcp = Tcp::default().with_buffers(32 << 10);
    let mut cluster = cluster_of(&options);
    for (from, to) in [(A, SLOW), (SECOND, OTHER)] {
        put_acked(&mut cluster, (from, to), 1);
    }
    cluster.world.pause(SLOW, Duration::from_secs(10));
    let large = [(); 2].map(|()| cluster.put((A, SLOW), Some(MTU)).unwrap());
    pass(&mut cluster, 1);
    assert_eq!(pools(&cluster, R)[2], (-1, -1), "one has the buffer and one waits");
    for _ in 0..4 {
        put_acked(&mut cluster, (SECOND, OTHER), 4096);
    }
    assert_eq!(pools(&cluster, R)[2], (-1, -1), "the small messages passed");
    until(&mut cluster, "all drain", |c| {
        large.iter().all(|put| c.ledger.operations[*put].seen.response_ok)
    });
    pass(&mut cluster, 1);
    assert_eq!(pools(&cluster, R)[2], (1, -1), "the credit is back");
    end(cluster);
}

#[test]
fn a_route_is_down_while_its_router_does_not_forward() {
    let mut cluster = cluster_of(&faulty(between(1)));
    put_acked(&mut cluster, (A, B), 1);
    assert_eq!(cluster.world.set_forwarding(R, Forwarding::Disable), Some(Ok(())));
    pass(&mut cluster, 70);
    assert!(!is_up(&cluster, A) && !is_up(&cluster, B), "both learned it from their pings");
    let put = cluster.put((A, B), Some(1)).unwrap();
    until(&mut cluster, "it fails", |c| c.ledger.operations[put].seen.sends == 1);
    assert!(!cluster.ledger.operations[put].seen.send_ok, "there is no route");
    until(&mut cluster, "it stops", |c| {
        c.world.node(R).unwrap().lnet().routing().state == RoutingState::Disabled
    });
    assert_eq!(cluster.world.set_forwarding(R, Forwarding::Enable), Some(Ok(())));
    until(&mut cluster, "the routes are up", |c| is_up(c, A) && is_up(c, B));
    put_acked(&mut cluster, (A, B), 1);
    end(cluster);
}

#[test]
fn a_route_is_down_until_its_crashed_router_answers() {
    let mut cluster = cluster_of(&faulty(between(1)));
    put_acked(&mut cluster, (A, B), 1);
    cluster.crash(R, true).unwrap();
    pass(&mut cluster, 60 + 150 + 1);
    assert!(!is_up(&cluster, A), "it has not answered");
    cluster.restart(R);
    let started = cluster.world.now();
    let up = until(&mut cluster, "the route is up", |c| is_up(c, A));
    assert!(up.since(started) <= Duration::from_secs(61 + 60), "one good ping is enough");
    end(cluster);
}

#[test]
fn a_route_is_down_while_the_routers_remote_interface_is() {
    let mut cluster = cluster_of(&faulty(between(1)));
    put_acked(&mut cluster, (A, B), 1);
    cluster.world.cut_link(port(R, 1), true);
    until(&mut cluster, "A learns of it", |c| !is_up(c, A));
    cluster.world.restore_link(port(R, 1));
    until(&mut cluster, "A learns that it is up", |c| is_up(c, A));
    end(cluster);
}

#[test]
fn priority_precedes_hops_and_hops_precede_round_robin() {
    let used = |change: fn(&mut Rails)| {
        let mut rails = between(2);
        change(&mut rails);
        let mut cluster = cluster(rails);
        for _ in 0..20 {
            put_acked(&mut cluster, (A, B), 1);
        }
        let own = routes(&cluster, A);
        end(cluster);
        let by = |host: u32| {
            let index = own.iter().position(|route| {
                route
                    .gateway
                    .ip()
                    .is_some_and(|ip| ip.to_string() == format!("10.0.0.{}", host + 1))
            });
            own[index.expect("there is a route")].messages
        };
        (by(2), by(3))
    };
    let (one, other) = used(|_| {});
    assert!(one >= 8 && other >= 8, "equal routes take turns: {one} and {other}");
    let (one, other) = used(|rails| {
        for (_, route) in &mut rails.routes[..1] {
            route.hops = Some(3);
        }
    });
    assert!(one <= 4 && other >= 20, "fewer hops are better: {one} and {other}");
    let (one, other) = used(|rails| {
        (rails.routes[0].1.hops, rails.routes[1].1.priority) = (Some(3), 1);
    });
    assert!(one >= 20 && other <= 4, "priority counts first: {one} and {other}");
}

#[test]
fn a_chain_of_routers_forwards_in_both_directions() {
    const END: HostId = HostId(3);
    let rails = Rails::new(vec![vec![0], vec![0, 1], vec![1, 2], vec![2]], &[1, 2]);
    let mut cluster = cluster(rails);
    for len in [0, 1, 4096, 4097, MTU] {
        put_acked(&mut cluster, (A, END), len);
        put_acked(&mut cluster, (END, A), len);
    }
    end(cluster);
}

#[test]
fn a_drained_router_leaves_without_an_error() {
    let mut cluster = cluster(between(2));
    put_acked(&mut cluster, (A, B), 1);
    put_acked(&mut cluster, (B, A), 1);
    pass(&mut cluster, 1);
    let load = |cluster: &mut Cluster| {
        for _ in 0..40 {
            cluster.put((A, B), Some(MTU)).unwrap();
            cluster.put((B, A), Some(4096)).unwrap();
        }
    };
    load(&mut cluster);
    assert_eq!(cluster.world.set_forwarding(R, Forwarding::Drain), Some(Ok(())));
    load(&mut cluster);
    until(&mut cluster, "it is drained", |c| {
        c.world.node(R).unwrap().lnet().routing().state == RoutingState::Disabled
    });
    let before = forwarded(&cluster, R);
    load(&mut cluster);
    pass(&mut cluster, 5);
    assert_eq!(forwarded(&cluster, R), before, "it forwards nothing any more");
    end(cluster);
}

#[test]
fn when_one_of_two_routers_crashes_the_other_takes_over() {
    let mut cluster = cluster_of(&faulty(between(2)));
    put_acked(&mut cluster, (A, B), 1);
    put_acked(&mut cluster, (B, A), 1);
    for _ in 0..20 {
        cluster.put((A, B), Some(MTU)).unwrap();
    }
    cluster.crash(R, false).unwrap();
    pass(&mut cluster, 5);
    let before = forwarded(&cluster, S);
    for _ in 0..20 {
        put_acked(&mut cluster, (A, B), 4096);
        put_acked(&mut cluster, (B, A), 4096);
    }
    assert!(forwarded(&cluster, S) >= before + 80, "requests and responses");
    end(cluster);
}

#[test]
fn many_senders_to_a_paused_node_use_only_the_pools() {
    const SENDERS: u32 = 10;
    let mut interfaces = vec![vec![1], vec![0, 1]];
    interfaces.extend(vec![vec![0]; SENDERS as usize]);
    let (paused, router) = (HostId(0), HostId(1));
    let mut rails = Rails::new(interfaces, &[1]);
    rails.routing.buffers = RouterBuffers { tiny: 64, small: 64, large: 16 };
    let mut options = Options { ..faulty(rails) };
    options.network.tcp = Tcp::default().with_buffers(32 << 10);
    let mut cluster = cluster_of(&options);
    for sender in (2..2 + SENDERS).map(HostId) {
        put_acked(&mut cluster, (sender, paused), 0);
    }
    cluster.world.pause(paused, Duration::from_secs(20));
    let mut puts = Vec::new();
    for sender in (2..2 + SENDERS).map(HostId) {
        puts.extend((0..4).map(|_| cluster.put((sender, paused), Some(MTU)).unwrap()));
    }
    pass(&mut cluster, 10);
    let [_, large] = cluster.world.router_buffers(router);
    assert_eq!(large, 8, "a paused node gets half of a pool");
    assert!(pools(&cluster, router)[2].0 < 0, "the rest waits outside");
    until(&mut cluster, "all arrive", |c| {
        puts.iter().all(|put| c.ledger.operations[*put].seen.response_ok)
    });
    end(cluster);
}
