//! Programs that run until they are ended, and that print lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::namespace::output;

/// The timeout for a line or the end of a program.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    what: String,
    child: Child,
    lines: Receiver<String>,
    /// The lines that have been read.
    printed: String,
}

impl Program {
    /// Starts a program, and reads its standard output and error.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let what = format!("{command:?}");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn();
        let mut child = child.map_err(|error| format!("cannot start {what}: {error}"))?;
        let (sender, lines) = channel();
        let out = child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>);
        let err = child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>);
        for output in [out, err].into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Self { what, child, lines, printed: String::new() })
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line that begins with `start`, and returns it.
    ///
    /// # Errors
    /// Returns the printed lines if there is no such line in time.
    pub fn wait_for(&mut self, start: &str) -> Result<String, String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.printed += &format!("{line}\n");
                    if line.starts_with(start) {
                        return Ok(line);
                    }
                }
                Err(error) => {
                    let Self { what, printed, .. } = self;
                    return Err(format!("no {start:?} ({error}) of {what} in:\n{printed}"));
                }
            }
        }
    }

    /// Returns the lines since the last call, without waiting.
    pub fn new_lines(&mut self) -> Vec<String> {
        let lines: Vec<String> = self.lines.try_iter().collect();
        lines.iter().for_each(|line| self.printed += &format!("{line}\n"));
        lines
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// If it has closed its standard input.
    pub fn write_line(&mut self, line: &str) -> Result<(), String> {
        let what = &self.what;
        let input =
            self.child.stdin.as_mut().ok_or_else(|| format!("{what} has closed its input"))?;
        writeln!(input, "{line}").map_err(|error| format!("{what} has closed its input: {error}"))
    }

    /// Sends a signal, such as `INT`, `STOP` or `KILL`.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: &str) -> Result<(), String> {
        let id = self.child.id().to_string();
        output(Command::new("kill").args([&format!("-{signal}"), &id]))
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Returns whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Closes its input, waits for its end, and returns its output.
    ///
    /// # Errors
    /// If it does not end, or fails.
    pub fn finish(mut self) -> Result<String, String> {
        drop(self.child.stdin.take());
        self.read_all()?;
        let status = self.child.wait();
        let status = status.map_err(|error| format!("cannot wait for {}: {error}", self.what))?;
        if status.success() {
            Ok(std::mem::take(&mut self.printed))
        } else {
            Err(format!("{} ended with {status}:\n{}", self.what, self.printed.trim_end()))
        }
    }

    /// Waits for its end, with any status, and returns its output.
    ///
    /// # Errors
    /// If it does not end.
    pub fn all(mut self) -> Result<String, String> {
        self.read_all()?;
        Ok(std::mem::take(&mut self.printed))
    }

    /// Reads every line until its outputs are closed.
    fn read_all(&mut self) -> Result<(), String> {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.printed += &format!("{line}\n"),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("{} does not end:\n{}", self.what, self.printed));
                }
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has already ended, unless an error occurred.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
