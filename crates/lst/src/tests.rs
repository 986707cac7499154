//! Commands against a console with scripted answers.

mod commands;
mod recorded;
mod tests_and_stats;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_selftest::console::{
    Answer, Command, GroupInfo, NodeAnswer, NodeError, NodeInfo, NodeState, NodesReply, Reply,
    SessionInfo, Stats, Target,
};

use super::console::{CallFailure, Clock, Console};
use super::tool::{Environment, Tool};

/// The requests that the console expects, in order, and its answers.
type Script = Vec<(Command, Answer)>;

struct ScriptedConsole(VecDeque<(Command, Answer)>);

impl Console for ScriptedConsole {
    fn ask(&mut self, command: Command) -> Result<Answer, CallFailure> {
        let (expected, answer) =
            self.0.pop_front().unwrap_or_else(|| panic!("unexpected {command:?}"));
        assert_eq!(command, expected);
        Ok(answer)
    }
}

/// A clock that advances only by waiting.
#[derive(Default)]
struct WaitClock {
    now: Duration,
    waits: Vec<u128>,
}

impl Clock for WaitClock {
    fn now(&self) -> Duration {
        self.now
    }

    fn wait_until(&mut self, time: Duration) {
        self.waits.push((time - self.now).as_millis());
        self.now = time;
    }
}

/// The two outputs of a command separately, and together as on a terminal.
#[derive(Clone, Default)]
struct Output {
    own: Rc<RefCell<String>>,
    both: Rc<RefCell<String>>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).unwrap();
        self.own.borrow_mut().push_str(text);
        self.both.borrow_mut().push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The outputs and the status of a command.
#[derive(Debug)]
struct Ran {
    status: u8,
    out: String,
    /// Without the lines that begin with `#`.
    err: String,
    /// The lines that begin with `#`.
    hints: String,
    /// Both outputs, without hints.
    screen: String,
    /// Times that the command waited for, in milliseconds.
    waits: Vec<u128>,
}

fn run_in(environment: &Environment, line: &str, script: Script) -> Ran {
    let mut console = ScriptedConsole(script.into());
    let mut clock = WaitClock::default();
    let mut out = Output::default();
    let mut err = Output { both: Rc::clone(&out.both), ..Output::default() };
    let words = shlex::split(line).unwrap();
    let (console_ref, clock_ref) = (&mut console, &mut clock);
    let mut tool =
        Tool { console: console_ref, clock: clock_ref, out: &mut out, err: &mut err, environment };
    let status = super::dispatch(&mut tool, &words);
    assert!(console.0.is_empty(), "{line}: missing {:?}", console.0);
    let lines = |text: &RefCell<String>, hints: bool| -> String {
        let text = text.borrow();
        text.split_inclusive('\n').filter(|line| line.starts_with('#') == hints).collect()
    };
    Ran {
        status,
        out: out.own.borrow().clone(),
        err: lines(&err.own, false),
        hints: lines(&err.own, true),
        screen: lines(&out.both, false),
        waits: clock.waits,
    }
}

fn environment() -> Environment {
    let session = Some("379".to_owned());
    Environment { session, features: None, name: "user@host".to_owned() }
}

fn lst(line: &str, script: Script) -> Ran {
    run_in(&environment(), line, script)
}

/// Requires that a command prints `out` and nothing else.
#[track_caller]
fn says(line: &str, script: Script, out: &str) {
    let ran = lst(line, script);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, out, ""), "{line}\n{ran:?}");
}

/// Requires that a command fails with `status` and these outputs, and that a hint contains `hint`.
#[track_caller]
fn fails(line: &str, script: Script, status: u8, out: &str, err: &str, hint: &str) {
    let ran = lst(line, script);
    let got = (ran.status, ran.out.as_str(), ran.err.as_str());
    assert_eq!(got, (status, out, err), "{line}\n{ran:?}");
    assert!(ran.hints.contains(hint), "{line}\n{}", ran.hints);
    assert!(hint.is_empty() == ran.hints.is_empty(), "{line}\n{}", ran.hints);
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn node(n: u8) -> Nid {
    nid(&format!("10.99.0.{n}@tcp"))
}

/// An answer of an active node.
fn fine<T>(n: u8, value: T) -> NodeAnswer<T> {
    NodeAnswer { nid: node(n), state: NodeState::Active, result: Ok(value) }
}

/// The answer for a node that did not reply.
fn down<T>(n: u8, errno: Errno) -> NodeAnswer<T> {
    NodeAnswer { nid: node(n), state: NodeState::Down, result: Err(NodeError::Rpc(errno)) }
}

/// An answer of a node that refuses.
fn refuses<T>(n: u8, errno: Errno) -> NodeAnswer<T> {
    let result = Err(NodeError::Framework(errno));
    NodeAnswer { nid: node(n), state: NodeState::Busy, result }
}

fn nodes(nodes: Vec<NodeAnswer<()>>) -> Answer {
    Ok(Reply::Nodes(NodesReply { features: 1, nodes }))
}

fn names(names: &[&str]) -> Answer {
    Ok(Reply::Names(names.iter().map(|name| (*name).to_owned()).collect()))
}

fn infos(of: &[(u8, NodeState)]) -> Vec<NodeInfo> {
    of.iter().map(|(n, state)| NodeInfo { nid: node(*n), state: *state }).collect()
}

fn new_session(name: &str, timeout: u32, force: bool, features: u32) -> (Command, Answer) {
    let command = Command::NewSession { name: name.to_owned(), timeout, force, features };
    let (name, nid) = (name.to_owned(), node(1));
    let (stamp, key, nodes) = (1, 379, 0);
    let info = SessionInfo { name, stamp, nid, key, features, timeout, force, nodes };
    (command, Ok(Reply::Session(info)))
}

fn show_group(group: &str, of: &[(u8, NodeState)]) -> (Command, Answer) {
    let group = group.to_owned();
    (Command::ShowGroup { group }, Ok(Reply::Group(GroupInfo { nodes: infos(of) })))
}

fn no_group(group: &str) -> (Command, Answer) {
    (Command::ShowGroup { group: group.to_owned() }, Err(Errno::ENOENT))
}

fn stat_group(group: &str, timeout: u32, stats: Vec<NodeAnswer<Stats>>) -> (Command, Answer) {
    let target = Target::Group(group.to_owned());
    (Command::Stat { target, timeout }, Ok(Reply::Stats(stats)))
}

fn query(batch: &str, test: u32, timeout: u32, answers: Vec<NodeAnswer<u32>>) -> (Command, Answer) {
    let batch = batch.to_owned();
    (Command::Query { batch, test, servers: false, timeout }, Ok(Reply::Active(answers)))
}
