//! A cluster of nodes in virtual time: the state machines of the real driver, over simulated TCP.
//!
//! Everything is drawn from one seed, so a failed run can be repeated by its seed.
//!
//! ```text
//! Options::draw(seed)      number of nodes, network, faults, operations
//! Cluster::run             safety with faults, then liveness without
//! ├── World                hosts, simulated TCP, links; polls nodes and emits Signals
//! │   └── HostileHost      sends what it likes, if the run has hostile hosts
//! ├── Workload             applications: start operations, post buffers
//! ├── Administrators       run selftests from the consoles of nodes
//! ├── faults::Schedule     the times of the faults
//! └── Checks               check the Signals independently of the nodes
//! ```
//!
//! [`ideal`] is a network of another kind, for nodes that a test drives by itself.
//!
//! Bulk data has no bytes here: a segment refers to its source memory. So a megabyte costs as much
//! as one byte, and the origin of each byte is known exactly.
#![forbid(unsafe_code)]

pub mod administrator;
mod capture;
pub mod check;
mod clock;
mod cluster;
mod fabric;
pub mod faults;
mod hostile;
pub mod ideal;
mod lane;
mod log;
pub mod options;
mod queue;
mod run;
mod signal;
mod tcp;
mod words;
mod workload;
mod world;

pub use cluster::Cluster;
pub use fabric::TrunkUse;
pub use lane::LaneCounters;
pub use log::Log;
pub use options::Options;
pub use run::{Failure, Outcome, capture, run};
pub use signal::Signal;
pub use tcp::SendLimit;
pub use workload::{Answer, Workload};
pub use world::{CableUse, Flow, HostId, PingCorruption, Port, TcpId, World};
