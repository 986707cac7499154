//! Sessions, groups and batches.

use fulmar_selftest::console::{BatchInfo, DataCheck, PingInfo, TestInfo, TestSpec};

use super::*;

const ACTIVE: NodeState = NodeState::Active;

#[test]
fn commands_without_the_console() {
    let ran = lst("help", vec![]);
    assert!(ran.out.starts_with("usage: lst [COMMAND] [OPTIONS]... [ARGS]\n"), "{}", ran.out);
    let ran = lst("help show_error", vec![]);
    assert_eq!((ran.status, ran.out.as_str()), (0, ""));
    assert_eq!(ran.err, "show_error: Usage: lst show_error NAME | IDS ...\n");
    assert!(lst("help stat", vec![]).err.contains("--read prints the [W] lines"));
    assert!(lst("--version", vec![]).out.starts_with("lst "));
    let ran = lst("--list-commands", vec![]);
    assert!(ran.out.starts_with("quit                exit                help  "), "{}", ran.out);
    assert!(ran.out.contains("\nquery               add_test            mesh"), "{}", ran.out);
    let err = "lst: 'foo' is not a valid command. See 'lst --list-commands'.\n";
    for line in ["foo", "help foo"] {
        fails(line, vec![], 255, "", err, "");
    }
}

#[test]
fn run_with_nodes_is_a_measurement() {
    let means = |line: &str| super::super::selects_measurement(&shlex::split(line).unwrap());
    assert!(means("--from 10.0.0.1@tcp --to 10.0.0.2@tcp ping") && means("ping --to=x"));
    assert!(!means("--timeout 5 b1") && !means("") && !means("from to"));
}

#[test]
fn an_invalid_command_line_prints_the_usage_and_returns_4() {
    for (line, expected) in [
        ("new_session a b", ""),
        ("end_session x", ""),
        ("show_session x", ""),
        ("ping", ""),
        ("ping --session x", ""),
        ("add_group c", ""),
        ("del_group", ""),
        ("update_group c", ""),
        ("update_group c --refresh --clean busy", ""),
        ("update_group c --clean asleep", "lst update_group: unknown state asleep\n"),
        ("stat", ""),
        ("stat ''", ""),
        ("show_error", ""),
        ("add_batch", ""),
        ("run a b", ""),
        ("stop a b", ""),
        ("list_batch a b", ""),
        ("query a b", ""),
        ("add_test --from c --to s", ""),
        ("add_test --from c ping", ""),
        ("stop --forse", "lst stop: unknown option --forse\n"),
    ] {
        let ran = lst(line, vec![]);
        assert!(ran.status == 4 && ran.out.starts_with("Usage: lst "), "{line}: {ran:?}");
        assert_eq!((ran.err.as_str(), ran.hints.as_str()), (expected, ""), "{line}");
    }
}

#[test]
fn the_key_must_be_a_number() {
    for key in [None, Some(""), Some("0"), Some("abc"), Some("12ab"), Some("99999999999")] {
        let session = key.map(str::to_owned);
        let ran = run_in(&Environment { session, ..environment() }, "list_group", vec![]);
        assert_eq!(ran.status, 255);
        assert_eq!(ran.err, "Can't find env LST_SESSION or value is not valid\n");
        assert!(ran.hints.contains("export LST_SESSION=$$"), "{}", ran.hints);
    }
    for (text, key) in [("379", 379), ("-1", u32::MAX), ("4294967295", u32::MAX), (" 7\n", 7)] {
        let session = Some(text.to_owned());
        assert_eq!(Environment { session, ..environment() }.key(), Some(key));
    }
}

#[test]
fn an_unreachable_console_is_reported() {
    struct Unreachable;
    impl Console for Unreachable {
        fn ask(&mut self, _: Command) -> Result<Answer, CallFailure> {
            Err(CallFailure("this node has no selftest role\n# hint: start it with it".into()))
        }
    }
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut tool = Tool {
        console: &mut Unreachable,
        clock: &mut WaitClock::default(),
        out: &mut out,
        err: &mut err,
        environment: &environment(),
    };
    assert_eq!(super::super::dispatch(&mut tool, &["add_batch".into(), "b".into()]), 255);
    let expected = "lst: this node has no selftest role\n# hint: start it with it\n";
    assert_eq!((out.len(), String::from_utf8(err).unwrap().as_str()), (0, expected));
}

