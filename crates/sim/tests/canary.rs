//! Faults planted in the simulator's own driver: the checkers must find them.

use fulmar_sim::options::Canary;
use fulmar_sim::{Failure, Options, run};

/// Returns what is found first, and by which seed.
fn first_found(canary: Canary) -> (u64, Failure) {
    for seed in 0..200 {
        let options = Options { canary: Some(canary), ..Options::draw(seed) };
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

#[test]
fn a_failure_says_how_to_repeat_it() {
    let (seed, failure) = first_found(Canary::LostSent);
    let text = failure.to_string();
    assert!(text.starts_with(&format!("seed {seed}: ")), "{text}");
    let command = format!("repeat with: fulmar-sim --seed {seed} --log --canary lost-sent");
    assert!(text.ends_with(&command), "{text}");
}
