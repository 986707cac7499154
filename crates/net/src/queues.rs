//! The queues of events of a node's services.
//!
//! ```text
//! idle -- event --> ready -- a thread claims it --> busy -- released --> idle, or ready again
//! ```
//!
//! While many events wait, small messages are not read ([`Queues::is_full`]): a sender of very many fills
//! neither the queues nor delays the events of others by more than that.
//!
//! They have their own lock. Events are pushed under the node's lock, so that their order is that
//! of the machine; a thread claims and releases them without the node's lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fulmar_lnet::{Event, ServiceId};

use crate::memory::Memory;
use crate::service::Handler;

/// An event for a service.
#[derive(Debug)]
pub struct Delivery {
    /// The event of the core.
    pub event: Event,
    /// The received bytes, if the descriptor is over [`Room`](crate::Source::Room).
    pub bytes: Vec<u8>,
    /// The memory of an unlinked descriptor; freed when the event is handled, unless before.
    memory: Option<Memory>,
}

impl Delivery {
    pub(crate) fn new(event: Event, bytes: Vec<u8>, memory: Option<Memory>) -> Self {
        Self { event, bytes, memory }
    }

    /// Gives up the memory of an unlinked descriptor.
    pub(crate) fn release_memory(&mut self) {
        self.memory = None;
    }
}

/// The events of one service, for a thread that handles them.
pub(crate) struct Claim {
    pub(crate) service: ServiceId,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) events: Vec<Delivery>,
}

/// The remains of a closed service, to be dropped without a lock.
#[must_use]
pub(crate) struct ServiceRemains {
    handler: Arc<dyn Handler>,
    /// Events that no thread has claimed.
    pub(crate) events: Vec<Delivery>,
}

impl ServiceRemains {
    /// Notifies the handler.
    pub(crate) fn finish(self) {
        drop(self.events);
        self.handler.closed();
    }
}

/// The queues of all services.
#[derive(Default)]
pub(crate) struct Queues {
    services: BTreeMap<ServiceId, Slot>,
    /// Services with events that no thread handles, in the order in which they became ready.
    ready: VecDeque<ServiceId>,
    /// How many services are being served.
    busy: usize,
    /// How many events no thread has claimed.
    waiting: usize,
}

struct Slot {
    handler: Arc<dyn Handler>,
    events: VecDeque<Delivery>,
    /// An empty list with the capacity of an earlier one.
    spare: Vec<Delivery>,
    busy: bool,
    /// Removed when the thread that serves it returns.
    closed: bool,
}

impl Queues {
    pub(crate) fn open(&mut self, service: ServiceId, handler: Arc<dyn Handler>) {
        let (events, spare) = (VecDeque::new(), Vec::new());
        let slot = Slot { handler, events, spare, busy: false, closed: false };
        let before = self.services.insert(service, slot);
        assert!(before.is_none(), "{service:?} is opened once");
    }

    /// Ends a service: no thread gets events of it any longer. `None` if it was
    /// closed before.
    pub(crate) fn close(&mut self, service: ServiceId) -> Option<ServiceRemains> {
        self.ready.retain(|ready| *ready != service);
        let slot = self.services.get_mut(&service).filter(|slot| !slot.closed)?;
        slot.closed = true;
        let closed = ServiceRemains {
            handler: slot.handler.clone(),
            events: std::mem::take(&mut slot.events).into(),
        };
        self.waiting -= closed.events.len();
        if !slot.busy {
            self.services.remove(&service);
        }
        Some(closed)
    }

    /// Appends an event; returns it if the service is closed.
    pub(crate) fn push(&mut self, service: ServiceId, delivery: Delivery) -> Option<Delivery> {
        let open = self.services.get_mut(&service).filter(|slot| !slot.closed);
        let Some(slot) = open else { return Some(delivery) };
        if slot.events.is_empty() && !slot.busy {
            self.ready.push_back(service);
        }
        slot.events.push_back(delivery);
        self.waiting += 1;
        None
    }

    /// Gives the next events of a service that is ready to a thread, which calls
    /// [`Queues::release`] when they are handled.
    pub(crate) fn claim(&mut self) -> Option<Claim> {
        let service = self.ready.pop_front()?;
        let slot = self.services.get_mut(&service).expect("a service with events is known");
        slot.busy = true;
        self.busy += 1;
        let mut events = std::mem::take(&mut slot.spare);
        let count = slot.events.len().min(EVENTS_MAX);
        events.extend(slot.events.drain(..count));
        self.waiting -= count;
        Some(Claim { service, handler: slot.handler.clone(), events })
    }

    /// Receives a service back whose events are handled, and the emptied list of them.
    pub(crate) fn release(&mut self, service: ServiceId, events: Vec<Delivery>) {
        debug_assert!(events.is_empty(), "all events are handled");
        self.busy -= 1;
        let slot = self.services.get_mut(&service).expect("a busy service is known");
        slot.busy = false;
        if slot.closed {
            self.services.remove(&service);
            return;
        }
        slot.spare = events;
        if slot.events.is_empty() {
            slot.events.shrink_to(IDLE_CAPACITY);
        } else {
            self.ready.push_back(service);
        }
    }

