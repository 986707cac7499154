//! `lst` and its test nodes, from the command line.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::lab::{Lab, Node};

const KEY: u32 = 4711;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a test node at 127.0.0.`host`.
fn test_node(lab: &Lab, host: u8) -> Node {
    test_node_with(lab, host, "")
}

/// Starts a test node with parameters of lnet_selftest, such as `session_timeout: 2`.
fn test_node_with(lab: &Lab, host: u8, parameter: &str) -> Node {
    let file = lab.path(&format!("{host}.yaml"));
    let options = match parameter {
        "" => String::new(),
        parameter => format!("    options:\n        lnet_selftest:\n            {parameter}\n"),
    };
    let text =
        format!("node:\n    roles: [selftest]\n    networks: tcp(127.0.0.{host})\n{options}");
    std::fs::write(&file, text).unwrap();
    lab.node_with(host, &["-c", file.to_str().unwrap()])
}

/// Runs a command that must succeed, and returns its output.
fn output(node: &Node, words: &str) -> String {
    let (status, out, err) = node.lst(KEY, words);
    assert_eq!((status, err.as_str()), (0, ""), "lst {words}\n{out}");
    out
}

/// Creates a session on the node at 2, with group `c` of that node and `s` of the node at 3.
fn session(console: &Node) {
    assert_eq!(
        output(console, "new_session --timeout 60 far"),
        "SESSION: far FEATURES: 1 TIMEOUT: 60 FORCE: No\n"
    );
    for (group, host) in [("c", 2), ("s", 3)] {
        assert_eq!(
            output(console, &format!("add_group {group} 127.0.0.{host}@tcp")),
            format!("127.0.0.{host}@tcp are added to session\n")
        );
    }
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "{what} within {TIMEOUT:?}");
        sleep(Duration::from_millis(50));
    }
}

