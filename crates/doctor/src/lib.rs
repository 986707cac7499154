//! A host and a path to another examined: what may keep LNet from working, or from being fast.
//!
//! [`evidence`] gathers what a host and its kernel say; [`far`] is what both ends of a path say to
//! each other and the load that they put on it; [`measure`] is how the near end uses that. What they
//! bring are values. [`judge`] turns values into [`Finding`]s, each with a level, the evidence, and
//! the mend, by functions that observe nothing. [`examine()`] calls them in turn, [`render`] prints
//! what came of it, and [`bundle`] packs it for support.
//!
//! ```text
//! near end                                         far end: `fulmar doctor serve`
//!   examine ── measure ── far::Examiner ─ control ─► far::Server ── evidence
//!      │                        ├────── TCP streams ──┤
//!      ▼                        └────── datagrams ────┘
//!   judge ──► Report ──► render, bundle
//! ```
#![forbid(unsafe_code)]
// What is examined is real: real clocks, sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bundle;
pub mod evidence;
pub mod examine;
pub mod far;
pub mod finding;
pub mod judge;
pub mod measure;
pub mod render;

pub use examine::{Options, examine};
pub use finding::{Check, Checked, Finding, Level, Place, Report};
