//! Commands beside the recorded answers of a kernel node of 2.17: `testdata/cli/lnet-node1.txt`.

use super::lab::Lab;

const RECORDED: &str = include_str!("../../../../../testdata/cli/lnet-node1.txt");

/// Returns the output of a command on the kernel node, and its exit status.
fn recorded(command: &str) -> (&'static str, i32) {
    let prompt = format!("\n$ {command}\n");
    let start = RECORDED.find(&prompt).unwrap_or_else(|| panic!("not recorded: {command}"));
    let rest = &RECORDED[start + prompt.len()..];
    let (out, rest) = rest.split_once("[exit ").unwrap();
    (out, rest[..rest.find(']').unwrap()].parse().unwrap())
}

/// Whether what a command prints is compared too, without hints.
#[derive(Clone, Copy, PartialEq)]
enum Compare {
    Status,
    Text,
}

use Compare::{Status, Text};

/// In the order in which the kernel node executed them.
const COMMANDS: &[(Compare, &str)] = &[
    (Status, "peer add --prim_nid 10.99.0.200@tcp --nid 10.99.1.200@tcp,10.99.2.200@tcp"),
    (Status, "peer add --prim_nid 10.99.0.200@tcp --nid 10.99.1.200@tcp"),
    (Status, "peer add --prim_nid 10.99.0.201@tcp --non_mr"),
    (Text, "udsp add --src tcp"),
    (Text, "udsp add --dst 10.99.0.2@tcp --src 10.99.0.1@tcp"),
    (Text, "udsp add --src tcp --priority 0"),
    (Text, "udsp del --idx 99"),
    (Text, "udsp del"),
    (Text, "udsp del --all"),
    (Text, "udsp show --idx 5"),
    (Text, "udsp add --src tcp --priority -1"),
    (Status, "udsp add --src bogus@@"),
    (Status, "udsp add --src tcp --rte 10.99.0.2@tcp"),
    (Status, "peer add --prim_nid 10.99.0.1@tcp --nid 10.99.0.1@tcp"),
    (Text, "peer del --prim_nid 10.99.0.1@tcp"),
    (Text, "route del --net tcp8 --gateway 10.99.0.55@tcp"),
    (Text, "route del --net tcp8"),
    (Text, "route add --net tcp8 --gateway 10.99.0.55@tcp --priority -1"),
    (Text, "route add --net tcp8 --gateway 10.99.0.55@tcp --hop -1"),
    (Text, "route add --net tcp8 --gateway 10.99.0.55@tcp --hop 0"),
    (Text, "route add --net tcp8 --gateway 10.98.0.55@tcp9"),
    (Text, "peer show --nid 10.99.0.99@tcp"),
    (Status, "peer del --prim_nid 10.99.0.99@tcp"),
    (Status, "peer del --prim_nid 10.99.0.200@tcp --nid 10.99.9.9@tcp"),
    (Text, "peer del --prim_nid 10.99.0.200@tcp"),
    (Status, "peer del"),
    (Status, "peer add --nid 10.99.0.77@tcp"),
    (Status, "peer add --prim_nid bogus"),
    (Text, "peer set --nid 10.99.0.99@tcp --health 500"),
    (Status, "peer set --nid 10.99.0.99@tcp --state 1"),
    (Text, "peer set --all --health -1"),
    (Text, "net set --all --health -1"),
    (Text, "net set --nid 10.99.0.1@tcp --conns-per-peer 128"),
    (Text, "net set --nid 10.99.0.99@tcp --health 500"),
    (Text, "net set --net tcp9 --lnd-timeout 20"),
    (Text, "net set --net tcp --lnd-timeout -1"),
    (Text, "net set --lnd-timeout 20"),
    (Text, "net add --net tcp7 --if eth0 --cpt [9]"),
    (Text, "net add --net tcp7 --if eth0[9]"),
    (Text, "net add --net tcp7 --if eth0 --credits 0"),
    (Text, "net del --net tcp7"),
    (Status, "net add --net tcp7 --if eth0 --peer-credits -5"),
    (Text, "net del --net tcp7"),
    (Text, "net add --net tcp7 --if eth0 --tos 300"),
    (Status, "net add --net tcp7 --if eth0 --tos 16"),
    (Text, "net del --net tcp7 --if eth9"),
    (Text, "net del --nid 10.99.0.99@tcp"),
    (Text, "net add --net tcp7 --if eth0 --conns-per-peer 200"),
    (Text, "net add --net o2ib --if eth0"),
    (Status, "net add --net bogus --if eth0"),
    (Status, "net show -v 9"),
    (Status, "net show -v x"),
    (Text, "net show --net tcp9"),
    (Status, "peer show -v 9"),
    (Status, "route show -v 9"),
    (Text, "set retry_count -1"),
    (Text, "set retry_count x"),
    (Text, "set retry_count 99999"),
    (Text, "set transaction_timeout 0"),
    (Text, "set transaction_timeout -1"),
    (Text, "set health_sensitivity 1001"),
    (Text, "set health_sensitivity -1"),
    (Text, "set recovery_interval 0"),
    (Text, "set router_sensitivity 101"),
    (Text, "set response_tracking 4"),
    (Text, "set recovery_limit -1"),
    (Text, "set max_interfaces 1"),
    (Text, "set max_recovery_ping_interval 0"),
    (Text, "set numa_range -1"),
    (Text, "set discovery 2"),
    (Text, "set discovery -1"),
    (Text, "set drop_asym_route 2"),
    (Status, "set routing 2"),
    (Status, "set routing -1"),
    (Text, "set tiny_buffers 0"),
    (Text, "set tiny_buffers -1"),
    (Text, "cpt-of-nid bogus"),
    (Status, "ping 10.99.0.2@tcp --source 10.99.0.9@tcp"),
    (Text, "discover bogus"),
    (Status, "fault drop add -s *@tcp -d *@tcp"),
    (Status, "fault drop add -s bogus -d *@tcp -r 10"),
    (Text, "fault drop add -s *@tcp -d *@tcp -r 10 -m NOSUCH"),
    (Text, "fault drop add -s *@tcp -d *@tcp -r 10 -p 64"),
    (Text, "fault drop del -s 10.99.0.9@tcp -d 10.99.0.9@tcp"),
    (Text, "fault drop del -a"),
    (Status, "fault drop del"),
    (Text, "fault delay add -s *@tcp -d *@tcp -r 10 -l 0"),
    (Status, "debug recovery"),
    (Status, "debug nidlist bogus"),
    (Status, "export /no-such-dir/x"),
    (Status, "net"),
    (Status, "lnet configure"),
    (Status, "lnet unconfigure"),
];

