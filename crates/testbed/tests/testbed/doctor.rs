//! `fulmar doctor` at both ends of paths, in network namespaces.
//!
//! Rates are compared only with a link that is slow enough for any machine.

use std::process::Command;

use fulmar_testbed::lab::{Host, Lab, Program, Rate, Settings};
use serde_json::Value;

/// Returns a laboratory with the binary under test.
fn lab() -> Option<Lab> {
    Lab::or_not_run()
}

/// Two hosts with a cable between them, at 10.1.0.1 and 10.1.0.2.
fn neighbours(lab: &Lab) -> (Host, Host) {
    let (here, there) = (lab.host("here").unwrap(), lab.host("there").unwrap());
    here.cable("eth0", (&there, "eth0")).unwrap();
    here.address("eth0", "10.1.0.1/24").unwrap();
    there.address("eth0", "10.1.0.2/24").unwrap();
    (here, there)
}

/// Runs `doctor serve` on a host until the result is dropped.
fn serve(lab: &Lab, host: &Host) -> Program {
    let mut program = Program::start(host.command(lab.fulmar()).args(["doctor", "serve"])).unwrap();
    program.wait_for("Serving at").unwrap();
    program
}

/// Returns the report of `doctor` with these words on a host, and its exit status.
fn examine(lab: &Lab, host: &Host, words: &str) -> (Value, i32) {
    let mut command = host.command(lab.fulmar());
    command.args(["doctor", "--json"]).args(words.split(' '));
    // A node outside of the namespaces is not asked.
    read(command.env("FULMAR_CONTROL", "/nonexistent/control.sock"))
}

fn read(command: &mut Command) -> (Value, i32) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
    });
    (report, output.status.code().unwrap())
}

/// Returns the findings of a check.
fn findings<'a>(report: &'a Value, check: &str) -> Vec<&'a Value> {
    let checks = report["checks"].as_array().unwrap();
    let of = checks.iter().find(|one| one["check"] == check);
    of.unwrap_or_else(|| panic!("{check} was not made: {report}"))["findings"]
        .as_array()
        .unwrap()
        .iter()
        .collect()
}

#[test]
fn a_narrow_link_between_two_routers_and_a_closed_port_are_found() {
    let Some(lab) = lab() else { return };
    let hosts = ["here", "near", "far", "there"].map(|name| lab.host(name).unwrap());
    let [here, near, far, there] = &hosts;
    for (number, (left, right)) in [(here, near), (near, far), (far, there)].iter().enumerate() {
        left.cable("right", (right, "left")).unwrap();
        left.address("right", &format!("10.{number}.0.1/24")).unwrap();
        right.address("left", &format!("10.{number}.0.2/24")).unwrap();
    }
    for (host, way, next) in [
        (here, "10.2.0.0/24", "10.0.0.2"),
        (near, "10.2.0.0/24", "10.1.0.2"),
        (far, "10.0.0.0/24", "10.1.0.1"),
        (there, "10.0.0.0/24", "10.2.0.1"),
    ] {
        host.ip(&["route", "add", way, "via", next]).unwrap();
    }
    for host in [near, far] {
        host.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]).unwrap();
    }
    near.ip(&["link", "set", "right", "mtu", "1400"]).unwrap();
    far.ip(&["link", "set", "left", "mtu", "1400"]).unwrap();
    let served = serve(&lab, there);

    let (report, status) = examine(&lab, here, "check 10.2.0.2 --only mtu,port,tcp --time 1");
    let mtu = &report["measured"]["mtu"];
    assert_eq!((&mtu["out"], &mtu["back"]), (&1400.into(), &1400.into()), "{report}");
    assert_eq!(mtu["learned"], 1400, "the router says so: {report}");
    let found = findings(&report, "mtu");
    assert_eq!(found[0]["level"], "warning", "{found:?}");
    assert!(found[0]["remedy"].as_str().unwrap().contains("mtu 1400"), "{found:?}");
    let found = findings(&report, "port");
    assert_eq!(found[0]["level"], "error", "{found:?}");
    assert_eq!(found[0]["what"], "TCP port 988 is closed");
    assert!(report["measured"]["tcp"][0]["bytes"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(status, 1);

    drop(served);
    let (report, _) = examine(&lab, here, "check 10.2.0.2 --only mtu");
    let mtu = &report["measured"]["mtu"];
    assert_eq!((&mtu["out"], &mtu["one_way"]), (&1400.into(), &true.into()), "by ICMP: {report}");
    let found = findings(&report, "mtu");
    assert_eq!((found.len(), &found[0]["level"]), (1, &"warning".into()), "{found:?}");
}

#[test]
fn a_black_hole_for_large_packets_is_found_and_small_requests_pass() {
    let Some(lab) = lab() else { return };
    let hosts = ["here", "middle", "there"].map(|name| lab.host(name).unwrap());
    let [here, middle, there] = &hosts;
    for (number, (left, right)) in [(here, middle), (middle, there)].iter().enumerate() {
        left.cable("right", (right, "left")).unwrap();
        for (host, device, end) in [(left, "right", 1), (right, "left", 2)] {
            host.address(device, &format!("10.{number}.0.{end}/24")).unwrap();
            host.ip(&["link", "set", device, "mtu", "9000"]).unwrap();
        }
    }
    here.ip(&["route", "add", "10.1.0.0/24", "via", "10.0.0.2"]).unwrap();
    there.ip(&["route", "add", "10.0.0.0/24", "via", "10.1.0.1"]).unwrap();
    middle.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]).unwrap();
    // Longer packets in the other direction are silently lost on arrival.
    middle.ip(&["link", "set", "right", "mtu", "1500"]).unwrap();
    let _served = serve(&lab, there);

    let (report, status) = examine(&lab, here, "check 10.1.0.2 --only mtu,sockets --time 1");
    let mtu = &report["measured"]["mtu"];
    // A virtual cable carries packets that are some bytes longer than its end should accept.
    assert!(mtu["out"] == 1500 && (1500..1520).contains(&mtu["back"].as_u64().unwrap()), "{mtu}");
    assert_eq!((&mtu["learned"], &mtu["learned_remote"]), (&1500.into(), &9000.into()), "{mtu}");
    let found = findings(&report, "mtu");
    assert_eq!((&found[0]["level"], status), (&"error".into(), 1), "{found:?}");
    assert!(found[0]["what"].as_str().unwrap().contains("from the remote host"), "{found:?}");
    let hosts = findings(&report, "sockets");
    assert!(hosts.iter().any(|one| one["place"] == "remote"), "the remote host reported: {report}");
}

