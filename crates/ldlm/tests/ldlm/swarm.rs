//! Random runs of clients and targets with RPC between them: their locks protect the caches of the
//! clients, whatever is lost, restarted and evicted.

mod check;
mod client;
mod cluster;
mod files;
mod mount;
#[path = "../../../rpc/tests/rpc/node.rs"]
mod node;
mod plan;
mod target;

use check::RunCounts;
use cluster::Cluster;
use plan::{Fault, Plan};

/// How many runs.
const SEEDS: u64 = 300;

/// Runs plans, and returns what they met.
fn run(seeds: u64, plan: impl Fn(u64) -> Plan, fault: Fault) -> RunCounts {
    let mut seen = RunCounts::default();
    for seed in 0..seeds {
        let run = Cluster::run(plan(seed), fault);
        seen.add(&run.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    seen
}

#[test]
fn caches_agree_whatever_is_lost_restarted_and_evicted() {
    let seen = run(SEEDS, Plan::of, Fault::None);
    // The runs have met what they are for.
    assert!(seen.granted > 10 * SEEDS && seen.matched > SEEDS, "{seen:?}");
    assert!(seen.cached_reads > SEEDS && seen.reads > SEEDS && seen.writes > SEEDS, "{seen:?}");
    assert!(seen.blocking > SEEDS && seen.completions > SEEDS && seen.converts > SEEDS, "{seen:?}");
    assert!(seen.lock_replays > SEEDS && seen.replays > SEEDS / 4, "{seen:?}");
    assert!(seen.restarts > SEEDS / 2 && seen.gone > SEEDS / 8, "{seen:?}");
    assert!(seen.evictions > seen.gone && seen.told > SEEDS / 8, "{seen:?}");
}

#[test]
fn no_client_is_evicted_and_every_lock_is_granted_where_nothing_goes_wrong() {
    let seen = run(10, Plan::calm, Fault::None);
    assert!(seen.granted > 100 && seen.completions > 10, "{seen:?}");
    assert_eq!((seen.failed, seen.evictions, seen.reconnects), (0, 0, 0));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| Cluster::run(Plan::of(seed), Fault::None).unwrap();
    assert_eq!(run(7), run(7));
}

#[test]
fn a_client_that_keeps_a_lock_is_evicted_and_the_others_go_on() {
    let seen = run(10, |seed| Plan::calm(seed).with_limit(1800), Fault::IgnoresBlocking);
    assert!(seen.evictions > 5 && seen.told > 5, "{seen:?}");
}

/// Returns the errors of runs with a deliberate fault.
fn errors(fault: Fault) -> Vec<String> {
    (0..10).filter_map(|seed| Cluster::run(Plan::calm(seed), fault).err()).collect()
}

#[test]
fn the_checkers_find_a_client_that_keeps_a_lock_and_is_not_evicted() {
    let errors = errors(Fault::IgnoresBlockingForEver);
    assert!(errors.iter().any(|error| error.contains("has no end")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_completion_callback_that_is_lost() {
    let errors = errors(Fault::LosesCompletion);
    assert!(errors.iter().any(|error| error.contains("has no end")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_lock_that_is_granted_in_conflict() {
    let errors = errors(Fault::GrantsInConflict);
    assert!(errors.iter().any(|error| error.contains("gets")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_cache_that_is_not_written_back() {
    let errors = errors(Fault::LosesWrites);
    assert!(errors.iter().any(|error| error.contains(" sees ")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_write_that_is_applied_twice() {
    let errors = errors(Fault::WritesTwice);
    assert!(errors.iter().any(|error| error.contains("applied twice")), "{errors:?}");
}
