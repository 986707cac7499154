//! Servers that are killed under load. `make kill` does so more often.

use fulmar_rpc::import::TargetKind;
use fulmar_testbed::kill::{Fault, Net, Options, run, scratch};
use fulmar_testbed::lab::binaries;

const SEED: u64 = 1;

fn options(name: &str, third: u8, points: usize) -> Options {
    let binaries = binaries().unwrap_or_else(|why| panic!("{why}"));
    Options {
        fulmar: binaries.join("fulmar"),
        scratch: scratch(name),
        net: Net { third, port: fulmar_loopback::ports(1) },
        points,
        seed: SEED,
        fault: Fault::None,
    }
}

#[test]
fn killed_servers_lose_nothing_and_serve_again() {
    let report = run(&options("test", 78, 20)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.kills.iter().sum::<usize>(), 20);
    assert!(report.kills.iter().all(|kills| *kills > 0), "{report:?}");
    assert!(report.answered > 100 && report.audits > 4, "{report:?}");
}

/// A server that starts with an older state of its directory has lost what it had acknowledged.
#[test]
fn loss_is_found() {
    let lost = run(&Options { fault: Fault::RollBack, ..options("loss", 79, 40) });
    let error = lost.expect_err("what is missing is found");
    assert!(error.contains("seed 1"), "{error}");
}

/// A server that does not know a client any more has lost its open files and locks.
#[test]
fn lost_opens_and_locks_are_found() {
    let lost = |name, third, kind| {
        let options = Options { fault: Fault::Forget(kind), ..options(name, third, 100) };
        run(&options).expect_err("what is missing is found")
    };
    let error = lost("opens", 80, TargetKind::Mdt);
    assert!(error.contains("is not respected: Ok"), "{error}");
    assert!(error.contains("; h0-"), "{error}");
    let error = lost("locks", 81, TargetKind::Ost);
    assert!(error.contains("another client sees"), "{error}");
}
