//! The binary from the command line, against a simulated node.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fulmar_control::api::{Server, ServerHandle};
use fulmar_control::testing::FakeNode;

const RECORDED: &str = include_str!("../../../../testdata/cli/lnet-node2.txt");

/// Returns the output of `command` on a real node.
fn recorded(command: &str) -> &'static str {
    let prompt = format!("$ {command}\n");
    let start = RECORDED.find(&prompt).expect("the command is recorded") + prompt.len();
    let output = &RECORDED[start..];
    &output[..output.find("[exit ").unwrap()]
}

struct Node {
    directory: PathBuf,
    handle: Option<ServerHandle>,
}

/// Result of a command: its status, standard output and standard error.
type Ran = (i32, String, String);

impl Node {
    fn start(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("fulmar-cli-{name}-{}", std::process::id()));
        let server = Server::bind(&directory.join("control.sock"), None).unwrap();
        let handle = Some(server.spawn(Arc::new(FakeNode::new())).unwrap());
        Self { directory, handle }
    }

    fn run(&self, words: &str) -> Ran {
        self.run_with(words, "")
    }

    fn run_with(&self, words: &str, input: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fulmar"))
            .args(words.split_whitespace())
            .env("FULMAR_CONTROL", self.directory.join("control.sock"))
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Runs a command that must succeed, and returns its output.
    fn output(&self, words: &str) -> String {
        let (status, out, err) = self.run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words}\n{out}");
        out
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.handle.take());
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

#[test]
fn lists_are_printed_in_either_dialect_and_as_json() {
    let node = Node::start("lists");
    let netlink = "net:\n-     net type: tcp\n      local NI(s):\n      -     nid: 10.0.0.1@tcp\n            \
         status: up\n            interfaces:\n                  0: eth0\n";
    assert_eq!(node.output("lnetctl net show"), netlink);
    assert!(node.output("lnetctl net show -v").contains("conns_per_peer: 4\n"));
    assert!(node.output("lnetctl net show -v2 --net tcp").contains("health value: 1000\n"));
    assert!(node.output("lnetctl net show --verbose=4").contains("udsp info:\n"));
    assert!(
        node.output("lnetctl --dialect cyaml net show").starts_with("net:\n    - net type: tcp\n")
    );
    let json = node.output("lnetctl net show --json");
    assert!(
        json.starts_with("{\"net\":[{\"net type\":\"tcp\",\"local NI(s)\":[{\"nid\":"),
        "{json}"
    );
    for nothing in [
        "peer show",
        "peer list",
        "route show -v 4",
        "routing show",
        "udsp show",
        "debug recovery --local",
        "lnet configure --all",
    ] {
        assert_eq!(node.output(&format!("lnetctl {nothing}")), "", "{nothing}");
    }
    let globals = recorded("lnetctl global show");
    let globals = globals.replace("drop_asym_route: 0", "drop_asym_route: 1");
    assert_eq!(node.output("lnetctl global show"), globals);
    assert_eq!(
        node.output("lnetctl cpt-of-nid 10.0.0.2@tcp"),
        "cpt-of-nid:\n- nid: 10.0.0.2@tcp\n  cpt: 0\n"
    );
    assert_eq!(
        node.output("lnetctl debug nidlist 10.0.[0-3].*@tcp 10.0.4.1@tcp"),
        "nidlist parsed to: 10.0.[0-3].*@tcp\n10.0.4.1@tcp does not match nidlist 10.0.[0-3].*@tcp\n"
    );
    assert!(node.output("lnetctl stats show").contains("\n    send_count: 7\n"));
}

#[test]
fn debug_check_reports_broken_invariants() {
    let node = Node::start("check");
    assert_eq!(node.output("lnetctl debug check"), "all invariants hold\n");
    assert_eq!(node.output("lnetctl debug check --json"), "{\"broken\":[]}\n");
    let left = "invariant 3: 1 messages are left";
    let check = "lnetctl debug check --idle --timeout 0";
    assert_eq!(node.run(check), (1, format!("{left}\n"), String::new()));
    let json = format!("{{\"broken\":[\"{left}\"]}}\n");
    assert_eq!(node.run(&format!("{check} --json")), (1, json, String::new()));
}

