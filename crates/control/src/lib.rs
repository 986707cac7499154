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
//!
//! # Rules
//!
//! * The configuration is a value before it is applied: [`config`] points at line and column of a
//!   mistake, with the nearest known name. Only `daemon` and `api::import` apply it.
//! * What a tool prints is made here from values of the API, in both dialects of Lustre's releases,
//!   so that a program sees the same from either node.
//! * The API is HTTP and JSON on a Unix socket, open to the user and the group of the node.
//!   Each of its connections has one request and a place with limits of time; a client without a
//!   place gets that of the one that keeps the node waiting for longest.
//! * Views are taken in pages of a few dozen rows, so that a table of any size can be read under
//!   load.
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
