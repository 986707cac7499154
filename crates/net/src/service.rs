//! The interface of a service for its program: a narrow handle, and a handler of events.

use std::fmt;
use std::sync::Arc;

use fulmar_base::{Errno, Time};
use fulmar_lnet::{Get, MdId, Me, Put, ServiceId};
use smallvec::SmallVec;
use tracing::Level;

use crate::batch::{Batch, Descriptor, Posting};
use crate::queues::Delivery;
use crate::shared::Shared;

/// Called with the events of a service, by one thread at a time and in order. Those of different
/// services are handled at the same time.
///
/// A handler must not wait: the messages of its service, and perhaps of others, wait for it. It may
/// post to the service.
pub trait Handler: Send + Sync {
    /// Handles all pending events; events that remain in the list are dropped. The acknowledgements
    /// of PUTs, and messages that were posted meanwhile, are sent when this has returned.
    fn handle(&self, service: &Service, events: &mut Vec<Delivery>);

    /// The service, or its node, has ended: no more events follow.
    fn closed(&self) {}
}

impl<F: Fn(&Service, &mut Vec<Delivery>) + Send + Sync> Handler for F {
    fn handle(&self, service: &Service, events: &mut Vec<Delivery>) {
        self(service, events);
    }
}

/// A user of LNet on a node, with match entries, descriptors and a queue of events of its own.
/// Clones are handles to the same service, which exists until [`Service::close`] or the end of the
/// node.
#[derive(Clone)]
pub struct Service {
    node: Arc<Shared>,
    id: ServiceId,
}

impl Service {
    pub(crate) fn new(node: Arc<Shared>, id: ServiceId) -> Self {
        Self { node, id }
    }

    /// Returns the name of the service on its node.
    pub fn id(&self) -> ServiceId {
        self.id
    }

    /// Returns the node's time.
    pub fn now(&self) -> Time {
        self.node.runtime.now()
    }

    /// Executes a batch of operations, in order, and returns the descriptor of each, or its error.
    /// An operation that fails leaves nothing behind.
    ///
    /// # Errors
    /// As [`Service::attach`], [`Service::put`], [`Service::get`] and [`Service::unlink`].
    pub fn post(&self, batch: Batch) -> Vec<Result<MdId, Errno>> {
        self.post_all(batch.0).into_vec()
    }

    /// Attaches a match entry to a portal, with its descriptor. The entry is removed with the
    /// descriptor.
    ///
    /// # Errors
    /// EINVAL if there is no such portal, or the descriptor is inconsistent, accepts nothing, or
    /// would receive into read-only memory; EPERM for portal 0, and if the entry is exact and the
    /// portal's are not, or the reverse; ESHUTDOWN if the service is closed or the node was
    /// stopped, EIO if it has failed.
    pub fn attach(&self, portal: u32, me: Me, descriptor: Descriptor) -> Result<MdId, Errno> {
        self.one(Posting::attach(portal, me, descriptor))
    }

    /// Starts to store the bytes of a new descriptor at another node.
    ///
    /// # Errors
    /// EINVAL if the descriptor is longer than 1 MiB or accepts operations of others; EHOSTUNREACH
    /// if there is no path to the target; ESHUTDOWN and EIO as [`Service::attach`].
    pub fn put(&self, descriptor: Descriptor, put: Put) -> Result<MdId, Errno> {
        self.one(Posting::put(descriptor, put))
    }

    /// Starts to store the bytes of a descriptor that an earlier PUT or GET made.
    ///
    /// # Errors
    /// As [`Service::put`]; ENOENT if the descriptor is unlinked or exhausted.
    pub fn put_again(&self, md: MdId, put: Put) -> Result<(), Errno> {
        self.one(Posting::put_again(md, put)).map(drop)
    }

    /// Starts to fetch bytes from another node into a new descriptor.
    ///
    /// # Errors
    /// As [`Service::put`]; EINVAL also if its memory is read-only.
    pub fn get(&self, descriptor: Descriptor, get: Get) -> Result<MdId, Errno> {
        self.one(Posting::get(descriptor, get))
    }

    /// Starts to fetch bytes into a descriptor that an earlier PUT or GET made.
    ///
    /// # Errors
    /// As [`Service::put_again`].
    pub fn get_again(&self, md: MdId, get: Get) -> Result<(), Errno> {
        self.one(Posting::get_again(md, get)).map(drop)
    }

    /// Unlinks a descriptor; its last event is marked `unlinked`.
    ///
    /// # Errors
    /// ENOENT if the service has no such descriptor, or it is unlinked already.
    pub fn unlink(&self, md: MdId) -> Result<(), Errno> {
        self.one(Posting::unlink(md)).map(drop)
    }

    /// Chooses whether PUTs without a matching entry wait at a portal, or are dropped.
    ///
    /// # Errors
    /// EINVAL if there is no such portal, EPERM for portal 0; ESHUTDOWN and EIO as
    /// [`Service::attach`].
    pub fn set_lazy(&self, portal: u32, lazy: bool) -> Result<(), Errno> {
        self.node.turn(|core, now, _| core.machine.service(now, self.id).set_lazy(portal, lazy))?
    }

    /// Ends the service: its match entries are removed, and its descriptors are unlinked. Its
    /// handler is not called any more, but may be running when this returns.
    pub fn close(&self) {
        let Some(closed) = self.node.queues.lock().close(self.id) else { return };
        let handled: Vec<_> = closed.events.iter().filter_map(|event| event.event.done).collect();
        // A node that has ended has no services.
        let _ = self.node.turn(|core, now, _| {
            for done in handled {
                core.event_done(now, done);
            }
            core.machine.service(now, self.id).close()
        });
        closed.finish();
    }

    /// Writes a line to the log of the node, unless there were too many in a short time.
    pub fn log(&self, level: Level, line: &dyn fmt::Display) {
        self.node.log.write(self.now(), level, line, &self.node.counters);
    }

    pub(crate) fn node(&self) -> &Arc<Shared> {
        &self.node
    }

    pub(crate) fn post_all(
        &self,
        postings: impl IntoIterator<Item = Posting, IntoIter: ExactSizeIterator>,
    ) -> SmallVec<[Result<MdId, Errno>; 4]> {
        let postings = postings.into_iter();
        let count = postings.len();
        let mut results = SmallVec::with_capacity(count);
        let posted = self.node.turn(|core, now, actions| {
            core.post(now, self.id, postings, &mut results, actions);
        });
        if let Err(errno) = posted {
            results.resize(count, Err(errno));
        }
        results
    }

    fn one(&self, posting: Posting) -> Result<MdId, Errno> {
        self.post_all([posting])[0]
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({} of node {})", self.id.0, self.node.key)
    }
}
