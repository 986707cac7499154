//! Fulmar shown at work.
//!
//! [`demo`] runs two nodes on this machine and measures what they carry; [`interop`] puts one node
//! beside a real Lustre node and checks what it answers. Both print for people. [`exchange`] has
//! the operations that they are made of.
#![forbid(unsafe_code)]
// What is shown is real: real clocks, sockets and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod demo;
pub mod exchange;
pub mod interop;
mod text;
