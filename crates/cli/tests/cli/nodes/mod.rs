//! Two nodes of the binary on this machine, from the command line.

mod broken;
mod changelogs;
mod configs;
mod crowds;
mod debug;
mod failures;
pub(crate) mod lab;
mod live;
mod lst;
mod routing;
mod rules;
mod statuses;
mod targets;

use std::net::TcpListener;
use std::process::Command;

use self::lab::{Lab, get, ran};

#[test]
fn nodes_find_each_other() {
    let lab = Lab::new("find");
    let (a, _b) = (lab.node(2), lab.node(3));
    assert_eq!(a.output("lctl list_nids"), "127.0.0.2@tcp\n");
    let answer = |what: &str, multi_rail: bool| {
        format!(
            "{what}:\n- primary nid: 127.0.0.3@tcp\n  Multi-Rail: {multi_rail}\n  peer_ni:\n  \
             - nid: 127.0.0.3@tcp\n"
        )
    };
    assert_eq!(a.output("lnetctl ping 127.0.0.3@tcp"), answer("ping", false));
    assert_eq!(a.output("lctl ping 127.0.0.3@tcp"), "12345-0@lo\n127.0.0.3@tcp\n");
    assert_eq!(a.output("lnetctl discover 127.0.0.3@tcp"), answer("discover", true));
    assert_eq!(a.output("lnetctl debug check --idle"), "all invariants hold\n");
    // Multi-rail, NIDs known, and NIDs of this node pushed to it.
    let peer = a.wait_for_output("lnetctl peer show -v 3", "peer state: 273\n");
    assert!(peer.starts_with("peer:\n-     primary nid: 127.0.0.3@tcp\n      Multi-Rail: true\n"));
    assert!(peer.contains("nid: 127.0.0.3@tcp\n            state: NA\n"), "{peer}");
    for count in ["send_count", "recv_count", "send_length", "recv_length"] {
        let stats = a.output("lnetctl stats show");
        let line = stats.lines().find_map(|line| line.trim().strip_prefix(count));
        let value: u64 = line.unwrap().trim_start_matches(": ").parse().unwrap();
        assert!(value > 0, "{count} in:\n{stats}");
    }
}

#[test]
fn nodes_show_their_connections_and_credits() {
    let lab = Lab::new("show");
    let metrics = format!("127.0.0.1:{}", lab.port + 1);
    let a = lab.node_with(2, &["--networks", "tcp(127.0.0.2)", "--metrics", &metrics]);
    let _b = lab.node(3);
    a.output("lnetctl discover 127.0.0.3@tcp");
    // Discovery needs only the first connection: the others may be opened later.
    a.wait_for_output("lctl --net tcp peer_list", " #3\n");
    let connections = a.output("lctl --net tcp conn_list");
    let port = lab.port;
    for (line, kind) in connections.lines().zip(["C", "I", "O"]) {
        let start = format!("12345-127.0.0.3@tcp  {kind}[0]127.0.0.2->127.0.0.3:{port} ");
        assert!(line.starts_with(&start) && line.ends_with(" nonagle"), "{connections}");
    }
    assert_eq!(connections.lines().count(), 3, "{connections}");
    assert_eq!(
        a.output("lctl --net tcp peer_list"),
        format!("12345-127.0.0.3@tcp  [1]127.0.0.2->127.0.0.3:{port} #3\n")
    );
    assert_eq!(a.output("lctl --net tcp disconnect 127.0.0.3@tcp"), "");
    a.wait_for_output("lctl --net tcp conn_list", "<no connections>\n");
    let (status, _, err) = a.run("lctl --net tcp disconnect 127.0.0.9@tcp");
    assert_eq!((status, err.as_str()), (2, "lctl: no connection with 127.0.0.9@tcp on tcp\n"));
    a.output("lnetctl ping 127.0.0.3@tcp");
    for (table, head, nid) in [
        (
            "nis",
            "nid                      status alive refs peer  rtr   max    tx   min",
            "127.0.0.2@tcp",
        ),
        (
            "peers",
            "nid                      refs state  last   max   rtr   min    tx   min queue",
            "127.0.0.3@tcp",
        ),
    ] {
        let text = a.output(&format!("lctl get_param {table}"));
        assert!(text.starts_with(&format!("{table}=\n{head}\n")), "{text}");
        assert!(text.lines().any(|line| line.starts_with(nid)), "{text}");
    }
    let stats = a.output("lctl get_param stats");
    assert_eq!(stats.trim_start_matches("stats=\n").split_whitespace().count(), 11, "{stats}");
    for page in [a.get("/metrics"), get(&metrics, "/metrics")] {
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        for line in [
            "fulmar_ni_credits_max{nid=\"127.0.0.2@tcp\"} 256",
            "fulmar_peer_credits{peer=\"127.0.0.3@tcp\",nid=\"127.0.0.3@tcp\"} 8",
        ] {
            assert!(page.lines().any(|got| got == line), "{line} is missing in:\n{page}");
        }
    }
}

