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
    (Text, "fault delay add -s *@tcp -d *@tcp -r 10 -l 0"),
    (Status, "debug recovery"),
    (Status, "debug nidlist bogus"),
    (Status, "export /no-such-dir/x"),
    (Status, "net"),
    (Status, "lnet configure"),
    (Status, "lnet unconfigure"),
];

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
