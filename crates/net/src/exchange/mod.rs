//! Operations that wait until they have completed, and the data that they carry.
//!
//! For tools that talk to a node step by step: a demonstration, a diagnosis, a test. A program that
//! has many operations in flight uses a [`Service`] directly.

mod check;
mod inbox;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventKind, Get, MdId, MdOptions, Me, MePosition, Put, ServiceConfig};
use fulmar_lnet_wire::ping::{Features, PingInfo};
use fulmar_lnet_wire::{PING_MATCH_BITS, ProcessId, RESERVED_PORTAL};

use crate::{Buffer, Delivery, Descriptor, Memory, Node, Service};

pub use check::Checker;
use inbox::Inbox;

/// The target of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The node.
    pub process: ProcessId,
    /// Its portal.
    pub portal: u32,
    /// The match bits.
    pub match_bits: u64,
}

impl Target {
    /// Returns where `process` answers pings and takes pushes.
    pub fn ping(process: ProcessId) -> Self {
        Self { process, portal: RESERVED_PORTAL, match_bits: PING_MATCH_BITS }
    }

    /// Returns a PUT to there, of which an acknowledgement is wanted.
    pub fn put(self) -> Put {
        let Self { process: target, portal, match_bits } = self;
        let (ack, source, offset, header_data) = (true, None, 0, 0);
        Put { ack, source, target, portal, match_bits, offset, header_data }
    }

    /// Returns a GET from there.
    pub fn get(self) -> Get {
        let Self { process: target, portal, match_bits } = self;
        Get { source: None, target, portal, match_bits, offset: 0 }
    }
}

/// Returns a match entry for these bits of any process.
pub fn anyone(match_bits: u64) -> Me {
    let (match_id, position) = (ProcessId::ANY, MePosition::After);
    Me { match_id, match_bits, ignore_bits: 0, unlink: true, position }
}

/// A service whose operations can be waited for. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Exchange {
    service: Service,
    waiting: Arc<CallerTable>,
}

/// The waiting callers, by descriptor.
#[derive(Debug, Default)]
struct CallerTable {
    next: AtomicU64,
    senders: Mutex<BTreeMap<u64, Sender<Event>>>,
}

impl CallerTable {
    fn senders(&self) -> MutexGuard<'_, BTreeMap<u64, Sender<Event>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, events: &mut Vec<Delivery>) {
        let mut senders = self.senders();
        for Delivery { event, .. } in events.drain(..) {
            if let Some(sender) = senders.get(&event.user) {
                // The caller may have stopped waiting.
                let _ = sender.send(event);
            }
            if event.unlinked {
                senders.remove(&event.user);
            }
        }
    }
}

/// The events of a descriptor. They may be waited for in another order than that of their arrival.
#[derive(Debug)]
pub struct Events {
    md: MdId,
    service: Service,
    inbox: Inbox,
}

impl Events {
    /// Returns the descriptor.
    pub fn md(&self) -> MdId {
        self.md
    }

    /// Waits for the next event; `None` if none comes in time.
    pub fn next(&self, timeout: Duration) -> Option<Event> {
        self.inbox.take(|_| true, timeout)
    }

    /// Waits for the next event of `kind`, failed or not; `None` if none comes in time. Other events
    /// stay for later calls.
    pub fn next_of(&self, kind: EventKind, timeout: Duration) -> Option<Event> {
        self.inbox.take(|event| event.kind == kind, timeout)
    }

    /// Waits for the next event of `kind`, or for one of any kind that reports a failure. Other
    /// events stay for later calls.
    ///
    /// # Errors
    /// The status of the event that failed, or ETIMEDOUT.
    pub fn wait(&self, kind: EventKind, timeout: Duration) -> Result<Event, Errno> {
        let wanted = |event: &Event| event.kind == kind || event.status.is_err();
        let event = self.inbox.take(wanted, timeout).ok_or(Errno::ETIMEDOUT)?;
        event.status?;
        Ok(event)
    }

    /// Unlinks the descriptor. It may be unlinked already.
    pub fn unlink(&self) {
        let _ = self.service.unlink(self.md);
    }
}

impl Exchange {
    /// Opens the service.
    ///
    /// # Errors
    /// As [`Node::open_service`].
    pub fn open(node: &Node) -> Result<Self, Errno> {
        let waiting = Arc::new(CallerTable::default());
        let shared = waiting.clone();
        let handler = move |_: &Service, events: &mut Vec<Delivery>| shared.handle(events);
        let service = node.open_service(ServiceConfig::default(), Arc::new(handler))?;
        Ok(Self { service, waiting })
    }

