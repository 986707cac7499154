mod sites;

use super::*;
use fulmar_lnet::{RouterBuffers, RoutingConfig};
use fulmar_lnet_wire::Net;
use fulmar_net::Interface;

fn conf(text: &str) -> Result<LnetConf, Diagnostic> {
    LnetConf::parse(&Source::new("lnet.conf", text))
}

fn node(text: &str) -> Result<NodeConfig, Diagnostic> {
    NodeConfig::parse(&Source::new("node.yaml", text))
}

/// Returns the message with its place, and the help.
fn message_of(error: &Diagnostic) -> String {
    let Position { line, column } = error.at;
    format!("{line}:{column} {} / {}", error.message, error.help.as_deref().unwrap_or("-"))
}

const EXAMPLE: &str = r#"
net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: eth0
          tunables:
              peer_credits: 16
              credits: 512
          lnd tunables:
              conns_per_peer: 4
        - interfaces:
              0: eth1
    - net type: o2ib
      local NI(s):
        - interfaces:
              0: ib0
          CPT: "[0-3/2,5]"
route:
    - net: o2ib1
      gateway: 10.0.0.254@tcp
      hop: -1
      priority: 0
peer:
    - primary nid: 10.0.0.2@tcp
      Multi-Rail: True
      peer ni:
        - nid: 10.0.0.2@tcp
        - nid: 10.0.1.2@tcp
routing:
    enable: 1
buffers:
    tiny: 4096
    small: 32768
    large: 2048
numa:
    range: 10
ip2nets:
    - net-spec: tcp1
      interfaces:
          0: eth2
      ip-range:
          0: 192.168.1.*
          1: 10.0.[1-3].*
      tunables:
          credits: 512
udsp:
    - idx: 0
      src: o2ib
      action:
          priority: 0
global:
    retry_count: 3
    transaction_timeout: 60
    max_intf: 64
ping:
    timeout: 5
    nids:
        - 10.0.0.2@tcp
statistics:
    anything: 1
"#;

#[test]
fn every_part_of_lnet_conf_is_parsed() {
    let conf = conf(EXAMPLE).unwrap();
    assert_eq!(conf.nets.len(), 2);
    assert_eq!(conf.nets[0].nis[0].tunables.credits, Some(512));
    assert_eq!(conf.nets[0].nis[0].lnd.conns_per_peer, Some(4));
    assert_eq!(conf.nets[0].nis[1].interfaces, ["eth1"]);
    assert_eq!(conf.nets[1].nis[0].cpts, Some(vec![0, 2, 5]));
    assert_eq!((conf.routes[0].hop, conf.routes[0].priority), (None, 0));
    assert_eq!(conf.peers[0].nids.len(), 2);
    assert_eq!((conf.routing, conf.numa_range), (Some(true), Some(10)));
    assert_eq!(conf.buffers.as_ref().unwrap().small, Some(32768));
    assert_eq!(conf.ip2nets[0].ranges.len(), 2);
    assert_eq!(conf.udsp[0].priority, Some(0));
    assert_eq!(conf.globals[2], (GlobalKey::MaxInterfaces, 64));
    assert_eq!(conf.ping.as_ref().unwrap().timeout, Some(5));
    let printed = crate::show::backup(&conf).to_yaml(crate::value::Dialect::Netlink);
    assert_eq!(LnetConf::parse(&Source::new("again", printed)).unwrap(), conf);
    let json = serde_json::to_string(&conf).unwrap();
    assert_eq!(serde_json::from_str::<LnetConf>(&json).unwrap(), conf);
}

#[test]
fn flow_style_and_empty_files_are_accepted() {
    let flow = "{net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, CPT: '[0]'}]}]}";
    assert_eq!(conf(flow).unwrap().nets[0].nis[0].interfaces, ["eth0"]);
    for empty in ["", "# nothing\n", "net:\n", "---\n...\n"] {
        assert_eq!(conf(empty).unwrap(), LnetConf::default(), "{empty:?}");
    }
}

