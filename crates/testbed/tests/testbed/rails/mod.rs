//! Nodes with two rails and behind routers, in network namespaces.
//!
//! Rails are so slow that any machine fills them. Whether figures are good enough is decided by `make
//! bench`.

mod routers;
mod two_rails;

use fulmar_testbed::lab::{Lab, Rate};

/// The rate of a rail.
const RAIL: Rate = Rate::megabits(100);

/// Returns a laboratory with the binary under test.
fn lab() -> Option<Lab> {
    Lab::or_not_run()
}
