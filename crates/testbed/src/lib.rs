//! Test rigs and benchmarks: real nodes in network namespaces, with loads, faults and measurements.
//!
//! [`lab`] creates hosts, cables and switches on this machine. [`traffic`] is a load whose
//! processes check all their data, [`rails`] and [`routers`] are experiments, [`printed`] applies
//! what `fulmar tune` prints, [`witness`] checks the invariants of LNet on a running node, and
//! [`hostile`] attacks one. [`kill`] kills servers under load. The binary `fulmar-bench` measures Fulmar beside other programs. No crate of the product depends on
//! this one.
#![forbid(unsafe_code)]
// This crate uses real clocks, sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod hostile;
pub mod kill;
pub mod lab;
pub mod printed;
pub mod rails;
pub mod routers;
pub mod targets;
pub mod traffic;
pub mod witness;
