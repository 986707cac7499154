//! Worker processes, and their CPU time.

use std::process::Command;

use fulmar_testbed::lab::{Program, children_cpu_seconds, cpu_seconds, resident_mib};

use crate::Failure;

/// A process that prints its results as lines on standard output.
pub(crate) struct Worker(Program);

impl Worker {
    /// Starts this same program with other arguments.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
        Self::spawn(Command::new(program).args(arguments))
    }

    /// Starts a program.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, Failure> {
        Program::start(command).map(Self).map_err(Failure)
    }

    /// Returns the resident memory of the process in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        resident_mib(self.0.id()).map_err(Failure)
    }

    /// Returns the CPU seconds (user and system) of the process until now.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, Failure> {
        cpu_seconds(self.0.id()).map_err(Failure)
    }

    /// Waits for the next line.
    pub(crate) fn line(&mut self) -> Result<String, Failure> {
        self.0.wait_for("").map_err(Failure)
    }

    /// Waits for a line that is a number.
    pub(crate) fn number(&mut self) -> Result<f64, Failure> {
        let line = self.line()?;
        line.parse().map_err(|_| Failure(format!("{line:?} is not a number")))
    }

    /// Closes the standard input of the worker, which ends it; then waits for its end and returns
    /// its last line.
    pub(crate) fn finish(self) -> Result<String, Failure> {
        let printed = self.0.finish().map_err(Failure)?;
        Ok(printed.lines().last().unwrap_or_default().to_owned())
    }
}

/// Runs `trial` and returns its result, and the CPU seconds (user and system) of all the processes
/// that it started and waited for.
pub(crate) fn with_cpu_time<T>(
    trial: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, f64), Failure> {
    let before = children_cpu_seconds().map_err(Failure)?;
    let result = trial()?;
    Ok((result, children_cpu_seconds().map_err(Failure)? - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_children_is_counted_after_wait() {
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
    fn a_failed_worker_is_reported_with_its_output() {
        let worker =
            Worker::spawn(Command::new("sh").args(["-c", "echo no luck; exit 3"])).unwrap();
        let text = worker.finish().unwrap_err().to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("no luck"), "{text}");
    }
}
