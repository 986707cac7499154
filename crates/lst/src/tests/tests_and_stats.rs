//! `add_test`, `stat` and `show_error`.

use fulmar_selftest::console::{DataCheck, TestSpec};

use super::*;

const ACTIVE: NodeState = NodeState::Active;

fn brw(write: bool, check: DataCheck, size: u32, offset: u32) -> TestSpec {
    TestSpec::Brw { write, check, size, offset }
}

/// The requests of `add_test` with concurrency 1 from group c to group s.
fn added(batch: &str, test: TestSpec, answer: Answer) -> Script {
    let command = Command::AddTest {
        batch: batch.into(),
        test,
        loops: -1,
        concurrency: 1,
        distribute: (1, 1),
        from: "c".into(),
        to: "s".into(),
    };
    vec![show_group("c", &[(1, ACTIVE)]), show_group("s", &[(2, ACTIVE)]), (command, answer)]
}

#[test]
fn test_descriptions_are_parsed() {
    let done = "Test was added successfully\n";
    for (words, test) in [
        ("ping", TestSpec::Ping),
        ("PING", TestSpec::Ping),
        ("brw", brw(false, DataCheck::None, 4096, 0)),
        ("brw write check=full size=8k", brw(true, DataCheck::Full, 8192, 0)),
        ("brw size=1M W c=Simple", brw(true, DataCheck::Simple, 1 << 20, 0)),
        ("BRW r s=0x1000 off=64", brw(false, DataCheck::None, 4096, 64)),
        ("brw size=010k off=0x10", brw(false, DataCheck::None, 8192, 16)),
        ("brw size=1048576", brw(false, DataCheck::None, 1 << 20, 0)),
        ("brw size=8", brw(false, DataCheck::None, 8, 0)),
        ("brw write read", brw(false, DataCheck::None, 4096, 0)),
    ] {
        let script = added("batch", test, nodes(vec![fine(2, ()), fine(1, ())]));
        says(&format!("add_test --from c --to s {words}"), script, done);
    }
    let mut script = added("mix", TestSpec::Ping, nodes(vec![]));
    let Command::AddTest { loops, concurrency, distribute, .. } = &mut script[2].0 else {
        unreachable!()
    };
    (*loops, *concurrency, *distribute) = (1000, 8, (2, 3));
    let line = "add_test -b mix --con 8 --distribute 2:3 --loop 1000 -f c ping -t s";
    says(line, script, done);
}

#[test]
fn invalid_tests_are_refused_with_a_hint() {
    for (words, expected, hint) in [
        ("pong", "Unknow test name pong", "ping or brw"),
        ("ping size=4k", "Unknow parameter: size=4k", "no parameters"),
        ("brw both", "Unknow parameter: both", "read, write"),
        ("brw size", "Unknow parameter: size", "read, write"),
        ("brw check=some", "Unknow flag some", "simple or full"),
        ("brw check=discard", "Unknow flag discard", "kernel nodes"),
        ("brw skip_rx_copy", "Unknow parameter: skip_rx_copy", "kernel nodes"),
        ("brw size=x", "Invalid size x", "size=64k"),
        ("brw size=0", "Invalid size 0", "size=64k"),
        ("brw size=-8", "Invalid size -8", "size=64k"),
        ("brw size=100", "Invalid size 100", "multiple of 8"),
        ("brw size=2M", "Size exceed limitation: 2097152 bytes", "--concurrency"),
        (
            "brw off=7",
            "Invalid offset 7/7, it should be postive value and multiple of 8",
            "first page",
        ),
        (
            "brw off=-8",
            "Invalid offset -8/-8, it should be postive value and multiple of 8",
            "first page",
        ),
        (
            "brw off=4096",
            "Invalid offset 4096/4096, it should be postive value and multiple of 8",
            "0 to 4088",
        ),
    ] {
        let name = words.split(' ').next().unwrap();
        let err = format!("{expected}\nFailed to add test ({name})\n");
        fails(&format!("add_test --from c --to s {words}"), vec![], 255, "", &err, hint);
    }
    for (option, expected) in [
        ("--concurrency 0", "Invalid concurrency of test: 0\n"),
        ("-c 1025", "Invalid concurrency of test: 1025\n"),
        ("--distribute 1", "Invalid distribution: 1\n"),
        ("--distribute 0:1", "Invalid distribution: 0:1\n"),
        ("--distribute 1:x", "Invalid distribution: 1:x\n"),
    ] {
        let ran = lst(&format!("add_test --from c --to s {option} ping"), vec![]);
        assert_eq!((ran.status, ran.err.as_str(), ran.out.as_str()), (255, expected, ""));
    }
}

