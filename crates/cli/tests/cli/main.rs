//! The command, as its users meet it: one program, because each that is linked costs seconds.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod copies;
mod decode;
mod demo;
mod doctor;
mod guide;
mod interop;
mod lfs;
mod link;
mod mounts;
mod nodes;
mod packages;
mod sim;
mod tools;
mod top;
mod tune;
