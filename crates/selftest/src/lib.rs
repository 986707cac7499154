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
//!
//! # Parts
//!
//! LNet selftest is a service like any other (`selftest`), and a pure machine. Its messages of a
//! few bytes are sent from and received into the machine itself: they need no buffer. Only its bulk
//! uses memory, named by `Span`, which its host allocates on request. The machine also requests the
//! operations that it cannot do itself, and gets the results as inputs: the host compares data and
//! reads clocks and sockets.
//!
//! ```text
//! console   command ──► transactions ─┐                          ┌─ services: sessions, batches, tests, counters
//!                                     ├─► RPCs ─► offers, PUTs ──┤
//! test node batch ──► units ──────────┘      (portals 50 to 52)  └─ load: ping, bulk read and write
//! ```
//!
//! **RPC.** A client posts memory for the reply, then its bulk, then sends its request. The RPC
//! ends when request, reply and bulk are done, in any order, or when it failed and LNet has
//! released all its memory. A server moves the bulk, then replies.
//!
//! **Shares** (`shares.rs`). A request from its service to the end of its reply, and an RPC of a
//! unit, hold a share of a budget in bytes, by the NID of the other node. What finds no room waits
//! with what else its peer has waiting, and peers take turns, so that one that answers nothing
//! delays no other. Operations for requests are withdrawn when they are late, and transfers and
//! lists of destinations with their session. `check.rs` compares the books with one another: in the
//! tests after each input, counts in debug builds too.
//!
//! **Memory.** Data that are not checked use one buffer for all transfers. Good data are also sent
//! from one buffer, which is never written. Only data that are received and checked have memory of
//! their own, which is compared and overwritten with poison in one pass.
//!
//! **Console.** Its state belongs to the node and outlives each `lst`. A command is a transaction
//! of parallel RPCs, one to each node; `lst` only parses arguments and prints answers. `lst run`,
//! `--sweep` and `lst mesh` are scripts of the same commands.
//!
//! **Extension.** A kernel node answers a QUERY_STAT of kind `0x4655xxxx` as any other. A Fulmar
//! node marks its reply in the two reserved words of the header and reports the RPCs since the
//! start of the session (count, bytes, shortest, longest, 14 buckets of a histogram of latencies),
//! the processor time of its process, and TCP's retransmissions. A console requests further buckets
//! until there are none.
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
    Access, CommandId, Config, Contents, OperationId, OperationResult, Output, QuestionId, Request,
    Task,
};
pub use machine::Selftest;
pub use notice::{Notice, SessionEnd};
pub use service::{HostRequest, SelftestService};

#[cfg(test)]
mod tests;
