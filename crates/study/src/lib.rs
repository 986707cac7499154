//! Performance studies in the simulator, on all cores.
//!
//! ```text
//! Scenario        clients, servers, network and settings
//!   -> session    a selftest session with a batch, as `lst` runs it
//!   -> meter      the times of answered RPCs, until the rate is steady
//!   -> Prediction the throughput, and its bottleneck
//! ```
//!
//! [`path`] simulates any network and load for a time. [`predict()`] simulates one scenario until
//! it is steady; [`sc11`] compares a sweep of hundreds with the closed-form
//! model of `tune`; [`scale`] simulates one scenario of 10,000 nodes. The nodes use the same state
//! machines as over real sockets. [`chart`] draws the figures.
// Scenarios run on all cores, and their real duration is measured.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod chart;
mod meter;
mod network;
mod parallel;
pub mod path;
mod predict;
pub mod sc11;
pub mod scale;
mod scenario;
mod session;

pub use parallel::on_all_cores;
pub use predict::{Binding, Effort, Latencies, Prediction, predict};
pub use scenario::{Begin, Credits, Direction, OCEAN_JITTER, Path, Routers, Scenario};
pub use session::StudyError;
