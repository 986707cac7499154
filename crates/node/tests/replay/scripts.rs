//! Commands of the administrators of the recorded consoles.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_selftest::console::Answer as ConsoleAnswer;
use fulmar_selftest::console::{
    Command, DataCheck, NodeError, NodesReply, Reply, Target, TestSpec,
};

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Success on every node.
    Well,
    /// The console refuses.
    Refused(Errno),
    /// The only node cannot be reached.
    Absent,
}

impl Expected {
    pub(crate) fn require(self, answer: &ConsoleAnswer) {
        let is_so = match (self, answer) {
            (Self::Refused(errno), Err(got)) => *got == errno,
            (Self::Absent, Ok(Reply::Nodes(NodesReply { nodes, .. }))) => {
                nodes.iter().all(|node| matches!(node.result, Err(NodeError::Rpc(_))))
            }
            (Self::Well, Ok(reply)) => match reply {
                Reply::Nodes(reply) => reply.nodes.iter().all(|node| node.result.is_ok()),
                Reply::Active(answers) => answers.iter().all(|node| node.result == Ok(0)),
                Reply::Stats(answers) => answers.iter().all(|node| node.result.is_ok()),
                _ => true,
            },
            _ => false,
        };
        assert!(is_so, "{answer:?}, not {self:?}");
    }
}

/// The commands of a recording, in order.
pub(crate) type Script = Vec<(Command, Expected)>;

fn nid(text: &str) -> Nid {
    text.parse().expect("a NID")
}

fn session(name: &str) -> Command {
    Command::NewSession { name: name.into(), timeout: 60, force: false, features: 1 }
}

fn add_group(group: &str, node: &str) -> [Command; 2] {
    let (name, nodes) = (group.to_owned(), vec![nid(node)]);
    [Command::AddGroup { group: group.into() }, Command::AddNodes { group: name, nodes }]
}

fn add_test(batch: &str, loops: i32, concurrency: u32, test: TestSpec) -> Command {
    let (from, to, distribute) = ("c".into(), "s".into(), (1, 1));
    Command::AddTest { batch: batch.into(), test, loops, concurrency, distribute, from, to }
}

fn brw(write: bool, size: u32, check: DataCheck) -> TestSpec {
    TestSpec::Brw { write, check, size, offset: 0 }
}

fn query(batch: &str) -> Command {
    Command::Query { batch: batch.into(), test: 0, servers: false, timeout: 5 }
}

/// The single requests of `lst stat c s` and `lst show_error c s`.
fn stat() -> [Command; 2] {
    ["c", "s"].map(|group| Command::Stat { target: Target::Group(group.into()), timeout: 5 })
}

fn run(batch: &str) -> Command {
    Command::Run { batch: batch.into(), timeout: 0 }
}

/// `lst stop`, with its queries until nothing runs.
fn stop(batch: &str) -> [Command; 2] {
    [Command::Stop { batch: batch.into(), force: false }, query(batch)]
}

fn well(commands: impl IntoIterator<Item = Command>) -> impl Iterator<Item = (Command, Expected)> {
    commands.into_iter().map(|command| (command, Expected::Well))
}

/// Commands of trace selftest, on node 1.
pub(crate) fn selftest() -> Script {
    let mut script = vec![session("golden")];
    script.extend(add_group("c", "10.99.0.1@tcp"));
    script.extend(add_group("s", "10.99.0.3@tcp"));
    script.push(Command::AddBatch { batch: "b".into() });
    script.extend([
        add_test("b", 6, 2, TestSpec::Ping),
        add_test("b", 4, 2, brw(true, 4096, DataCheck::Full)),
        add_test("b", 4, 2, brw(false, 65_536, DataCheck::Simple)),
        add_test("b", 2, 1, brw(true, 1 << 20, DataCheck::None)),
        run("b"),
        query("b"),
    ]);
    for _three_samples_and_errors in 0..4 {
        script.extend(stat());
    }
    script.extend(stop("b"));
    script.push(Command::EndSession {});
    well(script).collect()
}

/// Commands of trace selftest-remote, on node 1: `testdata/cli/lst-node1.txt`.
pub(crate) fn selftest_remote() -> Script {
    let mut script = vec![session("far")];
    script.extend(add_group("c", "10.99.0.3@tcp"));
    script.extend(add_group("s", "10.99.0.4@tcp"));
    script.push(Command::AddBatch { batch: "b1".into() });
    script.extend([
        add_test("b1", 5, 2, TestSpec::Ping),
        add_test("b1", 3, 2, brw(true, 8192, DataCheck::Full)),
        add_test("b1", 3, 1, brw(false, 16_384, DataCheck::Full)),
        run("b1"),
        query("b1"),
    ]);
    for _two_samples_and_errors in 0..3 {
        script.extend(stat());
    }
    script.extend(stop("b1"));
    script.push(Command::AddBatch { batch: "b2".into() });
    script.extend([add_test("b2", -1, 1, TestSpec::Ping), run("b2")]);
    script.extend(stop("b2"));
    let mut script: Script = well(script).collect();
    let refresh = Command::RefreshGroup { group: "s".into() };
    script.push((refresh, Expected::Refused(Errno::EBUSY)));
    let [add_group, add_nodes] = add_group("bad", "10.99.0.99@tcp");
    script.extend([(add_group, Expected::Well), (add_nodes, Expected::Absent)]);
    script.extend(well([Command::DeleteGroup { group: "bad".into() }, Command::EndSession {}]));
    script
}