#[test]
fn peers_and_nets_are_added_and_removed() {
    let node = Node::start("changes");
    assert_eq!(node.output("lnetctl peer add --prim_nid 10.0.0.2@tcp --nid 10.0.[1-2].2@tcp"), "");
    let peers = node.output("lnetctl peer show --nid 10.0.1.2@tcp -v 1");
    assert!(peers.contains("min_tx_credits: -3\n"), "{peers}");
    assert_eq!(node.output("lnetctl peer list"), "peer list:\n-     nid: 10.0.0.2@tcp\n");
    assert_eq!(node.output("lnetctl peer del --prim_nid 10.0.0.2@tcp"), "");
    assert_eq!(node.output("lnetctl peer list"), "");
    assert_eq!(node.output("lnetctl net add --net tcp1 --if eth0 --credits 99"), "");
    assert!(node.output("lnetctl net show --net tcp1 -v").contains("credits: 99\n"));
    assert_eq!(node.output("lctl list_nids"), "10.0.0.1@tcp\n10.0.0.1@tcp1\n");
    assert_eq!(node.output("lctl list_nids all"), "0@lo\n10.0.0.1@tcp\n10.0.0.1@tcp1\n");
    assert_eq!(node.output("lnetctl net del --net tcp1"), "");
    assert_eq!(node.output("lnetctl set retry_count 0x3"), "");
    assert!(node.output("lnetctl global show").contains("retry_count: 3\n"));
    assert_eq!(node.output("lnetctl stats reset"), "");
    assert!(node.output("lnetctl stats show").contains("\n    send_count: 0\n"));
}

/// Commands that fail, their status, and part of their message.
const REFUSED: &[(&str, i32, &str)] = &[
    (
        "lnetctl net add --net tcp9 --if nosuch0",
        234,
        "# hint: there is no interface nosuch0 for tcp9",
    ),
    (
        "lnetctl route add --net tcp --gateway 10.0.0.9@tcp1",
        234,
        "---\nadd:\n-     route:\n      errno: -17\n      \
         descr: ! \"Route already exists or the specified network is local\"\n...\n# hint: tcp by ",
    ),
    (
        "lnetctl route add --net tcp8 --gateway 10.0.0.9@tcp9",
        234,
        "errno: -113\n      descr: ! \"No interface configured on the same net as gateway\"\n",
    ),
    (
        "lnetctl route add --net tcp8 --gateway 10.0.0.9@tcp --hop 0",
        234,
        "errno: -22\n      descr: ! \"invalid hop count must be between 1 and 255\"\n",
    ),
    (
        "lnetctl route add --net tcp8 --gateway 10.0.0.9@tcp --priority -2",
        234,
        "descr: ! \"invalid priority, must not be negative\"\n",
    ),
    (
        "lnetctl route add --net tcp8 --gateway 10.0.0.[9@tcp",
        234,
        "errno: -19\n      descr: ! \"cannot parse gateway\"\n",
    ),
    (
        "lnetctl route add --net lo --gateway 10.0.0.9@tcp",
        234,
        "errno: -13\n      descr: ! \"setting @lo not allowed\"\n",
    ),
    ("lnetctl net set --nid 10.0.0.7@tcp --state down", 234, "errno: -19\n"),
    ("lnetctl debug recovery", 234, "# hint: select NIDs: --local for "),
    ("lctl add_route 10.0.0.9@tcp", 1, "You must say '--net <network>' before 'add_route'\n"),
    ("lnetctl net show --net tcp7", 234, "errno: -3\n"),
    ("lnetctl peer add --nid 10.0.0.2@tcp", 234, "descr: ! \"missing primary NID\""),
    (
        "lnetctl set discovery x",
        255,
        "parser:\n    - set:\n          errno: -1\n          descr: cannot parse discovery value\n",
    ),
    ("lnetctl set retry_count -1", 195, "add:\n    - retry_count:\n          errno: -61\n"),
    (
        "lnetctl set routing 2",
        255,
        "descr: \"cannot parse routing value.\\nmust be 0 for disable or 1 for enable\"\n",
    ),
    ("lnetctl set tiny_buffers -2", 222, "descr: \"tiny, small and large must be >= 0\"\n"),
    ("lnetctl net show --bogus", 234, "unexpected argument '--bogus'"),
    (
        "lnetctl nest",
        255,
        "lnetctl: 'nest' is not a valid command. See 'lnetctl --list-commands'.\n",
    ),
    ("lctl conn_list", 1, "You must say '--net <network>' before 'conn_list'\n"),
    ("lctl --net o2ib conn_list", 1, "Command conn_list not compatible with o2ib NAL\n"),
    ("lctl which_nid x@y", 1, "Can't parse NID x@y"),
    ("--control", 2, "unexpected argument"),
];

