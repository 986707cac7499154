//! Lustre's lock manager, both ends: a server grants locks on resources and asks for them back, a
//! client keeps those that it has used.
//!
//! Pure: requests, callbacks and times go in; replies, callbacks and grants come out. What carries
//! them between nodes is the RPC layer.
#![forbid(unsafe_code)]

pub mod client;
pub mod mode;
pub mod server;
mod slab;
mod treap;
