//! What the socket LND says on a connection: one [hello](Hello) each way, then
//! [frames](FrameHeader).

mod frame;
mod hello;

pub use frame::{FrameHeader, FrameKind};
pub use hello::{ConnKind, Hello, Version};

/// The TCP port of the acceptor.
pub const ACCEPT_PORT: u16 = 988;
