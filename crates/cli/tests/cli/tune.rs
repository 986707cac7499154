//! The tools accept the output of `fulmar tune`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use fulmar_control::api::{Server, ServerHandle};
use fulmar_control::testing::FakeNode;

/// A directory with the control socket of a simulated node.
struct Desk {
    directory: PathBuf,
    handle: Option<ServerHandle>,
}

impl Desk {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("fulmar-tune-{name}-{}", std::process::id()));
        let server = Server::bind(&directory.join("control.sock"), None).unwrap();
        let handle = Some(server.spawn(Arc::new(FakeNode::new())).unwrap());
        Self { directory, handle }
    }

    fn run(&self, words: &str) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_fulmar"))
            .args(words.split_whitespace())
            .env("FULMAR_CONTROL", self.directory.join("control.sock"))
            .current_dir(&self.directory)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The text of one format for a line of 4 Gb/s.
    fn text(&self, words: &str) -> String {
        let (status, out, err) = self.run(&format!("tune --rate 4Gbit --rtt 50.5ms {words}"));
        assert_eq!((status, err.as_str()), (0, ""), "{words}\n{out}");
        out
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        drop(self.handle.take());
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

#[test]
fn a_node_accepts_the_printed_files() {
    let desk = Desk::new("files");
    let files = ["--format node", "--format modprobe --for kernel --routers 2"];
    for (at, words) in files.into_iter().enumerate() {
        let name = format!("file-{at}");
        std::fs::write(desk.directory.join(&name), desk.text(words)).unwrap();
        let (status, _, err) = desk.run(&format!("node -c {name} --check"));
        assert_eq!((status, err.as_str()), (0, ""), "{words}");
    }
    let both = desk.text("--format node --routers 2");
    for (at, file) in both.split("---\n").enumerate() {
        let name = format!("node-{at}.yaml");
        std::fs::write(desk.directory.join(&name), file).unwrap();
        assert_eq!(desk.run(&format!("node -c {name} --check")).0, 0, "{file}");
    }
    assert!(both.contains("peer_buffer_credits: ") && both.contains("enable: 1"), "{both}");
}

#[test]
fn the_tools_accept_the_printed_lines() {
    let desk = Desk::new("lines");
    let lines = desk.text("--format lnetctl --net tcp --device eth0 --routers 1");
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let (status, _, err) = desk.run(line.strip_prefix("fulmar ").unwrap());
        assert_eq!((status, err.as_str()), (0, ""), "{line}");
    }
    let line = desk.text("--format lst").replace("CLIENTS", "10.0.0.1@tcp");
    let line = line.replace("SERVERS", "10.0.0.2@tcp");
    let (_, _, err) = desk.run(line.strip_prefix("fulmar ").unwrap());
    assert!(err.contains("this node has no selftest role"), "{line}: {err}");
}

#[test]
fn the_exit_status_shows_whether_the_line_is_full() {
    let desk = Desk::new("statuses");
    let (status, out, _) = desk.run("tune --rate 100Gbit --rtt 50.5ms --nodes 2 --memory 64G");
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("the line is the bottleneck"), "{out}");
    let (status, out, _) = desk.run("tune --rate 100Gbit --rtt 50.5ms --nodes 2 --memory 1G");
    assert_eq!(status, 1);
    assert!(out.contains("Warning: half of the memory is 512 MiB"), "{out}");
    for words in ["tune --rtt 50ms", "tune --rate 1G", "tune --rate fast --rtt 50ms"] {
        let (status, out, err) = desk.run(words);
        assert_eq!((status, out.as_str()), (2, ""), "{words}: {err}");
    }
    let (status, _, err) = desk.run("tune --rate 1G --rtt 50ms --format lctl");
    assert_eq!(status, 2);
    assert!(err.starts_with("fulmar tune: this format is not available here"), "{err}");
}

#[test]
fn a_round_trip_that_cannot_be_measured_is_a_failure() {
    let desk = Desk::new("unmeasured");
    let (status, out, err) = desk.run("tune --rate 1G --to no.such.host.invalid");
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    let expected = "fulmar tune: cannot resolve \"no.such.host.invalid\": ";
    assert!(err.starts_with(expected), "{err}");
    // TCP cannot connect to a broadcast address.
    let (status, out, err) = desk.run("tune --rate 1G --to 255.255.255.255@tcp");
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    let expected = "fulmar tune: cannot measure the round trip to 255.255.255.255:988: ";
    assert!(err.starts_with(expected) && err.ends_with("; give it with --rtt\n"), "{err}");
}

#[test]
fn a_running_node_provides_its_settings() {
    let desk = Desk::new("asked");
    let out = desk.text("").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.contains("the running Fulmar node, interface 10.0.0.1@tcp"), "{out}");
    let value: serde_json::Value = serde_json::from_str(&desk.text("--json")).unwrap();
    assert_eq!(value["host"]["present"]["values"]["conns_per_peer"], "4");
    assert!(value["now"]["bytes_per_second"].as_f64().unwrap() > 0.);
    let (_, out, _) = desk.run("tune --rate 4Gbit --rtt 50.5ms --elsewhere");
    assert!(!out.contains("At present"), "{out}");
}