#[test]
fn sessions_start() {
    let line = |name: &str, timeout, force| {
        format!("SESSION: {name} FEATURES: 1 TIMEOUT: {timeout} FORCE: {force}\n")
    };
    let script = vec![new_session("user@host", 300, false, 1)];
    says("new_session", script, &line("user@host", 300, "No"));
    let script = vec![new_session("hh", 100_000, true, 1)];
    says("new_session --timeo 100000 hh -f", script, &line("hh", 100_000, "Yes"));
    for timeout in ["0", "-1", "x"] {
        let line = format!("new_session --timeout {timeout} s");
        fails(&line, vec![], 255, "", "Invalid timeout value\n", "");
    }
    let line = format!("new_session {}", "n".repeat(32));
    fails(&line, vec![], 255, "", "Name size is limited to 31\n", "");
    let (command, _) = new_session("s", 300, false, 1);
    let refused = |errno| vec![(command.clone(), Err(errno))];
    let err = "session already exists\n";
    fails("new_session s", refused(Errno::EEXIST), 255, "", err, "lst end_session");
    let err = "Failed to create session: No such device\n";
    fails("new_session s", refused(Errno::ENODEV), 255, "", err, "");
}

#[test]
fn features_are_hexadecimal_and_must_be_known() {
    let with = |features: &str| Environment { features: Some(features.into()), ..environment() };
    let ran = run_in(&with("0"), "new_session s", vec![new_session("s", 300, false, 0)]);
    assert_eq!(ran.out, "SESSION: s FEATURES: 0 TIMEOUT: 300 FORCE: No\n");
    for features in ["1f", "0x1f"] {
        let ran = run_in(&with(features), "new_session s", vec![]);
        assert_eq!(ran.status, 255);
        let expected = "Unsupported session features 1f, only support these features so far: 1\n";
        assert_eq!(ran.err, expected);
    }
}

#[test]
fn sessions_are_shown_without_a_key_and_end_silently() {
    let info = SessionInfo {
        name: "read/write".into(),
        stamp: 83_492_113,
        nid: nid("192.168.1.1@tcp"),
        key: 4711,
        features: 1,
        timeout: 300,
        force: false,
        nodes: 6,
    };
    let script = vec![(Command::ShowSession {}, Ok(Reply::Session(info)))];
    let ran = run_in(&Environment::default(), "show_session", script);
    let line = "read/write ID: 83492113@192.168.1.1@tcp, KEY: 4711 FEATURES: 1 NODES: 6\n";
    assert_eq!((ran.status, ran.out.as_str()), (0, line));
    let script = vec![(Command::ShowSession {}, Err(Errno::ESRCH))];
    fails("show_session", script, 255, "", "No session exists\n", "lst new_session");

    let end = |answer| vec![(Command::EndSession {}, answer)];
    says("end_session", end(Ok(Reply::Done)), "");
    says("end_session", end(nodes(vec![fine(3, ()), refuses(4, Errno::ESRCH)])), "");
    let failed = vec![
        down(3, Errno::ETIMEDOUT),
        refuses(4, Errno::EBUSY),
        fine(5, ()),
        down(6, Errno::EHOSTUNREACH),
    ];
    let err = "[RPC] Failed to send 2 session RPCs: Connection timed out\n\
               [FWK] Failed to end session on 1 nodes: Device or resource busy\n";
    fails("end_session", end(nodes(failed)), 254, "", err, "# 12345-10.99.0.6@tcp: No route");
    let err = "Unmatched session key or not root\n";
    fails("end_session", end(Err(Errno::EACCES)), 255, "", err, "lst show_session");
    let err = "Session is shutting down\n";
    fails("end_session", end(Err(Errno::ESHUTDOWN)), 255, "", err, "--timeout");
}

