//! The demonstration, shortened.

use std::time::Duration;

use fulmar::demo::nodes;

#[test]
fn demo_succeeds_and_shows_its_tables() {
    let short = Duration::from_millis(150);
    let options = nodes::Options { port: 18988, bulk: short, small: short, live: false };
    let mut out = Vec::new();
    nodes::run(&options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for part in ["1 MiB GET", "min_tx_credits", "bulk out", "All data was correct"] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(!text.contains('\r'), "no progress bar without a terminal");
}
