//! The order in which tests run: many at once, then those that run alone, then those that have failed.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::options::Options;
use crate::process;
use crate::programs::Test;
use crate::report::{self, Outcome, Verdict};
use crate::rules::{self, Rule};

/// What became of a test.
pub(crate) struct TestResult {
    pub(crate) test: Test,
    pub(crate) first: Outcome,
    /// The second run of a test that failed.
    pub(crate) second: Option<Outcome>,
}

impl TestResult {
    /// Returns the verdict that counts.
    pub(crate) fn verdict(&self) -> &Verdict {
        &self.second.as_ref().unwrap_or(&self.first).verdict
    }
}

/// Runs every test, and those that fail a second time.
pub(crate) fn run(tests: Vec<Test>, options: &Options) -> Result<Vec<TestResult>, String> {
    let mut parallel = vec![];
    let mut alone = vec![];
    for test in tests {
        let rule = rules::of(&test, options.limit);
        if rule.is_alone { &mut alone } else { &mut parallel }.push((test, rule));
    }
    // A long test that began last would be waited for by itself.
    parallel.sort_by_key(|(test, rule)| Reverse((rule.limit, test.program.is_integration)));
    let mut results = run_at_once(parallel, options.threads)?;
    results.extend(run_at_once(alone, 1)?);
    for result in &mut results {
        if matches!(result.first.verdict, Verdict::Failed(_)) {
            let second = process::run(&result.test, &rules::of(&result.test, options.limit))?;
            report::line(&result.test.name, &second);
            result.second = Some(second);
        }
    }
    Ok(results)
}

fn run_at_once(tests: Vec<(Test, Rule)>, threads: usize) -> Result<Vec<TestResult>, String> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![]));
    let work = || {
        while let Some((test, rule)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let first = process::run(test, rule)?;
            report::line(&test.name, &first);
            let result = TestResult { test: test.clone(), first, second: None };
            results.lock().expect("no thread panics").push(result);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
    .map_err(|why: String| why)?;
    Ok(results.into_inner().expect("no thread panics"))
}