#[test]
fn tests_need_groups_with_active_nodes() {
    let line = "add_test --from c --to s ping";
    let script = vec![show_group("c", &[(1, ACTIVE)]), no_group("s")];
    let err = "Can't get count of nodes from s: No such file or directory\n";
    fails(line, script, 255, "", err, "lst list_group");
    for (errno, expected, hint) in [
        (Errno::ENOENT, "Can't find test in current session\n", "lst list_batch"),
        (Errno::EINVAL, "Invalid parameters list in command line\n", "does not run"),
        (Errno::ENETDOWN, "Failed to add test: Network is down\n", "--refresh"),
    ] {
        fails(line, added("batch", TestSpec::Ping, Err(errno)), 255, "", expected, hint);
    }
    let script = added("batch", TestSpec::Ping, nodes(vec![refuses(2, Errno::EBUSY)]));
    let err = "operation add test failed on 12345-10.99.0.2@tcp: Device or resource busy\n";
    fails(line, script, 253, "", err, "runs this batch already");
}

/// Counters of a node `seconds` after it entered the session, at 10 messages and 1 MiB received,
/// and 5 messages and half a MiB sent each second.
fn counters(n: u8, seconds: u32) -> NodeAnswer<Stats> {
    fine(
        n,
        Stats {
            running_ms: seconds.wrapping_mul(1000),
            recv_count: seconds.wrapping_mul(10),
            send_count: seconds.wrapping_mul(5),
            recv_length: u64::from(seconds) << 20,
            send_length: u64::from(seconds) << 19,
            ..Stats::default()
        },
    )
}

const C: &str = "[LNet Rates of c]\n\
    [R] Avg: 10       RPC/s Min: 10       RPC/s Max: 10       RPC/s\n\
    [W] Avg: 5        RPC/s Min: 5        RPC/s Max: 5        RPC/s\n\
    [LNet Bandwidth of c]\n\
    [R] Avg: 1.00     MiB/s Min: 1.00     MiB/s Max: 1.00     MiB/s \n\
    [W] Avg: 0.50     MiB/s Min: 0.50     MiB/s Max: 0.50     MiB/s \n";

fn group_c() -> (Command, Answer) {
    show_group("c", &[(1, ACTIVE)])
}

fn stat_c(answers: Vec<NodeAnswer<Stats>>) -> (Command, Answer) {
    stat_group("c", 5, answers)
}

#[test]
fn rates_are_printed_for_each_delay_after_the_first() {
    let sample = |seconds| stat_c(vec![counters(1, seconds)]);
    let script = vec![group_c(), sample(10), sample(12), sample(14)];
    let ran = lst("stat --count 2 --delay 2 c", script);
    assert_eq!((ran.status, ran.out, ran.waits), (0, C.repeat(2), vec![2000, 2000]));
    // Counts of 32 bits wrap.
    let mut last = counters(1, 1);
    let mut first = counters(1, 0);
    first.result = first.result.map(|stats| Stats {
        running_ms: 0u32.wrapping_sub(1000),
        recv_count: 0u32.wrapping_sub(10),
        ..stats
    });
    last.result = last.result.map(|stats| Stats {
        send_count: 10,
        send_length: 1 << 20,
        recv_length: 2 << 20,
        ..stats
    });
    let script = vec![group_c(), stat_c(vec![first]), stat_c(vec![last])];
    says("stat --count 1 c", script, C);
}

#[test]
fn options_select_the_lines() {
    let r = "[R] Avg: 10       RPC/s Min: 10       RPC/s Max: 10       RPC/s\n";
    let w = "[W] Avg: 5        RPC/s Min: 5        RPC/s Max: 5        RPC/s\n";
    let rates = "[LNet Rates of c]\n";
    let bandwidth = C.split_at(C.find("[LNet Bandwidth").unwrap()).1;
    for (options, out) in [
        ("--rate", [rates, r, w].concat()),
        ("--bw", bandwidth.into()),
        ("--rate --bw", C.into()),
        // Every release has them swapped.
        ("--rate --read", [rates, w].concat()),
        ("--rate --write", [rates, r].concat()),
        ("--rate --read --write", [rates, r, w].concat()),
        ("--rate --write --max", format!("{rates}[R] Max: 10       RPC/s\n")),
        (
            "--rate --write --avg -n",
            format!("{rates}[R] Avg: 10       RPC/s Min: 10       RPC/s \n"),
        ),
        ("--bw --mbs --write --avg", "[LNet Bandwidth of c]\n[R] Avg: 1.05     MB/s  \n".into()),
        // Scripts pass an empty argument for an unset option.
        ("--bw \"\"", bandwidth.into()),
        ("--lnet --rpc", C.into()),
        ("--rpc", String::new()),
    ] {
        let script = vec![group_c(), stat_c(vec![counters(1, 1)]), stat_c(vec![counters(1, 2)])];
        says(&format!("stat --count 1 {options} c"), script, &out);
    }
    for option in ["--delay 0", "-t 0", "-t x", "--delay -1"] {
        let err = "Invalid timeout or delay value\n";
        fails(&format!("stat {option} c"), vec![], 255, "", err, "");
    }
    for count in ["0", "-2", "x"] {
        fails(&format!("stat --count {count} c"), vec![], 255, "", "Invalid count value\n", "");
    }
}

