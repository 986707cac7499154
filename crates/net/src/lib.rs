//! The driver: runs Fulmar's machines over real sockets, threads, clocks and memory.
//!
//! A [`Runtime`] has I/O threads, which any number of [`Node`]s share. A node is a machine
//! ([`fulmar_node::Node`]) behind one lock; the outputs of the machine are executed without the
//! lock, by the calling thread. Payload is received from the socket directly into the [`Memory`] of
//! the matched descriptor, and sent directly from a memory.
//!
//! ```text
//! Service --- post ---> turn { machine } --- Write ---> tx queue --> socket
//!    ^                    ^         |
//!    |                    |         +-- events --> queue of the service --> Handler
//! program            I/O thread <-- bytes -- socket
//! ```
//!
//! Users of LNet open a [`Service`]; a service that is a pure machine is run by [`Running`].
//! Administrators use [`Admin`].
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
//! println!("{:?}", node.admin().ping(peer, None, Duration::from_secs(1)));
//! node.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_op_in_unsafe_fn)]
// This crate does I/O: clocks, threads and sockets are allowed here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod actions;
mod admin;
mod alarm;
mod batch;
mod conn;
mod core;
mod cores;
mod counters;
mod descriptors;
mod dial;
mod dispatch;
mod error;
pub mod exchange;
mod failure;
mod interfaces;
mod kernel;
mod listener;
mod lock;
mod memories;
mod memory;
mod messages;
mod node;
mod notices;
mod queues;
mod run;
mod runtime;
mod rx;
mod service;
mod share;
mod shared;
mod spin;
mod sys;
mod tap;
mod thread;
mod turn;
mod tx;
mod watch;
mod write_queue;

use fulmar_base::Errno;

pub use admin::{Admin, ConnDetails};
pub use batch::{Batch, Descriptor, Source};
pub use core::LockUse;
pub use cores::{numa_nodes, usable_cores};
pub use counters::IoCounters;
pub use error::StartError;
pub use failure::{Failure, note_panics};
pub use interfaces::{Interface, interfaces, prefix_of};
pub use kernel::{ClockState, TcpState, clock_state, processor_time, tcp_state};
pub use memory::{Buffer, Memory, SEGMENTS_MAX, Slice};
pub use node::{NiAddress, NiOptions, Node, Options, wall_clock};
pub use queues::Delivery;
pub use run::{Host, Job, JobDone, Running};
pub use runtime::Runtime;
pub use service::{Handler, Service};
pub use tap::Tap;

/// Returns the number of an error of the operating system.
fn errno_of(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}
