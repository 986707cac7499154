//! What an administrator says to a node, and what the node tells the administrator.
//!
//! ```text
//! config   lnet.conf, module parameters, the file of fulmar node   -> values
//! show     what lnetctl and lctl print                             values -> text
//! api      the control socket: values over HTTP, and metrics
//! tool     what lnetctl, lctl and lst have in common
//! ```
//!
//! A node implements [`api::Admin`]; [`api::Client`] is the other end, for the command line.
// The crate meets the world: sockets and files are what it is for.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod api;
mod as_text;
pub mod config;
pub mod show;
pub mod testing;
pub mod tool;
pub mod value;
