//! The test programs that cargo has built, and the tests in them.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// A program that has tests.
#[derive(Debug)]
pub(crate) struct Program {
    /// `CRATE/PROGRAM`: the crate's directory, and the target's name or `lib`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The directory of the crate, in which cargo runs its tests.
    pub(crate) directory: PathBuf,
    /// Whether the tests are in `tests`. They wait; unit tests compute.
    pub(crate) is_integration: bool,
}

/// One test of a program.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) program: Arc<Program>,
    /// The test's name in its program.
    pub(crate) path: String,
    /// `CRATE/PROGRAM TEST`
    pub(crate) name: String,
}

/// Returns the test programs that cargo names in its messages, one JSON object a line. Other lines are ignored.
pub(crate) fn from_messages(messages: impl BufRead) -> Result<Vec<Program>, String> {
    let mut programs = vec![];
    for line in messages.lines() {
        let line = line.map_err(|error| format!("the messages of cargo: {error}"))?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message["reason"] == "build-finished" && message["success"] == false {
            return Err("cargo has not built the tests".into());
        }
        programs.extend(program(&message));
    }
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let kinds = message["target"]["kind"].as_array()?;
    let is = |kind: &str| kinds.iter().any(|other| other == kind);
    let target = if is("lib") { "lib" } else { message["target"]["name"].as_str()? };
    Some(Program {
        name: format!("{}/{target}", directory.file_name()?.to_string_lossy()),
        path: path.into(),
        directory,
        is_integration: is("test"),
    })
}

/// Asks each program for its tests, several programs at once.
pub(crate) fn tests(programs: Vec<Program>, threads: usize) -> Result<Vec<Test>, String> {
    let programs: Vec<_> = programs.into_iter().map(Arc::new).collect();
    let next = AtomicUsize::new(0);
    let ask = || {
        let mut tests = vec![];
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            tests.extend(tests_of(program)?);
        }
        Ok(tests)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        let lists = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        let lists: Result<Vec<Vec<Test>>, String> = lists.collect();
        Ok(lists?.concat())
    })
}

fn tests_of(program: &Arc<Program>) -> Result<Vec<Test>, String> {
    let mut command = Command::new(&program.path);
    let output = command.args(["--list", "--format", "terse"]).current_dir(&program.directory);
    let output =
        output.output().map_err(|error| format!("{} cannot be run: {error}", program.name))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} does not list its tests: {why}", program.name));
    }
    let list = String::from_utf8_lossy(&output.stdout);
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let test = |path: &str| Test {
        program: Arc::clone(program),
        path: path.into(),
        name: format!("{} {path}", program.name),
    };
    Ok(tests.map(test).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"
        {"reason":"compiler-artifact","manifest_path":"/w/crates/mdt/Cargo.toml","target":{"kind":["lib"],"name":"fulmar_mdt"},"profile":{"test":true},"executable":"/t/mdt-1"}
        {"reason":"compiler-artifact","manifest_path":"/w/crates/mdt/Cargo.toml","target":{"kind":["lib"],"name":"fulmar_mdt"},"profile":{"test":false},"executable":null}
        {"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"fulmar"},"profile":{"test":false},"executable":"/t/fulmar"}
        {"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"cli"},"profile":{"test":true},"executable":"/t/cli-2"}
        warning: not an object
        {"reason":"build-finished","success":true}"#;

    #[test]
    fn programs_with_tests_are_found_and_named_by_their_crate() {
        let programs = from_messages(MESSAGES.as_bytes()).unwrap();
        let found: Vec<_> =
            programs.iter().map(|program| (&*program.name, program.is_integration)).collect();
        assert_eq!(found, [("mdt/lib", false), ("cli/cli", true)]);
        assert_eq!(programs[1].directory, Path::new("/w/crates/cli"));
        assert_eq!(programs[1].path, Path::new("/t/cli-2"));
    }

    #[test]
    fn a_build_that_failed_runs_nothing() {
        let failed = r#"{"reason":"build-finished","success":false}"#;
        assert!(from_messages(failed.as_bytes()).is_err());
    }
}
