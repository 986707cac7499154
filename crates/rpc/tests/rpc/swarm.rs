//! Random runs with several clients, lost messages and restarts of a target that writes late.

mod check;
mod cluster;
mod host;
mod writes;

use cluster::{Cluster, Plan};
use host::Fault;

/// How many runs.
const SEEDS: u64 = 200;

#[test]
fn requests_are_applied_once_whatever_is_lost_and_restarted() {
    let mut seen = check::Coverage::default();
    for seed in 0..SEEDS {
        let seen_here = Cluster::run(Plan::of(seed), Fault::None)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        seen.add(&seen_here);
    }
    // The runs have met what they are for.
    assert!(seen.restarts > SEEDS && seen.replays > SEEDS, "{seen:?}");
    assert!(seen.repeated > 20 && seen.restored > 5 && seen.opens > 20, "{seen:?}");
    assert!(seen.locks > 100 && seen.acknowledged > 10 * SEEDS, "{seen:?}");
    assert!(seen.replayed_writes > SEEDS / 2 && seen.released > 10 * SEEDS, "{seen:?}");
    assert!(seen.gone > 20 && seen.evictions > 10, "{seen:?}");
}

/// Runs ten plans, and returns what they met.
fn run_ten(plan: impl Fn(u64) -> Plan) -> check::Coverage {
    let mut seen = check::Coverage::default();
    for seed in 0..10 {
        let run = Cluster::run(plan(seed), Fault::None);
        seen.add(&run.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    seen
}

#[test]
fn clients_replay_what_a_restart_has_lost() {
    let seen = run_ten(Plan::one_restart);
    assert!(seen.replays > 100 && seen.evictions == 0, "{seen:?}");
}

#[test]
fn a_target_recovers_without_a_client_that_is_gone() {
    let seen = run_ten(|seed| Plan::one_restart(seed).with_gone());
    assert!(seen.replays > 50 && seen.gone == 10 && seen.evictions == 0, "{seen:?}");
}

#[test]
fn a_reply_that_was_lost_before_a_restart_comes_from_disk() {
    let seen = run_ten(|seed| Plan::one_restart(seed).losing(5));
    assert!(seen.restored > 3 && seen.repeated > 20, "{seen:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| Cluster::run(Plan::of(seed), Fault::None).unwrap();
    assert_eq!(run(7), run(7));
}

/// Returns the errors of runs with a deliberate fault of the host.
fn errors(fault: Fault) -> Vec<String> {
    let runs = (0..SEEDS / 4).map(|seed| Cluster::run(Plan::of(seed), fault));
    runs.filter_map(Result::err).collect()
}

#[test]
fn the_checkers_find_a_replay_that_is_applied_twice() {
    let errors = errors(Fault::ReplaysTwice);
    assert!(errors.iter().any(|error| error.contains("applied 2 times")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_slot_that_is_given_twice() {
    let errors = errors(Fault::OneTag);
    assert!(errors.iter().any(|error| error.contains("slot 1 of client")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_committed_transaction_that_is_lost() {
    let errors = errors(Fault::LosesCommitted);
    assert!(errors.iter().any(|error| error.contains("was on disk")), "{errors:?}");
}

#[test]
fn the_checkers_find_a_saved_reply_that_is_lost() {
    let errors = errors(Fault::LosesReplies);
    assert!(errors.iter().any(|error| error.contains("applied 2 times")), "{errors:?}");
}

#[test]
#[should_panic(expected = "which was released")]
fn the_memory_of_the_test_finds_data_that_are_freed_early() {
    errors(Fault::FreesEarly);
}
