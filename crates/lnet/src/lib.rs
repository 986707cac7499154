//! The LNet core, as a pure machine: portals and matching, the four operations and their events,
//! credits, ping and discovery.
//!
//! It knows no LND: it hands out [`Output::Send`] with a network interface and a next hop, and takes
//! received headers. After each `handle_*` and each call of the API the owner drains
//! [`Lnet::poll_output`], in order.
//!
//! ```text
//! services     open_service, post, me_attach, put, md_unlink, ...   -> Output::Event
//!                                            Output::Event.done     -> handle_event_done
//! LND          handle_received -> Output::Verdict,  handle_receive_done,  handle_sent
//! loopback     Output::Copy    -> handle_copied
//! clock        poll_timeout    -> handle_timeout
//! ```
//!
//! Each [`Output::Verdict`] to receive is answered by one `handle_receive_done`, each
//! [`Output::Send`] by one `handle_sent`, each [`Output::Copy`] by one `handle_copied`.
//!
//! [`Lnet`] connects five machines, each with state of its own: `matching` (portals, entries,
//! descriptors), `peers` (NIDs and discovery), `health`, `routing` and `credits`. None of them
//! knows another; they return what follows from an input, and `Lnet` passes it on.
//!
//! Where we differ from a kernel node on purpose: an ACK or a REPLY must come from the node that
//! the request went to and be of the requested kind; a response that is late fails at the timeout
//! and not up to half of it later; bad ping info is requested again a few times with a pause and
//! not for ever; a NID that answers for a peer stays its NID even if the peer does not list it;
//! portal 0 is closed to applications.
//!
//! Spec: lnet-behaviour §2 to §6, §9.
#![forbid(unsafe_code)]

mod api;
mod credits;
mod fault;
mod health;
mod machine;
mod matching;
mod ni;
mod notice;
mod peers;
mod routing;
mod service;
mod slots;
mod udsp;
pub mod views;

pub use api::{
    Bound, Config, CopyId, Event, EventDone, EventKind, Get, Globals, Md, MdId, MdOptions, Me,
    MeId, MePosition, Memory, Op, Output, PingReply, Put, QueryId, ServiceConfig, ServiceId,
};
pub use fault::{FaultEffect, FaultKind, FaultRule, MessageTypes};
pub use machine::Lnet;
pub use notice::Notice;
pub use routing::{Forwarding, RouteConfig, RouterBuffers, RoutingConfig};
pub use service::{Batch, Service, ServiceOutput};
pub use udsp::UdspRule;

#[cfg(test)]
mod tests;
