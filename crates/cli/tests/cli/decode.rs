//! `fulmar decode` with captures of kernel nodes.

use std::process::Command;

use serde_json::Value;

/// Runs the command on a trace, and returns its status, output and errors.
fn run(trace: &str, words: &[&str]) -> (i32, String, String) {
    let path = format!("{}/../../testdata/traces/{trace}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.arg("decode").arg(path).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The lines after the heading.
fn lines(trace: &str, words: &[&str]) -> Vec<String> {
    let (status, out, err) = run(trace, words);
    assert_eq!((status, err.as_str()), (0, ""), "{trace} {words:?}");
    let lines = out.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_mount_is_a_conversation() {
    let lines = lines("mount", &[]);
    assert_eq!(lines.len(), 30);
    assert_eq!(
        lines[2],
        "0.020591 4.26 ms 10.99.0.1@tcp MGS 10.99.0.2@tcp LLOG_CREATE ENOENT 6b00576701180 \
         lv-sptlrpc"
    );
    assert_eq!(
        lines[20],
        "0.191947 11.1 ms 10.99.0.1@tcp lv-MDT0000 10.99.0.2@tcp LDLM_ENQUEUE GETATTR ok \
         6b00576701a80 / [0x200000007:0x1:0x0] -> LOOKUP_POS PR LOOKUP|UPDATE|PERM"
    );
    let (_, out, _) = run("mount", &[]);
    assert!(out.starts_with("# ") && out.contains("30 RPCs from 2026-11-20 14:22:30.929104 UTC"));
}

#[test]
fn files_and_objects_have_names() {
    let writes = lines("contend", &["--opcode", "ost_write"]);
    let expected = "shared object [0x240000400:0x54:0x0] [0, 4) inline 4 B T10IP4K transno \
                    0x100000071";
    assert!(writes[0].ends_with(expected), "{writes:?}");
    let renames = lines("meta", &["--opcode", "RENAME"]);
    assert!(renames[0].contains("f1 in a to f2 in b cancels 2 locks"), "{renames:?}");
    let path = lines("meta", &["--opcode", "fid2path"]);
    assert!(path[0].ends_with("[0x200000401:0x3:0x0] = a/b2"), "{path:?}");
}

#[test]
fn filters_select_requests() {
    let by_name = lines("meta", &["--file", "openunlink"]);
    let by_fid = lines("meta", &["--file", "[0x200000401:0x9f:0x0]"]);
    assert_eq!((by_name.len(), &by_name), (5, &by_fid));
    let of_node = lines("contend", &["--node", "10.99.0.3", "--opcode", "LDLM_CP_CALLBACK"]);
    assert!(of_node.iter().all(|line| line.contains("10.99.0.2@tcp 10.99.0.3@tcp")), "{of_node:?}");
    assert_eq!(lines("contend", &["--node", "10.99.0.9@tcp"]), [""; 0]);
    let slow = lines("recovery", &["--slower", "10s"]);
    assert_eq!(slow.len(), 1, "{slow:?}");
    assert!(slow[0].contains("OBD_PING ok") && slow[0].contains("EARLY REPLY"), "{slow:?}");
    let (status, _, err) = run("mount", &["--opcode", "writ"]);
    assert_eq!(status, 2);
    assert!(err.contains("did you mean OST_WRITE?"), "{err}");
}

#[test]
fn recovery_is_visible() {
    let out = lines("recovery", &[]).join("\n");
    for expected in [
        "ENOTCONN",
        "ENODEV",
        "RESENT (1 time) after ENOTCONN r-31 object",
        "EARLY REPLY (1)",
        "end of recovery",
    ] {
        assert!(out.contains(expected), "{expected}");
    }
    assert!(out.contains("RECOVERING|REPLAYABLE"));
}

#[test]
fn programs_get_an_object_for_each_request() {
    let (status, out, _) = run("mount", &["--json", "-v", "--opcode", "MDS_CONNECT"]);
    assert_eq!((status, out.lines().count()), (0, 1));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["target"], "lv-MDT0000");
    assert_eq!(value["latency_s"], 0.007301083);
    assert_eq!(value["request"]["target_uuid"], "lv-MDT0000_UUID");
    assert_eq!(value["request"]["connect_data"]["version"], "2.17.57.62");
    assert_eq!(value["reply"]["body"]["connect_flags"][0], "REPLAYABLE");
    let (_, short, _) = run("mount", &["--json"]);
    assert_eq!(short.lines().count(), 30);
    assert!(!short.contains("connect_data"));
}

#[test]
fn messages_are_yaml() {
    let (_, out, _) = run("mount", &["-v", "--opcode", "GET_ROOT"]);
    for line in ["operation: MDS_GET_ROOT", "  mdt_body:", "    fid: \"[0x200000007:0x1:0x0]\""] {
        assert!(out.lines().any(|other| other == line), "{line}\n{out}");
    }
}

#[test]
fn bulk_data_with_a_structure_are_shown() {
    let (_, out, _) = run("meta", &["-v", "--opcode", "READPAGE"]);
    assert!(out.contains("file-with-a-longish-name-17"), "{out}");
    let nodemaps = lines("ost-join", &["--opcode", "CONFIG_READ"]);
    assert!(nodemaps[0].contains("NODEMAP"), "{nodemaps:?}");
}

#[test]
fn a_summary_has_counts_and_latencies() {
    let rows = lines("recovery", &["--summary"]);
    assert_eq!(rows[0], "LDLM_ENQUEUE GETATTR 83 1 - 1.57 ms 3.3 ms 153 ms 153 ms -");
    let (_, out, _) = run("data", &["--summary", "--json", "--opcode", "OST_WRITE"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["requests"], &value["failed"]), (&Value::from(12), &Value::from(0)));
}

#[test]
fn a_file_that_is_not_a_capture_is_an_error() {
    let fulmar = || Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = fulmar().args(["decode", env!("CARGO_MANIFEST_PATH")]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err.starts_with("fulmar decode: cannot read ") && err.lines().count() == 1, "{err}");
    let output = fulmar().args(["decode", "/nowhere.pcap"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        err,
        "fulmar decode: cannot read /nowhere.pcap: No such file or directory (os error 2)\n"
    );
    // A capture without messages of Lustre.
    let (status, out, _) = run("selftest", &[]);
    assert_eq!(status, 0);
    assert!(out.contains("0 RPCs") && out.contains("capture TCP port 988"), "{out}");
}
