//! Test rigs and benchmarks: real nodes in network namespaces, with loads, faults and measurements.
//!
//! [`lab`] creates hosts, cables and switches on this machine. [`traffic`] is a load whose
//! processes check all their data, [`rails`] and [`routers`] are experiments, [`printed`] applies
//! what `fulmar tune` prints, [`witness`] checks the invariants of LNet on a running node, and
//! [`hostile`] attacks one. [`kill`] kills servers under load, and [`model`] compares random operations on files with a model. The binary `fulmar-bench` measures Fulmar beside other programs. No crate of the product depends on
//! this one.
//!
//! # What must hold
//!
//! **Every invariant of LNet has a named check, twice.** In virtual time the simulator's checkers
//! see everything of all nodes. Over real sockets, in network namespaces, the [`witness`] sees what
//! passes between one node's core and its LND, and every event, through a tap of the driver that
//! costs nothing where there is none. Neither relies on the node's own report. A table in either
//! crate names the checks of each invariant; `lnetctl debug check` is the node's check of itself.
//!
//! **Hostile peers.** [`hostile::ATTACKS`] is a table of attacks, each a process on one core beside
//! honest nodes. `make test` and `make hostile` require of mixes of them what does not depend on
//! the machine's speed: the node lives, keeps every invariant, serves new nodes and is idle
//! afterwards. `make bench ONLY=hostile` measures the service during each.
//!
//! **Killed servers.** [`kill`] runs the servers of a file system as processes, with clients that
//! know what must be there. A server is killed at a random point; its directory is examined before
//! it starts again (all that was reported to be on disk, in order, and no damage), and clients must
//! be served again with everything that was answered. Two mounts hold open files, one of which was
//! removed, locks of ranges, and data that are only in their caches, under locks on objects; each
//! checks that the other one has lost none of that. `make test` does so at 20 points, `make kill`
//! at
//! 200. Runs in which servers start with an older directory, or have forgotten a client, show that
//!      loss is found.
#![deny(unsafe_code)]
// This crate uses real clocks, sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod hostile;
pub mod kill;
pub mod lab;
pub mod model;
pub mod printed;
pub mod rails;
pub mod routers;
pub mod targets;
pub mod traffic;
pub mod witness;