#[test]
fn a_node_is_changed_while_it_runs() {
    let lab = Lab::new("change");
    let a = lab.node(2);
    let ni = |net: &str, host: u8| {
        format!(
            "-     net type: {net}\n      local NI(s):\n      -     nid: 127.0.0.{host}@{net}\n            \
             status: up\n            interfaces:\n                  0: lo\n"
        )
    };
    let lo =
        "-     net type: lo\n      local NI(s):\n      -     nid: 0@lo\n            status: up\n";
    let one = format!("net:\n{lo}{}", ni("tcp", 2));
    assert_eq!(a.output("lnetctl net show"), one);
    assert_eq!(a.output("lnetctl net add --net tcp1 --if 127.0.0.4"), "");
    assert_eq!(a.output("lnetctl net show"), format!("{one}{}", ni("tcp1", 4)));
    assert_eq!(a.output("lnetctl net del --net tcp1"), "");
    assert_eq!(a.output("lnetctl net show"), one);
    assert_eq!(a.output("lnetctl set retry_count 4"), "");
    assert!(a.output("lnetctl global show").contains("\n    retry_count: 4\n"));
    let json: serde_json::Value =
        serde_json::from_str(&a.output("lnetctl --json net show")).unwrap();
    assert_eq!(json["net"][1]["local NI(s)"][0]["nid"], "127.0.0.2@tcp");
}

#[test]
fn an_export_recreates_the_node() {
    let lab = Lab::new("export");
    let (a, _b) = (lab.node(2), lab.node(3));
    a.output("lnetctl discover 127.0.0.3@tcp");
    a.output("lnetctl set retry_count 4");
    a.output("lnetctl net add --net tcp1 --if 127.0.0.4 --peer-credits 32");
    a.output("lnetctl export --backup lnet.conf");
    let backup = a.output("lnetctl export --backup");
    assert_eq!(std::fs::read_to_string(lab.path("lnet.conf")).unwrap(), backup);
    for part in ["peer_credits: 32\n", "retry_count: 4\n", "primary nid: 127.0.0.3@tcp\n"] {
        assert!(backup.contains(part), "{part:?} is missing in:\n{backup}");
    }
    drop(a);
    let again = lab.node_with(2, &["-c", "lnet.conf"]);
    assert_eq!(again.output("lnetctl export --backup"), backup);
    drop(again);
    let other = lab.node_with(2, &["--networks", "tcp9(127.0.0.5)"]);
    let done = other.output("lnetctl import lnet.conf");
    let parts = "net tcp(lo): added\nnet tcp1(lo): added\npeer 127.0.0.3@tcp: added\nglobal ";
    assert!(done.starts_with(parts) && done.ends_with(": set\n"), "{done}");
    other.output("lnetctl net del --net tcp9");
    assert_eq!(other.output("lnetctl export --backup"), backup);
}

#[test]
fn an_absent_peer_is_reported() {
    let lab = Lab::new("absent");
    let a = lab.node(2);
    let (status, out, err) = a.run("lnetctl ping 127.0.0.9@tcp");
    assert_eq!(
        (status, out.as_str(), err.as_str()),
        (
            255,
            "manage:\n- ping:\n  errno: -111\n  descr: ! 'failed to ping 127.0.0.9@tcp: Connection \
             refused'\n",
            ""
        )
    );
}

#[test]
fn a_signal_ends_a_node_during_a_ping() {
    let lab = Lab::new("signal");
    let a = lab.node(2);
    // This peer accepts connections and never sends anything.
    let mute = TcpListener::bind(("127.0.0.9", lab.port)).unwrap();
    let mut ping = a.begin("lnetctl ping 127.0.0.9@tcp");
    let called = mute.accept().unwrap();
    // The ping would end later by itself.
    assert_eq!(a.terminate().0, Some(0));
    assert!(!ping.wait().unwrap().success());
    drop(called);
}

#[test]
fn a_node_reports_why_it_cannot_start() {
    let lab = Lab::new("refused");
    let _a = lab.node(2);
    let (status, _, err) = lab.refused(&["--networks", "tcp(127.0.0.2)"]);
    assert_eq!((status, err.lines().count()), (1, 1), "{err}");
    let expected = format!("fulmar: TCP port {} of 127.0.0.2 is in use: ", lab.port);
    assert!(err.starts_with(&expected), "{err}");

    let (status, _, err) = lab.refused(&["--networks", "tcp(192.0.2.77)"]);
    assert_eq!(status, 1, "{err}");
    let expected = "fulmar: no interface of this node has the address 192.0.2.77 for tcp\nhelp: ";
    assert!(err.starts_with(expected), "{err}");

    std::fs::write(lab.path("bad.yaml"), "net:\n  - net type: tcp\n    local NIs: []\n").unwrap();
    std::fs::write(lab.path("bad.conf"), "options lnet networks=tcp(eth0\n").unwrap();
    for (file, place) in
        [("bad.yaml", "bad.yaml:3:5: error: "), ("bad.conf", "bad.conf:1:26: error: ")]
    {
        let (status, _, err) = lab.refused(&["-c", file]);
        assert!(status == 2 && err.starts_with(place), "{status} {err}");
    }
}

#[test]
fn interop_distinguishes_invalid_requests_from_absent_nodes() {
    let lab = Lab::new("interop");
    let fulmar = |args: &[&str]| ran(Command::new(env!("CARGO_BIN_EXE_fulmar")).args(args));
    for nid in ["bogus", "10.0.0.1@o2ib", "0@lo"] {
        let (status, _, err) = fulmar(&["interop", nid]);
        assert!(status == 2 && err.contains(nid), "{status} {err}");
    }
    let port = lab.port.to_string();
    let words =
        ["interop", "127.0.0.9@tcp", "--interface", "127.0.0.2", "--timeout", "5", "--port", &port];
    let (status, out, err) = fulmar(&words);
    assert_eq!((status, err.as_str()), (1, ""), "{out}");
    assert!(out.contains("  1  FAIL  ") && out.contains("Connection refused"), "{out}");
}
