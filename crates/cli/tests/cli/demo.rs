//! The demonstration, shortened.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use fulmar::demo::ocean::{Ocean, Runner};
use fulmar::demo::{files, nodes};

#[test]
fn demo_succeeds_and_shows_its_tables() {
    let short = Duration::from_millis(150);
    let options =
        nodes::Options { port: fulmar_loopback::ports(2), bulk: short, small: short, live: false };
    let mut out = Vec::new();
    nodes::run(&options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for part in ["1 MiB GET", "min_tx_credits", "bulk out", "All data was correct"] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(!text.contains('\r'), "no progress bar without a terminal");
}

/// A made tree, across a link that is short enough for a test.
fn files_of(mounts: bool) -> String {
    let options = files::Options {
        ocean: Ocean::new("1Gbit".parse().unwrap(), Duration::from_millis(10)),
        tree: "/no/such/tree".into(),
        large: 8 << 20,
        lst: Duration::from_secs(1),
        mounts,
    };
    let runner = Runner::new(Path::new(env!("CARGO_BIN_EXE_fulmar")));
    let mut out = Vec::new();
    files::run(runner, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_tree_goes_across_the_link_and_back_with_and_without_a_mount() {
    for (mounts, how) in [(true, "in a mount"), (false, "by fulmar cp")] {
        let text = files_of(mounts);
        if text.contains("NOT RUN") {
            return writeln!(std::io::stderr(), "\n{text}").unwrap();
        }
        let is_possible = !mounts || Path::new("/dev/fuse").exists();
        let parts = ["of the link", "round trips a file", "is the one that was sent: 500 files"];
        for part in parts.into_iter().chain(is_possible.then_some(how)) {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}
