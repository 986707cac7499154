//! Stories that show the invariants which nobody sees by watching, between nodes of this process that
//! live in network namespaces. Each node is judged by a witness besides, from its start to its rest.
//!
//! `fulmar_proof::witness::table` names the story of each invariant.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;
mod credits;
mod events;
mod faults;
mod operations;
mod peers;
mod rails;
mod routers;
mod stranger;
