//! The parameters of a running node, and its debug log.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::lab::{Lab, Node, TIMEOUT};

/// What a 2.17 node answered.
const RECORDED: &str = include_str!("../../../../../testdata/cli/lctl-node1.txt");

/// Those of a kernel node that collectors read, and that masks have.
const NAMES: [&str; 18] = [
    "buffers",
    "catastrophe",
    "cpu_partition_distance",
    "cpu_partition_table",
    "debug",
    "debug_marker",
    "debug_mb",
    "lnet_lnd_timeout",
    "lnet_memused",
    "nis",
    "peers",
    "portal_rotor",
    "printk",
    "routers",
    "routes",
    "stats",
    "subsystem_debug",
    "subsystem_printk",
];

/// Returns what the debug log has in its lines, without times and places.
fn log_of(node: &Node) -> Vec<String> {
    let log = node.output("lctl dk");
    let (lines, last) = log.trim_end().rsplit_once('\n').unwrap_or(("", log.trim_end()));
    let count = lines.lines().count();
    assert_eq!(last, format!("Debug log: {count} lines, {count} kept, 0 dropped, 0 bad."));
    let parts = |line: &str| {
        let (head, text) = line.split_once("()) ").unwrap_or_else(|| panic!("{line}"));
        format!("{} {text}", &head[..17])
    };
    lines.lines().map(parts).collect()
}

/// Returns the lines of the debug log until it has each of these texts.
fn log_until(node: &Node, texts: &[&str]) -> Vec<String> {
    let begun = Instant::now();
    let mut lines = log_of(node);
    while !texts.iter().all(|text| lines.iter().any(|line| line.contains(text))) {
        assert!(begun.elapsed() < TIMEOUT, "{texts:?} are not all in {lines:#?}");
        sleep(Duration::from_millis(20));
        lines.extend(log_of(node));
    }
    lines
}

/// A recorded command, what it printed, and its status.
struct Record {
    command: &'static str,
    output: String,
    status: i32,
}

/// Returns the records, without what is not compared: the directory of files, and descriptions.
fn records() -> impl Iterator<Item = Record> {
    RECORDED.trim_start_matches("$ ").split("\n$ ").map(|record| {
        let (command, rest) = record.split_once('\n').expect("a command has a line");
        let (output, status) = rest.rsplit_once("[exit ").expect("a record has a status");
        let output = output.replace("/sys/kernel/debug/lnet/", "");
        let is_compared = |line: &&str| !line.contains("\tdescription: ");
        let output =
            output.lines().filter(is_compared).map(|line| line.to_owned() + "\n").collect();
        let status = status.trim_end().trim_end_matches(']').parse().expect("a status is a number");
        Record { command, output, status }
    })
}

/// Runs a recorded command on a node, and compares.
fn compare(node: &Node, record: &Record) {
    let words = shlex::split(record.command).expect("quotes are in pairs");
    let (status, out, err) = node.run_words(&words);
    let is_hint = |line: &str| line.trim_start_matches("# ").starts_with("hint: ");
    let is_compared = |line: &&str| !line.contains("\tdescription: ") && !is_hint(line);
    // Both were recorded together; errors are compared first.
    let ours: Vec<&str> = err.lines().chain(out.lines()).filter(is_compared).collect();
    let is_error = |line: &&str| line.starts_with("error: ");
    let (errors, others): (Vec<&str>, Vec<&str>) = record.output.lines().partition(is_error);
    let recorded = [errors, others].concat();
    assert_eq!((status, ours), (record.status, recorded), "{}", record.command);
}

