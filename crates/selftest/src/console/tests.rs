//! The console against simulated nodes.

mod batches;
mod distribution;
mod failures;
mod flow;
mod groups;
mod measures;
mod rig;
mod sessions;
