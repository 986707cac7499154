//! Networks with routers between them. Spec: lnet-behaviour §17, 19 to 24.

use fulmar_base::Errno;
use fulmar_lnet::views::RoutingState;
use fulmar_lnet::{EventKind, Forwarding, MdOptions, Put, RouteConfig, RouterBuffers};
use fulmar_lnet_wire::{MTU, Nid};

use super::common::{Member, Plan, ROOM, World, net, nid, until};

const BITS: u64 = 77;

/// Returns a router at both switches, with these buffers.
fn router(buffers: RouterBuffers) -> Plan {
    Plan::at(&[0, 1]).with(|options| {
        options.config.lnet.routing.forwarding = true;
        options.config.lnet.routing.buffers = buffers;
    })
}

fn few() -> RouterBuffers {
    RouterBuffers { tiny: 8, small: 8, large: 8 }
}

/// Tells the witness to expect failures. Gateways are pinged every second, and are dead if they do
/// not answer for four.
fn troubled(plan: Plan) -> Plan {
    plan.troubled().with(|options| {
        options.config.lnet.routing.alive_router_check_interval = 1;
        options.config.lnet.routing.router_ping_timeout = 3;
    })
}

/// Returns a node at a switch, which reaches the other by the routers of these numbers.
fn end(switch: usize, routers: &[usize]) -> Plan {
    let plan = Plan::at(&[switch]);
    let routed = |plan: Plan, number: &usize| plan.route(1 - switch, nid(switch, 0, *number));
    routers.iter().fold(plan, routed)
}

/// A, B and a router.
fn row(buffers: RouterBuffers) -> Option<World> {
    World::new(&[end(0, &[2]), end(1, &[2]), router(buffers)])
}

fn troubled_row() -> Option<World> {
    World::new(&[end(0, &[2]), end(1, &[2]), router(few())].map(troubled))
}

fn is_up(member: &Member) -> bool {
    member.look(|lnet| lnet.routes().iter().any(|route| route.up))
}

/// Returns the free router buffers of each class, now and at the minimum.
fn pools(member: &Member) -> [(i64, i64); 3] {
    member.look(|lnet| lnet.routing().pools.map(|pool| (pool.credits, pool.credits_min)))
}

fn no_route(a: &Member, b: &Member) {
    let begun = a.put(b.nids[0], BITS, 1);
    assert_eq!(begun.events.wait_for_end(EventKind::Send).1, Err(Errno::EHOSTUNREACH));
}

#[test]
fn every_length_passes_a_router_in_a_buffer_of_its_class() {
    let Some(world) = row(few()) else { return };
    let [a, b, router] = &world.members[..] else { unreachable!("three nodes") };
    // The witness of the router compares headers, and the ends compare payload.
    for len in [0, 1, 4096] {
        a.put_well(b, len);
        b.put_well(a, len);
        b.get_well(a, len);
    }
    assert!(pools(router)[0].1 < 8 && pools(router)[1].1 < 8, "{:?}", pools(router));
    assert_eq!(pools(router)[2], (8, 8), "no message was large");
    let small = pools(router)[1].1;
    for len in [4097, MTU as usize - 1, MTU as usize] {
        a.put_well(b, len);
        b.put_well(a, len);
        b.get_well(a, len);
    }
    assert!(pools(router)[2].1 < 8, "{:?}", pools(router));
    assert_eq!(pools(router)[1].1, small, "no message was small");
    world.end();
}

#[test]
fn a_message_that_waits_for_the_only_large_buffer_does_not_block_others() {
    // The router keeps a buffer until the receiver has all of it.
    let one = router(RouterBuffers { tiny: 8, small: 8, large: 1 }).acknowledged();
    let plans = [end(0, &[2]), end(1, &[2]), one, end(1, &[2]), end(0, &[2])];
    let Some(world) = World::new(&plans) else { return };
    let [a, slow, router, other, second] = &world.members[..] else { unreachable!("five nodes") };
    a.put_well(slow, 1);
    second.put_well(other, 1);
    slow.set_lazy();
    let large = [(); 3].map(|()| a.put(slow.nids[0], BITS, MTU as usize));
    until("one has the buffer and others wait", || pools(router)[2].0 < 0);
    let stalled = pools(router)[2];
    for _ in 0..4 {
        second.put_well(other, 4096);
    }
    assert!(pools(router)[2].0 < 0, "small messages were not blocked: {:?}", pools(router));
    let taker = slow.offer(BITS, MTU as usize, |made| {
        made.options(MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE))
    });
    for begun in &large {
        assert_eq!(taker.events.wait(EventKind::Put).header_data, begun.header_data);
        begun.events.wait(EventKind::Ack);
    }
    until("the credit is back", || pools(router)[2].0 == 1);
    assert!(pools(router)[2].1 <= stalled.0, "the minimum is recorded");
    world.end();
}

#[test]
fn an_answer_goes_back_by_the_router_of_its_request() {
    // A has no route by the second router, and accepts what it brings.
    let accepts = |plan: Plan| plan.with(|node| node.config.lnet.globals.drop_asym_route = false);
    let plans = [accepts(end(0, &[2])), end(1, &[2, 3]), router(few()), router(few())];
    let Some(world) = World::new(&plans) else { return };
    let [a, b, first, second] = &world.members[..] else { unreachable!("four nodes") };
    for _ in 0..10 {
        a.put_well(b, 64);
        a.get_well(b, 64);
    }
    // Requests of B to A may take either path, so only pings of routers use the second.
    let forwarded = [first, second].map(|router| router.stats().route_count);
    assert!(forwarded[0] >= 40 && forwarded[1] < 10, "{forwarded:?}");
    world.end();
}