#[test]
fn nodes_report_their_sessions() {
    let info = |name: &str, console: &str| PingInfo {
        name: name.into(),
        console: Some(nid(console)),
        timeout: 100,
    };
    let busy = NodeAnswer { state: NodeState::Busy, ..fine(3, info("other", "192.168.1.9@tcp")) };
    let answers =
        vec![fine(2, info("read/write", "192.168.1.1@tcp")), busy, down(4, Errno::ETIMEDOUT)];
    let ping =
        |target| (Command::Ping { target, timeout: 5 }, Ok(Reply::Sessions(answers.clone())));
    let out = "\t12345-10.99.0.2@tcp: Active [session: read/write id: 192.168.1.1@tcp]\n\
               \t12345-10.99.0.3@tcp: Busy [session: other id: 192.168.1.9@tcp]\n\
               \t12345-10.99.0.4@tcp: Down [session: <NULL> id: <?>]\n";
    let batch = |servers| Target::Batch { name: "b".into(), servers };
    for (options, target) in [
        ("--session", Target::Session),
        ("-s --group c", Target::Group("c".into())),
        ("--batch b", batch(false)),
        ("-v -b b", batch(true)),
        ("-n 10.99.0.[2-4]@tcp", Target::Nodes(vec![node(2), node(3), node(4)])),
    ] {
        let script = vec![ping(target)];
        fails(&format!("ping {options}"), script, 254, out, "", "lnetctl ping 10.99.0.4@tcp");
    }
    let command = Command::Ping { target: Target::Session, timeout: 9 };
    let script = vec![(command, Ok(Reply::Sessions(vec![])))];
    says("ping --session --timeout 9", script, "Target session is empty\n");
    let command = Command::Ping { target: Target::Group("c".into()), timeout: 5 };
    let err = "Can't find group in current session\n";
    fails("ping -g c", vec![(command, Err(Errno::ENOENT))], 255, "", err, "lst list_group");
}

fn add_group(group: &str) -> (Command, Answer) {
    (Command::AddGroup { group: group.into() }, Ok(Reply::Done))
}

fn add_nodes(group: &str, list: &[u8], answer: Answer) -> (Command, Answer) {
    let nodes = list.iter().map(|n| node(*n)).collect();
    (Command::AddNodes { group: group.into(), nodes }, answer)
}

fn delete_group(group: &str, answer: Answer) -> (Command, Answer) {
    (Command::DeleteGroup { group: group.into() }, answer)
}

#[test]
fn groups_accept_lists_of_nodes() {
    let script = vec![
        add_group("c"),
        add_nodes("c", &[2, 4, 6, 8], nodes([2, 4, 6, 8].map(|n| fine(n, ())).into())),
        // It is in the session through another group.
        add_nodes("c", &[1], nodes(vec![])),
    ];
    let out = "10.99.0.[2-9/2]@tcp are added to session\n10.99.0.1@tcp are added to session\n";
    says("add_group c 10.99.0.[2-9/2]@tcp 10.99.0.1@tcp", script, out);

    let script = vec![add_group("c"), add_nodes("c", &[1], nodes(vec![fine(1, ())]))];
    let err = "Ignore invalid id list 10.0.0.[3-1]@tcp\nSyntax error in \"10.0.0.[3-1]@tcp\"\n\
               Ignore invalid id list nowhere\nInvalid nid: nowhere\n";
    let out = "10.99.0.1@tcp are added to session\n";
    let line = "add_group c 10.0.0.[3-1]@tcp nowhere 10.99.0.1@tcp";
    fails(line, script, 255, out, err, "numbers in brackets");
    let script = vec![(Command::AddGroup { group: "c".into() }, Err(Errno::EEXIST))];
    fails("add_group c x", script, 255, "", "group already exists\n", "another name");
    let line = format!("add_group {} x", "n".repeat(32));
    fails(&line, vec![], 255, "", "Name length is limited to 31\n", "");
}

#[test]
fn nodes_that_cannot_be_added_are_reported() {
    let answers = vec![fine(1, ()), down(2, Errno::ETIMEDOUT), refuses(3, Errno::EBUSY)];
    let script = vec![add_group("c"), add_nodes("c", &[1, 2, 3], nodes(answers))];
    let err = "create session RPC failed on 12345-10.99.0.2@tcp: Connection timed out\n\
               operation create session failed on 12345-10.99.0.3@tcp: Device or resource busy\n";
    fails("add_group c 10.99.0.[1-3]@tcp", script, 254, "", err, "lnetctl ping 10.99.0.2@tcp");

    let script = vec![
        add_group("c"),
        add_nodes("c", &[3], nodes(vec![refuses(3, Errno::EBUSY)])),
        delete_group("c", Ok(Reply::Done)),
    ];
    let err = "operation create session failed on 12345-10.99.0.3@tcp: Device or resource busy\n\
               No nodes added successfully, deleting group c\n";
    let out = "Group is deleted\n";
    fails("add_group c 10.99.0.3@tcp", script, 253, out, err, "new_session --force");
}

