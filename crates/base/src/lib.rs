//! What every machine of Fulmar shares: [`Time`], [`Rng`], [`Timers`], [`Table`], [`Errno`], the
//! identifiers of connections, messages and memory, and the notation of each [`quantity`].
//!
//! Pure: no I/O, no clock.
//!
//! ```text
//! Time, Timers     a moment of the owner's clock; deadlines by key, which a machine returns from poll_timeout
//! Rng              the only source of randomness: from a seed, so that a run can be repeated
//! Table            values by numbers that are never used twice: a late answer meets nothing
//! Errno            failures as Lustre's tools print them, and as calls of the system return them
//! Span             the name of bytes in bulk memory: buffer, offset, length
//! Payload, Sink    where the bytes of a message come from, and where those of a received one go
//! quantity         rates, sizes and times as people write them
//! ```
//!
//! A machine never sees the bytes that a [`Span`] names: the driver has buffers behind the names,
//! and the simulator has none at all.
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
