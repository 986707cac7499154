//! `fulmar top`: of a node at its socket and at its port, recorded and played, on a terminal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::nodes::lab::{Lab, Node, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A node with metrics that knows a peer.
struct Pair {
    lab: Lab,
    a: Node,
    _b: Node,
    port: String,
}

impl Pair {
    fn start(name: &str) -> Self {
        let lab = Lab::new(name);
        let port = format!("127.0.0.1:{}", lab.port + 1);
        let a = lab.node_with(2, &["--networks", "tcp(127.0.0.2)", "--metrics", &port]);
        let b = lab.node(3);
        a.output("lnetctl discover 127.0.0.3@tcp");
        Self { lab, a, _b: b, port }
    }
}

#[test]
fn a_frame_shows_a_node_with_its_peers() {
    let pair = Pair::start("top-once");
    for place in ["", &pair.port, "./2.sock"] {
        let words = format!("top {place} --once --interval 0.3");
        // The environment names the socket of the node, which is asked only if no node is given.
        let text = pair.a.output(&words);
        assert!(text.starts_with("=== 127.0.0.2@tcp  "), "{place}: {text}");
        for part in ["\nmessages", "\nINTERFACES\n", "\nPEERS\n", "\n127.0.0.3@tcp  -"] {
            assert!(text.contains(part), "{part:?} of {place} is missing in:\n{text}");
        }
    }
}

#[test]
fn a_recording_shows_the_same_frames_again() {
    let pair = Pair::start("top-record");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let none = closed.to_string();
    let words = format!("top {} {none} --batch -n 3 -i 0.2 --record seen", pair.port);
    let run = |words: &str| ran(fulmar(&pair.lab.path("")).args(words.split_whitespace()));
    let (status, live, err) = run(&words);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(live.matches("NODES\nnode ").count(), 3, "{live}");
    assert!(live.contains(&format!("\n=== {none}    NO ANSWER\n!! no node answers at {none} ")));
    let (status, played, _) = run("top --play seen --batch");
    assert_eq!(status, 0);
    assert!(played.ends_with(&live), "{played}\n\n{live}");
    // A recording whose end is missing is shown up to there.
    let seen = std::fs::read_to_string(pair.lab.path("seen")).unwrap();
    std::fs::write(pair.lab.path("cut"), &seen[..seen.len() - 20]).unwrap();
    let (status, cut, _) = run("top --play cut --batch");
    assert!(status == 0 && played.starts_with(&cut) && cut.len() < played.len(), "{cut}");
    let whole = pair.lab.path("wrong");
    std::fs::write(whole, seen.replace("\"answers\"", "\"replies\"")).unwrap();
    let (status, _, err) = run("top --play wrong --batch");
    assert!(
        status == 2 && err.starts_with("fulmar top: wrong, line 2: it is not a round"),
        "{err}"
    );
}

#[test]
fn wrong_requests_and_absent_nodes_say_what_to_do() {
    let lab = Lab::new("top-wrong");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let (status, out, _) = run("top ./none.sock --once -i 0.2");
    assert!(status == 1 && out.contains("no node answers at ./none.sock"), "{out}");
    for (words, why) in [
        ("top node7", "neither HOST:PORT"),
        ("top -i 0", "it is 0.2 to 3600 seconds"),
        ("top --play none --once", "cannot read none"),
        ("top --play Cargo.toml --record x", "cannot be used with"),
        ("top ./none.sock --record none/x --once", "cannot record to none/x"),
    ] {
        let (status, _, err) = run(words);
        assert!(status == 2 && err.contains(why), "{words}: {err}");
    }
}

#[test]
fn a_terminal_is_drawn_on_and_left_as_it_was() {
    let pair = Pair::start("top-screen");
    on_terminal(&pair, |keys, _| keys.write_all(b"q").unwrap());
    for signal in ["TERM", "HUP", "INT"] {
        on_terminal(&pair, |_, pid| {
            let killed = Command::new("kill").args(["-s", signal, pid]).status().unwrap();
            assert!(killed.success(), "{signal}");
        });
    }
}

/// Runs the command on a terminal until `end`, which gets its keys and its process, has ended it.
fn on_terminal(pair: &Pair, end: impl FnOnce(&mut ChildStdin, &str)) {
    let (program, port) = (env!("CARGO_BIN_EXE_fulmar"), &pair.port);
    let file = pair.lab.path("pid");
    let top = format!("echo $$ > {}; exec {program} top {port} -i 0.2", file.display());
    let top = format!("stty rows 40 cols 120; sh -c '{top}'; echo status $?; stty -a");
    let child = Command::new("script")
        .args(["-qefc", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        let line = "NOT RUN: fulmar top on a terminal: there is no program script";
        let mut errors = std::io::stderr();
        return writeln!(errors, "\n{line}").unwrap();
    };
    let (mut keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, pieces) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = out.read(&mut bytes) {
            let _ = sender.send(bytes[..len].to_vec());
        }
    });
    let mut seen = String::new();
    let mut wait_for = |part: &str| {
        let begun = Instant::now();
        while !seen.contains(part) {
            let left = TIMEOUT.saturating_sub(begun.elapsed());
            let piece = pieces.recv_timeout(left);
            let piece = piece.unwrap_or_else(|_| panic!("{part:?} is missing in {seen:?}"));
            seen += &String::from_utf8_lossy(&piece);
        }
    };
    wait_for("127.0.0.3@tcp");
    keys.write_all(b" ").unwrap();
    wait_for("PAUSED");
    end(&mut keys, std::fs::read_to_string(file).unwrap().trim());
    // The alternate screen is left, and lines are edited again.
    wait_for("\u{1b}[?1049l");
    wait_for("status 0");
    wait_for(" icanon");
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "it does not end");
        sleep(Duration::from_millis(10));
    }
}
