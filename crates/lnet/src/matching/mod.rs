//! Matching: services, portals, match entries and memory descriptors, and the responses that are
//! awaited. Spec: lnet-behaviour §3, §4, §11.7.
//!
//! ```text
//! open, close                                  services
//! attach_entry, attach, bind, add_own, unlink  entries and descriptors
//! begin_request -> what is sent                a PUT or a GET of ours begins
//! incoming      -> Found: memory               a PUT or a GET of others begins
//! find_response -> Found: memory               the ACK or the REPLY to one of ours begins
//! end           -> Ended: event                an operation has ended
//! pop_late      -> Late                        a response is late
//! ```
//!
//! An operation that has begun keeps its descriptor until it has ended.

mod descriptor;
mod event;
mod operations;
mod portal;
mod responses;
#[cfg(test)]
mod tests;

use fulmar_base::{Errno, MessageId, Table, Time};
use fulmar_lnet_wire::{Handle, Nid};

use crate::api::{Event, Md, MdId, MdOptions, Me, MeId, Memory, ServiceConfig, ServiceId};

use descriptor::{Descriptor, Mds};
pub(crate) use descriptor::{Owner, Request};
pub(crate) use event::Operation;
pub(crate) use operations::{Late, StartedRequest, Tracking};
use portal::Portals;
pub(crate) use portal::{Placement, Query, SearchResult};

/// What is matched against incoming messages, and what is under way with it.
#[derive(Debug)]
pub(crate) struct Matching {
    /// The part of our handles that differs from one start of the node to the next.
    cookie: u64,
    services: Table<ServiceConfig>,
    portals: Portals,
    mds: Mds,
}

/// The event of an operation that has ended, or of a descriptor that was unlinked.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) owner: Owner,
    pub(crate) event: Event,
}

impl Matching {
    pub(crate) fn new(cookie: u64) -> Self {
        let (services, portals, mds) = Default::default();
        Self { cookie, services, portals, mds }
    }

    pub(crate) fn open(&mut self, config: ServiceConfig) -> ServiceId {
        ServiceId(self.services.insert(config))
    }

    /// Closes a service, removes its match entries and returns its descriptors, which are to be
    /// unlinked.
    pub(crate) fn close(&mut self, service: ServiceId) -> Result<Vec<MdId>, Errno> {
        self.services.remove(service.0).ok_or(Errno::ENOENT)?;
        for me in self.portals.of_service(service) {
            self.portals.remove(me);
        }
        let own = self.mds.iter().filter(|(_, found)| found.owner == Owner::Service(service));
        Ok(own.map(|(id, _)| id).collect())
    }

    /// Returns how a service was opened.
    pub(crate) fn service(&self, service: ServiceId) -> Result<ServiceConfig, Errno> {
        self.services.get(service.0).copied().ok_or(Errno::ESHUTDOWN)
    }

    pub(crate) fn attach_entry(
        &mut self,
        service: ServiceId,
        portal: u32,
        me: Me,
    ) -> Result<MeId, Errno> {
        self.portals.attach(service, portal, me)
    }

    /// Attaches a descriptor to a match entry, and returns the portal of the entry too.
    pub(crate) fn attach(
        &mut self,
        service: ServiceId,
        me: MeId,
        md: Md,
        memory: Memory,
    ) -> Result<(MdId, u32), Errno> {
        let entry = self.portals.entry(me).filter(|entry| entry.service == service);
        let entry = entry.ok_or(Errno::ENOENT)?;
        let portal = entry.portal;
        if entry.md.is_some() {
            return Err(Errno::EBUSY);
        }
        if !md.options.has(MdOptions::OP_PUT) && !md.options.has(MdOptions::OP_GET) {
            self.portals.remove(me);
            return Err(Errno::EINVAL);
        }
        descriptor::check(&md, &memory, true)?;
        let id = self.mds.add(md, Some(me), Owner::Service(service), memory);
        if let Some(entry) = self.portals.entry_mut(me) {
            entry.md = Some(id);
        }
        Ok((id, portal))
    }

    pub(crate) fn remove_entry(&mut self, me: MeId) {
        self.portals.remove(me);
    }

    /// Returns the descriptor of a match entry of a service, if it has one.
    pub(crate) fn md_of_entry(&self, service: ServiceId, me: MeId) -> Result<Option<MdId>, Errno> {
        let entry = self.portals.entry(me).filter(|entry| entry.service == service);
        Ok(entry.ok_or(Errno::ENOENT)?.md)
    }

    /// Makes a descriptor for requests of a service.
    pub(crate) fn bind(
        &mut self,
        service: ServiceId,
        md: Md,
        memory: Memory,
    ) -> Result<MdId, Errno> {
        self.service(service)?;
        descriptor::check(&md, &memory, false)?;
        Ok(self.mds.add(md, None, Owner::Service(service), memory))
    }

    /// Makes a descriptor of the core's own for one request and its response.
    pub(crate) fn add_own(&mut self, owner: Owner, memory: Memory, len: u32) -> MdId {
        self.mds.add_own(owner, memory, len)
    }

