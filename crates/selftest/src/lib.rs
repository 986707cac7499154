//! LNet selftest as a pure machine: a test node, and a console that controls test nodes.
//!
//! [`SelftestService`] is the machine as a service of LNet, for hosts. [`Selftest`] itself returns
//! operations for LNet from [`Selftest::poll_output`], and gets their results through
//! [`Selftest::handle_request`] and [`Selftest::handle_done`]. Requests to portals 50 and 51 arrive
//! complete; offers at portal 52 are made one by one. After each input the owner calls
//! [`Selftest::poll_output`] until it returns nothing, and processes the outputs in order.
//!
//! ```text
//! LNet           handle_request                               a request to one of the services
//!                Output::{Offer*, Send, PutBulk, Get*}        -> handle_done, once for each
//! memory         Task::{Allocate, Release, Damage}
//!                Task::Check                                  -> handle_checked
//! LNet's counts  Output::Count                                -> handle_counted
//! the node       Task::Measure                                -> handle_measured
//! administrator  command                                      -> Output::Answer
//! clock          poll_timeout                                 -> handle_timeout
//! ```
//!
//! Deliberate differences from a kernel node: a session expires at its time and not up to 8 s
//! later; its running RPCs are then aborted even if a plain stop was to let them complete;
//! destinations that a console cannot hand over completely are refused; so are transfers of part of
//! a word. What costs memory has an owner and a bound: BRW requests are refused with ESRCH unless
//! this node is a server of a BRW test in a session; only requests of a session keep it alive; a
//! request that has waited longer than a client does is dropped.
//!
//! Spec: lnet-selftest §2 to §14.
#![forbid(unsafe_code)]

mod api;
mod batch;
mod brw;
mod check;
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
mod shares;
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
