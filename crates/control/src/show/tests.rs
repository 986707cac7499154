//! Compares every printer with the output of the tools of two 2.17 nodes, byte for byte.

mod routing;

use fulmar_lnd::NiTunables;
use fulmar_lnet::views::{self, Health, Latency, PeerNi, Traffic};
use serde_json::Value as Json;

use super::*;
use crate::config::{GlobalKey, LnetConf, Source, yaml};
use crate::testing::{ni_view, peer_ni_view};

const NODES: [&str; 2] = [
    include_str!("../../../../testdata/cli/lnet-node2.txt"),
    include_str!("../../../../testdata/cli/lnet-node3.txt"),
];

/// Returns the `nth` recorded output of `command` on a node.
fn recorded_nth<'a>(node: &'a str, command: &str, nth: usize) -> &'a str {
    let prompt = format!("$ {command}\n");
    let start = node.match_indices(&prompt).nth(nth).expect("the command is recorded").0;
    let output = &node[start + prompt.len()..];
    &output[..output.find("[exit ").unwrap()]
}

fn recorded<'a>(node: &'a str, command: &str) -> &'a str {
    recorded_nth(node, command, 0)
}

/// Converts negative credits to signed numbers: 4294967293 is −3.
fn signed(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.rsplit_once(' ').and_then(|(key, n)| Some((key, n.parse::<u32>().ok()?))) {
            Some((key, n)) if n > i32::MAX as u32 => {
                out += &format!("{key} {}\n", n as i32);
            }
            _ => out += &format!("{line}\n"),
        }
    }
    out
}

fn json(text: &str) -> Json {
    yaml::parse(&Source::new("recorded", text)).unwrap().to_json()
}

fn u(json: &Json, key: &str) -> u64 {
    json[key].as_u64().unwrap_or_else(|| panic!("{key} in {json}"))
}

fn i(json: &Json, key: &str) -> i64 {
    json[key].as_i64().unwrap_or_else(|| panic!("{key} in {json}"))
}

fn nid(json: &Json, key: &str) -> Nid {
    json[key].as_str().unwrap().parse().unwrap()
}

fn items(json: &Json) -> &[Json] {
    json.as_array().unwrap()
}

fn traffic(ni: &Json) -> Traffic {
    let by_type = |key: &str| serde_json::from_value(ni[key].clone()).unwrap();
    let latency = |name: &str| Latency {
        samples: u(&ni["statistics"], &format!("{name}_samples")),
        min_nsec: u(&ni["statistics"], &format!("{name}_min_nsec")),
        max_nsec: u(&ni["statistics"], &format!("{name}_max_nsec")),
        sum_nsec: u(&ni["statistics"], &format!("{name}_samples"))
            * u(&ni["statistics"], &format!("{name}_avg_nsec")),
    };
    Traffic {
        sent: by_type("sent_stats"),
        received: by_type("received_stats"),
        dropped: by_type("dropped_stats"),
        put_egress: latency("put_egress"),
        get_rtt: latency("get_rtt"),
        put_ack: latency("put_ack"),
    }
}

fn health(ni: &Json) -> Health {
    let value = u(&ni["health stats"], "health value") as u32;
    Health { value, ..Health::default() }
}

/// Parses `net show -v 4`.
fn nets(text: &str) -> Vec<Net> {
    let ni = |ni: &Json| Ni {
        view: views::Ni {
            up: ni["status"] == "up",
            health: health(ni),
            tunables: serde_json::from_value(ni["tunables"].clone()).unwrap(),
            traffic: traffic(ni),
            ..ni_view(nid(ni, "nid"))
        },
        alive: None,
        interface: ni["interfaces"]["0"].as_str().map(str::to_owned),
        is_secondary: false,
        lnd: ni.get("lnd tunables").map(|lnd| serde_json::from_value(lnd.clone()).unwrap()),
        dev_cpt: i(ni, "dev cpt") as i32,
        cpts: serde_json::from_str(ni["CPT"].as_str().unwrap()).unwrap(),
        refs: 1,
    };
    let net = |net: &Json| Net {
        net: net["net type"].as_str().unwrap().parse().unwrap(),
        nis: items(&net["local NI(s)"]).iter().map(ni).collect(),
    };
    items(&json(text)["net"]).iter().map(net).collect()
}