#[test]
fn failures_have_the_format_and_status_of_the_tools() {
    let node = Node::start("failures");
    for (command, status) in [
        ("lnetctl ping bogus", 234),
        ("lnetctl net add --net tcp9 --if nosuch0", 234),
        ("lnetctl net del --net tcp9", 234),
        ("lnetctl set bogus 1", 255),
        ("lnetctl fault drop list", 255),
    ] {
        let (got, out, err) = node.run(command);
        assert_eq!((got, out.as_str()), (status, ""), "{command}");
        let object: String = err
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(object, recorded(command), "{command}");
    }
    for (command, status, expected) in REFUSED {
        let (got, _, err) = node.run(command);
        assert!(got == *status && err.contains(expected), "{command}: {got}\n{err}");
    }
    let (status, out, _) = node.run("lnetctl net");
    assert!(status == 234 && out.contains("Usage: lnetctl net"), "{status} {out}");
}

#[test]
fn routes_are_added_and_removed() {
    let node = Node::start("routes");
    let tcp8 = "--net tcp8 --gateway 10.0.0.55@tcp";
    assert_eq!(node.output(&format!("lnetctl route add {tcp8} --hop 1 --priority 2")), "");
    let shown = "route:\n-     net: tcp8\n      gateway: 10.0.0.55@tcp\n";
    let verbose =
        format!("{shown}      hop: 1\n      priority: 2\n      state: up\n      type: multi-hop\n");
    assert_eq!(node.output("lnetctl route show"), shown);
    assert_eq!(node.output("lnetctl route show -v"), verbose);
    let all = node.output("lnetctl route show -v 4");
    assert!(all.starts_with(&format!("{verbose}      statistics:\n")), "{all}");
    assert!(all.contains("latency_max_nsec: 2000\n"), "{all}");
    let line = "net               tcp8 hops 1 gw                    10.0.0.55@tcp up pri 2\n";
    assert_eq!(node.output("lctl show_route"), line);
    assert_eq!(node.output("lctl route_list"), line);
    assert!(node.output("lctl get_param routers").ends_with("4          1    up 10.0.0.55@tcp\n"));
    assert_eq!(node.output(&format!("lnetctl route del {tcp8}")), "");
    assert_eq!(node.output("lnetctl route show"), "");
    node.output("lnetctl route add --net tcp8 --gateway 10.0.0.[1-4]@tcp --hop -1");
    assert_eq!(node.output("lnetctl route show").matches("net: tcp8\n").count(), 4);
    let one = node.output("lnetctl route show --gateway 10.0.0.3@tcp --hop -1 -v");
    assert!(one.matches("gateway").count() == 1 && one.contains("hop: -1\n"), "{one}");
    assert_eq!(node.output("lnetctl route show --net tcp9"), "");
    assert_eq!(node.output("lctl --net tcp9 add_route 10.0.0.9@tcp 3 7"), "");
    assert!(node.output("lctl route_list").contains("tcp9 hops 3 gw "));
    assert_eq!(node.output("lctl --net tcp9 del_route 10.0.0.9@tcp"), "");
    let (status, out, _) = node.run("lnetctl route add --hop 1");
    let expected = "missing mandatory parameters:'net , gateway'\n";
    assert_eq!((status, out.as_str()), (234, expected));
}

#[test]
fn a_node_becomes_a_router_and_drains() {
    let node = Node::start("drains");
    assert_eq!(node.output("lnetctl routing show -v 4"), "");
    let idle = node.output("lnetctl routing drain");
    assert_eq!(idle, "This node is not a router: there is nothing to drain.\n");
    assert_eq!(node.output("lnetctl set routing 1"), "");
    let shown = node.output("lnetctl routing show");
    assert!(shown.starts_with("routing:\n    - cpt[0]:\n          tiny:\n"), "{shown}");
    let end = "    - enable: 1\nbuffers:\n    tiny: 2048\n    small: 16384\n    large: 1024\n";
    assert!(shown.ends_with(end), "{shown}");
    assert!(node.output("lnetctl routing show -v").contains("      state: enabled\n"));
    let backup = node.output("lnetctl export --backup");
    assert!(backup.contains("\nrouting:\n    enable: 1\nbuffers:\n    tiny: 2048\n"), "{backup}");
    let drained = node.output("lnetctl routing drain");
    assert!(drained.starts_with("Draining: ") && drained.contains("\nDrained: "), "{drained}");
    assert!(node.output("lnetctl routing show -v").contains("      state: disabled\n"));
    node.output("lnetctl set routing 1");
    let (status, out, err) = node.run("lnetctl routing drain --timeout 0");
    assert!(status == 146 && !out.contains("Drained"), "{status} {out}");
    assert!(err.contains("descr: \"still draining after 0 s: no messages left, "), "{err}");
    let json = node.output("lnetctl --json routing show -v");
    assert!(json.contains("\"state\":\"disabled\""), "{json}");
}

