//! What is printed: a line for each test, the output of those that failed, and the sums.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::schedule::TestResult;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It cannot run here. Holds its line `NOT RUN: …`.
    Skipped(String),
    /// Holds what its process reported.
    Failed(String),
}

/// One run of a test.
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
    pub(crate) output: String,
}

/// So many of the longest tests are listed.
const LONGEST: usize = 10;

/// Prints the line of a test that has ended.
pub(crate) fn line(name: &str, outcome: &Outcome) {
    let word = match &outcome.verdict {
        Verdict::Passed => "passed",
        Verdict::Skipped(_) => "skipped",
        Verdict::Failed(_) => "FAILED",
    };
    // One write a line: several threads print.
    let text = format!("{word:<7} {:>7.2} s  {name}\n", outcome.took.as_secs_f64());
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Prints what is to be known of all tests. Returns whether none has failed.
///
/// Tests that need root are then run by another process, if the file `needs_root` is given: their names are written to
/// it, and they do not count here.
pub(crate) fn summary(results: &[TestResult], needs_root: Option<&Path>) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for result in results {
        for (run, outcome) in
            [Some(&result.first), result.second.as_ref()].iter().flatten().enumerate()
        {
            if let Verdict::Failed(why) = &outcome.verdict {
                writeln!(out, "\n==== {}, run {}: {why}", result.test.name, run + 1)?;
                writeln!(out, "{}", outcome.output.trim_end())?;
            }
        }
    }
    longest(&mut out, results)?;
    let (mut skipped, mut rooted) = (BTreeMap::<&str, usize>::new(), vec![]);
    for result in results {
        if let Verdict::Skipped(line) = result.verdict() {
            if needs_root.is_some() && has_words_of_root(line) {
                rooted.push(result.test.name.as_str());
            } else {
                *skipped.entry(line).or_default() += 1;
            }
        }
    }
    if let Some(path) = needs_root {
        std::fs::write(path, rooted.join("\n"))?;
    }
    for (line, count) in &skipped {
        writeln!(out, "{line}  ({count} ×)")?;
    }
    for result in results.iter().filter(|result| result.second.is_some()) {
        let word = if is_failed(result) { "FAILED" } else { "FLAKY" };
        writeln!(out, "{word} {}", result.test.name)?;
    }
    let failed = results.iter().filter(|result| is_failed(result)).count();
    let skipped: usize = skipped.values().sum();
    let passed = results.len() - failed - skipped - rooted.len();
    writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?;
    out.flush()?;
    Ok(failed == 0)
}

/// Returns whether a line `NOT RUN: …` is one of a test that root can run.
fn has_words_of_root(line: &str) -> bool {
    ["namespace", "need root", "needs root"].iter().any(|words| line.contains(words))
}

fn is_failed(result: &TestResult) -> bool {
    matches!(result.verdict(), Verdict::Failed(_))
}

fn longest(out: &mut impl Write, results: &[TestResult]) -> io::Result<()> {
    let mut longest: Vec<_> = results.iter().collect();
    longest.sort_by_key(|result| Reverse(result.first.took));
    writeln!(out, "\nThe longest:")?;
    for result in longest.iter().take(LONGEST) {
        writeln!(out, "  {:>6.1} s  {}", result.first.took.as_secs_f64(), result.test.name)?;
    }
    writeln!(out)
}