/// Returns the third word of each line of `lst stat` with numbers, as lst-survey reads it.
fn figures(text: &str) -> Vec<f64> {
    let lines = text.lines().filter(|line| line.starts_with("[R]") || line.starts_with("[W]"));
    lines.map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_console_drives_a_client_and_a_server() {
    let lab = Lab::new("lst-drive");
    let (a, _b) = (test_node(&lab, 2), test_node(&lab, 3));
    session(&a);
    assert_eq!(output(&a, "add_batch b1"), "");
    for test in [
        "--loop 50 --concurrency 2 --from c --to s ping",
        "--loop 20 --concurrency 2 --from c --to s brw write check=full size=8k",
        "--loop 20 --from c --to s brw read check=simple size=1M",
    ] {
        assert_eq!(
            output(&a, &format!("add_test --batch b1 {test}")),
            "Test was added successfully\n"
        );
    }
    assert_eq!(output(&a, "list_group"), "1) c\n2) s\nTotal 2 groups\n");
    assert!(output(&a, "list_batch b1").starts_with("Batch: b1 Tests: 3 State: 176\n"));
    assert_eq!(output(&a, "run b1"), "b1 is running now\n");
    eventually("every loop is done", || output(&a, "query b1") == "b1 [0] is stopped\n");
    let stat = output(&a, "stat --delay 1 --count 2 c s");
    assert_eq!(figures(&stat).len(), 16, "{stat}");
    let errors = output(&a, "show_error --session c s");
    assert_eq!(errors, "c:\nTotal 0 error nodes in c\ns:\nTotal 0 error nodes in s\n");
    assert_eq!(output(&a, "stop b1"), "Batch is stopped\n");
    assert!(
        output(&a, "ping --session").contains("12345-127.0.0.3@tcp: Active [session: far id: ")
    );
    assert_eq!(output(&a, "end_session"), "");
    let (status, _, err) = a.lst(KEY, "show_session");
    assert_eq!(status, 255);
    assert!(err.starts_with("No session exists\n"), "{err}");
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let lab = Lab::new("lst-wrong");
    let (a, _b) = (test_node(&lab, 2), test_node(&lab, 3));
    let fails = |words: &str, status: i32, begin: &str| {
        let (got, out, err) = a.lst(KEY, words);
        assert_eq!(got, status, "lst {words}\n{out}{err}");
        assert!(err.starts_with(begin), "lst {words}\n{out}{err}");
    };
    fails("add_batch b1", 255, "No session exists\n");
    session(&a);
    fails("new_session again", 255, "session already exists\n");
    fails("run nosuch", 255, "Can't find batch in current session\n");
    fails("add_test --from c --to nosuch ping", 255, "");
    fails(
        "add_test --batch nosuch --from c --to s ping",
        255,
        "Can't find test in current session\n",
    );
    fails(
        "add_test --from c --to s brw write size=2M",
        255,
        "Size exceed limitation: 2097152 bytes\n",
    );
    fails("add_test --from c --to s brw write size=100", 255, "Invalid size 100\n");
    fails("add_test --from c --to s nonsense", 255, "Unknow test name nonsense\n");
    fails("list_batch nosuch", 255, "");
    fails("add_group x 127.0.0.9@tcp", 254, "create session RPC failed on 12345-127.0.0.9@tcp: ");
    fails("bogus", 255, "lst: 'bogus' is not a valid command. See 'lst --list-commands'.\n");
    let (status, _, err) = a.lst(KEY + 1, "list_group");
    assert_eq!(status, 255);
    assert!(err.starts_with("Unmatched session key or not root\n"), "{err}");
    let (status, _, err) = a.run("lst list_group");
    assert_eq!(status, 255);
    assert!(err.starts_with("Can't find env LST_SESSION or value is not valid\n"), "{err}");
}

#[test]
fn a_node_without_the_role_reports_how_to_get_it() {
    let lab = Lab::new("lst-role");
    let a = lab.node(2);
    let (status, _, err) = a.lst(KEY, "new_session x");
    assert_eq!(status, 255);
    assert!(err.contains("no selftest role") && err.contains("--role selftest"), "{err}");
}

#[test]
fn a_second_console_takes_a_node_only_with_force() {
    let lab = Lab::new("lst-two");
    let (a, b, _c) = (test_node(&lab, 2), test_node(&lab, 3), test_node(&lab, 4));
    output(&a, "new_session first");
    output(&a, "add_group g 127.0.0.4@tcp");
    output(&b, "new_session second");
    let (status, _, err) = b.lst(KEY, "add_group g 127.0.0.4@tcp");
    assert_eq!(status, 253, "{err}");
    let busy = "operation create session failed on 12345-127.0.0.4@tcp: Device or resource busy\n";
    assert!(err.starts_with(busy), "{err}");
    let forced = "SESSION: third FEATURES: 1 TIMEOUT: 300 FORCE: Yes\n";
    assert_eq!(output(&b, "new_session --force third"), forced);
    output(&b, "add_group g 127.0.0.4@tcp");
    output(&b, "list_group g --active");
    let (_, out, _) = a.lst(KEY, "ping --group g");
    assert!(out.contains("12345-127.0.0.4@tcp: Busy [session: third id: 127.0.0.3@tcp]"), "{out}");
}

#[test]
fn a_killed_node_is_reported_and_the_others_continue() {
    let lab = Lab::new("lst-dies");
    let (a, _b) = (test_node_with(&lab, 2, "rpc_timeout: 2"), test_node(&lab, 3));
    let c = test_node(&lab, 4);
    output(&a, "new_session far");
    output(&a, "add_group c 127.0.0.2@tcp");
    output(&a, "add_group s 127.0.0.[3-4]@tcp");
    output(&a, "add_test --distribute 1:2 --concurrency 2 --from c --to s brw write size=64k");
    output(&a, "run");
    drop(c);
    eventually("the failure is counted", || {
        let (_, _, err) = a.lst(KEY, "show_error c");
        err.contains("12345-127.0.0.2@tcp: [Session ") && !err.contains("Session 0 brw errors")
    });
    let before = figures(&output(&a, "stat --count 1 --delay 1 --bw c"));
    assert!(before.iter().any(|rate| *rate > 0.0), "the other pair continues: {before:?}");
    let (status, out, err) = a.lst(KEY, "show_error --session s");
    assert_eq!((status, out.lines().last()), (254, Some("Total 1 error nodes in s")), "{err}");
    assert!(err.contains("can't show error on 12345-127.0.0.4@tcp"), "{err}");
    output(&a, "stop --force");
    let (_, _, err) = a.lst(KEY, "end_session");
    assert!(!err.contains("127.0.0.3"), "{err}");
}

#[test]
fn a_killed_console_leaves_no_session_behind() {
    let lab = Lab::new("lst-orphan");
    let (a, b) = (test_node(&lab, 2), test_node_with(&lab, 3, "session_timeout: 2"));
    output(&a, "new_session far");
    output(&a, "add_group s 127.0.0.3@tcp");
    drop(a);
    // The node is free for another console once the session has expired.
    eventually("the session expires", || {
        b.lst(KEY, "new_session --force mine");
        b.lst(KEY, "add_group g 127.0.0.3@tcp").0 == 0
    });
}

#[test]
fn damaged_data_are_counted_where_they_are_found() {
    let lab = Lab::new("lst-damage");
    let a = test_node_with(&lab, 2, "brw_inject_errors: 3");
    let _b = test_node(&lab, 3);
    session(&a);
    output(&a, "add_test --loop 40 --from c --to s brw write check=full size=4k");
    output(&a, "run");
    // A unit stops at its first error.
    eventually("the load ends", || output(&a, "query") == "batch [0] is stopped\n");
    let (_, out, err) = a.lst(KEY, "show_error c");
    assert_eq!(out, "c:\nTotal 1 error nodes in c\n", "{err}");
    let counted = "12345-127.0.0.2@tcp: [Session 1 brw errors, 0 ping errors]";
    assert!(err.starts_with(counted), "{err}");
}

#[test]
fn one_command_measures_a_path() {
    let lab = Lab::new("lst-run");
    let (a, _b) = (test_node(&lab, 2), test_node(&lab, 3));
    let ends = "--from 127.0.0.2@tcp --to 127.0.0.3@tcp --time 1 --warmup 0";
    let out = a.output(&format!("lst run {ends} brw write --size 64k --concurrency 4"));
    for word in ["MB/s", "MiB/s", "median", "p99", "127.0.0.2@tcp", "total"] {
        assert!(out.contains(word), "{word} is missing in:\n{out}");
    }
    let json = a.output(&format!("lst run {ends} --json ping"));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(report.is_object(), "{json}");
    let sweep =
        format!("lst run {ends} --sweep concurrency=1..2x2,size=4k,8k --repeats 1 --csv brw read");
    let csv = a.output(&sweep);
    assert_eq!(csv.lines().count(), 5, "{csv}");
    // No session is left.
    let (status, _, err) = a.lst(KEY, "show_session");
    assert_eq!(status, 255, "{err}");
    let (status, _, err) =
        a.run("lst run --from 127.0.0.2@tcp --to 127.0.0.3@tcp brw write --size 2M");
    assert_eq!(status, 2, "{err}");
    for option in ["--repeats 2", "--markdown"] {
        let (status, _, err) = a.run(&format!("lst run {ends} {option} ping"));
        assert!(status == 2 && err.contains("add --sweep, such as"), "{status} {err}");
    }
}

#[test]
fn a_mesh_names_the_worst_pair() {
    let lab = Lab::new("lst-mesh");
    let (a, _b, _c) = (test_node(&lab, 2), test_node(&lab, 3), test_node(&lab, 4));
    let out = a.output("lst mesh 127.0.0.[2-4]@tcp --time 0.2 --size 64k");
    for word in ["127.0.0.2@tcp", "127.0.0.3@tcp", "127.0.0.4@tcp", "worst"] {
        assert!(out.to_lowercase().contains(word), "{word} is missing in:\n{out}");
    }
}

#[test]
fn a_node_measures_itself() {
    let lab = Lab::new("lst-self");
    let a = test_node(&lab, 2);
    for test in ["ping", "brw read --size 64k --check full"] {
        let out =
            a.output(&format!("lst run --from 127.0.0.2@tcp --to 127.0.0.2@tcp --time 0.3 {test}"));
        assert!(out.contains("127.0.0.2@tcp"), "{out}");
    }
    a.output("lctl list_nids");
}