#[test]
fn rails_are_disabled_and_recover() {
    let node = Node::start("rails");
    node.output("lnetctl net set --nid 10.0.0.1@tcp --state down");
    assert!(
        node.output("lnetctl net show").contains("nid: 10.0.0.1@tcp\n            status: down\n")
    );
    assert!(node.output("lnetctl net show -v").contains("            enabled: false\n"));
    node.output("lnetctl net set --nid 10.0.0.1@tcp --state up");
    assert!(!node.output("lnetctl net show -v").contains("enabled"));
    assert_eq!(node.output("lnetctl debug recovery --local --peer"), "");
    node.output("lnetctl peer add --prim_nid 10.0.0.2@tcp");
    node.output("lnetctl net set --all --health 500");
    assert!(node.output("lnetctl net show -v 2").contains("health value: 500\n"));
    assert_eq!(
        node.output("lnetctl debug recovery --local --peer"),
        "Local NI recovery:\n      nid-0: 10.0.0.1@tcp\n\
         Peer NI recovery:\n      nid-0: 10.0.0.2@tcp\n"
    );
    node.output("lnetctl peer set --all --health 2000");
    assert!(node.output("lnetctl peer show -v 2").contains("health value: 1000\n"));
    let (status, _, err) = node.run("lnetctl net set --all --state down");
    assert!(status == 234 && err.contains("cannot be used with"), "{status} {err}");
}

#[test]
fn pings_print_answers_and_then_failures() {
    let node = Node::start("pings");
    let (status, out, err) = node.run("lnetctl ping 10.0.0.2@tcp 10.0.0.99@tcp -t 1");
    assert_eq!(
        (status, out.as_str(), err.as_str()),
        (
            255,
            "ping:\n- primary nid: 10.0.0.2@tcp\n  Multi-Rail: false\n  peer_ni:\n  - nid: 10.0.0.2@tcp\n\
             manage:\n- ping:\n  errno: -113\n  descr: ! 'failed to ping 10.0.0.99@tcp: No route to host'\n",
            ""
        )
    );
    assert!(node.output("lnetctl discover --force 10.0.0.[2-3]@tcp").contains("nid: 10.0.0.3@tcp"));
    let (status, out, err) = node.run("lnetctl --dialect cyaml ping 10.0.0.99@tcp");
    assert!(status == 255 && out.is_empty() && err.contains("descr: \"failed to ping"), "{err}");
    assert_eq!(node.output("lctl ping 10.0.0.2@tcp 5"), "12345-0@lo\n10.0.0.2@tcp\n");
    let (status, out, _) = node.run("lctl ping 10.0.0.99@tcp");
    assert_eq!((status, out.as_str()), (113, "failed to ping 10.0.0.99@tcp: No route to host\n"));
}

#[test]
fn an_export_can_be_imported() {
    let node = Node::start("export");
    node.output("lnetctl peer add --prim_nid 10.0.0.2@tcp");
    node.output("lnetctl export --backup lnet.conf");
    let backup = node.output("lnetctl export --backup");
    assert_eq!(std::fs::read_to_string(node.directory.join("lnet.conf")).unwrap(), backup);
    node.output("lnetctl net del --net tcp");
    node.output("lnetctl peer del --prim_nid 10.0.0.2@tcp");
    node.output("lnetctl import lnet.conf");
    assert_eq!(node.output("lnetctl export --backup"), backup);
    assert!(
        node.output("lnetctl import --show lnet.conf").starts_with("net:\n-     net type: tcp")
    );
    let (status, _, err) = node.run_with(
        "lnetctl import",
        "route:\n- net: tcp8\n  gateway: 10.0.0.55@tcp\n  hop: -1\nrouting:\n  enable: 1\nbuffers:\n  large: 9\n",
    );
    assert_eq!((status, err.as_str()), (0, ""));
    let backup = node.output("lnetctl export --backup");
    for part in ["\n-     net: tcp8\n      gateway: 10.0.0.55@tcp\n", "\n    large: 9\n"] {
        assert!(backup.contains(part), "{part:?} is missing in:\n{backup}");
    }
    node.output("lnetctl export --backup lnet.conf");
    let shown = node.output("lnetctl import --show lnet.conf");
    assert!(shown.contains("\nroute:\n-     net: tcp8\n"), "{shown}");
    let (status, _, err) = node.run_with("lnetctl import", "net:\n  - net tipe: tcp\n");
    assert_eq!(status, 234);
    assert_eq!(
        err,
        "import: standard input:2:5: error: unknown key \"net tipe\"\n 2 |   - net tipe: tcp\n   |     ^\n\
         help: did you mean \"net type\"?\n"
    );
}

