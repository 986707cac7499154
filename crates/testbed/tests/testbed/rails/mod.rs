//! Nodes with two rails and behind routers, in network namespaces.
//!
//! Rails are slow enough for any machine. `make bench` checks whether the figures are good enough.

mod routers;
mod two_rails;

use fulmar_testbed::lab::{Lab, Rate};

/// The rate of a rail.
const RAIL: Rate = Rate::megabits(100);

/// Returns a laboratory with the binary under test.
fn lab() -> Option<Lab> {
    Lab::or_not_run()
}