/// Parses `peer show -v 4`.
fn peers(text: &str) -> Vec<Peer> {
    let ni = |ni: &Json| PeerNi {
        credits_max: i(ni, "max_ni_tx_credits"),
        credits: i(ni, "available_tx_credits"),
        credits_min: i(ni, "min_tx_credits"),
        router_credits: i(ni, "available_rtr_credits"),
        router_credits_min: i(ni, "min_rtr_credits"),
        queued_bytes: u(ni, "tx_q_num_of_buf"),
        refcount: u(ni, "refcount") as u32,
        health: health(ni),
        traffic: traffic(ni),
        ..peer_ni_view(nid(ni, "nid"))
    };
    let peer = |peer: &Json| Peer {
        primary: nid(peer, "primary nid"),
        multi_rail: peer["Multi-Rail"] == "true",
        state: u(peer, "peer state") as u32,
        configured: false,
        nis: items(&peer["peer ni"]).iter().map(ni).collect(),
    };
    items(&json(&signed(text))["peer"]).iter().map(peer).collect()
}

fn global_values(text: &str) -> Globals {
    let json = json(text);
    GlobalKey::ALL.map(|key| (key, u(&json["global"], key.name()) as u32)).to_vec()
}

#[test]
fn net_show_equals_the_recorded_output() {
    for node in NODES {
        let nets = nets(recorded(node, "lnetctl net show -v 4"));
        for (command, level) in
            [("lnetctl net show", 0), ("lnetctl net show -v 1", 1), ("lnetctl net show -v 4", 4)]
        {
            let printed = net_show(&nets, level, Dialect::Netlink).to_yaml(Dialect::Netlink);
            assert_eq!(printed, recorded(node, command), "{command}");
        }
    }
}

#[test]
fn peer_show_equals_the_recorded_output_except_for_negative_credits() {
    for node in NODES {
        let peers = peers(recorded(node, "lnetctl peer show -v 4"));
        for (command, level) in [("lnetctl peer show", 0), ("lnetctl peer show -v 4", 4)] {
            let printed = peer_show(&peers, level, Dialect::Netlink).to_yaml(Dialect::Netlink);
            assert_eq!(printed, signed(recorded(node, command)), "{command}");
        }
    }
}

#[test]
fn stats_and_globals_equal_the_recorded_output() {
    for node in NODES {
        let text = recorded(node, "lnetctl stats show");
        let stats: Stats = serde_json::from_value(json(text)["statistics"].clone()).unwrap();
        assert_eq!(stats_show(&stats).to_yaml(Dialect::Netlink), text);
        let text = recorded(node, "lnetctl global show");
        assert_eq!(global_show(&global_values(text)).to_yaml(Dialect::Netlink), text);
    }
    // These nodes have the default values, of which one differs from ours.
    let kernel = fulmar_lnet::Globals { drop_asym_route: false, ..Default::default() };
    let ours = globals(&kernel);
    assert_eq!(
        global_show(&ours).to_yaml(Dialect::Netlink),
        recorded(NODES[0], "lnetctl global show")
    );
}

#[test]
fn exports_equal_the_recorded_output() {
    for node in NODES {
        let export = Export {
            nets: nets(recorded(node, "lnetctl net show -v 4")),
            peers: peers(recorded(node, "lnetctl peer show -v 4")),
            routes: Vec::new(),
            routing: Routing::default(),
            globals: global_values(recorded(node, "lnetctl global show")),
            rest: LnetConf::default(),
        };
        let plain = export.report(Dialect::Netlink).to_yaml(Dialect::Netlink);
        assert_eq!(plain, signed(recorded(node, "lnetctl export")));
        let text = backup(&export.to_conf()).to_yaml(Dialect::Netlink);
        assert_eq!(text, recorded(node, "lnetctl export --backup"));
    }
}