#[test]
fn errors_point_at_the_place_and_name_the_correction() {
    for (text, wanted) in [
        ("net:\n    - net typ: tcp\n", "2:7 unknown key \"net typ\" / did you mean \"net type\"?"),
        ("nets: 1\n", "1:1 unknown key \"nets\" / did you mean \"net\"?"),
        (
            "global:\n  retry_count: x\n",
            "2:16 \"x\" is not a number for retry_count / write a whole number, 0 or greater",
        ),
        ("global:\n  discovery: 2\n", "2:14 2 is out of range for discovery / write 0 or 1"),
        (
            "net:\n  - net type: tpc\n",
            "2:15 \"tpc\" is not a network: write lo, tcp, o2ib, gni, gip, ptlf, kfi, efa or bxi3f \
             and then, unless it is 0, a number, as in tcp1 / -",
        ),
        (
            "peer:\n  - primary nid: '10.0.0@tcp'\n",
            "2:19 \"10.0.0\" is not an address on tcp: write an IPv4 address such as 10.0.0.1 or \
             an IPv6 address such as 2001:db8::1 / -",
        ),
        (
            "peer:\n  - Multi-Rail: True\n",
            "2:5 this entry has no \"primary nid\" / add a line \"primary nid: …\" to it",
        ),
        ("net: tcp\n", "1:6 net is a single value / write a list: begin each item with \"- \""),
        (
            "net:\n  - net type: tcp\n    local NI(s):\n      - CPT: \"[0,x]\"\n",
            "4:18 \"x\" is not a number / write one from 0 to 4095",
        ),
        (
            "buffers:\n  tiny: 1\n  tiny: 2\n",
            "3:3 the key \"tiny\" is given twice / keep one of the two, or merge their values",
        ),
        (
            "ip2nets:\n  - interfaces: {0: eth0}\n    net-spec: tcp\n",
            "2:5 \"net-spec\" must be the first key of an entry / -",
        ),
        (
            "buffers:\n  tiny: &x 1\n  small: *x\n",
            "3:10 anchors and aliases are not supported / write the value in full",
        ),
        ("net: *x\n", "1:6 this is not YAML: while parsing node, found unknown anchor / -"),
    ] {
        assert_eq!(message_of(&conf(text).unwrap_err()), wanted, "{text}");
    }
    let tab = conf("net:\n\t- net type: tcp\n").unwrap_err();
    assert_eq!(tab.help.as_deref(), Some("indent with blanks: YAML does not allow tabs"));
}

#[test]
fn an_error_is_shown_under_its_line() {
    let error = conf("net:\n    - net typ: tcp\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "lnet.conf:2:7: error: unknown key \"net typ\"\n 2 |     - net typ: tcp\n   |       ^\n\
         help: did you mean \"net type\"?"
    );
}

#[test]
fn the_depth_of_a_file_is_bounded() {
    let error = conf(&format!("net: {}", "[".repeat(500))).unwrap_err();
    assert!(
        message_of(&error).contains("too many levels") || message_of(&error).contains("not YAML")
    );
}

#[test]
fn a_node_has_its_own_key() {
    let config = node(
        "node:\n  roles: [lnet]\n  targets: [/srv/mgs]\n  accept: none\n  accept_port: 9988\n  control: /run/x.sock\n  \
         metrics: 127.0.0.1:9000\n  networks: \"tcp(eth0)\"\n  options:\n    \
         lnet: {lnet_retry_count: 3, lnet_peer_discovery_disabled: 1}\n    \
         ksocklnd: {credits: 1024, sock_timeout: 20}\nglobal:\n  transaction_timeout: 60\n",
    )
    .unwrap();
    let socklnd = config.options.parameters.socklnd();
    assert_eq!((socklnd.accept_port, socklnd.timeout.as_secs()), (9988, 20));
    assert_eq!(socklnd.accept, fulmar_socklnd::AcceptMode::None);
    let globals = config.globals().unwrap();
    assert_eq!((globals.retry_count, globals.transaction_timeout), (3, 60));
    assert!(!globals.discovery);
    assert_eq!(config.options.parameters.tunables().credits, 1024);
    assert_eq!(config.roles, [Role::Lnet]);
    assert_eq!(config.targets, [std::path::Path::new("/srv/mgs")]);
}

