use std::time::Duration;

use fulmar_base::{Errno, MessageId};
use fulmar_lnet_wire::Nid;

use super::*;

const PEER: PeerId = PeerId(1 << 24);
const OTHER: PeerId = PeerId(2 << 24 | 1);

fn net(n: u32) -> Net {
    Net(Net::TCP.0 + n)
}

fn nid(n: u32) -> Nid {
    Nid::small(Net::TCP, n)
}

fn route(hops: Option<u32>) -> RouteConfig {
    RouteConfig { hops, ..RouteConfig::new(net(1), nid(9)) }
}

fn routing() -> Routing {
    Routing::new(RoutingConfig::default())
}

fn due(routing: &mut Routing, seconds: u64) -> Option<Timer> {
    routing.pop_due(Time::from_secs(seconds))
}

#[test]
fn gateways_are_those_of_routes_and_are_checked_in_turn_over_all_networks() {
    let mut routing = routing();
    assert_eq!(routing.settle_gateways(&[PEER, PEER, OTHER]), [PEER, OTHER]);
    assert_eq!((routing.gateway(PEER), routing.gateway(OTHER)), (Some((2, true)), Some((1, true))));
    assert_eq!(routing.settle_gateways(&[PEER]), []);
    assert!(!routing.is_gateway(OTHER));
    let shared = [net(0), net(3)];
    assert_eq!(routing.check_net(PEER, &shared), Some(net(0)));
    assert!(routing.begin_check(Time::ZERO, PEER) && !routing.begin_check(Time::ZERO, OTHER));
    assert_eq!(routing.check_net(PEER, &shared), Some(net(3)));
    assert_eq!(routing.check_net(PEER, &[]), None);
    assert_eq!(
        (due(&mut routing, 59), due(&mut routing, 60)),
        (None, Some(Timer::CheckGateway(PEER)))
    );
}

#[test]
fn a_gateway_that_turns_out_to_be_another_peer_takes_its_check_along() {
    let mut routing = routing();
    routing.settle_gateways(&[PEER]);
    routing.begin_check(Time::ZERO, PEER);
    assert!(routing.move_gateway(PEER, OTHER) && !routing.move_gateway(PEER, OTHER));
    assert_eq!(routing.gateway(OTHER), Some((1, true)));
    assert_eq!(due(&mut routing, 60), Some(Timer::CheckGateway(OTHER)));
    routing.begin_check(Time::ZERO, OTHER);
    assert!(routing.forget_gateway(OTHER) && !routing.forget_gateway(OTHER));
    assert_eq!(routing.poll_timeout(), None);
}

#[test]
fn a_route_is_used_while_its_gateway_answers_forwards_and_has_the_network() {
    let mut routing = routing();
    let (near, far) = (route(Some(1)), route(Some(2)));
    let usable = |routing: &Routing| (routing.may_use(&near, PEER), routing.may_use(&far, PEER));
    assert_eq!(usable(&routing), (false, false));
    routing.settle_gateways(&[PEER]);
    assert_eq!(usable(&routing), (true, true), "nothing speaks against it yet");
    routing.describe(PEER, false, vec![(net(0), true)]);
    assert_eq!(usable(&routing), (false, true));
    routing.describe(PEER, false, vec![(net(1), false)]);
    assert_eq!(usable(&routing), (false, false));
    routing.describe(PEER, false, vec![(net(1), true)]);
    assert_eq!((usable(&routing), routing.gateway_has(PEER, net(1))), ((true, true), Some(true)));
    assert!(routing.set_alive(PEER, false) && !routing.set_alive(PEER, false));
    assert_eq!(usable(&routing), (false, false));
    assert!(routing.set_alive(PEER, true));
    routing.describe(PEER, true, vec![(net(1), true)]);
    assert_eq!(usable(&routing), (false, false));
}

#[test]
fn forwarding_is_switched_on_and_off_in_steps() {
    let mut routing = routing();
    let step = routing.switch(Time::ZERO, Forwarding::Enable).unwrap().unwrap();
    let enabled = Step { state: RoutingState::Enabled, opened: true, advertised: true, push: true };
    assert_eq!(step, enabled);
    assert_eq!(routing.switch(Time::ZERO, Forwarding::Enable), Ok(None));
    assert_eq!(routing.forwarding_due(Time::from_secs(110)), None);
    let step = routing.switch(Time::from_secs(200), Forwarding::Disable).unwrap().unwrap();
    assert_eq!((step.state, step.opened, step.advertised), (RoutingState::Stopping, false, true));
    assert_eq!(routing.switch(Time::from_secs(200), Forwarding::Enable), Err(Errno::EBUSY));
    assert!(routing.forwards());
    let step = routing.forwarding_due(Time::from_secs(310)).unwrap();
    assert_eq!((step.state, routing.forwards()), (RoutingState::Disabled, false));
    assert_eq!(routing.forwarding_due(Time::from_secs(311)), None);
}

#[test]
fn a_router_that_drains_waits_for_what_it_holds() {
    let mut routing = Routing::new(RoutingConfig { forwarding: true, ..RoutingConfig::default() });
    assert_eq!(routing.start(Time::ZERO).unwrap().state, RoutingState::Enabled);
    let class = Routing::class(4096);
    assert!(routing.take_buffer(class, MessageId(1), nid(2)));
    let buffer = routing.buffer(class).unwrap();
    assert!(buffer.is_new && buffer.len == 4096);
    let step = routing.switch(Time::from_secs(1), Forwarding::Drain).unwrap().unwrap();
    assert!(step.push && step.state == RoutingState::Draining);
    assert_eq!(routing.forwarding_due(Time::from_secs(9)), None);
    assert_eq!(routing.check_buffers([(0, 0), (1, 0), (0, 0)]), Ok(()));
    assert_eq!(routing.keep_buffer(class, buffer.id), []);
    assert_eq!(routing.give_back_buffer(class, nid(2)), []);
    assert_eq!(routing.forwarding_due(Time::from_secs(10)).unwrap().state, RoutingState::Disabled);
    assert_eq!(routing.free_buffers(), [buffer.id]);
}

#[test]
fn more_buffers_wake_those_that_wait() {
    let buffers = RouterBuffers { tiny: 1, small: 1, large: 1 };
    let config = RoutingConfig { forwarding: true, buffers, ..RoutingConfig::default() };
    let mut routing = Routing::new(config);
    routing.start(Time::ZERO);
    assert!(routing.take_buffer(0, MessageId(1), nid(2)));
    assert!(!routing.take_buffer(0, MessageId(2), nid(3)));
    assert_eq!(routing.set_buffers(RouterBuffers { tiny: 0, ..buffers }), Err(Errno::EINVAL));
    let more = RouterBuffers { tiny: 4, ..buffers };
    assert_eq!(routing.set_buffers(more), Ok(vec![MessageId(2)]));
}

#[test]
fn silence_is_watched_while_gateways_are_checked() {
    let mut routing = routing();
    assert_eq!(routing.silence_due(Time::ZERO), Some(Duration::from_secs(110)));
    routing.config.alive_router_check_interval = 0;
    assert_eq!(routing.silence_due(Time::ZERO), None);
    assert_eq!(due(&mut routing, 1), Some(Timer::Silence));
}