    /// Returns the service. Events of descriptors that it creates itself are ignored.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Begins to store `memory` at `target`, with an acknowledgement.
    ///
    /// # Errors
    /// As [`Service::put`].
    pub fn begin_put(
        &self,
        target: Target,
        memory: impl Into<Memory>,
        header_data: u64,
    ) -> Result<Events, Errno> {
        let put = Put { header_data, ..target.put() };
        self.begin(|user| self.service.put(once(memory).user(user), put))
    }

    /// Stores `memory` at `target` and waits for the ACK.
    ///
    /// # Errors
    /// Why there was no ACK; ETIMEDOUT if none came in time.
    pub fn put(
        &self,
        target: Target,
        memory: impl Into<Memory>,
        header_data: u64,
        timeout: Duration,
    ) -> Result<Event, Errno> {
        let events = self.begin_put(target, memory, header_data)?;
        let acknowledged = events.wait(EventKind::Ack, timeout);
        acknowledged.inspect_err(|_| events.unlink())
    }

    /// Begins to fetch from `target` into `memory`.
    ///
    /// # Errors
    /// As [`Service::get`].
    pub fn begin_get(&self, target: Target, memory: impl Into<Memory>) -> Result<Events, Errno> {
        self.begin(|user| self.service.get(once(memory).user(user), target.get()))
    }

    /// Fetches from `target` into `memory` and waits for the REPLY.
    ///
    /// # Errors
    /// Why there was no REPLY; ETIMEDOUT if none came in time.
    pub fn get(
        &self,
        target: Target,
        memory: impl Into<Memory>,
        timeout: Duration,
    ) -> Result<Event, Errno> {
        let events = self.begin_get(target, memory)?;
        let replied = events.wait(EventKind::Reply, timeout);
        replied.inspect_err(|_| events.unlink())
    }

    /// Fetches the ping info of a node by a GET.
    ///
    /// # Errors
    /// Why the GET failed; EPROTO if the answer cannot be decoded.
    pub fn ping_info(&self, process: ProcessId, timeout: Duration) -> Result<PingInfo, Errno> {
        let buffer = Buffer::new(PING_ROOM);
        let event = self.get(Target::ping(process), &buffer, timeout)?;
        let bytes = buffer.to_vec(0, event.mlength as usize);
        Ok(PingInfo::decode(&bytes).map_err(|_| Errno::EPROTO)?.info)
    }

    /// Attaches `memory` to a portal, open to every process, for the operations in `options`, until
    /// it is unlinked.
    ///
    /// # Errors
    /// As [`Service::attach`].
    pub fn offer(
        &self,
        (portal, match_bits): (u32, u64),
        memory: impl Into<Memory>,
        options: MdOptions,
    ) -> Result<Events, Errno> {
        let descriptor = Descriptor::over(memory).options(options);
        self.begin(|user| self.service.attach(portal, anyone(match_bits), descriptor.user(user)))
    }

    /// Calls `begin`, which makes a descriptor that has the given number as
    /// [`Descriptor::user`], and returns the events of that descriptor.
    ///
    /// # Errors
    /// Those of `begin`.
    pub fn begin(&self, begin: impl FnOnce(u64) -> Result<MdId, Errno>) -> Result<Events, Errno> {
        let user = self.waiting.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        self.waiting.senders().insert(user, sender);
        let begun = begin(user);
        let md = begun.inspect_err(|_| drop(self.waiting.senders().remove(&user)))?;
        Ok(Events { md, service: self.service.clone(), inbox: Inbox::new(receiver) })
    }
}

/// Returns a descriptor for one request and one response.
fn once(memory: impl Into<Memory>) -> Descriptor {
    Descriptor::over(memory).times(2)
}

/// Returns `len` bytes that depend on their offset and on `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| ((n + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Returns the names of the known features that are set, separated by commas.
pub fn feature_names(features: Features) -> String {
    const NAMES: [(Features, &str); 8] = [
        (Features::BASE, "base"),
        (Features::NI_STATUS, "NI status"),
        (Features::RTE_DISABLED, "no router"),
        (Features::MULTI_RAIL, "multi-rail"),
        (Features::DISCOVERY, "discovery"),
        (Features::LARGE_ADDR, "large NIDs"),
        (Features::PRIMARY_LARGE, "primary NID is large"),
        (Features::METADATA, "metadata"),
    ];
    let names = NAMES.iter().filter(|(bit, _)| features.has(*bit)).map(|(_, name)| *name);
    names.collect::<Vec<_>>().join(", ")
}

/// The sink of a ping: no ping info is longer.
const PING_ROOM: usize = PingInfo::SIZE_MAX as usize;