/// Where the status of the kernel node is 0 although nothing was done that was asked for, what it is here, and why.
const DIFFERENT: &[(&str, i32, &str)] = &[
    ("udsp add --priority 1", 234, "the kernel's tool prints its help, and adds no rule"),
    ("peer set --health 500", 234, "no peer is selected, and none is changed"),
    ("net show -v -1", 234, "the kernel's tool prints its help instead of networks"),
    ("net show --bogus", 234, "the kernel's tool prints its help instead of networks"),
];

#[test]
fn what_does_nothing_is_refused_where_the_kernel_node_has_only_help() {
    let lab = Lab::new("different");
    let node = lab.node(2);
    for (command, status, why) in DIFFERENT {
        assert_eq!(recorded(&format!("lnetctl {command}")).1, 0, "{command}");
        assert_eq!(node.run(&format!("lnetctl {command}")).0, *status, "{command}: {why}");
    }
}

#[test]
fn ranges_of_nids_are_added_to_a_peer_and_removed() {
    let lab = Lab::new("ranges");
    let node = lab.node(2);
    let peer = "--prim_nid 10.9.0.1@tcp --ip2nets";
    assert_eq!(node.output(&format!("lnetctl peer add {peer} 10.9.[0-1].[2-3]@tcp")), "");
    let nids = || {
        let shown = node.output("lnetctl peer show");
        let nids = shown.lines().filter_map(|line| line.trim_start().strip_prefix("-     nid: "));
        let mut nids: Vec<String> = nids.map(str::to_owned).collect();
        nids.sort();
        nids
    };
    let all = ["10.9.0.1@tcp", "10.9.0.2@tcp", "10.9.0.3@tcp", "10.9.1.2@tcp", "10.9.1.3@tcp"];
    assert_eq!(nids(), all, "{}", node.output("lnetctl peer show"));
    assert_eq!(node.output(&format!("lnetctl peer del {peer} 10.9.1.[2-3]@tcp")), "");
    assert_eq!(nids(), all[..3]);
    let (status, _, err) = node.run(&format!("lnetctl peer add {peer} 10.9.[3-1].2@tcp"));
    assert!(status == 234 && err.contains("descr: ! \"invalid NIDs list\""), "{err}");
    assert_eq!(nids(), all[..3]);
}

