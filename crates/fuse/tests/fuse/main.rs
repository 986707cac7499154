//! File systems of our own servers, mounted on this machine.
// They start nodes, and wait for them.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod data;
mod ending;
mod file_handles;
mod flags;
mod kept;
mod listing;
mod locks;
mod maps;
mod posix;
mod rig;
mod rights;
mod suites;
mod two;
mod writes;
