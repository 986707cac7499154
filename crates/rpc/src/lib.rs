//! Lustre's RPC layer, both ends: imports send requests to a target, services answer those of
//! exports.
//!
//! Pure: events of LNet and times go in; posts to LNet and results come out.
//!
//! An RPC is a PUT of a request, whose match bits are its number (XID), and a PUT of the reply to a
//! match entry that the sender has posted before (Spec: ptlrpc-ldlm-mgs §1.1, §3.2). The RPC layer
//! is pure machines over `lnet::Service`:
//!
//! | machine | state | inputs | outputs |
//! |---|---|---|---|
//! | `import` | one target as a client sees it: its NIDs, the connection, requests in flight, waiting and kept for replay | requests, replies, early replies, failures, times | transmissions, results, changes of state |
//! | `client` | the imports of a node, the XIDs, the descriptors of each request | events of LNet | posts: match entries for bulk data and the reply, the PUT of the request |
//! | `service` | partitions with their portals, queued and running requests, bulk transfers, replies under way; the targets and exports of the node | events of LNet, replies of the host, times | posts, requests for the host in order of arrival, ends of transfers, evictions |
//! | `reverse` | the calls of a server to its clients | calls of the host, events of LNet, reconnects, times | posts, results |
//! | `export` | one client as a target sees it: its connection, the XIDs it has used, the replies it may not have | connects, requests, times | accept, answer again, refuse with an errno, drop |
//!
//! A request keeps its XID when it is sent again, unless the server has put it off, or the XID is
//! also the match bits of its bulk data. What changes with each transmission (handle, connection
//! count, timeout, match bits) is filled in then. A request that was a transaction is kept until
//! the target reports it on disk (`import::kept`), a write with the memory of its data
//! (`Output::Released` gives it back), an open until the owner says that its close is; after a
//! restart of the target they are replayed one at a time (`import::replay`), then the owner's
//! locks, then the final ping. Requests that modify metadata wait for a slot (`import::slots`),
//! others pass them. An import has one timer for each request under way; a request that is late
//! fails the connection, not the request, and is sent again when the import is connected. Timeouts
//! are adaptive: `timeouts` keeps the estimates of both ends. Messages are a few KiB and travel as
//! `Memory::Bytes` and `Memory::Inline`.
//!
//! # Security
//!
//! A connection has a flavor (`Target::flavor`, `Server::set_flavor`): null, or plain, in which
//! each message is inside another one. `Message::decode` and `encode_as` wrap and unwrap; only the
//! `Flavor` in the head tells the difference, and a GSS flavor will have its place there. A reply
//! and a callback have the flavor of the connection, a CONNECT of another one is refused with
//! EACCES, any other message is dropped. The hash of bulk data (`Message::bulk`) is the owner's,
//! which has the bytes.
//!
//! # Bulk data
//!
//! Bulk data are moved by the server, from or to descriptors that the client posts before the
//! request. The RPC layer names their memory by `Span` and never sees the bytes. Both ends cut a
//! transfer at the same places into parts of at most 1 MiB, up to 65, and each part is one
//! operation with match bits of its own (`bulk`).
//!
//! ```text
//! client  posts the parts, the room for the reply, the request ──► reply and all parts used ──► Done
//!                                     late, lost ──► withdraws the parts; when LNet has released them: the same request, new match bits
//! server  request ──► host: transfer(id, memory) ──► GETs or PUTs ──► Task::Transferred ──► host: reply, or discard after a failure
//! ```
//!
//! Memory belongs to LNet from the first post of its parts until the last of them is unlinked. At
//! the client, a request ends (`Done`), or is sent again, only then; at the server, `Transferred`
//! comes only then. So the owner of the memory never has to ask whether it is free. A transfer
//! fails if an operation fails or is shorter than requested, if its client is gone, and when its
//! time is over. If the client sends the request again meanwhile, the transfer starts again with
//! the new match bits. A write that is replayed posts its data again; their memory is the import's
//! until they are on disk, so a host must not change it after the end of the request
//! (`keeps_data`).
//!
//! # Hosts and tests
//!
//! In the driver `net::Running` hosts a `Client` or a `Server` as any machine: the host names its
//! buffers by `BufferId`, and executes requests in `Host::handle`, at once or as a `Job` without
//! the machine's lock. `fulmar-bench`'s family `rpc` is the shortest example of both. Its family
//! `ldlm` adds the locks: a `Client` with the locks of a client, and a `Server` with those of a
//! server.
//!
//! The swarm of the tests (`tests/rpc/swarm`) runs a few clients against a target that writes late,
//! loses messages, restarts the target, cuts clients off, and checks that each request is applied
//! once, that nothing on disk or acknowledged is lost, and that all memory is given back.
//! Deliberate faults of its host show that the checks find them.
#![forbid(unsafe_code)]

pub mod both;
pub mod bulk;
pub mod client;
pub mod export;
mod handles;
pub mod import;
mod outputs;
pub mod reverse;
pub mod service;
pub mod stats;
pub mod timeouts;
mod xid;

use fulmar_lustre_wire::connect::Release;

pub use handles::HandleSource;
pub use xid::{Xid, XidSource};

/// The release of Lustre whose protocol this is.
pub const RELEASE: Release = Release::new(2, 17, 57, 0);
