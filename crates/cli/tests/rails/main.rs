//! Nodes with two rails and behind routers, in network namespaces.
//!
//! Rails are so slow that any machine fills them; that a figure is good enough is for `make bench`
//! to say.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod routers;
mod two_rails;

use std::path::Path;

use fulmar_proof::lab::{Lab, Rate};

/// What a rail carries.
const RAIL: Rate = Rate::megabits(100);

/// A laboratory for the binary whose nodes are tried.
fn lab() -> Option<Lab> {
    Lab::or_not_run(Path::new(env!("CARGO_BIN_EXE_fulmar")))
}
