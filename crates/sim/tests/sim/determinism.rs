//! Runs with equal seeds are identical.

use fulmar_sim::{Options, run};

#[test]
fn equal_seeds_write_equal_logs() {
    for seed in [0, 4, 8, 17, 24, 34] {
        let options = Options::draw(seed);
        let runs = [run(&options, usize::MAX).unwrap(), run(&options, usize::MAX).unwrap()];
        assert!(runs[0].log.len() > 100, "seed {seed} does something");
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

#[test]
fn equal_seeds_write_equal_logs_with_hostile_hosts() {
    for seed in [0, 1, 3, 5] {
        let options = Options::draw_hostile(seed);
        let runs = [run(&options, usize::MAX).unwrap(), run(&options, usize::MAX).unwrap()];
        assert!(runs[0].log.iter().any(|line| line.contains("hostile")), "seed {seed}");
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

#[test]
fn different_seeds_write_different_logs() {
    let digest = |seed| run(&Options::draw(seed), 1).unwrap().digest;
    assert_ne!(digest(1), digest(2));
}

#[test]
fn the_number_of_kept_log_lines_does_not_change_the_run() {
    let options = Options::draw(4);
    assert_eq!(run(&options, 1).unwrap().digest, run(&options, usize::MAX).unwrap().digest);
}