#[test]
fn commands_answer_as_recorded() {
    let lab = Lab::new("recorded");
    let node = lab.node(2);
    let all: Vec<Record> = records().collect();
    for command in [
        "lctl get_param routes",
        "lctl get_param routers",
        "lctl get_param buffers",
        "lctl get_param -n buffers",
        "lctl get_param debug subsystem_debug printk subsystem_printk",
        "lctl get_param debug_marker",
        "lctl get_param -N debug stats debug_mb",
        "lctl get_param -NF debug stats debug_mb lnet_memused",
        "lctl get_param 'ro*'",
        "lctl get_param -H portal_rotor",
        "lctl list_param -D '*'",
        "lctl list_param -R ldlm",
        "lctl list_param nosuch",
        "lctl debug_list subs",
        "lctl debug_list types",
        "lctl network up",
        "lctl which_nid bogus",
        "lctl which_nid 10.9.9.9@o2ib",
        "lctl network bogus",
        "lctl bogus",
        "lnetctl debug peer --nid 10.99.0.111@tcp",
        "lnetctl debug peer --nid bogus",
        "lnetctl debug peer",
        "lnetctl net --list-commands",
        "lnetctl peer --list-commands",
        "lnetctl route --list-commands",
        "lnetctl global --list-commands",
        "lnetctl stats --list-commands",
        "lnetctl lnet --list-commands",
        "lnetctl udsp --list-commands",
        "lnetctl fault --list-commands",
    ] {
        let record = all.iter().find(|record| record.command == command);
        compare(&node, record.unwrap_or_else(|| panic!("{command} is not recorded")));
    }
    // What follows on one another: masks, the size of the log, and what is refused.
    let first = all.iter().position(|record| record.command == "lctl set_param debug=+net");
    let last = all.iter().position(|record| record.command == "lctl clear");
    let changes = &all[first.unwrap()..=last.unwrap()];
    assert_eq!(changes.len(), 41);
    changes.iter().for_each(|record| compare(&node, record));
}

#[test]
fn a_node_has_the_files_of_a_kernel_node() {
    let lab = Lab::new("files");
    let node = lab.node(2);
    let listed = node.output("lctl list_param *");
    assert_eq!(listed.lines().collect::<Vec<_>>(), NAMES);
    let value = |name: &str| node.output(&format!("lctl get_param -n {name}"));
    assert_eq!(value("catastrophe lnet_lnd_timeout debug_mb"), "0\n49\n5\n");
    assert!(value("lnet_memused").trim().parse::<u64>().unwrap() > 1 << 20);
    let table = value("cpu_partition_table");
    assert!(table.starts_with("0\t: 0") || table.starts_with("0\t: "), "{table}");
    assert_eq!(value("debug"), "ioctl neterror warning error emerg ha config console lfsck\n");
    assert_eq!(value("printk"), "warning error emerg console\n");
    assert_eq!(value("subsystem_printk"), "0\n");
    assert_eq!(value("subsystem_debug").split_whitespace().count(), 29);
    let rotor = node.output("lctl get_param portal_rotor");
    assert!(rotor.starts_with("portal_rotor=\n{\n\tportals: all\n\trotor: HASH_RT\n"), "{rotor}");
    assert!(rotor.ends_with("\n}\n"), "{rotor}");
    assert_eq!(node.output("lctl set_param portal_rotor=on"), "portal_rotor=on\n");
    assert!(value("portal_rotor").contains("\trotor: ON\n"));
    // Those of modules are there for who asks for them.
    assert_eq!(node.output("lctl get_param -o lnet_retry_count"), "lnet_retry_count=2\n");
    let module = "lnet_peer_discovery_disabled";
    assert_eq!(node.output(&format!("lctl get_param -o -n {module}")), "0\n");
    node.output(&format!("lctl set_param -o {module}=1 lnet_retry_count 3"));
    let globals = node.output("lnetctl global show");
    assert!(globals.contains(" discovery: 0\n") && globals.contains(" retry_count: 3\n"));
    for (words, status, why) in [
        ("get_param lnet_retry_count", 2, "param_path 'lnet_retry_count': No such file"),
        ("set_param lnet_memused=1", 22, "hint: lnet_memused is read only\n"),
        ("set_param debug=+bogus", 22, "\nhint: unknown mask"),
        ("set_param portal_rotor=X", 22, "is not OFF, ON, RR_RT or HASH_RT"),
        ("set_param debug_mb=many", 22, "Invalid argument"),
    ] {
        let (got, out, err) = node.run(&format!("lctl {words}"));
        assert_eq!((got, out.as_str()), (status, ""), "{words}: {err}");
        assert!(err.contains(why), "{words}: {err}");
    }
}

