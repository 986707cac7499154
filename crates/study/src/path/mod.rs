//! Any path in virtual time.
//!
//! ```text
//! Plan        sites, links, nodes and loads
//!   -> build  options of the simulator
//!   -> run    a session of selftest; samples of rates, windows and what waits
//!   -> Outcome, Bottleneck, pictures; closed() is the formula beside it
//! ```

mod build;
mod closed;
mod outcome;
mod picture;
mod plan;
mod run;
mod waits;

pub use closed::closed;
pub use outcome::{LinkUse, LoadOutcome, Outcome, Sample};
pub use picture::picture;
pub use plan::{Group, Link, Load, Plan, Port, Work};
pub use run::run;
pub use waits::{Bottleneck, Waits};
pub(crate) use waits::{holds_back, lacks_credits, lacks_peer_credits};
