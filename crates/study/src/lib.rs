//! Experiments in the simulator, on all cores.
//!
//! ```text
//! Scenario        who calls whom, over which network, with which settings
//!   -> session    a console and its batch, as `lst` gives them to the real machines
//!   -> meter      when RPCs were answered, until the rate is steady
//!   -> Prediction what comes of it, and what binds
//! ```
//!
//! [`predict()`] is one scenario; [`sc11`] a sweep of hundreds beside the closed model of `tune`;
//! [`scale`] one of 10,000 nodes. The machines are those that run over real sockets. [`chart`] draws the
//! pictures.
// It runs scenarios on all cores, and looks at the clock to say how long that took.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod chart;
mod meter;
mod network;
mod parallel;
mod predict;
pub mod sc11;
pub mod scale;
mod scenario;
mod session;

pub use parallel::on_all_cores;
pub use predict::{Binding, Effort, Latencies, Prediction, predict};
pub use scenario::{Begin, Credits, Direction, OCEAN_JITTER, Path, Routers, Scenario};
pub use session::StudyError;