#[test]
fn commands_are_read_line_by_line() {
    let node = Node::start("lines");
    let lines = "net show\n\n# a comment\nstats reset\nquit\nnonsense\n";
    let (status, out, err) = node.run_with("lnetctl", lines);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.starts_with("net:\n-     net type: tcp"), "{out}");
    let (status, _, err) = node.run_with("lnetctl", "nonsense\nstats reset\n");
    assert!(status == 255 && err.contains("'nonsense' is not a valid command"), "{err}");
    assert_eq!(node.run_with("lnetctl", "ignore_errors\nnonsense\nstats reset\n").0, 0);
    assert_eq!(
        node.run_with("lctl --net tcp", "interface_list\n").1,
        "10.0.0.1: (10.0.0.1/255.255.255.0) npeer 0 nroute 1\n"
    );
}

#[test]
fn the_tools_run_by_their_own_names() {
    let node = Node::start("names");
    for (name, words) in [("lnetctl", "net show"), ("lctl", "list_nids"), ("lst", "list-commands")]
    {
        let link = node.directory.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fulmar"), &link).unwrap();
        let output = Command::new(&link)
            .args(words.split_whitespace())
            .env("FULMAR_CONTROL", node.directory.join("control.sock"))
            .output()
            .unwrap();
        assert!(output.status.success());
        let same = node.output(&format!("{name} {words}"));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), same);
    }
}

#[test]
fn lctl_prints_the_format_of_lustre() {
    let node = Node::start("lctl");
    assert_eq!(
        node.output("lctl --net tcp conn_list"),
        "12345-10.0.0.2@tcp   C[0]10.0.0.1->10.0.0.2:988 87040/131072 nonagle\n"
    );
    assert_eq!(node.output("lctl --net tcp peer_list"), "<no peers>\n");
    assert_eq!(node.output("lctl --net tcp disconnect 10.0.0.2@tcp"), "");
    assert_eq!(node.output("lctl show_route"), "");
    assert_eq!(node.output("lctl which_nid 10.0.0.9@o2ib 10.0.0.9@tcp"), "10.0.0.9@tcp\n");
    let routes = format!("routes=\n{}", recorded("cat /sys/kernel/debug/lnet/routes"));
    assert_eq!(node.output("lctl get_param routes"), routes);
    assert!(node.output("lctl get_param nis stats").contains("\nstats=0 0 0 7 0 0 0 0 0 0 0\n"));
}

#[test]
fn parameters_are_printed_in_every_form() {
    let node = Node::start("parameters");
    let routes = recorded("cat /sys/kernel/debug/lnet/routes");
    let each_line: String = routes.lines().map(|line| format!("routes={line}\n")).collect();
    for (words, expected) in [
        ("get_param -n stats routes", format!("0 0 0 7 0 0 0 0 0 0 0\n{routes}")),
        ("get_param -N routes stats", "routes\nstats\n".into()),
        ("get_param -F stats", "stats==0 0 0 7 0 0 0 0 0 0 0\n".into()),
        ("get_param -NF routes", "routes\n".into()),
        ("get_param -H routes", each_line),
        ("get_param -y stats", "stats: 0 0 0 7 0 0 0 0 0 0 0\n".into()),
        ("get_param -w routes", String::new()),
        ("get_param -N rout*", "routers\nroutes\n".into()),
        ("list_param -F *", "buffers\nnis=\npeers=\nrouters\nroutes\nstats=\n".into()),
        ("list_param -D *", String::new()),
    ] {
        assert_eq!(node.output(&format!("lctl {words}")), expected, "{words}");
    }
    // What exists is printed beside what does not.
    let (status, out, err) = node.run("lctl get_param -n nothing stats");
    assert_eq!((status, out.as_str()), (2, "0 0 0 7 0 0 0 0 0 0 0\n"));
    assert_eq!(err, "error: get_param: param_path 'nothing': No such file or directory\n");
    assert_eq!(node.run("lctl get_param -R none"), (2, String::new(), String::new()));
    let (status, _, err) = node.run("lctl list_param a.b");
    let second = "error: list_param: listing 'a/b': No such file or directory\n";
    assert_eq!(status, 2);
    assert_eq!(
        err,
        format!("error: list_param: param_path 'a/b': No such file or directory\n{second}")
    );
    let (status, _, err) = node.run("lctl set_param stats=");
    assert_eq!((status, err.as_str()), (22, "error: set_param: setting stats: Invalid argument\n"));
}