#[test]
fn errors_in_the_key_node_are_reported() {
    for (text, wanted) in [
        (
            "node:\n  networks: \"tcp(eth0],o2ib\"\n",
            "2:22 \"]\" has no opening bracket / add the \"[\" or remove it",
        ),
        ("node:\n  acept: all\n", "2:3 unknown key \"acept\" / did you mean \"accept\"?"),
        (
            "node:\n  accept: sure\n",
            "2:11 unknown value for accept: \"sure\" / did you mean \"secure\"?",
        ),
        (
            "node:\n  options:\n    ksocklnd:\n      credit: 8\n",
            "4:7 unknown parameter \"credit\" / did you mean \"credits\"?",
        ),
        (
            "node: {networks: tcp, ip2nets: 'tcp *.*.*.*'}\n",
            "1:23 Please specify EITHER 'networks' or 'ip2nets' but not both at once / remove \
             one of the two",
        ),
        (
            "node: {networks: tcp}\nnet:\n  - net type: tcp\n",
            "2:1 networks are given twice: by \"net\" and by \"networks\" / keep one of the two",
        ),
        (
            "node: {metrics: here}\n",
            "1:17 \"here\" is not an address and a port / write one such as 127.0.0.1:9988 or \
             [::]:9988",
        ),
    ] {
        assert_eq!(message_of(&node(text).unwrap_err()), wanted, "{text}");
    }
}

#[test]
fn modprobe_lines_configure_a_node() {
    let config = node(
        "# as in modprobe.d\noptions lnet networks=\"tcp0(eth0), tcp1(eth1)\" accept=all # why not\n\
         options ksocklnd credits=1024 zc_min_payload=16384\noptions ko2iblnd whatever=1\n\
         install lnet /bin/true\n",
    )
    .unwrap();
    assert_eq!(config.options.networks.as_ref().unwrap().len(), 2);
    let socklnd = config.options.parameters.socklnd();
    assert_eq!(socklnd.accept, fulmar_socklnd::AcceptMode::All);
    assert_eq!(socklnd.zc_min_payload, Some(16_384));
    let error = node("options lnet networks=\"tcp(eth0\"\n").unwrap_err();
    assert_eq!(message_of(&error), "1:27 \"(\" is never closed / add the \")\"");
    let error = node("options lnet accept\n").unwrap_err();
    assert_eq!(message_of(&error), "1:14 \"accept\" has no value / write accept=VALUE");
}

fn with_networks(networks: &str) -> Result<NodeConfig, Diagnostic> {
    let mut config = NodeConfig::default();
    config.set_networks(networks)?;
    Ok(config)
}

#[test]
fn networks_are_parsed_as_the_kernel_does() {
    let nets = |text: &str| with_networks(text).unwrap().options.networks.unwrap();
    let three = nets("tcp0(eth0), o2ib( ib0 , ib1[2] ) [0,1] ,lo, tcp(eth9)");
    assert_eq!(three.len(), 2);
    assert_eq!(three[0].net, Net::TCP);
    let names: Vec<&str> = three[0].nis.iter().map(|ni| ni.interfaces[0].as_str()).collect();
    assert_eq!(names, ["eth0", "eth9"]);
    assert_eq!(three[1].nis[0].cpts, Some(vec![0, 1]));
    assert_eq!(three[1].nis[1].cpts, Some(vec![2]));
    assert_eq!(nets("tcp")[0].nis, [NiConf::default()]);
    for (text, wanted) in [
        ("tcp(eth0", "1:4 \"(\" is never closed / add the \")\""),
        (
            "tcp(eth0)x",
            "1:10 \"x\" is not expected after a network / separate networks by a comma, \
             as in tcp(eth0),tcp1(eth1)",
        ),
        (
            "tcp(eth0),,tcp1",
            "1:11 a network is missing here / write one such as tcp(eth0), or \
             remove the comma",
        ),
        (
            "tcp()",
            "1:5 \"\" is not the name of an interface / write one such as eth0, or its address",
        ),
        ("tcp(eth0[a])", "1:10 \"a\" is not a number / write one from 0 to 4095"),
    ] {
        assert_eq!(message_of(&with_networks(text).unwrap_err()), wanted, "{text}");
    }
}

