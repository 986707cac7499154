//! The output for routers and their users.

use fulmar_base::Time;
use fulmar_lnet::views::{Pool, Quantiles, RoutingState, Transit};

use super::*;

pub(super) fn route() -> Route {
    Route {
        net: "tcp8".parse().unwrap(),
        gateway: "10.99.0.55@tcp".parse().unwrap(),
        hops: Some(1),
        priority: 2,
        health_sensitivity: None,
        up: true,
        single_hop: false,
        messages: 12,
        latency: Quantiles {
            samples: 10,
            p50_nsec: 1000,
            p90_nsec: 2000,
            p99_nsec: 3000,
            max_nsec: 4000,
        },
    }
}

fn router() -> Routing {
    let pool = |pages, buffers: u32, credits_min| Pool {
        pages,
        buffers,
        allocated: 3,
        credits: i64::from(buffers) - 2,
        credits_min,
    };
    let transit = Transit {
        from: "tcp".parse().unwrap(),
        to: "tcp1".parse().unwrap(),
        messages: 5,
        bytes: 4096,
        latency: route().latency,
    };
    Routing {
        state: RoutingState::Enabled,
        pools: [pool(0, 512, 510), pool(1, 4096, 4093), pool(256, 256, -3)],
        transits: vec![transit],
    }
}

#[test]
fn latencies_of_routes_are_shown_at_the_highest_verbosity() {
    let printed = |level| route_show(&[route()], level).to_yaml(Dialect::Netlink);
    assert_eq!(printed(0), "route:\n-     net: tcp8\n      gateway: 10.99.0.55@tcp\n");
    assert!(!printed(3).contains("latency"));
    let statistics = "      statistics:\n            send_count: 12\n            \
         latency_samples: 10\n            latency_p50_nsec: 1000\n            \
         latency_p90_nsec: 2000\n            latency_p99_nsec: 3000\n            \
         latency_max_nsec: 4000\n";
    assert_eq!(printed(4), format!("{}{statistics}", printed(1)));
    let down = Route { up: false, hops: None, single_hop: true, ..route() };
    assert_eq!(
        route_show(&[down], 1).to_yaml(Dialect::Cyaml),
        "route:\n    - net: tcp8\n      gateway: 10.99.0.55@tcp\n      hop: -1\n      \
         priority: 2\n      state: down\n      type: single-hop\n"
    );
}

#[test]
fn the_pools_of_a_router_have_the_format_of_the_tools() {
    let pool = |name: &str, pages, buffers: u32, min| {
        format!(
            "          {name}:\n              npages: {pages}\n              nbuffers: {buffers}\n              \
             credits: {}\n              mincredits: {min}\n",
            buffers - 2
        )
    };
    let wanted = format!(
        "routing:\n    - cpt[0]:\n{}{}{}    - enable: 1\nbuffers:\n    tiny: 512\n    small: 4096\n    \
         large: 256\n",
        pool("tiny", 0, 512, 510),
        pool("small", 1, 4096, 4093),
        pool("large", 256, 256, -3),
    );
    for dialect in [Dialect::Netlink, Dialect::Cyaml] {
        assert_eq!(routing_show(&router(), 0).to_yaml(dialect), wanted);
    }
    let more = routing_show(&router(), 1).to_yaml(Dialect::Netlink);
    assert!(more.contains("    - enable: 1\n      state: enabled\n"), "{more}");
    assert!(more.contains("              allocated: 3\n") && !more.contains("transits"), "{more}");
    let all = routing_show(&router(), 4).to_yaml(Dialect::Netlink);
    let transits = "transits:\n    - from: tcp\n      to: tcp1\n      route_count: 5\n      \
         route_length: 4096\n      latency_samples: 10\n";
    assert!(all.contains(transits), "{all}");
    assert_eq!(routing_show(&Routing::default(), 4).to_yaml(Dialect::Netlink), "");
    let off = Routing { state: RoutingState::Draining, ..router() };
    let off = routing_show(&off, 0).to_yaml(Dialect::Netlink);
    assert!(off.contains("    - enable: 0\n"), "{off}");
    assert_eq!(router().in_transit(), 6);
}

