//! Fulmar shown at work.
//!
//! [`demo`] runs two nodes on this machine and measures what they carry; [`interop`] puts one node
//! beside a real Lustre node and checks what it answers. Both print for people. [`exchange`] has
//! the operations that they are made of. [`lab`] makes hosts and cables on this machine, [`traffic`]
//! is what their processes say to each other, [`rails`], [`routers`] and [`wan`] are what is tried there.
#![forbid(unsafe_code)]
// What is shown is real: real clocks, sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod check;
pub mod demo;
pub mod exchange;
pub mod interop;
pub mod iperf3;
pub mod lab;
pub mod rails;
pub mod routers;
mod text;
pub mod traffic;
pub mod wan;
pub mod witness;