#[test]
fn nodes_with_fewer_features_are_reported() {
    let lower = Ok(Reply::Nodes(NodesReply { features: 0, nodes: vec![fine(1, ())] }));
    let script =
        vec![add_group("c"), add_nodes("c", &[1], lower.clone()), add_nodes("c", &[1], lower)];
    let added = "10.99.0.1@tcp are added to session\n";
    let warning = "Warning, this session will run with compatible mode because some test nodes \
                   might not understand these features: 1\n";
    let out = format!("{warning}{added}{added}");
    says("add_group c 10.99.0.1@tcp 10.99.0.1@tcp", script, &out);

    let script = vec![
        add_group("c"),
        add_nodes("c", &[1, 2], nodes(vec![fine(1, ()), refuses(2, Errno::EPROTO)])),
    ];
    let err = "test nodes might have different LST features, please disable some features by \
               setting LST_FEATURES\noperation create session failed on 12345-10.99.0.2@tcp: \
               Protocol error\n";
    fails("add_group c 10.99.0.[1-2]@tcp", script, 253, "", err, "LST_FEATURES=0");
}

#[test]
fn groups_are_deleted() {
    let script = || vec![delete_group("c", nodes(vec![fine(1, ()), refuses(2, Errno::ESRCH)]))];
    says("del_group c", script(), "Group is deleted\n");
    let script = vec![delete_group("c", nodes(vec![down(1, Errno::ETIMEDOUT)]))];
    let err = "Group is deleted with some errors\n\
               [RPC] Failed to send 1 session RPCs: Connection timed out\n";
    fails("del_group c", script, 254, "", err, "lnetctl ping");
    let script = vec![delete_group("c", Err(Errno::EBUSY))];
    let err = "Failed to delete group c: Device or resource busy\n";
    fails("del_group c", script, 255, "", err, "a test uses the group");
}

#[test]
fn groups_are_updated_silently() {
    use NodeState::{Busy, Down, Unknown};
    let group = || "c".to_owned();
    let clean =
        |states: &[NodeState]| Command::CleanGroup { group: group(), states: states.into() };
    for (options, command) in [
        ("--refresh", Command::RefreshGroup { group: group() }),
        ("--clean busy", clean(&[Busy])),
        ("-c active", clean(&[ACTIVE])),
        ("-c invalid", clean(&[Busy, Down, Unknown])),
        (
            "-r 10.99.0.[1-2]@tcp",
            Command::RemoveNodes { group: group(), nodes: vec![node(1), node(2)] },
        ),
    ] {
        says(&format!("update_group c {options}"), vec![(command, nodes(vec![fine(1, ())]))], "");
    }
    let refresh = |answer| vec![(Command::RefreshGroup { group: group() }, answer)];
    let err = "Updating group RPC failed on 12345-10.99.0.1@tcp: Connection timed out\n";
    let script = refresh(nodes(vec![down(1, Errno::ETIMEDOUT)]));
    fails("update_group -f c", script, 254, "", err, "lnetctl ping");
    let err = "Can't find group in current session\n";
    fails("update_group -f c", refresh(Err(Errno::ENOENT)), 255, "", err, "lst list_group");
    fails("update_group c -r nowhere", vec![], 255, "", "Invalid nid: nowhere\n", "nowhere");
}

