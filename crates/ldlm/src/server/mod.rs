//! The server end: the locks of one target.
//!
//! ```text
//!                       +--> granted ----------------+--> cancelled, converted, evicted
//! enqueue --> decided --+       ^                    |
//!                |      +--> waiting --> refused     +--> blocks others: callback, timer
//!                |
//!                +--> glimpse: answered without a lock      (the LVB is read first, where there is one)
//! ```
//!
//! A [`Namespace`] is a machine without RPC. Its owner is the host of the target: it hands requests in
//! ([`Namespace::handle_enqueue`], [`Namespace::handle_cancel`], [`Namespace::handle_convert`]), executes
//! intents, and after each input takes all of [`Namespace::poll_output`]: replies, callbacks for the
//! reverse imports, attributes of objects to read, and clients to evict.
//!
//! ```
//! use fulmar_base::Time;
//! use fulmar_ldlm::server::{Config, Enqueue, Features, Namespace, Outcome, Output, RequestId};
//! use fulmar_lustre_wire::Handle;
//! use fulmar_lustre_wire::ldlm::{LockDesc, LockMode, LockRequest, LockType, ResourceDesc};
//!
//! let mut issued = 0;
//! let mut namespace = Namespace::new(Config::mgs(), move || {
//!     issued += 1;
//!     Handle(issued)
//! });
//! namespace.handle_connect(Handle(7), Features::default());
//! let resource = ResourceDesc { kind: LockType::PLAIN, ..Default::default() };
//! let lock = LockDesc { resource, requested: LockMode::CR, ..Default::default() };
//! namespace.handle_enqueue(Time::ZERO, Enqueue {
//!     request: RequestId(1),
//!     export: Handle(7),
//!     lock: LockRequest { lock, handles: vec![Handle(1000)], ..Default::default() },
//!     is_resent: false,
//!     outcome: Outcome::Ordinary,
//! });
//! let Some(Output::Reply { reply, .. }) = namespace.poll_output() else { panic!() };
//! assert_eq!(reply.lock.granted, LockMode::CR);
//! ```
//!
//! # Inputs and outputs
//!
//! | inputs | outputs |
//! |---|---|
//! | enqueue, with what the host did about its intent; convert; cancel, also as a list in other requests | one reply to each enqueue and convert |
//! | answers to callbacks, their failures, reads and writes of clients, times | blocking, completion and glimpse callbacks; clients to evict |
//! | clients that connect and go, begin and end of recovery | |
//! | attributes of an object (LVB), as read by the host | read the attributes of an object |
//! | locks of the host itself, for its operations | a lock of the host is granted, or others wait for it |
//!
//! It contains no RPC: the host takes requests from `rpc`'s server and sends callbacks by reverse
//! imports. An intent is executed by the host, under locks of its own; then it gives one of them to
//! the client (`Outcome::Replaced`), the lock that was requested (`Outcome::Executed`), or none
//! (`Outcome::Aborted`).
//!
//! ```text
//! enqueue ──► checks ──► attributes known? ──► free? ──► granted, grown ──────────────► reply
//!                             │ no: read            └──► queued, holders asked back ──► reply: BLOCK_GRANTED
//!                             ▼                                    │
//!                         waits for the host          cancel, convert, eviction ──► queue looked at ──► completion callback
//! ```
//!
//! **Granted locks** of a resource are in groups: those of one mode, and of the same bits or group.
//! What conflicts with one lock of a group of bits conflicts with all, so a search looks at few
//! groups. In a group of ranges the locks are the nodes of a balanced tree by range, so that a
//! search for an overlap is logarithmic.
//!
//! **Queues** are first in, first out, but a waiting lock is granted as soon as nothing before it
//! and nothing granted excludes it. After each change all of the queue is looked at once, with a
//! sum of what waits before (`ahead`); the look ends where nothing behind can be free. Flocks
//! follow POSIX: they do not wait for waiting ones.
//!
//! **Attributes** of an object are read before its first lock, and again when a holder that could
//! write is gone. A completion waits for that. The same holds for a lock on the data of a file on
//! an MDT, if it is on nothing else; one with other bits gets the attributes from the host.
//!
//! **Holders** that are asked back have 100 s, or more where cancels are slow; reads and writes
//! under the lock prolong that, up to an hour. Then they are evicted: all their locks go at once,
//! and others are served. One that another target has found silent is not waited for again. `Limits` bounds what a client can make the namespace keep.
//!
//! **Memory.** A granted lock needs about 130 bytes: 80 of its own, and entries by handle and by
//! client. A resource needs about 170, and the attributes of an object 80 more.

mod ahead;
mod answer;
mod api;
mod callbacks;
mod cancel;
mod check;
mod enqueue;
mod flock;
mod glimpse;
mod grow;
mod local;
mod lock;
mod lvb;
mod namespace;
mod queue;
mod resource;
#[cfg(test)]
mod tests;
mod tree;

pub use api::{
    Answer, Callback, CallbackId, CallbackKind, Config, Enqueue, EvictReason, Features,
    IntentResult, Limits, LocalEnqueue, Outcome, Output, RequestId, Times,
};
pub use namespace::Namespace;
