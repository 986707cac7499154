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
