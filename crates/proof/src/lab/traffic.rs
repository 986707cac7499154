//! The processes of `fulmar traffic`, in hosts.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::{Host, Lab, Program};
use crate::traffic::{Flooded, Outcome, Sample, Served, now_ms};

/// A process that offers memory.
#[derive(Debug)]
pub struct Server(Program);

/// A process that stores and fetches.
#[derive(Debug)]
pub struct Load {
    program: Program,
    samples: Vec<Sample>,
}

/// A process of many nodes that store.
#[derive(Debug)]
pub struct Flood {
    program: Program,
    last: Option<Flooded>,
}

fn start(lab: &Lab, host: &Host, part: &str, words: &str) -> Result<Program, String> {
    let mut command = host.command(lab.fulmar());
    command.args(["traffic", part]).args(words.split_whitespace());
    let mut program = Program::start(&mut command)?;
    program.wait_for("ready")?;
    Ok(program)
}

/// Returns what a program told in its last line.
fn last<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(line).map_err(|error| format!("no report ({error}) in:\n{text}"))
}

impl Server {
    /// Starts `fulmar traffic serve` with these words.
    ///
    /// # Errors
    /// What it said instead of being ready.
    pub fn start(lab: &Lab, host: &Host, words: &str) -> Result<Self, String> {
        start(lab, host, "serve", words).map(Self)
    }

    /// Returns its process.
    pub fn program(&self) -> &Program {
        &self.0
    }

    /// Ends it and returns what it saw.
    ///
    /// # Errors
    /// If it does not end.
    pub fn finish(self) -> Result<Served, String> {
        last(&self.0.finish()?)
    }
}

impl Load {
    /// Starts `fulmar traffic load` with these words; a first message has been through then.
    ///
    /// # Errors
    /// What it said instead of being ready.
    pub fn start(lab: &Lab, host: &Host, words: &str) -> Result<Self, String> {
        let program = start(lab, host, "load", words)?;
        Ok(Self { program, samples: Vec::new() })
    }

    /// Returns its process.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Lets it run for so long.
    pub fn run_for(&mut self, duration: Duration) {
        std::thread::sleep(duration);
        self.look();
    }

    /// Returns how it has fared so far.
    pub fn samples(&mut self) -> &[Sample] {
        self.look();
        &self.samples
    }

    fn look(&mut self) {
        let lines = self.program.news();
        self.samples
            .extend(lines.iter().filter_map(|line| serde_json::from_str::<Sample>(line).ok()));
    }

    /// Returns its rate over some time from now, in bytes per second.
    ///
    /// # Errors
    /// If it has ended, or a message has failed.
    pub fn rate(&mut self, duration: Duration) -> Result<f64, String> {
        let begun = now_ms();
        // The last sample may be as old as the time between two.
        self.run_for(duration + crate::traffic::TICK);
        let samples = &self.samples;
        let first = samples.iter().find(|sample| sample.at_ms >= begun);
        match (first, samples.last()) {
            (Some(first), Some(last)) if last.at_ms > first.at_ms => match last.failed {
                0 => Ok(bytes_per_second(first, last)),
                failed => Err(format!("{failed} messages have failed")),
            },
            _ => Err("the load does not tell how it fares".into()),
        }
    }

    /// Ends it, once what is under way is done, and returns what came of it, and all samples.
    ///
    /// # Errors
    /// If it does not end.
    pub fn finish(mut self) -> Result<(Outcome, Vec<Sample>), String> {
        self.look();
        Ok((last(&self.program.finish()?)?, self.samples))
    }
}

impl Flood {
    /// Starts `fulmar traffic flood` with these words; all nodes know the receiver then.
    ///
    /// # Errors
    /// What it said instead of being ready.
    pub fn start(lab: &Lab, host: &Host, words: &str) -> Result<Self, String> {
        Ok(Self { program: start(lab, host, "flood", words)?, last: None })
    }

    /// Lets all of them send.
    ///
    /// # Errors
    /// If it does not listen.
    pub fn go(&mut self) -> Result<(), String> {
        self.program.say("go")
    }

    /// Waits until no more messages leave their nodes for some time, and returns how it stands.
    ///
    /// # Errors
    /// If it tells nothing.
    pub fn stalled(&mut self, quiet: Duration) -> Result<Flooded, String> {
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            std::thread::sleep(Duration::from_millis(50));
            let lines = self.program.news();
            let news = lines.iter().rev().find_map(|line| serde_json::from_str(line).ok());
            if news.is_some() && news != self.last {
                (self.last, since) = (news, Instant::now());
            }
        }
        self.last.ok_or_else(|| "the flood tells nothing".to_owned())
    }

    /// Waits until all is done.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn finish(self) -> Result<Flooded, String> {
        last(&self.program.finish()?)
    }
}

/// Returns the rate between two samples.
pub fn bytes_per_second(first: &Sample, last: &Sample) -> f64 {
    let seconds = (last.at_ms - first.at_ms) as f64 / 1e3;
    (last.bytes - first.bytes) as f64 / seconds
}