#[test]
fn imports_report_errors_in_either_form() {
    let lab = Lab::new("old-api");
    let node = lab.node(2);
    let text = "route:\n  - net: tcp8\n    gateway: 127.0.0.5@tcp\n\
                net:\n  - net type: tcp7\n    local NI(s):\n      - interfaces:\n          0: none0\n";
    std::fs::write(lab.path("conf.yaml"), text).unwrap();
    for (option, form) in [("", "add:\n-     net:\n"), ("--old-api", "add:\n    - net:\n")] {
        let (status, out, err) = node.run(&format!("lnetctl import {option} conf.yaml"));
        assert_eq!(status, 1, "{out}{err}");
        assert!(err.contains(form), "{option}: {err}");
        assert!(node.output("lnetctl route show").contains("net: tcp8"));
        node.output("lnetctl route del --net tcp8 --gateway 127.0.0.5@tcp");
        assert_eq!(node.output("lnetctl route show"), "");
    }
}

#[test]
fn of_several_routes_those_that_are_there_are_removed() {
    let lab = Lab::new("routes-del");
    let node = lab.node(2);
    node.output("lnetctl route add --net tcp8 --gateway 127.0.0.[5,7]@tcp");
    let (status, out, err) = node.run("lnetctl route del --net tcp8 --gateway 127.0.0.[4-7]@tcp");
    assert_eq!((status, out.as_str()), (0, ""));
    assert_eq!(err, "# hint: there is no such route: \"lnetctl route show\" lists them\n");
    assert_eq!(node.output("lnetctl route show"), "");
}

#[test]
fn commands_have_the_status_and_the_errors_of_a_kernel_node() {
    let lab = Lab::new("statuses");
    let node = lab.node(2);
    let mut differ = Vec::new();
    for (compare, command) in COMMANDS {
        let (text, status) = recorded(&format!("lnetctl {command}"));
        // The nth of those with the same words: each has the same answer.
        let own = command.replace("eth0", "lo").replace("10.99.0.1@tcp", "127.0.0.2@tcp");
        let (got, out, err) = node.run(&format!("lnetctl {own}"));
        let said: String = [out, err].concat();
        let said: String =
            said.lines().filter(|line| !line.starts_with('#')).map(|l| format!("{l}\n")).collect();
        let text = text.replace("10.99.0.1@tcp", "127.0.0.2@tcp");
        if got != status || (*compare == Text && said.trim_end() != text.trim_end()) {
            differ.push(format!("{command}: {got}, not {status}\n{said}instead of\n{text}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let lab = Lab::new("json");
    let node = lab.node(2);
    std::fs::write(lab.path("bad.yaml"), "nets: 1\n").unwrap();
    for command in [
        "set retry_count x",
        "set bogus 1",
        "set retry_count",
        "bogus",
        "net show --bogus",
        "route add --net tcp8",
        "fault drop add -s *@tcp -d *@tcp",
        "fault drop del -a",
        "peer show --nid 10.99.0.99@tcp",
        "net add --net tcp7 --if nosuch0",
        "net set --nid 127.0.0.2@tcp --conns-per-peer 128",
        "udsp del",
        "import bad.yaml",
        "import absent.yaml",
    ] {
        let (status, out, err) = node.run(&format!("lnetctl --json {command}"));
        assert_ne!(status, 0, "{command}");
        let json: serde_json::Value = serde_json::from_str(&err)
            .unwrap_or_else(|error| panic!("{command}: {error}\n{out}{err}"));
        assert!(json.is_object() && out.is_empty(), "{command}: {out}{err}");
    }
    let absent = "lnetctl --json --control /nonexistent/x.sock net show";
    let (status, _, err) = node.run(absent);
    assert!(status == 254 && serde_json::from_str::<serde_json::Value>(&err).is_ok(), "{err}");
}
