//! Runs seeds, each with a different cluster. `make swarm` runs many more of them.

use fulmar_sim::{Options, run};

fn all_good(seeds: std::ops::Range<u64>) {
    all_good_of(seeds, Options::draw);
}

fn all_good_of(seeds: std::ops::Range<u64>, draw: fn(u64) -> Options) {
    for seed in seeds {
        if let Err(failure) = run(&draw(seed), 100) {
            panic!("{failure}");
        }
    }
}

#[test]
fn the_first_seeds_keep_every_invariant() {
    all_good(0..30);
}

#[test]
fn seeds_with_several_interfaces_keep_every_invariant() {
    all_good_of(0..30, Options::draw_rails);
}

#[test]
fn seeds_with_routers_keep_every_invariant() {
    all_good_of(0..30, Options::draw_routed);
}

#[test]
fn seeds_with_hostile_hosts_keep_every_invariant() {
    all_good_of(0..20, Options::draw_hostile);
}

/// Checks that the swarm covers these cases.
#[test]
fn a_few_seeds_cover_every_fault_and_every_failure() {
    let mut missing = vec![
        "FAULT crash, silently true",
        "FAULT crash, silently false",
        "start incarnation 1",
        "FAULT partition",
        "FAULT heal",
        "FAULT reset, lossy true",
        "FAULT reset, lossy false",
        "FAULT pause",
        "FAULT slow reader",
        "FAULT disconnect",
        "not connected: Connection refused",
        "not connected: Connection timed out",
        "close, flush true",
        "close, flush false",
        "closed by the peer",
        "closed: reading failed",
        "closed: writing failed",
        "event SEND failed: Connection timed out",
        "event SEND failed: Operation canceled",
        "event SEND failed: Connection reset by peer",
        "event SEND failed: Connection refused",
        "event SEND failed: No route to host",
        "event PUT failed: ",
        "event GET failed: ",
        "event REPLY failed: ",
        "event UNLINK ",
        "write 96 + 0 ACK",
    ];
    for seed in 0..100 {
        let outcome = run(&Options::draw(seed), usize::MAX).unwrap_or_else(|failure| {
            panic!("{}", failure.violation);
        });
        missing.retain(|mark| !outcome.log.iter().any(|line| line.contains(mark)));
        if missing.is_empty() {
            return;
        }
    }
    panic!("never occurred: {missing:?}");
}
