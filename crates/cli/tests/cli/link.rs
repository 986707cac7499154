//! `fulmar link` from the command line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

/// Returns whether this test can create namespaces; if not, prints a notice.
fn allowed() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        let _ = writeln!(std::io::stderr(), "\nNOT RUN: a link needs root: run it with sudo");
    }
    root
}

fn fulmar(words: &[&str]) -> Output {
    Command::new(FULMAR).arg("link").args(words).output().unwrap()
}

fn name(what: &str) -> String {
    format!("{what}{}", std::process::id())
}

fn is_there(name: &str) -> [bool; 2] {
    ["a", "b"].map(|side| Path::new(&format!("/run/netns/fulmar-{name}-{side}")).exists())
}

/// Starts sites and waits until they exist.
fn start(name: &str) -> Child {
    let mut command = Command::new(FULMAR);
    command.args(["link", "sites", "--name", name, "--json"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"started\":"), "{line}");
    assert_eq!(is_there(name), [true; 2]);
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_command_runs_at_site_a_and_its_failure_is_reported() {
    if !allowed() {
        return;
    }
    let name = name("cmd");
    let script = "echo $FULMAR_SITE_A $FULMAR_ADDR_B; ip address show wan0; exit $0";
    let output = fulmar(&["sites", "--name", &name, "--", "sh", "-c", script, "0"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.starts_with(&format!("fulmar-{name}-a 10.99.0.2\n")), "{text}");
    assert!(text.contains("mtu 9000") && text.contains("10.99.0.1/24"), "{text}");
    assert_eq!(is_there(&name), [false; 2]);
    let output = fulmar(&["sites", "--name", &name, "--", "sh", "-c", script, "3"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("exit status: 3") && errors.contains("a to b"), "{errors}");
}

#[test]
fn a_failed_link_ends_its_command_and_is_reported() {
    if !allowed() {
        return;
    }
    let name = name("gone");
    let script = "echo deleting; ip link delete wan0; exec sleep 600";
    let output = fulmar(&["sites", "--name", &name, "--", "sh", "-c", script]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "deleting\n");
    assert!(errors.contains("a device was removed") && errors.contains("a to b"), "{errors}");
    assert_eq!(is_there(&name), [false; 2]);
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !allowed() {
        return;
    }
    let name = name("int");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = start(&name);
        send(&child, signal);
        assert!(child.wait().unwrap().success());
        assert_eq!(is_there(&name), [false; 2]);
    }
}

#[test]
fn leftovers_of_a_killed_run_are_removed_by_the_next() {
    if !allowed() {
        return;
    }
    let [killed, running] = ["killed", "running"].map(name);
    let mut first = start(&killed);
    let mut other = start(&running);
    first.kill().unwrap();
    first.wait().unwrap();
    // The killed run leaves namespaces, but no devices.
    let inside = ["-n", &format!("fulmar-{killed}-a"), "link", "show"].map(str::to_owned);
    let links = Command::new("ip").args(inside).output().unwrap();
    assert!(!String::from_utf8_lossy(&links.stdout).contains("wan0"), "{links:?}");
    assert_eq!(is_there(&killed), [true; 2]);
    // A run with another name removes them, but not those of a running one.
    let next = fulmar(&["sites", "--name", &name("next"), "--", "true"]);
    assert!(next.status.success(), "{next:?}");
    assert_eq!(is_there(&killed), [false; 2]);
    assert_eq!(is_there(&running), [true; 2]);
    let taken = fulmar(&["sites", "--name", &running, "--", "true"]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&taken.stderr).contains("choose another --name"), "{taken:?}");
    // A run inside a namespace, which sees all names, does not remove them either.
    let nested = name("nested");
    let words = ["netns", "exec", &format!("fulmar-{running}-a"), FULMAR, "link", "sites"];
    let mut inside = Command::new("ip");
    let inside = inside.args(words).args(["--name", &nested, "--", "true"]).output().unwrap();
    assert!(inside.status.success(), "{inside:?}");
    assert_eq!(is_there(&running), [true; 2]);
    send(&other, Signal::TERM);
    assert!(other.wait().unwrap().success());
}

#[test]
fn runs_that_start_together_all_start() {
    if !allowed() {
        return;
    }
    // Leaves namespaces of a killed run, under a name that one of these runs uses.
    let names = ["one", "two", "three"].map(name);
    let mut killed = start(&names[1]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let started = names.clone().map(|name| {
        let mut command = Command::new(FULMAR);
        command.args(["link", "sites", "--name", &name, "--", "true"]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    });
    for (child, name) in started.into_iter().zip(&names) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(is_there(name), [false; 2]);
    }
}

#[test]
fn invalid_requests_are_refused_with_valid_examples() {
    for (words, said) in [
        (&["--a", "x"][..], "--b"),
        (&["--a", "x", "--b", "y", "--rate", "10GB/s"], "write bits, such as 10Gbit"),
        (&["--a", "x", "--b", "y", "--delay", "25"], "50.5ms"),
        (&["--a", "x", "--b", "y", "--jitter", "1s"], "before it is sent"),
        (&["--a", "x", "--b", "y", "--a-to-b", "speed 3"], "use rate, delay"),
        (&["sites", "--loss", "1"], "percent"),
        (&["sites", "--queue", "1000"], "write it as 64MB or 100ms"),
        (&["sites", "--queue", "1us"], "64 KiB is the minimum"),
        (&["sites", "--limit", "64MB"], "unexpected argument '--limit'"),
        (&["sites", "--name", "A-b"], "lower-case letters and digits"),
    ] {
        let output = fulmar(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        assert!(errors.contains(said), "{words:?}: {errors}");
    }
}
