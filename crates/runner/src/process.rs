//! One test in a process of its own.
//!
//! Its output goes to a file, not to a pipe: a process that the test has left behind would keep a pipe open.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use crate::mark::{self, MARK};
use crate::programs::Test;
use crate::report::{Outcome, Verdict};
use crate::rules::Rule;

/// A process that has not ended so long after SIGKILL waits in the kernel, perhaps for ever.
const END_TIMEOUT: Duration = Duration::from_secs(5);
static COUNT: AtomicU32 = AtomicU32::new(0);
/// At most so much of a test's output is shown, its end.
const OUTPUT_MAX: u64 = 200_000;
/// A test is ended after so many times its limit, however long it has waited for a processor.
const LIMITS_MAX: u32 = 4;

/// Runs a test. Everything that it has started is ended with it.
pub(crate) fn run(test: &Test, rule: &Rule) -> Result<Outcome, String> {
    let at = |error: std::io::Error| format!("{}: {error}", test.name);
    let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut file = output_file(&mark).map_err(at)?;
    let mut command = program(test);
    command.args(["--exact", &test.path, "--nocapture", "--test-threads=1"]);
    command.current_dir(&test.program.directory);
    command.env("CARGO_MANIFEST_DIR", &test.program.directory).env(MARK, &mark);
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(at)?);
    command.stderr(file.try_clone().map_err(at)?).process_group(0);
    let begun = Instant::now();
    let mut child = command.spawn().map_err(at)?;
    let ended = wait_for(&mut child, rule.limit, &mark).map_err(at)?;
    let took = begun.elapsed();
    end(&mut child, ended.is_none()).map_err(at)?;
    if ended.is_none_or(|status| !status.success()) {
        end_marked(&mark);
    }
    let output = end_of(&mut file).map_err(at)?;
    let verdict = match ended {
        None => {
            let Rule { limit, why, .. } = rule;
            let why = match took.saturating_sub(*limit).as_secs() {
                0 => format!("({why})"),
                waited => format!("({why}), and {waited} s in which it waited for a processor"),
            };
            Verdict::Failed(format!("it has not ended after {limit:?} {why}"))
        }
        Some(status) if !status.success() => Verdict::Failed(status.to_string()),
        Some(_) if !output.contains("test result: ok. 1 passed") => {
            Verdict::Failed("its program does not know it, or has ended early".into())
        }
        Some(_) => not_run(&output).map_or(Verdict::Passed, |line| Verdict::Skipped(line.into())),
    };
    Ok(Outcome { verdict, took, output })
}

/// Returns the program of a test, by root in a mount namespace of its own: the table of mounts is then the test's alone,
/// and what it leaves mounted goes with its last process.
fn program(test: &Test) -> Command {
    if !(test.program.is_integration && geteuid().is_root()) {
        return Command::new(&test.program.path);
    }
    let mut command = Command::new("unshare");
    command.arg("--mount").arg("--").arg(&test.program.path);
    command
}

/// Returns an unnamed file for reading and writing.
fn output_file(mark: &str) -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("fulmar-test-{mark}"));
    let file = File::options().read(true).append(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Waits until the process of a test has ended, at most so long. The time does not count for which the test was ready and
/// other programs had the processors: how much they do is not the test's.
fn wait_for(
    child: &mut Child,
    limit: Duration,
    mark: &str,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    let (begun, mut end) = (Instant::now(), limit);
    loop {
        if let Some(status) = wait(child, end.saturating_sub(begun.elapsed()))? {
            return Ok(Some(status));
        }
        let later = (limit + mark::waited(mark)).min(limit * LIMITS_MAX);
        if later <= begun.elapsed() {
            return Ok(None);
        }
        end = later;
    }
}

/// Waits until a process has ended, at most so long.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(20));
    }
}

/// Ends what is left of a test's process group. A process that waits in the kernel is left to it.
fn end(child: &mut Child, is_running: bool) -> std::io::Result<()> {
    let group = Pid::from_child(child);
    // Fails if the group has no process any more.
    let _ = kill_process_group(group, Signal::KILL);
    if is_running {
        wait(child, END_TIMEOUT)?;
    }
    Ok(())
}

/// Returns the line by which a test says that it cannot run here.
fn not_run(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        let at = line.find("NOT RUN: ")?;
        // The test harness has begun a line: `test NAME ... `.
        (at == 0 || line[..at].ends_with(" ... ")).then(|| &line[at..])
    })
}

/// Ends the processes of a failed test that have left its group, such as the server of a mount. Returns when they have
/// ended; one that waits in the kernel is left to it.
fn end_marked(mark: &str) {
    let begun = Instant::now();
    while mark::kill(mark) && begun.elapsed() < END_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end_of(file: &mut File) -> std::io::Result<String> {
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(OUTPUT_MAX)))?;
    let mut bytes = vec![];
    file.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
