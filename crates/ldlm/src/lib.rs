//! Lustre's lock manager, both ends: a server grants locks on resources and asks for them back, a
//! client keeps those that it has used.
//!
//! Pure: requests, callbacks and times go in; replies, callbacks and grants come out. What carries
//! them between nodes is the RPC layer.
//!
//! A lock protects a part of a resource: bytes of an object, bits of a file's state, a range of a
//! file for its applications, or a whole configuration log (Spec: ptlrpc-ldlm-mgs §19, §20). `ldlm`
//! has both ends of Lustre's lock manager as pure machines.
//!
//! # The swarm of locks
//!
//! The swarm of the tests (`tests/ldlm/swarm`) joins all of this in virtual time: client nodes with
//! imports, a service of callbacks and the locks of each import, and server nodes with a target,
//! its locks and files that are written late. Messages are lost, connections break, targets
//! restart, a client is cut off or disappears. What is written under a lock has a version. It
//! checks that locks that exclude each other are not held at the same time, that no reader sees an
//! old version, that each write is applied once and none by a client that was evicted, that each
//! acquire ends, that only clients that cannot be reached are evicted, and that nothing is left in
//! the end. Here too deliberate faults show that the checks find them.
#![forbid(unsafe_code)]

pub mod client;
pub mod mode;
pub mod server;
mod slab;
mod treap;
