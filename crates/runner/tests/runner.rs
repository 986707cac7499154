//! The runner with a program that behaves like a test program, a script.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test program in a directory of its own.
struct Program(PathBuf);

impl Program {
    /// Each test is a name and what the shell does for it, in the crate's directory.
    fn new(name: &str, tests: &[(&str, &str)]) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runner-{name}"));
        let _ = std::fs::remove_dir_all(&place);
        let directory = place.join("crates/made");
        std::fs::create_dir_all(&directory).unwrap();
        let list: String = tests.iter().map(|(test, _)| format!("echo '{test}: test'\n")).collect();
        let cases: String =
            tests.iter().map(|(test, does)| format!("{test}) {does} ;;\n")).collect();
        let script = format!(
            "#!/bin/sh\n[ \"$1\" != --list ] || {{ {list} exit; }}\ncase $2 in\n{cases}esac\n\
             echo 'test result: ok. 1 passed; 0 failed'\n"
        );
        let path = directory.join("program");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    /// Runs the tests. Returns the status and what is printed.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": self.0.join("Cargo.toml"),
            "target": { "kind": ["test"], "name": "program" },
            "profile": { "test": true },
            "executable": self.0.join("program"),
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-runner"));
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{message}").unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }
}

#[test]
fn each_test_runs_in_its_crate_and_the_last_line_counts_them() {
    let program = Program::new("passes", &[("one", "touch here"), ("two", ":")]);
    let (status, text) = program.run(&[]);
    assert_eq!((status, text.lines().last()), (0, Some("2 passed, 0 failed, 0 skipped")), "{text}");
    assert!(text.contains(" s  made/program one\n"), "{text}");
    assert!(program.0.join("here").exists());
}

#[test]
fn a_test_that_fails_twice_fails_the_run_with_both_outputs() {
    let program =
        Program::new("fails", &[("bad", "date +%N >>log; cat log; exit 101"), ("ok", ":")]);
    let (status, text) = program.run(&[]);
    assert_eq!((status, text.lines().last()), (1, Some("1 passed, 1 failed, 0 skipped")), "{text}");
    let log = std::fs::read_to_string(program.0.join("log")).unwrap();
    assert_eq!(log.lines().count(), 2);
    assert!(text.contains("==== made/program bad, run 1: exit status: 101\n"), "{text}");
    assert!(text.contains(&format!("==== made/program bad, run 2: exit status: 101\n{log}")));
    assert!(text.contains("\nFAILED made/program bad\n"), "{text}");
}

#[test]
fn a_test_that_passes_the_second_time_is_flaky() {
    let program =
        Program::new("flaky", &[("odd", "[ -e seen ] || { touch seen; echo why; exit 101; }")]);
    let (status, text) = program.run(&[]);
    let end = "FLAKY made/program odd\n1 passed, 0 failed, 0 skipped\n";
    assert_eq!((status, text.ends_with(end)), (0, true), "{text}");
    assert!(text.contains("==== made/program odd, run 1: ") && text.contains("\nwhy\n"), "{text}");
}

#[test]
fn what_hangs_is_ended_with_all_that_it_has_started() {
    let does = "sleep 1000 & setsid sleep 1001 & echo $! >id; echo waits; wait";
    let program = Program::new("hangs", &[("stuck", does)]);
    let (status, text) = program.run(&["--limit", "1"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("==== made/program stuck, run 1: it has not ended after 1s (most take milliseconds)\nwaits\n"));
    let id = std::fs::read_to_string(program.0.join("id")).unwrap();
    let command = std::fs::read(format!("/proc/{}/cmdline", id.trim())).unwrap_or_default();
    assert!(!command.starts_with(b"sleep\x001001"), "it still runs");
}

#[test]
fn a_test_that_cannot_run_is_skipped_and_may_be_listed_for_root() {
    let tests = [
        ("rooted", "echo 'NOT RUN: mounts: they need root'"),
        ("absent", "echo 'test absent ... NOT RUN: there is no browser'"),
    ];
    let program = Program::new("skips", &tests);
    let list = program.0.join("list");
    let (status, text) = program.run(&["--needs-root", list.to_str().unwrap()]);
    assert_eq!((status, text.lines().last()), (0, Some("0 passed, 0 failed, 1 skipped")), "{text}");
    assert!(text.contains("\nNOT RUN: there is no browser  (1 ×)\n"), "{text}");
    assert_eq!(std::fs::read_to_string(&list).unwrap(), "made/program rooted");
    let (_, text) = program.run(&["--listed", list.to_str().unwrap()]);
    assert_eq!(text.lines().last(), Some("0 passed, 0 failed, 1 skipped"));
}

#[test]
fn a_word_selects_tests_and_one_that_selects_none_is_an_error() {
    let program = Program::new("words", &[("first", ":"), ("second", ":")]);
    let (_, text) = program.run(&["--only", "program sec"]);
    assert_eq!(text.lines().last(), Some("1 passed, 0 failed, 0 skipped"));
    assert_eq!(program.run(&["--only", "third"]).0, 2);
}

#[test]
fn a_program_that_ends_without_a_result_has_not_passed() {
    let program = Program::new("ends", &[("early", "exit 0")]);
    let (status, text) = program.run(&[]);
    assert_eq!(status, 1, "{text}");
}