#[test]
fn tables_of_routes_have_the_columns_of_the_kernel() {
    assert_eq!(
        tables::routes(&router(), &[route(), Route { hops: None, up: false, ..route() }]),
        "Routing enabled\nnet      hops priority   state router\n\
         tcp8        1        2      up 10.99.0.55@tcp\n\
         tcp8       -1        2    down 10.99.0.55@tcp\n"
    );
    let gateway = Router { nid: route().gateway, refs: 4, routes: 1, alive: true };
    assert_eq!(
        tables::routers(&[gateway]),
        "ref  rtr_ref alive router\n4          1    up 10.99.0.55@tcp\n"
    );
    assert_eq!(
        tables::buffers(&router()),
        "pages count credits     min\n    0   512     510     510\n    1  4096    4094    4093\n  \
         256   256     254      -3\n"
    );
    assert_eq!(
        tables::route_lines(&[route()]),
        "net               tcp8 hops 1 gw                   10.99.0.55@tcp up pri 2\n"
    );
}

#[test]
fn an_export_restores_a_router() {
    let export = Export { routes: vec![route()], routing: router(), ..Export::default() };
    let conf = export.to_conf();
    assert_eq!((conf.routing, conf.routes.len()), (Some(true), 1));
    let text = backup(&conf).to_yaml(Dialect::Netlink);
    let wanted = "route:\n-     net: tcp8\n      gateway: 10.99.0.55@tcp\n      hop: 1\n      \
         priority: 2\nrouting:\n    enable: 1\nbuffers:\n    tiny: 512\n";
    assert!(text.starts_with(wanted), "{text}");
    let read = |text: &str| LnetConf::parse(&Source::new("lnet.conf", text)).unwrap();
    assert_eq!(read(&text), conf);
    // Information for people is ignored.
    let plain = export.report(Dialect::Netlink).to_yaml(Dialect::Netlink);
    assert!(plain.contains("      type: multi-hop\n") && plain.contains("mincredits: -3\n"));
    assert_eq!(read(&plain), conf);
    let shown = routing_show(&router(), 4).to_yaml(Dialect::Netlink);
    assert_eq!(read(&shown).buffers, conf.buffers);
    let shown = route_show(&[route()], 4).to_yaml(Dialect::Netlink);
    assert_eq!(read(&shown).routes, conf.routes);
}

#[test]
fn nids_in_recovery_are_numbered() {
    let nids = ["10.0.0.2@tcp".parse().unwrap(), "10.0.1.2@tcp".parse().unwrap()];
    assert_eq!(
        recovery(&nids, true, Dialect::Netlink).to_yaml(Dialect::Netlink),
        "Peer NI recovery:\n      nid-0: 10.0.0.2@tcp\n      nid-1: 10.0.1.2@tcp\n"
    );
    assert_eq!(
        recovery(&nids[..1], false, Dialect::Cyaml).to_yaml(Dialect::Cyaml),
        "local NI recovery:\n    nid-0: 10.0.0.2@tcp\n"
    );
    assert_eq!(recovery(&[], false, Dialect::Netlink).to_yaml(Dialect::Netlink), "");
}

#[test]
fn health_and_policies_of_a_peer_are_those_of_the_machine() {
    let health = Health {
        value: 700,
        dropped: 1,
        timeouts: 2,
        error: 3,
        network_timeout: 4,
        ping_count: 5,
        next_ping: Some(Time::from_secs(107)),
        ..Health::default()
    };
    let ni = PeerNi {
        health,
        alive: Some(false),
        priority: 0,
        preferred_nids: vec!["10.0.0.1@tcp".parse().unwrap()],
        ..peer_ni_view("10.0.0.2@tcp".parse().unwrap())
    };
    let peer =
        Peer { primary: ni.nid, multi_rail: true, state: 273, configured: false, nis: vec![ni] };
    let printed = peer_show(&[peer], 4, Dialect::Netlink).to_yaml(Dialect::Netlink);
    for part in [
        "            udsp info:\n                  net priority: -1\n                  \
         nid priority: 0\n                  Preferred source NIDs:\n                        \
         NID-0: 10.0.0.1@tcp\n            state: down\n",
        "            health stats:\n                  health value: 700\n                  \
         dropped: 1\n                  timeout: 2\n                  error: 3\n                  \
         network timeout: 4\n                  ping_count: 5\n                  next_ping: 107\n",
    ] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

#[test]
fn an_interface_out_of_use_is_marked() {
    let mut nets = nets(recorded(NODES[0], "lnetctl net show -v 4"));
    let ni = &mut nets[1].nis[0].view;
    (ni.up, ni.enabled) = (false, false);
    let printed = |level| net_show(&nets, level, Dialect::Netlink).to_yaml(Dialect::Netlink);
    assert!(printed(0).contains("status: down\n") && !printed(0).contains("enabled"));
    assert!(printed(1).contains("            enabled: false\n            statistics:\n"));
}