#[test]
fn a_slow_link_shows_its_rate_and_its_shaper() {
    let Some(lab) = lab() else { return };
    let (here, there) = neighbours(&lab);
    for host in [&here, &there] {
        host.limit("eth0", Rate::megabits(50)).unwrap();
    }
    let _served = serve(&lab, &there);
    let words = "10.1.0.2 --only tcp,udp,queue --time 2 --streams 2 --udp-rate 10M";
    let (report, status) = examine(&lab, &here, words);
    let runs = report["measured"]["tcp"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let settled = run["settled"].as_f64().unwrap();
        assert!((10e6..100e6).contains(&settled), "{run}");
    }
    let found = findings(&report, "queue");
    let says = |one: &Value, what: &str| one["what"].as_str().unwrap().contains(what);
    // What this machine has dropped since it was started is not about the link.
    let of_link: Vec<_> = found.iter().filter(|one| !says(one, "its backlog was full")).collect();
    assert_eq!(of_link.len(), 2, "{found:?}");
    for one in of_link {
        assert!(says(one, "a traffic shaper (tbf)"), "{one}");
    }
    assert!(report["measured"]["udp"]["out"]["seen"]["received"].as_u64().unwrap() > 0);
    assert_eq!(status, 0, "{report}");
}

#[test]
fn a_node_is_queried_with_and_without_a_local_node_and_a_server() {
    let Some(lab) = lab() else { return };
    let (here, there) = neighbours(&lab);
    let _far = lab.node(&there, &Settings::networks("tcp(eth0)")).unwrap();
    let (report, status) = examine(&lab, &here, "10.1.0.2@tcp --only port,lnet,mtu,limits");
    let answered = &report["measured"]["lnet"]["answered"];
    assert_eq!(answered["nids"], Value::from(vec!["10.1.0.2@tcp"]), "{report}");
    assert!(answered["socklnd"].is_u64() && answered["source_port"].as_u64() < Some(1024));
    let why = |check: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|one| one["check"] == check).unwrap()["not_examined"].clone()
    };
    for check in ["mtu", "limits"] {
        let why = why(check).as_str().unwrap().to_owned();
        assert!(why.contains("run \"fulmar doctor serve\" there"), "{why}");
    }
    assert_eq!(status, 0, "{report}");

    let near = lab.node(&here, &Settings::networks("tcp(eth0)")).unwrap();
    let words = ["doctor", "--json", "10.1.0.2", "--only", "lnet"];
    let mut command = here.command(lab.fulmar());
    let (report, status) = read(command.env("FULMAR_CONTROL", near.control()).args(words));
    let by = report["measured"]["lnet"]["answered"]["by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("the Fulmar node at "), "{report}");
    assert_eq!(status, 0);
}