#[test]
fn written_statistics_begin_again() {
    let lab = Lab::new("written");
    let (a, _b) = (lab.node(2), lab.node(3));
    a.output("lnetctl discover 127.0.0.3@tcp");
    let rows = |table: &str| {
        let text = a.output(&format!("lctl get_param -n {table}"));
        let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    // The columns of credits that are free now, and of the fewest so far.
    for (table, nid, now, least) in
        [("nis", "127.0.0.2@tcp", 7, 8), ("peers", "127.0.0.3@tcp", 7, 8)]
    {
        let of_nid = || rows(table).into_iter().find(|row| row[0] == nid).unwrap();
        assert_ne!(of_nid()[now], of_nid()[least], "{table}");
        assert_eq!(a.output(&format!("lctl set_param {table}=0")), format!("{table}=0\n"));
        assert_eq!(of_nid()[now], of_nid()[least], "{table}");
    }
    assert!(!a.output("lctl get_param -n stats").ends_with(" 0 0 0 0 0 0 0\n"));
    a.output("lctl set_param -n stats=0");
    let stats = a.output("lctl get_param -n stats");
    assert_eq!(stats.split_whitespace().nth(6), Some("0"), "{stats}");
}

#[test]
fn the_debug_log_has_what_the_masks_select() {
    let lab = Lab::new("debug");
    let (a, _b) = (lab.node(2), lab.node(3));
    a.output("lctl ping 127.0.0.3@tcp");
    let before = log_of(&a);
    assert!(before.iter().any(|line| line.contains("listens at port")), "{before:?}");
    let of_messages = |lines: &[String]| {
        lines.iter().filter(|line| line.starts_with("00000400:00000200 ")).count()
    };
    assert_eq!(of_messages(&before), 0);

    assert_eq!(a.output("lctl set_param debug=+net"), "debug=+net\n");
    let mask = "ioctl neterror net warning error emerg ha config console lfsck\n";
    assert_eq!(a.output("lctl get_param -n debug"), mask);
    a.output("lctl ping 127.0.0.3@tcp");
    let lines = log_of(&a);
    let get = "GET 127.0.0.2@tcp->127.0.0.3@tcp portal 0 bits 0x8000000000000000 length";
    for text in [get, "received REPLY 127.0.0.3@tcp->127.0.0.2@tcp length", " is sent"] {
        assert!(lines.iter().any(|line| line.contains(text)), "{text} in {lines:?}");
    }

    // Without the subsystem no line is kept.
    a.output("lctl set_param debug=-1 subsystem_debug=-lnet");
    a.output("lctl clear");
    a.output("lctl ping 127.0.0.3@tcp");
    assert_eq!(of_messages(&log_of(&a)), 0);
    a.output("lctl set_param subsystem_debug=-1 debug=0");
    assert_eq!(a.output("lctl get_param debug"), "debug=0\n");
    a.output("lctl ping 127.0.0.3@tcp");
    assert_eq!(of_messages(&log_of(&a)), 0);

    a.output("lctl mark hello world");
    a.output("lnetctl debug peer --nid 127.0.0.3@tcp");
    a.output("lnetctl debug peer --nid 127.0.0.9@tcp");
    assert!(a.output("lctl dk out.dk").starts_with("Debug log: "));
    let written = fs::read_to_string(lab.path("out.dk")).unwrap();
    let has = |start: &str, part: &str| {
        written.lines().any(|line| line.starts_with(start) && line.contains(part))
    };
    assert!(has("00000001:02000400:", "()) DEBUG MARKER: hello world"), "{written}");
    let peer = "()) 127.0.0.3@tcp               1    NA     8     8     8     8     7 0";
    assert!(has("00000400:00000400:", peer), "{written}");
    assert!(has("00000400:00000400:", "()) no peer 127.0.0.9@tcp"), "{written}");
}

#[test]
fn the_debug_log_has_requests_locks_connections_and_configurations() {
    let lab = Lab::new("debug-targets");
    let (nid, port) = ("127.0.0.59@tcp", lab.port);
    let networks = "tcp(127.0.0.59)";
    let a = lab.up(59, &["fs", "--osts", "1", "--fsname", "lv", "--networks", networks]);
    let df = format!("lfs df {nid}:/lv --port {port}");
    a.wait_for_success(&df);
    for target in ["MDT:0", "OST:0"] {
        a.wait_for_output(&df, target);
    }
    let count = |lines: &[String], start: &str, parts: &[&str]| {
        let is_one = |line: &&String| {
            line.starts_with(start) && parts.iter().all(|part| line.contains(part))
        };
        lines.iter().filter(is_one).count()
    };
    // Types that are kept unless an administrator says otherwise. An OST that serves connects to its MDT, and joins.
    let joined = ["lv-MDT0000 has joined its file system", "lv-OST0000 has joined its file system"];
    let before = log_until(&a, &joined);
    let (requests, locks) = ("00000100:00100000 ", "00010000:00010000 ");
    assert_eq!(count(&before, requests, &[]) + count(&before, locks, &[]), 0, "{before:?}");
    let connects = ["lv-OST0000: OST_CONNECT of ", " at 127.0.0.1@tcp: ok"];
    assert!(count(&before, "00010000:00080000 ", &connects) > 0, "{before:?}");
    let registers = ["lv-MDT0000: registers at ", nid];
    assert!(count(&before, "20000000:01000000 ", &registers) > 0, "{before:?}");

    a.output("lctl set_param debug=+rpctrace+dlmtrace-ha");
    a.output(&df);
    fs::create_dir(lab.path("directory")).unwrap();
    a.output(&format!("cp -r directory {nid}:/lv/ --port {port}"));
    a.output("lctl conf_param lv.sys.jobid_var=procname_uid");
    let lines = log_of(&a);
    for (start, parts) in [
        (requests, ["lv-MDT0000: handling MDS_STATFS x", " of 127.0.0.1@tcp"]),
        (requests, ["lv-MDT0000: handled MDS_STATFS x", " us: ok"]),
        (requests, ["MGS: handled LDLM_CANCEL x", " us: ok"]),
        (locks, ["MGS: a client wants a CR PLAIN lock on [0x766c:0x0:0x0].0x0", ", its handle 0x"]),
        (locks, ["MGS: a CR PLAIN lock on [0x766c:0x0:0x0].0x0", " is granted, handle 0x"]),
        (locks, ["MGS: LDLM_CANCEL of the lock 0x", ""]),
        ("20000000:01000000 ", ["MGS: the configuration of lv has changed", ""]),
    ] {
        assert!(count(&lines, start, &parts) > 0, "{parts:?} in {lines:#?}");
    }
    assert_eq!(count(&lines, "00010000:00080000 ", &[]), 0, "{lines:?}");
}

#[test]
fn the_locks_and_requests_of_targets_are_counted() {
    let lab = Lab::new("locks");
    let (port, metrics) = (lab.port, format!("127.0.0.1:{}", lab.port + 1));
    let networks = ["--networks", "tcp(127.0.0.60)", "--metrics", &metrics];
    let a = lab.up(60, &[&["fs", "--osts", "1", "--fsname", "lv"][..], &networks].concat());
    let df = format!("lfs df 127.0.0.60@tcp:/lv --port {port}");
    a.wait_for_success(&df);
    for target in ["MDT:0", "OST:0"] {
        a.wait_for_output(&df, target);
    }
    // There are no locks now.
    let spaces = ["MGS", "filter-lv-OST0000_UUID", "mdt-lv-MDT0000_UUID"];
    let listed = a.output("lctl list_param ldlm.namespaces.*.lock_count");
    let expected = spaces.map(|space| format!("ldlm.namespaces.{space}.lock_count\n"));
    let mut lines: Vec<String> = listed.lines().map(|line| line.to_owned() + "\n").collect();
    lines.sort();
    assert_eq!(lines, expected);
    let counts = a.output("lctl get_param -n ldlm.namespaces.*.lock_count");
    assert!(counts.lines().all(|line| line.parse::<u64>().is_ok()), "{counts}");
    let top = a.output("top --once -i 0.2");
    let words = |start: &str| -> Vec<String> {
        let row =
            top.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{top}"));
        row.split_whitespace().map(str::to_owned).collect()
    };
    let granted = a.output("lctl get_param -n ldlm.namespaces.*.pool.granted");
    assert_eq!(granted.lines().count(), 3, "{granted}");
    assert_eq!(words("target ")[3..8], ["clients", "RPCs", "queued", "locks", "waiting"]);
    assert_eq!(words("lv-OST0000 ")[4..7], ["0", "0", "0"], "{top}");
    assert!(words("MGS ")[6..8].iter().all(|word| word.parse::<u64>().is_ok()), "{top}");
}

#[test]
fn the_debug_log_is_bounded() {
    let lab = Lab::new("bounded");
    let a = lab.node(2);
    assert_eq!(a.output("lctl set_param debug_mb=0"), "debug_mb=0\n");
    assert_eq!(a.output("lctl get_param debug_mb"), "debug_mb=1\n");
    assert!(log_of(&a).iter().any(|line| line.contains("since 0 is not 1 to 128")));
    a.output("lctl set_param debug_mb=100000");
    assert_eq!(a.output("lctl get_param -n debug_mb"), "128\n");
}