#[test]
fn a_backup_round_trips() {
    for node in NODES {
        let text = recorded(node, "lnetctl export --backup");
        let conf = LnetConf::parse(&Source::new("lnet.conf", text)).unwrap();
        assert_eq!(backup(&conf).to_yaml(Dialect::Netlink), text);
        let older = backup(&conf).to_yaml(Dialect::Cyaml);
        assert_eq!(LnetConf::parse(&Source::new("lnet.conf", older)).unwrap(), conf);
        let json = backup(&conf).to_json();
        assert_eq!(LnetConf::parse(&Source::new("lnet.conf", json)).unwrap(), conf);
        // The additional information of a plain export is ignored.
        let plain = LnetConf::parse(&Source::new("export", recorded(node, "lnetctl export")));
        let mut plain = plain.unwrap();
        assert_eq!(plain.nets[0].nis[0].lnd.timeout.take(), Some(50));
        assert_eq!((&plain.peers, &plain.globals), (&conf.peers, &conf.globals));
    }
}

#[test]
fn ping_and_discover_equal_the_recorded_output() {
    let nid = |text: &str| text.parse().unwrap();
    for (node, known) in [(NODES[0], true), (NODES[1], false)] {
        let reply = |multi_rail| Reply {
            primary: nid("10.99.0.1@tcp"),
            multi_rail,
            nids: vec![nid("10.99.0.1@tcp")],
        };
        for (what, multi_rail) in [("ping", known), ("discover", true)] {
            let all = [Answer { nid: nid("10.99.0.1@tcp"), result: Ok(reply(multi_rail)) }];
            let printed = answers(what, &all, Dialect::Netlink);
            let command = format!("lnetctl {what} 10.99.0.1@tcp");
            assert_eq!(printed.answered.to_yaml(Dialect::Netlink), recorded(node, &command));
            assert_eq!(printed.failed.to_yaml(Dialect::Netlink), "");
        }
        let all = [Answer { nid: nid("10.99.0.99@tcp"), result: Err(113) }];
        let printed = answers("ping", &all, Dialect::Netlink);
        let text = recorded(node, "lnetctl ping 10.99.0.99@tcp");
        assert_eq!(printed.answered.to_yaml(Dialect::Netlink), "");
        assert_eq!(printed.failed.to_yaml(Dialect::Netlink), text);
        assert_eq!(
            answers("ping", &all, Dialect::Cyaml).failed.to_yaml(Dialect::Cyaml),
            "manage:\n    - ping:\n          errno: -113\n          \
             descr: \"failed to ping 10.99.0.99@tcp: No route to host\"\n"
        );
        assert_eq!(tables::pinged(&reply(true)), recorded(node, "lctl ping 10.99.0.1@tcp"));
    }
}

#[test]
fn errors_equal_the_recorded_output() {
    for (command, op, object, errno, descr) in [
        ("net add --net tcp9 --if nosuch0", "add", "net", -100, "cannot add LNet NI"),
        ("net del --net tcp9", "del", "net", -22, "cannot del network"),
        (
            "ping bogus",
            "manage",
            "ping",
            -22,
            "\"Unable to parse nidlist: no valid NIDs in string\"",
        ),
    ] {
        let error = ErrorObject {
            op: op.into(),
            object: object.into(),
            errno,
            descr: descr.into(),
            hint: None,
        };
        let text = recorded(NODES[0], &format!("lnetctl {command}"));
        assert_eq!(error.to_listing(Dialect::Netlink), text);
    }
}

#[test]
fn routes_and_rules_equal_the_recorded_output() {
    let printed = route_show(&[routing::route()], 1).to_yaml(Dialect::Netlink);
    assert_eq!(printed, recorded_nth(NODES[0], "lnetctl route show -v 4", 1));
    assert_eq!(route_show(&[], 1).to_yaml(Dialect::Netlink), "");
    let rule = UdspConf {
        idx: Some(0),
        src: Some("tcp".parse().unwrap()),
        priority: Some(0),
        ..UdspConf::default()
    };
    let text = recorded_nth(NODES[0], "lnetctl udsp show", 1);
    assert_eq!(udsp_show(&[rule]).to_yaml(Dialect::Netlink), text);
}

