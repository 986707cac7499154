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
//!
//! # Threads
//!
//! I/O threads each own an epoll set and some connections. One machine per node stands behind one
//! lock, held for the microseconds of control work and never while bytes move. Writes are queued
//! per connection under that lock, so their order is that of the machine; the thread that finds the
//! queue idle writes at once, many small messages in one `writev`. Written bytes are reported when
//! a message is complete, together with the next report of the thread.
//!
//! Each service has a queue of events. The thread whose turn produced events for an idle service
//! handles them: normally the I/O thread that received the message, so a round trip needs no change
//! of threads. A handler gets all pending events at once, and posts a batch in return. While
//! hundreds of events wait, small messages stay in their sockets, from which connections are read
//! in turn: otherwise a sender of very many would fill the queues, and the events of others wait
//! behind all of its own.
//!
//! There are as many I/O threads as cores, or `nscheds` for each CPT. Threads are pinned to the
//! cores of their CPT if CPTs are configured; connections of an NI that is bound to CPTs are served
//! by their threads. A thread that has just handled small messages polls for some microseconds
//! before it sleeps, as long as recent polls found something: an answer then needs no wake-up. An
//! idle thread sleeps.
//!
//! What threads hand over to each other is in three small types without I/O: `write_queue` (writes
//! of a connection, and which thread writes), `messages` (the mailbox of an I/O thread, and whether
//! it sleeps) and `dispatch` with `queues` (events, and which thread handles them). `make models`
//! checks them in all interleavings, and `make tsan` runs the driver's tests under ThreadSanitizer.
//!
//! One more thread monitors what I/O threads do not see: links, by netlink, whose messages only
//! trigger a scan of all addresses; and once a second, by `TCP_INFO`, connections with
//! unacknowledged bytes. It detects silent peers, and connections whose throughput a window limits:
//! those get larger buffers where the system allows it, and otherwise the machine opens more
//! connections to that peer.
//!
//! # How a message is received
//!
//! ```text
//! need(conn) = Bytes(n)       the I/O thread reads at least the header, handle_bytes                  turn 1
//!    socklnd                  decodes frame and LNet header              → Received
//!    lnet                     checks, matches, picks memory              → Verdict: Receive(span) | Wait | Reject
//! need(conn) = Payload{span}  the I/O thread reads all of it into the memory, without the lock,
//!                             and in the last system call the next header
//!    socklnd                  handle_payload, handle_bytes               → Completed (and a zero-copy ACK, if asked for)  turn 2
//!    lnet                     event PUT; after its handler returned, ACK → Send                       turn 3
//! ```
//!
//! A turn takes the node's lock once. A payload of any length costs one turn when its header
//! arrives and one when it is complete; the next header shares the latter. `Wait` is for a lazy
//! portal without memory: the driver stops reading only that connection, as a kernel node does;
//! `Resume` continues.
//!
//! # How a message is sent
//!
//! `put` and `get` build a header, take a peer credit and then an NI credit (or queue, first in
//! first out), and come out as `Send` with an NI and a next hop. `socklnd` picks a connection by
//! kind, size and load, or dials; it keeps the sequence of what was written on each connection, so
//! `handle_sent(bytes)` determines which messages are in the socket. Credits are released then.
//! Unless `zc_min_payload` is set, no zero-copy acknowledgements are requested, so a credit is not
//! held for a round trip: on a 50 ms link that is the difference between 8 MiB per round trip and a
//! full link.
//!
//! # Failures and limits
//!
//! The kernel gives a new socket the lowest free descriptor. Its number shows how many are in use
//! (`descriptors`): above one limit another incoming connection must give way, above a second the
//! new one is closed and another gives way too, so that there is a place for the next. So
//! connections never take the last descriptors of the process.
//!
//! A node that fails closes its connections and listeners (`failure`). `daemon` then reports that
//! and ends the process without waiting for any thread: a node that has failed never looks alive.
//!
//! Views are taken in pages of a few dozen rows, each under the lock for microseconds, so that a
//! table of any size can be read under load.
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
pub use run::{Host, Job, JobReport, Running};
pub use runtime::Runtime;
pub use service::{Handler, Service};
pub use tap::Tap;

/// Returns the number of an error of the operating system.
fn errno_of(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}
