//! What every machine of Fulmar shares: [`Time`], [`Rng`], [`Timers`], [`Table`], [`Errno`], the
//! identifiers of connections, messages and memory, and the notation of each [`quantity`].
//!
//! Pure: no I/O, no clock.
#![forbid(unsafe_code)]

mod errno;
mod ids;
mod memory;
pub mod quantity;
mod rng;
mod table;
mod time;
mod timers;

pub use errno::Errno;
pub use ids::{ConnId, MessageId};
pub use memory::{BufferId, Payload, Sink, Span};
pub use rng::Rng;
pub use table::Table;
pub use time::Time;
pub use timers::Timers;