#[test]
fn routes_are_every_net_with_every_gateway() {
    let mut config = NodeConfig::default();
    let routes = "o2ib 1 192.168.1.[1-4/3]@tcp:2; tcp[2-3] 10.1.0.1@o2ib # far\n";
    config.set(Module::Lnet, "routes", routes).unwrap();
    let told_routes: Vec<String> = config
        .options
        .routes
        .iter()
        .map(|r| format!("{} {:?} {} {}", r.net, r.hop, r.gateway, r.priority))
        .collect();
    assert_eq!(
        told_routes,
        [
            "o2ib Some(1) 192.168.1.1@tcp 2",
            "o2ib Some(1) 192.168.1.4@tcp 2",
            "tcp2 None 10.1.0.1@o2ib 0",
            "tcp3 None 10.1.0.1@o2ib 0"
        ]
    );
    for (text, wanted) in [
        (
            "o2ib",
            "1:1 the route \"o2ib\" has no gateway / write NET [HOPS] GATEWAY…, as in o2ib 1 \
             10.0.0.1@tcp",
        ),
        (
            "o2ib 300 10.0.0.1@tcp",
            "1:6 300 is out of range for the number of hops / write a whole \
             number from 1 to 255",
        ),
        (
            "o2ib 10.0.0.1@tcp:x",
            "1:19 \"x\" is not a number for the priority / write a whole number, \
             0 or greater",
        ),
    ] {
        let error = config.set(Module::Lnet, "routes", text).unwrap_err();
        assert_eq!(message_of(&error), wanted, "{text}");
    }
}

#[test]
fn a_node_routes_if_enabled_or_named_as_a_gateway() {
    let own: [Nid; 2] = ["10.0.0.1@tcp", "10.1.0.1@tcp1"].map(|nid| nid.parse().unwrap());
    let node = |lines: &str| NodeConfig::parse(&Source::new("lnet.conf", lines)).unwrap();
    let named = "routes=\"tcp1 10.0.0.[1-2]@tcp; o2ib 2 10.0.0.9@tcp\"";
    for (lines, forwards) in [
        ("options lnet accept=all".to_owned(), false),
        (format!("options lnet {named}"), true),
        (format!("options lnet {named} forwarding=disabled"), false),
        (format!("options lnet {named} forwarding=\"\""), true),
        ("options lnet routes=\"o2ib 10.0.0.9@tcp\"".to_owned(), false),
        ("options lnet forwarding=enabled".to_owned(), true),
    ] {
        assert_eq!(node(&lines).routing(&own).forwarding, forwards, "{lines}");
    }
    // Routes with this node as the gateway are for other nodes.
    let gateways: Vec<String> = node(&format!("options lnet {named}"))
        .shared_routes(&own)
        .iter()
        .map(|route| route.gateway.to_string())
        .collect();
    assert_eq!(gateways, ["10.0.0.2@tcp", "10.0.0.9@tcp"]);
    let file =
        node("node:\n  options:\n    lnet:\n      forwarding: enabled\nrouting:\n  enable: 0\n");
    assert!(!file.routing(&own).forwarding, "the key routing of the file has precedence");
}

#[test]
fn parameters_of_routing_are_those_of_the_module() {
    let mut config = NodeConfig::default();
    assert_eq!(config.routing(&[]), RoutingConfig::default());
    for (name, value) in [
        ("tiny_router_buffers", "4096"),
        ("small_router_buffers", "0"),
        ("peer_buffer_credits", "32"),
        ("auto_down", "0"),
        ("check_routers_before_use", "1"),
        ("avoid_asym_router_failure", "0"),
        ("live_router_check_interval", "30"),
        ("dead_router_check_interval", "20"),
        ("router_ping_timeout", "5"),
    ] {
        config.set(Module::Lnet, name, value).unwrap();
    }
    config.lnet.buffers = Some(BuffersConf { large: Some(8), ..BuffersConf::default() });
    let wanted = RoutingConfig {
        forwarding: false,
        buffers: RouterBuffers { tiny: 4096, small: 16384, large: 8 },
        peer_buffer_credits: 32,
        auto_down: false,
        check_routers_before_use: true,
        avoid_asym_router_failure: false,
        alive_router_check_interval: 20,
        router_ping_timeout: 5,
    };
    assert_eq!(config.routing(&[]), wanted);
    config.set(Module::Lnet, "alive_router_check_interval", "-1").unwrap();
    assert_eq!(config.routing(&[]).alive_router_check_interval, 0);
}

struct Machine;

impl Interfaces for Machine {
    fn list(&self) -> Vec<Interface> {
        let interface = |name: &str, ip: &str, up, speed| Interface {
            name: name.into(),
            addresses: vec![ip.parse().unwrap()],
            up,
            speed,
        };
        vec![
            interface("lo", "127.0.0.1", true, None),
            interface("eth9", "10.9.0.1", false, None),
            interface("eth0", "10.0.0.1", true, Some(100_000)),
            interface("eth1", "192.168.1.1", true, Some(10_000)),
            interface("eth6", "2001:db8::1", true, None),
        ]
    }
}