#[test]
fn figures_cover_the_nodes_that_answer() {
    let still = |seconds: u32| fine(2, Stats { running_ms: seconds * 1000, ..Stats::default() });
    let script = vec![
        group_c(),
        stat_c(vec![counters(1, 1), still(1), counters(3, 1)]),
        stat_c(vec![counters(1, 2), still(2), down(3, Errno::ETIMEDOUT)]),
    ];
    let ran = lst("stat --count 1 --rate --write c", script);
    let out = "Failed to stat on 1 nodes\n[LNet Rates of c]\n\
               [R] Avg: 5        RPC/s Min: 0        RPC/s Max: 10       RPC/s\n";
    let err = "stat RPC failed on 12345-10.99.0.3@tcp: Connection timed out\n";
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (254, out, err));
    let script =
        vec![group_c(), stat_c(vec![counters(1, 1)]), stat_c(vec![counters(1, 2), counters(2, 2)])];
    let ran = lst("stat --count 1 c", script);
    assert_eq!((ran.status, ran.out.as_str()), (0, C));
    assert_eq!(ran.err, "Group is changed, re-run stat\n");
}

#[test]
fn targets_are_nids_if_there_is_no_such_group() {
    let ids = "10.99.0.[1-2]@tcp";
    let target = Target::Nodes(vec![node(1), node(2)]);
    let sample = |seconds| {
        let answers = vec![counters(1, seconds), counters(2, seconds)];
        (Command::Stat { target: target.clone(), timeout: 5 }, Ok(Reply::Stats(answers)))
    };
    let script = vec![no_group(ids), sample(1), sample(2)];
    says(&format!("stat --count 1 {ids}"), script, &C.replace("of c", &format!("of {ids}")));
    let err = "Failed to get count of nodes from nowhere: No such file or directory\n";
    fails("stat nowhere", vec![no_group("nowhere")], 255, "", err, "no group has this name");
    let script = vec![(Command::ShowGroup { group: "c".into() }, Err(Errno::ESRCH))];
    fails("stat c", script, 255, "", "No session exists\n", "lst new_session");
}

#[test]
fn nodes_with_errors_are_shown() {
    let bad = Stats { brw_errors: 3, rpc_errors: 3, rpcs_expired: 1, ..Stats::default() };
    let rpc_only = Stats { rpc_errors: 2, rpcs_dropped: 1, ..Stats::default() };
    let answers = || vec![fine(1, bad), fine(2, Stats::default()), fine(3, rpc_only)];
    let script = || vec![group_c(), stat_group("c", 10, answers())];
    let ran = lst("show_error c", script());
    let err = "12345-10.99.0.1@tcp: [Session 3 brw errors, 0 ping errors] [RPC: 3 errors, 0 dropped, 1 expired]\n\
               12345-10.99.0.3@tcp: [Session 0 brw errors, 0 ping errors] [RPC: 2 errors, 1 dropped, 0 expired]\n";
    let out = "c:\nTotal 2 error nodes in c\n";
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, out, err));
    let ran = lst("show_error --session c", script());
    let err = "12345-10.99.0.1@tcp: [Session 3 brw errors, 0 ping errors]\n";
    let out = "c:\nTotal 1 error nodes in c\n";
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, out, err));
    let lost = vec![down(1, Errno::ETIMEDOUT), refuses(2, Errno::ESRCH)];
    let script = vec![group_c(), stat_group("c", 10, lost)];
    let err = "RPC failure, can't show error on 12345-10.99.0.1@tcp\n\
               Framework failure, can't show error on 12345-10.99.0.2@tcp\n";
    fails("show_error c", script, 254, "c:\nTotal 2 error nodes in c\n", err, "lnetctl ping");
}