    /// Returns whether a service waits for a thread.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether so many events wait that others should not be added.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= WAITING_MAX
    }

    /// Returns how many services are being served.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    /// Ends every service.
    pub(crate) fn clear(&mut self) -> Vec<ServiceRemains> {
        let services: Vec<ServiceId> = self.services.keys().copied().collect();
        services.into_iter().filter_map(|service| self.close(service)).collect()
    }
}

/// How many events a thread handles in a row: an I/O thread has connections to serve.
const EVENTS_MAX: usize = 64;
/// As many events are handled within a millisecond or two. Who sends one waits for these; what comes
/// while they wait stays in the sockets, from which connections are served in turn.
const WAITING_MAX: usize = 256;
/// The capacity of an empty list; the memory of longer bursts is freed.
const IDLE_CAPACITY: usize = 256;

#[cfg(test)]
mod tests {
    use fulmar_lnet::MdId;

    use super::*;
    use crate::service::Service;

    const A: ServiceId = ServiceId(1);
    const B: ServiceId = ServiceId(2);

    fn delivery(user: u64) -> Delivery {
        Delivery::new(Event::unlinked(MdId(user), user), Vec::new(), None)
    }

    fn queues() -> Queues {
        let mut queues = Queues::default();
        for service in [A, B] {
            queues.open(service, Arc::new(|_: &Service, _: &mut Vec<Delivery>| {}));
        }
        queues
    }

    fn users(claim: &Claim) -> Vec<u64> {
        claim.events.iter().map(|delivery| delivery.event.user).collect()
    }

    #[test]
    fn one_thread_at_a_time_handles_a_service_and_others_other_services() {
        let mut queues = queues();
        assert!(queues.push(A, delivery(1)).is_none() && queues.push(B, delivery(2)).is_none());
        let first = queues.claim().unwrap();
        assert_eq!((first.service, users(&first)), (A, vec![1]));
        queues.push(A, delivery(3));
        queues.push(A, delivery(4));
        assert_eq!(queues.claim().unwrap().service, B);
        assert!(queues.claim().is_none() && queues.busy() == 2);
        queues.release(A, Vec::new());
        let again = queues.claim().unwrap();
        assert_eq!((again.service, users(&again)), (A, vec![3, 4]));
    }

    #[test]
    fn a_thread_gets_a_few_of_many_events_in_order() {
        let mut queues = queues();
        let count = EVENTS_MAX as u64 + 5;
        for user in 0..count {
            queues.push(A, delivery(user));
        }
        let first = queues.claim().unwrap();
        assert_eq!(users(&first), (0..EVENTS_MAX as u64).collect::<Vec<_>>());
        queues.push(B, delivery(1));
        queues.release(A, Vec::new());
        assert_eq!(queues.claim().unwrap().service, B, "services take turns");
        assert_eq!(users(&queues.claim().unwrap()), (EVENTS_MAX as u64..count).collect::<Vec<_>>());
    }

    #[test]
    fn queues_are_full_while_many_events_wait() {
        let mut queues = queues();
        for user in 0..WAITING_MAX as u64 {
            assert!(!queues.is_full());
            queues.push(if user % 2 == 0 { A } else { B }, delivery(user));
        }
        assert!(queues.is_full());
        queues.claim().unwrap();
        assert!(!queues.is_full());
        for user in 0..WAITING_MAX as u64 {
            queues.push(A, delivery(user));
        }
        assert!(queues.is_full());
        drop(queues.close(A));
        drop(queues.close(B));
        assert_eq!(queues.waiting, 0);
    }

    #[test]
    fn a_closed_service_gets_no_more_events() {
        let mut queues = queues();
        queues.push(A, delivery(1));
        assert_eq!(queues.close(A).unwrap().events.len(), 1);
        assert!(queues.claim().is_none() && !queues.services.contains_key(&A));
        assert!(queues.push(A, delivery(2)).is_some(), "it is given back");
        queues.push(B, delivery(3));
        queues.claim().unwrap();
        assert!(queues.close(B).unwrap().events.is_empty());
        assert!(queues.close(B).is_none());
        assert!(queues.push(B, delivery(4)).is_some());
        queues.release(B, Vec::new());
        assert!(queues.services.is_empty() && queues.busy() == 0);
    }

    #[test]
    fn clearing_leaves_only_what_is_being_served() {
        let mut queues = queues();
        queues.push(A, delivery(1));
        queues.push(B, delivery(2));
        queues.claim().unwrap();
        drop(queues.clear());
        assert!(!queues.is_ready() && queues.services.contains_key(&A));
        queues.release(A, Vec::new());
        assert!(queues.services.is_empty() && queues.busy() == 0);
    }
}
