//! Which tests may take longer than others, and which have the machine for themselves.

use std::time::Duration;

use crate::programs::Test;

/// How a test runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// It is for the tests whose name begins so.
    tests: &'static str,
    pub(crate) limit: Duration,
    /// No other test runs at the same time.
    pub(crate) is_alone: bool,
    /// What the limit is for.
    pub(crate) why: &'static str,
}

const fn long(tests: &'static str, limit_s: u64, why: &'static str) -> Rule {
    Rule { tests, limit: Duration::from_secs(limit_s), is_alone: false, why }
}

const fn alone(tests: &'static str, limit_s: u64, why: &'static str) -> Rule {
    Rule { is_alone: true, ..long(tests, limit_s, why) }
}

/// The first rule that matches a test holds.
const RULES: &[Rule] = &[
    long("cli/cli demo", 300, "the whole demonstration, with simulated hours"),
    long("cli/cli interop", 300, "many operations on two mounts"),
    long("cli/cli guide", 400, "every command of the guide"),
    long("cli/cli packages", 180, "it installs and reads the whole product"),
    long("cli/cli sim", 180, "it simulates minutes of many nodes"),
    long("cli/cli ", 120, "each starts several processes"),
    alone("fuse/fuse data", 180, "requests are counted that a kernel without memory repeats"),
    long("fuse/fuse ", 120, "mounts of several nodes, some of which restart"),
    long("sim/sim swarm", 300, "many simulated clusters, in a build that is hardly optimised"),
    long("sim/", 180, "many simulated nodes, in a build that is hardly optimised"),
    long("study/", 180, "simulations on all cores"),
    long("testbed/testbed kill", 300, "servers are killed and recover many times"),
    long("testbed/", 180, "rigs of several processes, in network namespaces"),
    long("ldlm/", 120, "random operations of many seeds"),
    long("mdt/", 120, "a crash at each write"),
    long("rpc/", 120, "random failures of many seeds"),
    long("tidy/", 120, "all sources are parsed"),
];

/// Most tests take milliseconds; the limit is for a machine with much other work.
const OTHERS: Rule = long("", 60, "most take milliseconds");

/// Returns how a test runs. `limit`: instead of that of its rule.
pub(crate) fn of(test: &Test, limit: Option<Duration>) -> Rule {
    let rule = RULES.iter().find(|rule| test.name.starts_with(rule.tests)).unwrap_or(&OTHERS);
    Rule { limit: limit.unwrap_or(rule.limit), ..*rule }
}
