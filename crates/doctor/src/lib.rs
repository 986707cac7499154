//! Finds what keeps LNet from working, or from working fast, on a host and on a path to another
//! host.
//!
//! [`evidence`] reads the settings and counters of a host; [`remote`] is the protocol and the load
//! between both hosts of a path; [`measure`] uses it from the local host. Their results are values.
//! [`judge`] turns values into [`Finding`]s, each with a level, the evidence and a remedy; its
//! functions observe nothing. [`examine()`] calls them in turn, [`render`] prints the report, and
//! [`bundle`] packs it for support.
//!
//! ```text
//! local host                                         remote host: `fulmar doctor serve`
//!   examine ── measure ── remote::Examiner ─ control ─► remote::Server ── evidence
//!      │                           ├────── TCP streams ──┤
//!      ▼                           └────── datagrams ────┘
//!   judge ──► Report ──► render, bundle
//! ```
//!
//! The doctor gathers evidence as values, and pure functions derive findings from them: a finding
//! can be tested without the host that has it. Measurements by both hosts are requested over one
//! TCP connection, in bounded frames; neither host trusts the other, and the serving host sends
//! datagrams only to a host that has a connection to it.
#![forbid(unsafe_code)]
// The doctor examines a real host: it needs clocks, sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bundle;
pub mod evidence;
pub mod examine;
pub mod finding;
pub mod judge;
pub mod measure;
pub mod remote;
pub mod render;

pub use examine::{Options, examine};
pub use finding::{Check, CheckResult, Finding, Level, Place, Report};
