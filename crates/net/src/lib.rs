//! The driver: runs Fulmar's machines over real sockets, threads, clocks and memory.
//!
//! A [`Runtime`] has I/O threads, which any number of [`Node`]s share. A node is a machine
//! ([`fulmar_node::Node`]) behind one lock; what the machine wants done is done without the lock, by
//! whichever thread asked. Payload goes from the socket straight into the [`Buffer`] of the matched
//! descriptor, and from a buffer straight into the socket.
//!
//! ```text
//! application --- put, get, ... ---> turn { machine } --- Write ---> tx queue --> socket
//!      ^                               ^         |
//!      +------ Handler <--- events ----|---------+
//! socket --> I/O thread --- bytes -----+
//! ```
//!
//! ```no_run
//! use fulmar_net::{NiOptions, Node, Options, Runtime};
//! use std::time::Duration;
//!
//! let runtime = Runtime::new(None)?;
//! let mut options = Options::default();
//! options.nis.push(NiOptions::at("10.0.0.1".parse()?));
//! let node = Node::start(&runtime, options)?;
//! let peer = fulmar_lnet_wire::ProcessId::lustre("10.0.0.2@tcp".parse()?);
//! println!("{:?}", node.ping(peer, None, Duration::from_secs(1)));
//! node.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_op_in_unsafe_fn)]
// This crate is where the world is met: clocks, threads and sockets are its business.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod buffer;
mod conn;
mod core;
mod counters;
mod dial;
mod error;
mod handle;
mod interfaces;
mod kernel;
mod listener;
mod lock;
mod node;
mod notices;
mod runtime;
mod rx;
mod selftest;
mod sys;
mod tap;
mod thread;
mod tx;
mod watch;

use fulmar_base::Errno;

pub use buffer::Buffer;
pub use counters::IoCounters;
pub use error::StartError;
pub use handle::{ConnDetails, Handler, NiAddress, NiOptions, Node, Options, wall_clock};
pub use interfaces::{Interface, interfaces, prefix_of};
pub use kernel::{ClockState, TcpState, clock_state, tcp_state};
pub use runtime::Runtime;
pub use tap::Tap;

/// Returns the number of an error of the operating system.
fn errno_of(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}
