//! The demonstration, shortened.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use fulmar_proof::demo;

#[test]
fn it_ends_well_and_shows_what_it_did() {
    let short = Duration::from_millis(150);
    let options = demo::Options { port: 18988, bulk: short, small: short, live: false };
    let mut out = Vec::new();
    demo::run(&options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for part in ["1 MiB GET", "min_tx_credits", "bulk out", "All is well"] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(!text.contains('\r'), "nothing is drawn where there is no terminal");
}
