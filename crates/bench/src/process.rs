//! Processes that do the work, and what they cost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use fulmar_proof::lab::resident_mib;

use crate::Failure;

/// A process that answers in lines on its standard output.
pub(crate) struct Worker {
    what: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this same program with other arguments.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
        Self::spawn(Command::new(program).args(arguments))
    }

    /// Starts a program.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, Failure> {
        let what = format!("{command:?}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io(format!("start {what}")))?;
        let output = child.stdout.take().map(BufReader::new);
        let output = output.expect("standard output is a pipe, as asked for above");
        Ok(Self { what, child, output })
    }

    /// Returns the resident memory of the process in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        resident_mib(self.child.id()).map_err(Failure)
    }

    /// Waits for the next line.
    pub(crate) fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let len = read.map_err(Failure::io(format!("read from {}", self.what)))?;
        if len == 0 {
            return Err(Failure(format!("{} ended and said nothing", self.what)));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Waits for a line that is a number.
    pub(crate) fn number(&mut self) -> Result<f64, Failure> {
        let line = self.line()?;
        line.parse().map_err(|_| Failure(format!("{} said {line:?}", self.what)))
    }

    /// Closes the worker's standard input, which tells ours to finish; then waits for its end and
    /// returns what else it said.
    pub(crate) fn finish(mut self) -> Result<String, Failure> {
        drop(self.child.stdin.take());
        let rest = std::io::read_to_string(&mut self.output);
        let rest = rest.map_err(Failure::io(format!("read from {}", self.what)))?;
        let status = self.child.wait().map_err(Failure::io(format!("wait for {}", self.what)))?;
        if status.success() {
            Ok(rest)
        } else {
            Err(Failure(format!("{} failed ({status}): {}", self.what, rest.trim_end())))
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail if it has been waited for, which is what they are to bring about.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `trial` and returns what it returned, and the CPU seconds (user and system) of all the
/// processes that it started and waited for.
pub(crate) fn with_cpu_time<T>(
    trial: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, f64), Failure> {
    let before = children_cpu_time()?;
    let result = trial()?;
    Ok((result, children_cpu_time()? - before))
}

/// The CPU seconds of every child that has been waited for. See proc(5), `cutime` and `cstime`.
fn children_cpu_time() -> Result<f64, Failure> {
    const PATH: &str = "/proc/self/stat";
    let stat = fs::read_to_string(PATH).map_err(Failure::io(format!("read {PATH}")))?;
    // The second field is a name in parentheses and may hold spaces; `cutime` is the 16th.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').skip(16 - 3).take(2));
    let ticks: Option<f64> = fields.and_then(|fields| fields.map(|n| n.parse::<f64>().ok()).sum());
    Ok(ticks.ok_or_else(|| Failure(format!("{PATH} is cut short")))? / TICKS_PER_SECOND)
}

/// What Linux shows user space on every architecture that Rust knows.
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_children_is_counted_when_they_are_waited_for() {
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo 7";
        let run = || {
            let mut worker = Worker::spawn(Command::new("sh").args(["-c", script]))?;
            let answer = worker.number()?;
            worker.finish()?;
            Ok(answer)
        };
        let (answer, seconds) = with_cpu_time(run).unwrap();
        assert_eq!(answer, 7.0);
        assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
    }

    #[test]
    fn a_worker_that_fails_is_told_of_with_its_last_words() {
        let worker =
            Worker::spawn(Command::new("sh").args(["-c", "echo no luck; exit 3"])).unwrap();
        let text = worker.finish().unwrap_err().to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("no luck"), "{text}");
    }
}
