//! Tests of the invariants that cannot be observed, between nodes of this process whose sockets are
//! in network namespaces. A witness checks each node as well, from start to end.
//!
//! `fulmar_testbed::witness::table` lists the test of each invariant.

mod common;
mod credits;
mod events;
mod faults;
mod operations;
mod peers;
mod rails;
mod raw_peer;
mod routers;
