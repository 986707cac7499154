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
//! Where it differs from a kernel node on purpose: an ACK or a REPLY must come from the node that
//! the request went to and be of the requested kind; a response that is late fails at the timeout
//! and not up to half of it later; bad ping info is requested again a few times with a pause and
//! not for ever; a NID that answers for a peer stays its NID even if the peer does not list it;
//! portal 0 is closed to applications.
//!
//! Spec: lnet-behaviour §2 to §6, §9.
//!
//! # The machines
//!
//! `Lnet` owns five machines with private state and connects them; it makes no decision that one of
//! them can make alone. Its own state (interfaces, messages, ping info, fault rules, policies) is
//! private to the files of `machine/`: the five machines do not know `Lnet`.
//!
//! | machine | state | inputs | outputs |
//! |---|---|---|---|
//! | `matching` | portals, match entries, descriptors, pending responses | attach, bind, unlink, an incoming PUT or GET, an ACK or a REPLY, the end of an operation | memory for a message, events, descriptors whose response is late |
//! | `peers` | NIDs and the peers that own them, discovery | ping info, pushes, failures, configuration | pings and pushes to send, messages to launch or to fail, answers to queries |
//! | `health` | health of NIs and of NIDs of peers, silence, recovery | failures by class, received messages, an administrator's value | recovery pings, changes of the ping info |
//! | `routing` | routes, gateways, router buffers, the state of forwarding | routes, ping info of gateways, messages in transit | checks of gateways, messages that got a buffer, buffers to allocate or free |
//! | `credits` | credits of NIs and of peer NIs, and the messages that wait for one | take, return, withdraw | messages that hold a credit now |
//!
//! Interfaces and peer NIs have ids that are never reused; each machine keeps its own state for an
//! id (`slots`: the low bits of an id are its place). Selection reads all of them and changes none.
//!
//! The results of an input are returned, or drained in order (`peers`). An event is made when its
//! operation ends: until then a message holds an `Operation`, with only what its header does not
//! contain.
//!
//! # How a message fails
//!
//! The messages that a failed router held are lost. Each of them that needs an answer ends with an
//! event when its transaction times out. LNet does not send it again, since it cannot know whether
//! the message was delivered before the answer was lost: retries are the task of the RPC layer,
//! whose numbers identify a repetition.
//!
//! A message fails as *dropped*, and LNet sends it again on another path, only if its last byte was
//! not handed to a socket. The machine knows that exactly: when a connection ends, the driver first
//! stops its writer, then reports how many bytes were written.
//!
//! # The table of peers
//!
//! The peer table (`peers::ageing`) remembers up to 4,096 NIDs of unknown peers, as a kernel node
//! does. When there are more, idle ones go: a search of the table by a timer, and a search at once
//! when it is full. A search counts unknown peers exactly; between searches the count is an upper
//! bound, so that no message pays for it.
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