#[test]
fn groups_are_listed() {
    use NodeState::Down;
    let script = vec![(Command::ListGroups {}, names(&["c", "s"]))];
    says("list_group --all", script, "1) c\n2) s\nTotal 2 groups\n");
    let c = || show_group("c", &[(2, ACTIVE), (4, Down), (3, ACTIVE)]);
    let s = || show_group("s", &[(5, ACTIVE)]);
    let out = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t2\t0\t1\t0\t3\tc\n\t1\t0\t0\t0\t1\ts\n";
    says("list_group c s", vec![c(), s()], out);
    let out = "Group [ c ]\n\t12345-10.99.0.2@tcp: Active\n\t12345-10.99.0.3@tcp: Active\n\
               Total 2 nodes [ c ]\n";
    says("list_group -a c", vec![c()], out);
    says("list_group -b c", vec![c()], "Group [ c ]\nTotal 0 nodes [ c ]\n");
    says("list_group -l e", vec![show_group("e", &[])], "No nodes found [ e ]\n");
    // An unknown group ends the listing, without an error.
    let ran = lst("list_group s bad c", vec![s(), no_group("bad")]);
    let out = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t1\t0\t0\t0\t1\ts\n";
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, out, ""));
    assert!(ran.hints.contains("unknown group \"bad\""));
}

#[test]
fn batches_are_created_and_run() {
    let add = |answer| vec![(Command::AddBatch { batch: "b".into() }, answer)];
    says("add_batch b", add(Ok(Reply::Done)), "");
    fails("add_batch b", add(Err(Errno::EEXIST)), 255, "", "batch already exists\n", "name");
    let run = |batch: &str, timeout, answer| {
        vec![(Command::Run { batch: batch.into(), timeout }, answer)]
    };
    says("run", run("batch", 0, nodes(vec![fine(1, ())])), "batch is running now\n");
    says("run -t 7 b", run("b", 7, nodes(vec![])), "b is running now\n");
    let err = "Run batch RPC failed on 12345-10.99.0.1@tcp: Connection timed out\n";
    let script = run("b", 0, nodes(vec![down(1, Errno::ETIMEDOUT), fine(2, ())]));
    fails("run b", script, 254, "", err, "lnetctl ping");
    let err = "operation Run batch failed on 12345-10.99.0.1@tcp: No such file or directory\n";
    let script = run("b", 0, nodes(vec![refuses(1, Errno::ENOENT)]));
    fails("run b", script, 253, "", err, "--refresh");
}

#[test]
fn stop_waits_until_the_batch_has_stopped() {
    let stop = |force, answer| (Command::Stop { batch: "b".into(), force }, answer);
    let both = |a, b| query("b", 0, 30, vec![fine(1, a), fine(2, b)]);
    let script = vec![
        stop(false, nodes(vec![fine(1, ()), refuses(2, Errno::EPERM)])),
        both(1, 2),
        both(0, 2),
        both(0, 0),
    ];
    let ran = lst("stop b", script);
    let out = "2 batch in stopping\n1 batch in stopping\nBatch is stopped\n";
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, out, ""));
    assert_eq!(ran.waits, [1000, 1000]);
    let script = vec![stop(true, nodes(vec![])), query("b", 0, 30, vec![])];
    says("stop --force b", script, "Batch is stopped\n");
    let script =
        vec![stop(false, nodes(vec![])), query("b", 0, 30, vec![down(1, Errno::ETIMEDOUT)])];
    let err = "stop batch RPC failed on 12345-10.99.0.1@tcp: Connection timed out\n";
    fails("stop b", script, 254, "", err, "lnetctl ping");
    let err = "Can't find batch in current session\n";
    fails("stop b", vec![stop(false, Err(Errno::ENOENT))], 255, "", err, "lst list_batch");
}

fn bulk_rw() -> (Command, Answer) {
    let (clients, servers) = (infos(&[(1, ACTIVE), (2, NodeState::Down)]), infos(&[(3, ACTIVE)]));
    let test = |test, loops, concurrency| TestInfo {
        test,
        loops,
        concurrency,
        distribute: (1, 1),
        clients: clients.clone(),
        servers: servers.clone(),
    };
    let brw = TestSpec::Brw { write: false, check: DataCheck::None, size: 4096, offset: 0 };
    let tests = vec![test(brw, -1, 8), test(TestSpec::Ping, 100, 1)];
    let (clients, servers) = (clients.clone(), servers.clone());
    let info = BatchInfo { running: true, clients, servers, tests };
    (Command::ShowBatch { batch: "bulk_rw".into() }, Ok(Reply::Batch(info)))
}

