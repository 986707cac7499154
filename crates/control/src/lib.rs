//! The administration of a node.
//!
//! ```text
//! config   lnet.conf, module parameters, the file of fulmar node   -> values
//! show     the output of lnetctl and lctl                          values -> text
//! api      the control socket: values over HTTP, and metrics
//! masks    what a node keeps in its debug log
//! tool     common parts of lnetctl, lctl and lst
//! ```
//!
//! A node implements [`api::Admin`]; the command line uses [`api::Client`].
// The crate uses sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod api;
mod as_text;
pub mod config;
pub mod masks;
pub mod show;
pub mod testing;
pub mod tool;
pub mod value;
