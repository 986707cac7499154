//! A cluster of nodes in virtual time: the machines that the real driver runs, over virtual TCP.
//!
//! Everything is drawn from one seed, so a run that fails is repeated by its number.
//!
//! ```text
//! Options::draw(seed)      how many nodes, which network, which faults, which operations
//! Cluster::run             safety with faults, then liveness without
//! ├── World                hosts, virtual TCP, links; polls nodes and gives Signals
//! ├── Workload             applications: begins operations, posts buffers
//! ├── Administrators       run selftests from the consoles of nodes
//! ├── faults::Schedule     when what goes wrong
//! └── Checks               independent judges of the Signals
//! ```
//!
//! [`ideal`] is a network of another kind, for nodes that a test drives by itself.
//!
//! Bulk has no bytes here: a segment names the memory that it was written from, so a megabyte
//! costs as much as one byte, and where each byte came from is known exactly.
#![forbid(unsafe_code)]

pub mod administrator;
mod capture;
pub mod check;
mod clock;
mod cluster;
mod fabric;
pub mod faults;
pub mod ideal;
mod lane;
mod log;
pub mod options;
mod queue;
mod run;
mod signal;
mod tcp;
mod workload;
mod world;

pub use cluster::Cluster;
pub use fabric::TrunkUse;
pub use lane::Carried;
pub use log::Log;
pub use options::Options;
pub use run::{Failure, Outcome, capture, run};
pub use signal::Signal;
pub use workload::{Answer, Workload};
pub use world::{HostId, Lie, Port, TcpId, World};
