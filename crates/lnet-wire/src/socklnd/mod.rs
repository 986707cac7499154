//! The socket LND's messages on a connection: one [hello](Hello) in each direction, then
//! [frames](FrameHeader).

mod frame;
mod hello;

pub use frame::{FrameHeader, FrameKind};
pub use hello::{ConnKind, Hello, Version};

/// The TCP port of the acceptor.
pub const ACCEPT_PORT: u16 = 988;
