//! The structures in the messages of real nodes, from the captures in `testdata/traces`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod buffers;
mod messages;
mod traces;
