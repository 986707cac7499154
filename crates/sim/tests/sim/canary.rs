//! Faults planted in the simulator's own driver: the checkers must find them.

use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Canary, Kind, Mix, Rails};
use fulmar_sim::{Failure, Options, run};

/// Returns what is found first, and by which seed.
fn first_found(canary: Canary) -> (u64, Failure) {
    first_found_in(canary, Options::draw)
}

fn first_found_in(canary: Canary, draw: fn(u64) -> Options) -> (u64, Failure) {
    for seed in 0..200 {
        let options = Options { canary: Some(canary), ..draw(seed) };
        if let Err(failure) = run(&options, 20) {
            return (seed, *failure);
        }
    }
    panic!("{canary:?} is not found in 200 seeds");
}

#[test]
fn a_leaked_credit_is_found_by_our_own_count() {
    let (_, failure) = first_found(Canary::LostSent);
    assert_eq!(failure.violation.checker, "credits");
    let text = failure.violation.text;
    assert!(text.contains("holds 1 credits of"), "{text}");
}

#[test]
fn a_lost_wake_up_is_found() {
    let (_, failure) = first_found(Canary::LostResume);
    assert_eq!(failure.violation.checker, "wake-ups");
}

#[test]
fn bulk_in_the_wrong_place_is_found() {
    let (_, failure) = first_found(Canary::Misplaced);
    assert_eq!(failure.violation.checker, "data");
}

/// One network on either side of a router with few buffers, and nothing that goes wrong by itself.
fn small_router(seed: u64) -> Options {
    let mut rails = Rails::new(vec![vec![0], vec![1], vec![0, 1]], &[2]);
    rails.routing.buffers = RouterBuffers { tiny: 2, small: 2, large: 1 };
    let plain = Options::plain_on(rails);
    Options { seed, operations: 200, bunches: 2, mix: Mix::only(Kind::Put), ..plain }
}

#[test]
fn a_leaked_router_credit_is_found() {
    let (_, failure) = first_found_in(Canary::LostForward, small_router);
    assert_eq!(failure.violation.checker, "credits");
}

#[test]
fn a_lost_wake_up_of_the_queue_of_a_pool_is_found() {
    let (_, failure) = first_found_in(Canary::LostPool, small_router);
    assert_eq!(failure.violation.checker, "wake-ups");
}

#[test]
fn a_failure_says_how_to_repeat_it() {
    let (seed, failure) = first_found(Canary::LostSent);
    let text = failure.to_string();
    assert!(text.starts_with(&format!("seed {seed}: ")), "{text}");
    let command = format!("repeat with: fulmar sim run --seed {seed} --canary lost-sent --log");
    assert!(text.ends_with(&command), "{text}");
}
