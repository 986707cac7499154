//! Configurations of real nodes: each of `testdata/configs` starts a node, and what that exports starts
//! the same one again.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::lab::{Lab, Node, fulmar, ran};

/// Makes the interfaces of the files in a network namespace.
const MACHINE: &str = "set -e
make() {
    ip link add \"$1\" type veth peer name \"$2\"
    ip link set \"$1\" up
    ip link set \"$2\" up
    ip address add \"$3\" dev \"$1\"
}
ip link set lo up
make eth0 p0 10.99.0.2/24
ip address add 10.99.0.202/24 dev eth0
make eth1 p1 10.99.1.2/24
make bond0.120 p2 10.120.0.5/24
echo made
exec cat";

/// A machine with these interfaces. It ends with this.
struct Machine {
    process: Child,
}

impl Machine {
    /// `None`, with a NOT RUN line, where that is not possible.
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", MACHINE]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "made\n" {
            return Some(Self { process });
        }
        process.wait().unwrap();
        let why = "\nNOT RUN: configurations of sites: they need root and network namespaces";
        let _ = writeln!(std::io::stderr(), "{why}");
        None
    }

    fn node(&self, lab: &Lab, file: &str) -> Node {
        lab.node_within(2, self.process.id(), &["-c", file])
    }

    /// Checks a configuration, and returns the status and what was reported.
    fn check(&self, lab: &Lab, file: &str) -> (i32, String) {
        let own = fulmar(&lab.path(""));
        let mut within = lab.within(self.process.id(), own.get_program().as_ref());
        let (status, _, err) = ran(within.args(["node", "-c", file, "--check"]));
        (status, err)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Copies the files into the directory of a lab, and returns their names.
fn copied(lab: &Lab) -> Vec<String> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs");
    let paths = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path());
    let copy = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        std::fs::copy(&path, lab.path(&name)).unwrap();
        name
    };
    let mut names: Vec<String> = paths.map(copy).collect();
    names.sort();
    names
}

/// An export of a node with module parameters lacks the number of its CPTs.
fn comparable(name: &str, backup: &str) -> String {
    let kept = |line: &&str| !name.ends_with(".conf") || !line.contains("CPT:");
    backup.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

#[test]
fn each_starts_a_node_and_its_export_the_same_again() {
    let lab = Lab::new("configs");
    let Some(machine) = Machine::new() else { return };
    for name in copied(&lab).iter().filter(|name| !name.starts_with("infiniband")) {
        let (status, told) = machine.check(&lab, name);
        assert_eq!(status, 0, "{name}: {told}");
        let node = machine.node(&lab, name);
        let backup = node.output("lnetctl export --backup");
        std::fs::write(lab.path("backup"), &backup).unwrap();
        let (status, out, err) = node.run("lnetctl import backup");
        assert_eq!((status, err.as_str()), (0, ""), "{name}: {out}\n{backup}");
        // A gateway is a peer that was not configured before.
        let is_new = |line: &str| line.ends_with(": added") && !line.starts_with("peer ");
        assert!(!out.lines().any(is_new), "{name}: {out}\n{backup}");
        assert_eq!(node.output("lnetctl export --backup"), backup, "{name}: {out}");
        drop(node);
        let again = machine.node(&lab, "backup").output("lnetctl export --backup");
        assert_eq!(comparable(name, &again), comparable(name, &backup), "{name}");
    }
}

#[test]
fn what_a_node_cannot_have_is_told_and_the_rest_is_imported() {
    let lab = Lab::new("partly");
    let Some(machine) = Machine::new() else { return };
    copied(&lab);
    let lnd = "network o2ib needs an LND that this node does not have";
    for name in ["infiniband-and-ethernet.yaml", "infiniband.conf"] {
        let (status, told) = machine.check(&lab, name);
        assert!(status == 1 && told.contains(lnd), "{name}: {status} {told}");
    }
    std::fs::write(lab.path("other.conf"), "options lnet networks=tcp(eth7,eth8),o2ib(ib0)\n")
        .unwrap();
    let (status, told) = machine.check(&lab, "other.conf");
    for part in ["there is no interface eth7 for tcp", "no interface eth8 for tcp", lnd] {
        assert!(status == 1 && told.contains(part), "{status} {told}");
    }

    std::fs::write(lab.path("tcp9.conf"), "options lnet networks=tcp9(bond0.120)\n").unwrap();
    let node = machine.node(&lab, "tcp9.conf");
    let (status, out, err) = node.run("lnetctl import infiniband-and-ethernet.yaml");
    assert_eq!(status, 1, "{out}{err}");
    let done = "net tcp(eth0): added; of the CPTs [0, 1] there are only those up to 0\n";
    assert!(out.contains(done), "{out}");
    let object =
        "---\nadd:\n-     net:\n      errno: -100\n      descr: ! \"cannot add LNet NI\"\n...\n";
    assert!(err.starts_with(object) && err.contains(&format!("# hint: o2ib(ib0): {lnd}")), "{err}");
    let (status, out, _) = node.run("lnetctl import backup-2.17-server.yaml");
    assert_eq!(status, 0, "{out}");
    for line in [
        "net tcp(eth0): is there already",
        "peer 10.99.0.2@tcp: skipped: it is this node itself",
        "peer 10.99.0.1@tcp: added",
    ] {
        assert!(out.contains(line), "{line} is missing in:\n{out}");
    }
    let (status, out, _) = node.run("lnetctl --json import infiniband-and-ethernet.yaml");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &json["import"][0]["outcome"]["failed"]["errno"]),
        (1, &(-100).into()),
        "{out}"
    );
}
