//! Nodes of two networks and the router between them, from the command line.

use super::lab::{Lab, Node};

/// Routes of all nodes: each node uses those that apply to it.
const ROUTES: &str = "tcp1 127.0.0.3@tcp; tcp 127.0.0.4@tcp1";

/// Starts a node on `networks`; its control socket is named after `host`.
fn node(lab: &Lab, host: u8, networks: &str) -> Node {
    let file = format!("{host}.conf");
    let text = format!("options lnet networks={networks} routes=\"{ROUTES}\"\n");
    std::fs::write(lab.path(&file), text).unwrap();
    lab.node_with(host, &["-c", &file])
}

/// Starts a router, and a node on either side of it.
fn around_a_router(lab: &Lab) -> [Node; 3] {
    let router = node(lab, 3, "tcp(127.0.0.3),tcp1(127.0.0.4)");
    let (a, b) = (node(lab, 2, "tcp(127.0.0.2)"), node(lab, 5, "tcp1(127.0.0.5)"));
    a.wait_for_output("lnetctl route show -v", "state: up\n      type: single-hop\n");
    b.wait_for_output("lnetctl route show -v", "state: up\n      type: single-hop\n");
    [a, router, b]
}

#[test]
fn one_text_of_routes_configures_routers_and_nodes() {
    let lab = Lab::new("routes");
    let [a, router, b] = around_a_router(&lab);
    let answer = "discover:\n- primary nid: 127.0.0.5@tcp1\n  Multi-Rail: true\n  peer_ni:\n  \
                  - nid: 127.0.0.5@tcp1\n";
    assert_eq!(a.output("lnetctl discover 127.0.0.5@tcp1"), answer);
    assert!(b.output("lnetctl ping 127.0.0.2@tcp").contains("  - nid: 127.0.0.2@tcp\n"));
    assert_eq!(a.output("lctl which_nid 127.0.0.5@tcp1"), "127.0.0.2@tcp\n");
    let line = "net               tcp1 hops -1 gw                    127.0.0.3@tcp up pri 0\n";
    assert_eq!(a.output("lctl show_route"), line);
    assert!(a.output("lctl get_param routers").ends_with("    up 127.0.0.3@tcp\n"));
    assert!(router.output("lctl get_param routes").contains("\nRouting enabled\n"));
    let shown = router.output("lnetctl routing show -v 4");
    for way in ["    - from: tcp\n      to: tcp1\n", "    - from: tcp1\n      to: tcp\n"] {
        assert!(shown.contains(way), "{way:?} is missing in:\n{shown}");
    }
    assert!(!a.output("lnetctl route show -v 4").contains("latency_samples: 0\n"));
    let (status, _, err) = router.run("lnetctl route add --net tcp9 --gateway 127.0.0.3@tcp");
    assert!(status == 234 && err.contains("that NID is this node's own"), "{err}");
}

#[test]
fn peers_stop_using_a_draining_router() {
    let lab = Lab::new("drain");
    let [a, router, _b] = around_a_router(&lab);
    a.output("lnetctl discover 127.0.0.5@tcp1");
    router.output("lnetctl set large_buffers 8");
    let backup = router.output("lnetctl export --backup");
    let kept =
        "\nrouting:\n    enable: 1\nbuffers:\n    tiny: 2048\n    small: 16384\n    large: 8\n";
    assert!(backup.contains(kept), "{backup}");
    assert!(router.output("lnetctl routing drain").contains("\nDrained: "));
    a.wait_for_output("lnetctl route show -v", "state: down\n");
    let off = router.output("lnetctl routing show -v");
    assert!(off.contains("    - enable: 0\n      state: disabled\n"), "{off}");
    assert!(router.get("/metrics").contains("fulmar_routing_state{state=\"disabled\"} 1"));
}

#[test]
fn a_rail_is_disabled_enabled_and_set_to_recover() {
    let lab = Lab::new("rail");
    let a = lab.node_with(2, &["--networks", "tcp(127.0.0.2,127.0.0.6)"]);
    let status = |word: &str| format!("nid: 127.0.0.6@tcp\n            status: {word}\n");
    a.output("lnetctl net set --nid 127.0.0.6@tcp --state down");
    let shown = a.output("lnetctl net show");
    assert!(shown.contains(&status("down")) && !shown.contains("enabled"), "{shown}");
    assert!(a.output("lnetctl net show -v").contains("            enabled: false\n"));
    a.output("lnetctl net set --nid 127.0.0.6@tcp --state up");
    assert!(a.output("lnetctl net show").contains(&status("up")));
    a.output("lnetctl net set --nid 127.0.0.6@tcp --health 100");
    let waits = "Local NI recovery:\n      nid-0: 127.0.0.6@tcp\n";
    assert_eq!(a.output("lnetctl debug recovery --local"), waits);
    a.output("lnetctl net set --all --health 1000");
    assert_eq!(a.output("lnetctl debug recovery --local"), "");
}

#[test]
fn a_duplicate_route_is_added_once_at_start_and_on_import() {
    const SHARED: &str = "node:\n  options:\n    lnet:\n      routes: tcp1 127.0.0.3@tcp\n";
    const ROUTE: &str = "route:\n  - net: tcp1\n    gateway: 127.0.0.3@tcp\n    priority: ";
    let lab = Lab::new("twice");
    for (name, priority) in [("same", 0), ("other", 3)] {
        let route = format!("{ROUTE}{priority}\n");
        std::fs::write(lab.path(&format!("{name}.start")), format!("{route}{SHARED}")).unwrap();
        std::fs::write(lab.path(&format!("{name}.import")), route).unwrap();
    }
    let networks = ["--networks", "tcp(127.0.0.2)", "-c"];
    let a = lab.node_with(2, &[&networks[..], &["same.start"]].concat());
    assert_eq!(a.output("lnetctl route show").matches("gateway").count(), 1);
    let there = "route tcp1 by 127.0.0.3@tcp: is there already\n";
    assert_eq!(a.output("lnetctl import same.import"), there);
    let (status, _, err) = a.run("lnetctl import other.import");
    assert!(status != 0 && err.contains("already exists"), "{status} {err}");
    assert_eq!(a.output("lnetctl route show").matches("gateway").count(), 1);
    drop(a);
    let (status, _, err) = lab.refused(&[&networks[..], &["other.start"]].concat());
    assert!(status == 1 && err.contains("the route to tcp1 by 127.0.0.3@tcp"), "{status} {err}");
}