fn nids(config: &NodeConfig) -> Result<String, String> {
    let specs = config.nis(&Machine).map_err(|e| format!("{:?} {e} / {}", e.errno, e.help))?;
    let one = |s: &NiSpec| format!("{} {} {}", s.nid, s.interface, s.conns_per_peer);
    Ok(specs.iter().map(one).collect::<Vec<_>>().join(", "))
}

#[test]
fn interfaces_become_nids() {
    for (networks, wanted) in [
        ("tcp", "10.0.0.1@tcp eth0 4"),
        ("tcp(eth0,eth1)", "10.0.0.1@tcp eth0 4, 192.168.1.1@tcp eth1 2"),
        ("tcp3(eth6)", "2001:db8::1@tcp3 eth6 1"),
        ("tcp(127.0.0.2),tcp1(10.0.0.1)", "127.0.0.2@tcp lo 1, 10.0.0.1@tcp1 eth0 4"),
    ] {
        assert_eq!(nids(&with_networks(networks).unwrap()).unwrap(), wanted, "{networks}");
    }
    assert_eq!(nids(&NodeConfig::default()).unwrap(), "10.0.0.1@tcp eth0 4");
    let all =
        "lo (127.0.0.1), eth9 (down), eth0 (10.0.0.1), eth1 (192.168.1.1), eth6 (2001:db8::1)";
    for (networks, wanted) in [
        ("tcp(eth7)", format!("ENETDOWN there is no interface eth7 for tcp / use one of this node's: {all}")),
        ("tcp(eth9)", "ENETDOWN the interface eth9 for tcp is down / bring it up: ip link set eth9 up".into()),
        ("tcp(10.0.0.9)", format!("ENETDOWN no interface of this node has the address 10.0.0.9 for tcp / use one of this node's: {all}")),
        ("tcp(eth0,eth0)", "EEXIST 10.0.0.1@tcp (eth0) is given twice / give each interface once for each network".into()),
        ("o2ib(ib0)", "ENETDOWN network o2ib needs an LND that this node does not have / use tcp, tcp1, tcp2, …".into()),
    ] {
        assert_eq!(nids(&with_networks(networks).unwrap()).unwrap_err(), wanted, "{networks}");
    }
}

#[test]
fn ip2nets_selects_by_the_addresses_of_the_node() {
    let parameter = |ip2nets: &str| {
        let mut config = NodeConfig::default();
        config.set(Module::Lnet, "ip2nets", ip2nets).unwrap();
        nids(&config)
    };
    let two = "tcp(eth1) 192.168.[0-3].*; tcp2 172.*.*.* # no\ntcp1(eth0) 10.0.0.[1-9/2]";
    assert_eq!(parameter(two).unwrap(), "192.168.1.1@tcp eth1 2, 10.0.0.1@tcp1 eth0 4");
    let none = parameter("tcp 172.*.*.*").unwrap_err();
    assert!(none.starts_with("ENOENT No ip2nets rules applied"), "{none}");
    let config = node(
        "ip2nets:\n  - net-spec: tcp\n    ip-range: {0: 10.0.*.*}\n    tunables: {credits: 99}\n  \
         - net-spec: tcp\n    ip-range: {0: 192.168.*.*}\n  - net-spec: tcp1\n    \
         interfaces: {0: eth1}\n",
    )
    .unwrap();
    assert_eq!(nids(&config).unwrap(), "10.0.0.1@tcp eth0 4, 192.168.1.1@tcp1 eth1 2");
    assert_eq!(config.nis(&Machine).unwrap()[0].tunables.credits, 99);
}

#[test]
fn lists_of_the_command_line() {
    let nids = nid_list("10.0.0.[1-2]@tcp1, 10.1.0.1").unwrap();
    let text: Vec<String> = nids.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["10.0.0.1@tcp1", "10.0.0.2@tcp1", "10.1.0.1@tcp"]);
    assert!(nid_list("bogus").is_err());
    assert_eq!(interface_list("eth0[0,1],eth1").unwrap()[0].cpts, Some(vec![0, 1]));
    assert_eq!(cpt_list("[0-2]").unwrap(), [0, 1, 2]);
}
