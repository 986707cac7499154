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
//!
//! # Noise
//!
//! RPCs that start together meet in queues and stay together; without noise they do so for ever,
//! and the result depends on the start. Predictions therefore vary the delay of a long line by 0.2
//! ms, which is also the precision of the emulated link, and the study starts clients in turn over
//! the time of an RPC. The cost of a common start, up to a fifth where the data in flight nearly
//! fill the line, is a table in the report of the study. TCP has the congestion control that `tune`
//! advises for a link without losses, in the simulator and in the namespaces.
//!
//! **Credits that are held for a round trip**, as a kernel's zero-copy sends do, are a setting of
//! the real socket LND (`zc_min_payload`), off by default. So the same machine produces both
//! curves, in virtual and in real time.
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
