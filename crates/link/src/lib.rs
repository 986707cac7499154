//! An emulated long link in real time, between two network namespaces.
//!
//! ```text
//! namespace A      device A        one thread for each direction         device B      namespace B
//! TCP ─────────► super-packets ──► shaper: time ─────► store until then ─► write ──────────► TCP
//! ```
//!
//! A [`Link`] is two TUN devices with offload of segmentation and checksums: the network stack
//! sends packets of up to 64 KiB, which pass unchanged. The [`shaper`], a pure machine, charges the
//! line for the headers and the framing of each segment on a real line, and decides when each
//! arrives. Only a packet that loses a segment is split.
//!
//! ```no_run
//! use std::time::Duration;
//! use fulmar_link::{End, Line, Link, Options};
//!
//! let end = |namespace: &str, address: &str| End {
//!     namespace: namespace.into(),
//!     device: "wan0".into(),
//!     addresses: vec![address.into()],
//! };
//! let line = Line::new("10Gbit".parse()?, Duration::from_micros(25_250));
//! let link = Link::start(&Options {
//!     ends: [end("east", "10.9.0.1/24"), end("west", "10.9.0.2/24")],
//!     lines: [line; 2],
//!     mtu: 9000,
//!     seed: 1,
//! })?;
//! let [there, back] = link.counters();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Sites`] are two namespaces with a link, which are removed when they are dropped; the remains
//! of a killed run are removed by the next. [`Namespace`] is a single one, [`Scratch`] has names
//! for several, and [`Program`] is a program that runs there.
//!
//! A line is a pure queue (rate, delay, jitter, loss, reordering, length) between two TUN devices.
//! It moves the kernel's unsegmented packets of up to 64 KiB without change and charges each for
//! the headers of all its segments, which is why one core carries many gigabits; only a packet that
//! loses a segment is split. The thread of either direction is of the real-time class, measures its
//! wake-up time with its timers, and counts how late it delivers packets.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod counters;
mod device;
mod error;
mod line;
mod link;
mod namespace;
mod packet;
mod program;
mod pump;
mod scratch;
pub mod shaper;
mod sites;
mod store;
mod tcp;
mod units;

pub use counters::Counters;
pub use error::LinkError;
pub use line::{Line, MEMORY_MAX, Queue};
pub use link::{DEFAULT_DEVICE, DEFAULT_MTU, DIRECTIONS, End, Link, Options};
pub use namespace::{Namespace, Visit, output, within};
pub use program::Program;
pub use scratch::{Scratch, check_allowed};
pub use sites::{SiteOptions, Sites};
pub use tcp::{Tcp, set_congestion};
pub use units::{Rate, Share, Size, UnitError, words_of_time};
