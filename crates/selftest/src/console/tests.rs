//! The console against nodes that this test plays.

mod batches;
mod distribution;
mod failures;
mod flow;
mod groups;
mod measures;
mod rig;
mod sessions;
