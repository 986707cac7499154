//! Deliberate defects in the simulator's driver: the checkers must find them.

use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Defect, Kind, Mix, Rails};
use fulmar_sim::{Failure, Options, run};

/// Returns the first failure, and its seed.
fn first_found(defect: Defect) -> (u64, Failure) {
    first_found_in(defect, Options::draw)
}

fn first_found_in(defect: Defect, draw: fn(u64) -> Options) -> (u64, Failure) {
    for seed in 0..200 {
        let options = Options { defect: Some(defect), ..draw(seed) };
        if let Err(failure) = run(&options, 20) {
            return (seed, *failure);
        }
    }
    panic!("{defect:?} is not found in 200 seeds");
}

#[test]
fn a_leaked_credit_is_found() {
    let (_, failure) = first_found(Defect::LostSent);
    assert_eq!(failure.violation.checker, "credits");
    let text = failure.violation.text;
    assert!(text.contains("holds 1 credits of"), "{text}");
}

#[test]
fn a_lost_wake_up_is_found() {
    let (_, failure) = first_found(Defect::LostResume);
    assert_eq!(failure.violation.checker, "wake-ups");
}

#[test]
fn bulk_in_the_wrong_place_is_found() {
    let (_, failure) = first_found(Defect::Misplaced);
    assert_eq!(failure.violation.checker, "data");
}

/// Options with two networks, a router with few buffers between them, and no faults.
fn small_router(seed: u64) -> Options {
    let mut rails = Rails::new(vec![vec![0], vec![1], vec![0, 1]], &[2]);
    rails.routing.buffers = RouterBuffers { tiny: 2, small: 2, large: 1 };
    let plain = Options::plain_on(rails);
    Options { seed, operations: 200, bunches: 2, mix: Mix::only(Kind::Put), ..plain }
}

#[test]
fn a_leaked_router_credit_is_found() {
    let (_, failure) = first_found_in(Defect::LostForward, small_router);
    assert_eq!(failure.violation.checker, "credits");
}

#[test]
fn a_lost_wake_up_of_a_pool_queue_is_found() {
    let (_, failure) = first_found_in(Defect::LostPool, small_router);
    assert_eq!(failure.violation.checker, "wake-ups");
}

/// Returns whether the checker of hostile hosts finds a defect in the first seeds; other checkers may
/// find it earlier.
fn is_found_by_hostile(defect: Defect) -> bool {
    (0..20).any(|seed| {
        let options = Options { defect: Some(defect), ..Options::draw_hostile(seed) };
        run(&options, 20).is_err_and(|failure| failure.violation.checker == "hostile")
    })
}

#[test]
fn a_hostile_host_with_the_address_of_a_node_is_found() {
    assert!(is_found_by_hostile(Defect::Impersonated));
    assert!(first_found_in(Defect::Impersonated, Options::draw_hostile).0 < 5);
}

#[test]
fn a_node_that_a_hostile_host_blocks_is_found() {
    assert!(is_found_by_hostile(Defect::Blocked));
    assert!(first_found_in(Defect::Blocked, Options::draw_hostile).0 < 5);
}

#[test]
fn a_failure_shows_how_to_repeat_it() {
    let (seed, failure) = first_found(Defect::LostSent);
    let text = failure.to_string();
    assert!(text.starts_with(&format!("seed {seed}: ")), "{text}");
    let command = format!("repeat with: fulmar sim run --seed {seed} --defect lost-sent --log");
    assert!(text.ends_with(&command), "{text}");
}
