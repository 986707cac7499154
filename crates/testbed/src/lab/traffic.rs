//! The processes of `fulmar-traffic`, in hosts.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::{Host, Lab, Program};
use crate::traffic::{FloodReport, Outcome, Sample, ServerReport, now_ms};

/// A process that offers memory.
#[derive(Debug)]
pub struct Server(Program);

/// A process that sends PUTs and GETs.
#[derive(Debug)]
pub struct Load {
    program: Program,
    samples: Vec<Sample>,
}

/// A process with many nodes that send PUTs.
#[derive(Debug)]
pub struct Flood {
    program: Program,
    last: Option<FloodReport>,
}

fn start(lab: &Lab, host: &Host, part: &str, words: &str) -> Result<Program, String> {
    let mut command = host.command(&lab.traffic());
    command.arg(part).args(words.split_whitespace());
    let mut program = Program::start(&mut command)?;
    program.wait_for("ready")?;
    Ok(program)
}

/// Parses the report in the last line of a program.
fn last<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(line).map_err(|error| format!("no report ({error}) in:\n{text}"))
}

impl Server {
    /// Starts `fulmar-traffic serve` with these arguments.
    ///
    /// # Errors
    /// The output of the program instead of `ready`.
    pub fn start(lab: &Lab, host: &Host, words: &str) -> Result<Self, String> {
        start(lab, host, "serve", words).map(Self)
    }

    /// Returns its process.
    pub fn program(&self) -> &Program {
        &self.0
    }

    /// Ends the process and returns its report.
    ///
    /// # Errors
    /// Fails if it does not end.
    pub fn finish(self) -> Result<ServerReport, String> {
        last(&self.0.finish()?)
    }
}

impl Load {
    /// Starts `fulmar-traffic load` with these arguments, and waits for the first answered message.
    ///
    /// # Errors
    /// The output of the program instead of `ready`.
    pub fn start(lab: &Lab, host: &Host, words: &str) -> Result<Self, String> {
        let program = start(lab, host, "load", words)?;
        Ok(Self { program, samples: Vec::new() })
    }

    /// Returns its process.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Lets it run for some time.
    pub fn run_for(&mut self, duration: Duration) {
        std::thread::sleep(duration);
        self.collect();
    }

    /// Returns the samples so far.
    pub fn samples(&mut self) -> &[Sample] {
        self.collect();
        &self.samples
    }

    fn collect(&mut self) {
        let lines = self.program.new_lines();
        self.samples
            .extend(lines.iter().filter_map(|line| serde_json::from_str::<Sample>(line).ok()));
    }

    /// Returns its rate over a time from now, in bytes per second.
    ///
    /// # Errors
    /// Fails if it has ended, or a message has failed.
    pub fn rate(&mut self, duration: Duration) -> Result<f64, String> {
        let begun = now_ms();
        // The last sample may be one sampling interval old.
        self.run_for(duration + crate::traffic::TICK);
        let samples = &self.samples;
        let first = samples.iter().find(|sample| sample.at_ms >= begun);
        match (first, samples.last()) {
            (Some(first), Some(last)) if last.at_ms > first.at_ms => match last.failed {
                0 => Ok(bytes_per_second(first, last)),
                failed => Err(format!("{failed} messages have failed")),
            },
            _ => Err("the load has printed no samples".into()),
        }
    }

    /// Ends the process after its messages in flight, and returns the outcome and all samples.
    ///
    /// # Errors
    /// Fails if it does not end.
    pub fn finish(mut self) -> Result<(Outcome, Vec<Sample>), String> {
        self.collect();
        Ok((last(&self.program.finish()?)?, self.samples))
    }
}

impl Flood {
    /// Starts `fulmar-traffic flood` with these arguments, and waits until all nodes know the
    /// receiver.
    ///
    /// # Errors
    /// The output of the program instead of `ready`.
    pub fn start(lab: &Lab, host: &Host, words: &str) -> Result<Self, String> {
        Ok(Self { program: start(lab, host, "flood", words)?, last: None })
    }

    /// Makes all nodes send.
    ///
    /// # Errors
    /// Fails if it has closed its standard input.
    pub fn go(&mut self) -> Result<(), String> {
        self.program.write_line("go")
    }

    /// Waits until no message has left its node for `quiet`, and returns the counters.
    ///
    /// # Errors
    /// Fails if it has printed no counters.
    pub fn stalled(&mut self, quiet: Duration) -> Result<FloodReport, String> {
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            std::thread::sleep(Duration::from_millis(50));
            let lines = self.program.new_lines();
            let news = lines.iter().rev().find_map(|line| serde_json::from_str(line).ok());
            if news.is_some() && news != self.last {
                (self.last, since) = (news, Instant::now());
            }
        }
        self.last.ok_or_else(|| "the flood has printed no counters".to_owned())
    }

    /// Waits until all messages are done.
    ///
    /// # Errors
    /// Fails if that takes too long.
    pub fn finish(self) -> Result<FloodReport, String> {
        last(&self.program.finish()?)
    }
}

/// Returns the rate between two samples.
pub fn bytes_per_second(first: &Sample, last: &Sample) -> f64 {
    let seconds = (last.at_ms - first.at_ms) as f64 / 1e3;
    (last.bytes - first.bytes) as f64 / seconds
}