#[test]
fn batches_are_listed() {
    let script = vec![(Command::ListBatches {}, names(&["batch", "bulk_rw"]))];
    says("list_batch", script, "1) batch\n2) bulk_rw\nTotal 2 batches\n");
    let sides = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\
                 client\t1\t0\t1\t0\t2\nserver\t1\t0\t0\t0\t1\n";
    let second = format!("\tTest 2(ping) (loop: 100, concurrency: 1)\n{sides}");
    let out = format!(
        "Batch: bulk_rw Tests: 2 State: 177\n{sides}\
         \tTest 1(brw) (loop: -1, concurrency: 8)\n{sides}{second}"
    );
    says("list_batch bulk_rw", vec![bulk_rw()], &out);
    says("list_batch bulk_rw --test 2", vec![bulk_rw()], &second);
    let active = "\t12345-10.99.0.1@tcp: Active\n";
    let down = "\t12345-10.99.0.2@tcp: Down\n";
    let server = "\t12345-10.99.0.3@tcp: Active\n";
    for (options, out) in [
        ("-a", format!("{active}Total 1 nodes\n")),
        ("--invalid", format!("{down}Total 1 nodes\n")),
        ("-l --test 1", format!("{active}{down}Total 2 nodes\n")),
        ("-a -i", format!("{active}{down}Total 2 nodes\n")),
        ("--server --all", format!("{server}Total 1 nodes\n")),
        ("-s -i -t 2", "Total 0 nodes\n".into()),
    ] {
        says(&format!("list_batch bulk_rw {options}"), vec![bulk_rw()], &out);
    }
    for number in ["0", "-1", "x"] {
        let err = "Invalid test id, test id starts from 1\n";
        fails(&format!("list_batch b -t {number}"), vec![], 255, "", err, "");
    }
    let err = "Can't find test in current session\n";
    fails("list_batch bulk_rw -t 3", vec![bulk_rw()], 255, "", err, "lists their tests");
}

#[test]
fn batches_are_queried() {
    let asked = |answers| vec![query("b", 0, 5, answers)];
    says("query b", asked(vec![fine(1, 0), fine(2, 0)]), "b [0] is stopped\n");
    says("query b", asked(vec![fine(1, 1), fine(2, 3)]), "b [0] is running\n");
    says("query b", asked(vec![]), "Batch or test is empty\n");
    let mixed = || vec![fine(1, 2), fine(2, 0), down(3, Errno::ETIMEDOUT), fine(4, 1)];
    let out = "b [0] 1 of 4 nodes are unknown, stopped: 1 , running: 2, failed: 0\n";
    let ran = lst("query b", asked(mixed()));
    assert_eq!((ran.status, ran.out.as_str()), (254, out));
    let ran = lst("query b", asked(vec![refuses(1, Errno::ESRCH)]));
    let out = "b [0] 0 of 1 nodes are unknown, stopped: 0 , running: 0, failed: 1\n";
    assert_eq!((ran.status, ran.out.as_str()), (253, out));

    let running = "12345-10.99.0.1@tcp [Active]: Running\n";
    let idle = "12345-10.99.0.2@tcp [Active]: Idle\n";
    let lost = "12345-10.99.0.3@tcp [Down]: Connection timed out\n";
    let running_too = "12345-10.99.0.4@tcp [Active]: Running\n";
    for (options, out) in [
        ("--all", [running, idle, lost, running_too].concat()),
        ("--active", [running, lost, running_too].concat()),
        ("--idle", [idle, lost].concat()),
        ("-a -i", lost.into()),
        ("--error", String::new()),
    ] {
        let ran = lst(&format!("query b {options}"), asked(mixed()));
        assert_eq!((ran.status, ran.out), (254, out), "{options}");
    }
    let ran = lst("query b -e", asked(vec![fine(1, 0), refuses(2, Errno::ENOENT)]));
    assert_eq!(ran.out, "12345-10.99.0.2@tcp [Busy]: No such file or directory\n");

    let round = || query("b", 2, 9, vec![fine(1, 0)]);
    let ran = lst("query --test 2 -o 9 -c 3 -d 2 b", vec![round(), round(), round()]);
    assert_eq!(
        (ran.out.as_str(), &ran.waits[..]),
        ("b [2] is stopped\n".repeat(3).as_str(), &[2000, 2000][..])
    );
    let command = Command::Query { batch: "batch".into(), test: 0, servers: true, timeout: 5 };
    let script = vec![(command, Ok(Reply::Active(vec![fine(1, 0)])))];
    says("query --server", script, "batch [0] is stopped\n");
}