    /// Removes a descriptor whose only operation could not begin.
    pub(crate) fn discard(&mut self, md: MdId) {
        self.mds.remove(md);
    }

    /// Unlinks a descriptor. If nothing is under way with it, the event is returned now.
    pub(crate) fn unlink(&mut self, md: MdId) -> Option<Completion> {
        let found = self.mds.get_mut(md).filter(|found| !found.zombie)?;
        found.zombie = true;
        found.aborted = found.refs > 0;
        let (idle, owner) = (found.refs == 0, found.owner);
        let me = found.me.take();
        let event = Event::unlinked(md, found.md.user);
        if let Some(me) = me {
            self.portals.detach(me);
        }
        if idle {
            self.mds.remove(md)
        } else {
            self.mds.forget_response(md)
        }
        idle.then_some(Completion { owner, event })
    }

    /// Requires that a service has this descriptor, and that it is not unlinked.
    pub(crate) fn require(&self, service: ServiceId, md: MdId) -> Result<(), Errno> {
        self.of_service(service, md).map(|_| ())
    }

    /// Requires that a service has a descriptor of the right memory, and returns its length.
    pub(crate) fn bound_len(
        &self,
        service: ServiceId,
        md: MdId,
        is_right: impl FnOnce(&Memory) -> bool,
    ) -> Result<u64, Errno> {
        let found = self.of_service(service, md)?;
        if is_right(&found.memory) { Ok(found.md.len) } else { Err(Errno::ENOENT) }
    }

    fn of_service(&self, service: ServiceId, md: MdId) -> Result<&Descriptor, Errno> {
        let found = self.mds.find(md).filter(|found| found.owner == Owner::Service(service));
        found.ok_or(Errno::ENOENT)
    }

    /// Returns the handle by which another node names a descriptor.
    pub(crate) fn handle(&self, md: MdId) -> Handle {
        Handle { interface: self.cookie, object: md.0 }
    }

    /// Returns whether a descriptor exists and is not unlinked.
    pub(crate) fn is_live(&self, md: MdId) -> bool {
        self.mds.find(md).is_some()
    }

    /// Returns whether a descriptor was unlinked while operations were under way.
    pub(crate) fn is_aborted(&self, md: MdId) -> bool {
        self.mds.get(md).is_some_and(|found| found.aborted)
    }

    /// Returns whether a descriptor is that of a service.
    pub(crate) fn is_of_service(&self, md: MdId) -> bool {
        self.mds.get(md).is_some_and(|found| found.owner.is_service())
    }

    pub(crate) fn set_lazy(&mut self, portal: u32, lazy: bool) -> Result<(), Errno> {
        self.portals.set_lazy(portal, lazy)
    }

    /// Returns whether a PUT that nothing matches waits at a portal.
    pub(crate) fn is_lazy(&self, portal: u32) -> bool {
        self.portals.is_lazy(portal)
    }

    /// Lets a PUT wait at a portal.
    pub(crate) fn delay(&mut self, portal: u32, message: MessageId) {
        self.portals.delay(portal, message);
    }

    /// Ends the waiting of a PUT at a portal.
    pub(crate) fn undelay(&mut self, portal: u32, message: MessageId) {
        self.portals.undelay(portal, message);
    }

    /// Returns the messages that wait at a portal, in order of arrival.
    pub(crate) fn delayed(&self, portal: u32) -> Vec<MessageId> {
        self.portals.delayed(portal)
    }

    /// Returns the messages that wait at any portal.
    pub(crate) fn all_delayed(&self) -> Vec<MessageId> {
        self.portals.all_delayed().collect()
    }

    /// Returns how many descriptors await a response.
    pub(crate) fn awaited(&self) -> usize {
        self.mds.awaited()
    }

    /// Returns when the next response is late.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.mds.next_deadline()
    }

    /// Checks that each descriptor has as many operations under way as there are messages of it.
    pub(crate) fn check(&self, mut count: impl FnMut(MdId) -> u32) -> Result<(), String> {
        for (md, found) in self.mds.iter() {
            let messages = count(md);
            if found.refs != messages {
                return Err(format!("{md:?} has {} operations, {messages} messages", found.refs));
            }
        }
        Ok(())
    }

    /// Searches the portal of `query` for an entry that takes it, and begins the operation.
    ///
    /// `same_peer` tells whether two NIDs are of one node.
    pub(crate) fn incoming(
        &mut self,
        query: &Query,
        same_peer: impl Fn(Nid, Nid) -> bool,
    ) -> SearchResult {
        let matched = self.portals.search(&self.mds, query, same_peer);
        self.begin(matched)
    }

    /// As [`Matching::incoming`], with one entry.
    pub(crate) fn offer(
        &mut self,
        me: MeId,
        query: &Query,
        same_peer: impl Fn(Nid, Nid) -> bool,
    ) -> SearchResult {
        let matched = self.portals.try_entry(me, &self.mds, query, &same_peer);
        self.begin(matched)
    }
}