#[test]
fn a_router_that_does_not_forward_is_not_used_until_it_does() {
    let Some(world) = troubled_row() else { return };
    let [a, b, router] = &world.members[..] else { unreachable!("three nodes") };
    a.put_well(b, 1);
    router.change(|admin| admin.set_forwarding(Forwarding::Disable));
    until("both are notified", || !is_up(a) && !is_up(b));
    no_route(a, b);
    let state = || router.look(|lnet| lnet.routing().state);
    until("it has stopped", || state() == RoutingState::Disabled);
    router.change(|admin| admin.set_forwarding(Forwarding::Enable));
    until("it forwards again", || state() == RoutingState::Enabled);
    until("the routes are up", || is_up(a) && is_up(b));
    a.put_well(b, 1);
    world.end();
}

#[test]
fn a_route_is_down_while_the_remote_side_of_its_router_is() {
    let Some(world) = troubled_row() else { return };
    let [a, b, router] = &world.members[..] else { unreachable!("three nodes") };
    a.put_well(b, 1);
    router.resident.host().set_link("eth1", false).unwrap();
    until("A is notified", || !is_up(a));
    no_route(a, b);
    router.resident.host().set_link("eth1", true).unwrap();
    until("A is notified again", || is_up(a) && is_up(b));
    a.put_well(b, 1);
    world.end();
}

#[test]
fn a_route_whose_router_does_not_answer_is_down_until_it_does() {
    let Some(world) = troubled_row() else { return };
    let [a, b, router] = &world.members[..] else { unreachable!("three nodes") };
    a.put_well(b, 1);
    world.switches[0].set_silent(router.resident.host(), "eth0", true).unwrap();
    until("it is considered dead", || !is_up(a));
    no_route(a, b);
    world.switches[0].set_silent(router.resident.host(), "eth0", false).unwrap();
    until("one successful ping suffices", || is_up(a));
    until("B uses it too", || is_up(b));
    a.put_well(b, 1);
    world.end();
}

#[test]
fn routes_are_chosen_by_priority_then_hops_then_health_then_in_turn() {
    let plans = [end(0, &[]), end(1, &[2, 3]), router(few()), router(few())];
    let Some(world) = World::new(&plans) else { return };
    let [a, b, ..] = &world.members[..] else { unreachable!("four nodes") };
    let gateways = [nid(0, 0, 2), nid(0, 0, 3)];
    let used = |hops: [u32; 2], priority: [u32; 2], health: [u32; 2]| {
        for index in [0, 1] {
            let (net, gateway, hops) = (net(1), gateways[index], Some(hops[index]));
            let route =
                RouteConfig { hops, priority: priority[index], ..RouteConfig::new(net, gateway) };
            a.change(|admin| admin.route_add(route));
        }
        until("both are up", || a.look(|lnet| lnet.routes().iter().all(|route| route.up)));
        let known = gateways.map(|nid| a.known(nid).contains(&nid));
        assert_eq!(known, [true; 2]);
        let chosen: Vec<usize> = (0..10).map(|_| gateway_chosen(a, b, gateways, health)).collect();
        for gateway in gateways {
            a.change(|admin| admin.route_del(Some(net(1)), Some(gateway)));
        }
        [0, 1].map(|index| chosen.iter().filter(|one| **one == index).count())
    };
    let well = [1000, 1000];
    let turns = used([1, 1], [0, 0], well);
    assert!(turns.iter().all(|count| *count >= 3), "equals take turns: {turns:?}");
    assert_eq!(used([1, 1], [0, 0], [500, 1000])[0], 0, "health beats turns");
    assert_eq!(used([2, 1], [0, 0], [1000, 500])[0], 0, "hops beat health");
    assert_eq!(used([2, 1], [0, 1], well)[1], 0, "priority beats hops");
    world.end();
}

/// PUTs from `a` to `b` while the gateways have the given health, and returns which one is chosen.
fn gateway_chosen(a: &Member, b: &Member, gateways: [Nid; 2], health: [u32; 2]) -> usize {
    let messages = || {
        let routes = a.look(|lnet| lnet.routes());
        gateways.map(|nid| routes.iter().find(|one| one.gateway == nid).unwrap().messages)
    };
    // Any message from an unhealthy gateway, such as the answer to a ping, raises its health. The
    // PUT wants no ACK, so that it has no part in that.
    for _ in 0..100 {
        for (nid, value) in gateways.into_iter().zip(health) {
            a.change(|admin| admin.set_peer_ni_health(Some(nid), value));
        }
        let before = messages();
        let begun = a.put_like(b.nids[0], ROOM, 1, |put| Put { ack: false, ..put });
        begun.events.wait(EventKind::Send);
        assert_eq!(b.room.events.wait(EventKind::Put).header_data, begun.header_data);
        a.unlink(&begun);
        let after = messages();
        if gateways.map(|nid| a.peer_ni(nid).health.value) == health {
            return (0..2).find(|index| after[*index] > before[*index]).expect("by a gateway");
        }
    }
    panic!("the health of the gateways never stays at {health:?}");
}
