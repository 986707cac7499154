//! LNet selftest as a pure machine: a test node, and a console that drives test nodes.
//!
//! [`SelftestService`] is the machine as a service of LNet, which is what hosts run. [`Selftest`]
//! itself says by [`Selftest::poll_output`] what LNet is to carry, and takes by
//! [`Selftest::handle_request`] and [`Selftest::handle_done`] what happened. Requests to portals 50
//! and 51 come whole; what is offered at portal 52 is offered one by one. After each input the owner
//! drains [`Selftest::poll_output`], in order.
//!
//! ```text
//! LNet           handle_request                               a request for one of our services
//!                Output::{Offer*, Send, PutBulk, Get*}        -> handle_done, once for each
//! memory         Task::{Allocate, Release, Damage}
//!                Task::Check                                  -> handle_checked
//! LNet's counts  Output::Count                                -> handle_counted
//! the node       Task::Measure                                -> handle_measured
//! administrator  command                                      -> Output::Answer
//! clock          poll_timeout                                 -> handle_timeout
//! ```
//!
//! Where we differ from a kernel node on purpose: a session expires at its time and not up to 8 s
//! later; what it has running is aborted even if a plain stop was to let it end; destinations that
//! a console cannot hand over whole are refused; so are transfers of part of a word.
//!
//! Spec: lnet-selftest §2 to §14.
#![forbid(unsafe_code)]

mod api;
mod batch;
mod brw;
pub mod console;
mod framework;
mod install;
mod machine;
mod memory;
mod notice;
mod ping;
mod rpc;
mod serve;
mod service;
mod session;
mod stat;
mod unit;

pub use api::{
    Access, CommandId, Config, Contents, Done, OperationId, Output, QuestionId, Request, Task,
};
pub use machine::Selftest;
pub use notice::{Notice, SessionEnd};
pub use service::{HostRequest, SelftestService};

#[cfg(test)]
mod tests;