#[test]
fn statistics_files_equal_those_of_the_kernel() {
    for node in NODES {
        let text = recorded(node, "cat /sys/kernel/debug/lnet/nis");
        assert_eq!(tables::nis(&nets_of_table(text)), text);
        let text = recorded(node, "cat /sys/kernel/debug/lnet/peers");
        assert_eq!(tables::peers(&peers_of_table(text)), text);
        for (file, table) in [
            ("routers", tables::routers(&[])),
            ("routes", tables::routes(&Routing::default(), &[])),
            ("buffers", tables::buffers(&Routing::default())),
        ] {
            assert_eq!(table, recorded(node, &format!("cat /sys/kernel/debug/lnet/{file}")));
        }
    }
    let stats = Stats {
        msgs_alloc: 1,
        msgs_max: 4,
        send_count: 60,
        recv_count: 62,
        send_length: 530_488,
        recv_length: 2_103_496,
        ..Stats::default()
    };
    assert_eq!(tables::stats(&stats), recorded(NODES[1], "cat /sys/kernel/debug/lnet/stats"));
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split_whitespace().collect())
}

fn nets_of_table(text: &str) -> Vec<Net> {
    let number = |text: &str| text.parse().unwrap();
    let ni = |row: Vec<&str>| Ni {
        view: views::Ni {
            up: row[1] == "up",
            tunables: NiTunables {
                peer_credits: number(row[4]) as u32,
                peer_buffer_credits: number(row[5]) as u32,
                ..NiTunables::default()
            },
            credits_max: number(row[6]),
            credits: number(row[7]),
            credits_min: number(row[8]),
            ..ni_view(row[0].parse().unwrap())
        },
        alive: row[2].parse().ok(),
        interface: None,
        is_secondary: false,
        lnd: None,
        dev_cpt: -1,
        cpts: vec![0],
        refs: number(row[3]) as u32,
    };
    vec![Net { net: fulmar_lnet_wire::Net::TCP, nis: rows(text).map(ni).collect() }]
}

fn peers_of_table(text: &str) -> Vec<Peer> {
    let number = |text: &str| text.parse::<i64>().unwrap();
    let ni = |row: Vec<&str>| PeerNi {
        credits_max: number(row[4]),
        credits: number(row[7]),
        credits_min: number(row[8]),
        router_credits: number(row[5]),
        router_credits_min: number(row[6]),
        queued_bytes: number(row[9]) as u64,
        refcount: number(row[1]) as u32,
        ..peer_ni_view(row[0].parse().unwrap())
    };
    let nis: Vec<PeerNi> = rows(text).map(ni).collect();
    vec![Peer { primary: nis[0].nid, multi_rail: true, state: 0, configured: false, nis }]
}

#[test]
fn lctl_lines_equal_the_recorded_output() {
    let text = recorded(NODES[0], "lctl --net tcp conn_list");
    let connection = Connection {
        peer: "10.99.0.1@tcp".parse().unwrap(),
        kind: 'I',
        cpt: 0,
        local: "10.99.0.2:988".parse().unwrap(),
        remote: "10.99.0.1:1021".parse().unwrap(),
        send_buffer: 87040,
        receive_buffer: 6_291_456,
        nagle: false,
    };
    // Addresses are not resolved to names of hosts.
    let first =
        text.lines().next().unwrap().replace("vm2", "10.99.0.2").replace("vm1", "10.99.0.1");
    assert_eq!(tables::connections(&[connection]), first + "\n");
    let text = recorded(NODES[0], "lctl --net tcp peer_list").replace("vm2", "10.99.0.2");
    let peer = |text: &str, dials: bool, connections| SocklndPeer {
        peer: text.parse().unwrap(),
        dials: dials.then(|| {
            let nid: fulmar_lnet_wire::ProcessId = text.parse().unwrap();
            ("10.99.0.2".parse().unwrap(), (nid.nid.ip().unwrap(), 988).into())
        }),
        connections,
    };
    let peers = [
        peer("10.99.0.55@tcp", true, 0),
        peer("10.99.0.99@tcp", true, 0),
        peer("10.99.0.1@tcp", false, 3),
        peer("10.99.0.2@tcp", true, 4),
    ];
    assert_eq!(tables::socklnd_peers(&peers), text);
    let text = recorded(NODES[1], "lctl --net tcp interface_list").replace("vm3", "10.99.0.3");
    let ip = "10.99.0.3".parse().unwrap();
    assert_eq!(
        tables::interfaces(&[SocklndInterface { ip, prefix: 24, peers: 0, routes: 5 }]),
        text
    );
    assert_eq!(tables::connections(&[]), "<no connections>\n");
    let nids = ["10.99.0.2@tcp".parse().unwrap()];
    assert_eq!(tables::nids(&nids), recorded(NODES[0], "lctl list_nids"));
}
