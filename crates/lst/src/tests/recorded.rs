//! Output of `lst` of Lustre 2.17, compared with ours for the same answers of nodes.

use fulmar_selftest::console::{BatchInfo, DataCheck, TestInfo, TestSpec};

use super::*;

const RECORDED: &str = include_str!("../../../../testdata/cli/lst-node1.txt");

const ACTIVE: NodeState = NodeState::Active;

/// Returns each command with its output, standard error included.
fn recorded() -> Vec<(&'static str, &'static str)> {
    let parts = RECORDED.split("$ ").skip(1);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

/// Corrects recorded output where that release is wrong: it loses the number and the states of
/// nodes between kernel and tool, and prints errors as negative numbers.
fn corrected(command: &str, printed: &str) -> String {
    let printed = printed
        .replace("\nexit 255", "")
        .replace("Reader error: 'session is not active' at 0\n", "")
        .replace("Unknown error -113", "No route to host");
    match command {
        "lst list_group s" => {
            "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t1\t0\t0\t0\t1\ts\n".to_owned()
        }
        "lst ping --session" => "Target session is empty\n".to_owned(),
        "lst add_group bad 10.99.0.99@tcp" => {
            printed.replace("0-200@<0:25354>", "12345-10.99.0.99@tcp")
        }
        _ => printed.replace("0-200@<0:25354>", "12345-10.99.0.3@tcp"),
    }
}

fn group(name: &str) -> String {
    name.to_owned()
}

/// The nodes of the recording: one client, one server.
fn shown(name: &str) -> (Command, Answer) {
    show_group(name, &[(if name == "c" { 3 } else { 4 }, ACTIVE)])
}

fn add_group(name: &str, n: u8, answer: NodeAnswer<()>) -> Script {
    vec![
        (Command::AddGroup { group: group(name) }, Ok(Reply::Done)),
        (Command::AddNodes { group: group(name), nodes: vec![node(n)] }, nodes(vec![answer])),
    ]
}

fn add_test(batch: &str, test: TestSpec, loops: i32, concurrency: u32) -> Script {
    let command = Command::AddTest {
        batch: batch.to_owned(),
        test,
        loops,
        concurrency,
        distribute: (1, 1),
        from: group("c"),
        to: group("s"),
    };
    vec![shown("c"), shown("s"), (command, nodes(vec![fine(4, ()), fine(3, ())]))]
}

fn stat(name: &str, timeout: u32, ms: u32) -> (Command, Answer) {
    // A query and its reply cross each second.
    let (running_ms, count) = (ms, ms / 1000);
    let stats = Stats { running_ms, send_count: count, recv_count: count, ..Stats::default() };
    stat_group(name, timeout, vec![fine(if name == "c" { 3 } else { 4 }, stats)])
}

fn list_batch() -> Script {
    let (clients, servers) = (infos(&[(3, ACTIVE)]), infos(&[(4, ACTIVE)]));
    let test = TestInfo {
        test: TestSpec::Ping,
        loops: 3,
        concurrency: 2,
        distribute: (1, 1),
        clients: clients.clone(),
        servers: servers.clone(),
    };
    let tests = vec![test; 3];
    let info = BatchInfo { running: false, clients, servers, tests };
    vec![(Command::ShowBatch { batch: "b1".into() }, Ok(Reply::Batch(info)))]
}

/// Returns the requests of a command of the recording, with the answers.
fn script(command: &str) -> Script {
    let brw = |write, size| TestSpec::Brw { write, check: DataCheck::Full, size, offset: 0 };
    let one = |command, answer| vec![(command, answer)];
    let words: Vec<&str> = command.split(' ').collect();
    match words[..] {
        ["new_session", ..] => vec![new_session("far", 60, false, 1)],
        ["add_group", "c", _] => add_group("c", 3, fine(3, ())),
        ["add_group", "s", _] => add_group("s", 4, fine(4, ())),
        ["add_group", "bad", _] => {
            let mut script = add_group("bad", 99, down(99, Errno::EHOSTUNREACH));
            script.push((Command::DeleteGroup { group: group("bad") }, nodes(vec![])));
            script
        }
        ["add_batch", batch] => one(Command::AddBatch { batch: batch.into() }, Ok(Reply::Done)),
        ["add_test", _, "b1", _, "5", .., "ping"] => add_test("b1", TestSpec::Ping, 5, 2),
        ["add_test", .., "write", _, _] => add_test("b1", brw(true, 8192), 3, 2),
        ["add_test", .., "read", _, _] => add_test("b1", brw(false, 16384), 3, 1),
        ["add_test", _, "b2", ..] => add_test("b2", TestSpec::Ping, -1, 1),
        ["list_batch", ..] => list_batch(),
        ["list_group", "--all"] => one(Command::ListGroups {}, names(&["c", "s"])),
        ["list_group", "s"] => vec![shown("s")],
        ["list_group", name] => vec![no_group(name)],
        ["run", batch] => {
            one(Command::Run { batch: batch.into(), timeout: 0 }, nodes(vec![fine(3, ())]))
        }
        ["query", ..] => vec![query("b1", 0, 5, vec![fine(3, 0)])],
        ["ping", _] => {
            one(Command::Ping { target: Target::Session, timeout: 5 }, Ok(Reply::Sessions(vec![])))
        }
        ["stat", ..] => vec![
            shown("c"),
            shown("s"),
            stat("c", 5, 3000),
            stat("s", 5, 3000),
            stat("c", 5, 4000),
            stat("s", 5, 4000),
        ],
        ["show_error", ..] => {
            vec![shown("c"), shown("s"), stat("c", 10, 5000), stat("s", 10, 5000)]
        }
        ["stop", batch] => {
            let stop = Command::Stop { batch: batch.into(), force: false };
            vec![(stop, nodes(vec![fine(3, ())])), query(batch, 0, 30, vec![fine(3, 0)])]
        }
        ["update_group", ..] => one(Command::RefreshGroup { group: group("s") }, Err(Errno::EBUSY)),
        ["end_session"] => one(Command::EndSession {}, nodes(vec![fine(3, ()), fine(4, ())])),
        ["show_session"] => one(Command::ShowSession {}, Err(Errno::ESRCH)),
        _ => panic!("no script for {command}"),
    }
}

/// Returns a command of the recording without the shell parts.
fn bare(command: &str) -> Option<&str> {
    command.split_once("lst ").map(|(_, rest)| rest)
}

#[test]
fn a_recorded_session_is_printed_identically() {
    let mut compared = 0;
    for (command, printed) in recorded() {
        let Some(line) = bare(command) else { continue };
        let ran = lst(line, script(line));
        // A command that fails in the recording must fail here.
        let failed = ran.status != 0;
        let fails = ["update_group", "add_group bad", "show_session"];
        assert_eq!(failed, fails.iter().any(|name| line.starts_with(name)), "{command}");
        assert_eq!(ran.screen, corrected(command, printed), "{command}");
        compared += 1;
    }
    assert_eq!(compared, 25);
}

/// Values that `lst-survey` reads from the output: the first of each line.
fn values(text: &str) -> Vec<&str> {
    let wanted = text.lines().filter(|line| line.starts_with("[R]") || line.starts_with("[W]"));
    wanted.filter_map(|line| line.split_whitespace().nth(2)).collect()
}

/// Values that `lst-survey` reads from the output: the number of nodes with errors.
fn error_nodes(text: &str) -> Vec<&str> {
    let wanted = text.lines().filter(|line| line.contains("error nodes in"));
    wanted.filter_map(|line| line.split_whitespace().nth(1)).collect()
}

/// Values that `lnet-selftest.sh` reads from the output: the same with another pattern.
fn totals(text: &str) -> Vec<&str> {
    let total = |line: &&str| line.starts_with("Total") && line[5..].contains("nodes");
    text.lines().filter(total).filter_map(|line| line.split_whitespace().nth(1)).collect()
}

#[test]
fn known_scripts_parse_the_output_identically() {
    for (command, taken) in [
        ("stat --delay 1 --count 1 c s", (["1", "1", "0.00", "0.00"].repeat(2), vec![], vec![])),
        ("show_error --session c s", (vec![], vec!["0", "0"], vec!["0", "0"])),
    ] {
        let all = recorded();
        let (_, printed) = all.iter().find(|(line, _)| bare(line) == Some(command)).unwrap();
        let ran = lst(command, script(command));
        for text in [*printed, ran.screen.as_str()] {
            assert_eq!((values(text), error_nodes(text), totals(text)), taken, "{text}");
        }
    }
}