#[test]
fn the_commands_of_a_group_are_listed() {
    let node = Node::start("groups");
    let listed = node.output("lnetctl route --list-commands");
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["quit", "exit", "help", "--help"]);
    assert_eq!(rows[2..], [vec!["--ignore_errors", "ignore_errors", "add", "del"], vec!["show"]]);
    assert!(node.output("lctl net_drop list-commands").contains("reset"));
    assert_eq!(node.run("lnetctl global2 --list-commands").0, 255);
}

#[test]
fn lst_uses_the_console_of_the_node() {
    let node = Node::start("lst");
    let (status, out, err) = node.run("lst show_session");
    assert_eq!((status, out.as_str()), (255, ""));
    let expected =
        "lst: this node has no selftest role\n# hint: start it with \"fulmar node --role ";
    assert!(err.starts_with(expected), "{err}");
    let (status, _, err) = node.run("lst show_session --control /nonexistent/x.sock");
    assert!(status == 255 && err.starts_with("lst: no node answers at /nonexistent"), "{err}");
    let (status, out, _) = node.run_with("lst", "help\nquit\nnonsense\n");
    assert!(status == 0 && out.starts_with("usage: lst [COMMAND]"), "{out}");
    assert_eq!(node.run_with("lst", "nonsense\nhelp\n").0, 255);
}

#[test]
fn without_a_node_one_line_gives_a_remedy() {
    let node = Node::start("absent");
    let (status, out, err) = node.run("lnetctl --control /nonexistent/x.sock net show");
    assert_eq!((status, out.as_str()), (254, ""));
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("lnetctl: no node answers at /nonexistent/x.sock ("), "{err}");
}

#[test]
fn a_node_checks_its_configuration() {
    let node = Node::start("node");
    let file = node.directory.join("node.yaml");
    std::fs::write(&file, "node:\n  acept: all\n").unwrap();
    let (status, _, err) = node.run("node -c node.yaml");
    assert_eq!(status, 2);
    assert!(err.starts_with("node.yaml:2:3: error: unknown key \"acept\""), "{err}");
    std::fs::write(&file, "node:\n  networks: tcp(lo)\nglobal:\n  retry_count: 3\n").unwrap();
    assert_eq!(node.run("node -c node.yaml --check").0, 0);
    let (status, _, err) = node.run("node --networks tcp(eth0 --check");
    assert!(status == 2 && err.contains("networks=:1:4: error: \"(\" is never closed"), "{err}");
    let (status, _, err) = node.run("node -c absent.yaml");
    assert!(status == 2 && err.starts_with("fulmar: cannot read absent.yaml:"), "{err}");
}

#[test]
fn a_demo_with_a_closed_reader_ends_silently() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.args(["demo", "nodes"]).stdout(writer).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(1), ""));
}

#[test]
fn completion_and_manual_pages_are_written() {
    let node = Node::start("pages");
    for shell in ["bash", "zsh", "fish"] {
        assert!(node.output(&format!("completion {shell}")).contains("lnetctl"));
        assert!(node.output(&format!("completion {shell} lst")).contains("add_test"));
    }
    node.output("man --dir own --tools tools");
    let read = |page: &str| std::fs::read_to_string(node.directory.join(page)).unwrap();
    for page in ["own/man1/fulmar-lnetctl.1", "tools/man8/lnetctl.8"] {
        let page = read(page);
        assert!(page.contains("Add interfaces to a network"), "{page}");
        assert!(page.contains("How many routers a message passes through"), "{page}");
    }
    assert!(read("tools/man8/lst.8").contains("How many clients share how many servers"));
    assert!(read("own/man1/fulmar-node.1").contains("FULMAR_LOG"));
    assert!(read("own/man1/fulmar.1").contains("fulmar\\-node(1)"));
    assert!(read("own/man8/mount.fulmar.8").contains("mount.fulmar \\- Mount a file system"));
    assert_eq!(node.output("man lfs"), read("tools/man1/lfs.1"));
}
