//! A client and servers on one machine, over sockets.
// They start nodes, and wait for them.
#![allow(clippy::disallowed_methods)]

mod data;
mod directories;
mod files;
mod kept;
mod mount;
mod order;
mod rig;
mod server;
mod sizes;
mod trips;
mod waits;
