//! Any path in virtual time.
//!
//! ```text
//! Plan        sites, links, nodes and loads
//!   -> build  options of the simulator
//!   -> run    a session of selftest; samples of rates, windows and what waits
//!   -> Outcome, Bottleneck, pictures; closed() is the formula beside it
//! ```
//!
//! The command is `fulmar sim path`. A *plan* has sites, links between them, groups of equal nodes
//! with their interfaces, and loads from one group to another. The options of the command line give
//! a plan of two sites and one link, a file (`control::config::PathFile`) gives any. A plan becomes
//! options of the simulator and a session of selftest with one batch for each load, as `lst` runs
//! them. After a warm-up RPCs are counted for a time; a hundred samples in it say what data and
//! messages wait for. The bound is the first of these that applies: a line that is full; windows of
//! TCP, if streams with data wait for one in a third of the samples; buffers and credits of
//! routers, or credits of nodes, by the same measure; otherwise the RPCs in flight. The formula is
//! printed beside it where a plan has one load over one set of links.

mod build;
mod closed_form;
mod outcome;
mod picture;
mod plan;
mod run;
mod waits;

pub use closed_form::closed;
pub use outcome::{LinkUse, LoadOutcome, Outcome, Sample};
pub use picture::picture;
pub use plan::{Group, Link, Load, Plan, Port, Work};
pub use run::run;
pub use waits::{Bottleneck, Waits};
pub(crate) use waits::{holds_back, lacks_credits, lacks_peer_credits};
