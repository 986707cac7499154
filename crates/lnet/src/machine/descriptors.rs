//! Match entries and memory descriptors as applications attach and unlink them, and the PUTs
//! that waited for them. Spec: lnet-behaviour §3.1 to §3.5, §4.6.

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnet_wire::{Body, Header, Nid};

use super::Lnet;
use super::message::{Arrival, Stage};
use crate::api::{Md, MdId, Me, MeId, Memory, ServiceId};
use crate::matching::SearchResult;

impl Lnet {
    /// Attaches a match entry to a portal. The first one decides for ever whether the portal's
    /// entries are exact in bits, NID and PID, or not.
    ///
    /// # Errors
    /// EINVAL if there is no such portal; EPERM for portal 0, and if the entry is exact and the
    /// portal's are not, or the reverse; ESHUTDOWN if the service is closed.
    pub fn me_attach(&mut self, service: ServiceId, portal: u32, me: Me) -> Result<MeId, Errno> {
        let match_id = self.addressed(service, me.match_id)?;
        self.matching.attach_entry(service, portal, Me { match_id, ..me })
    }

    /// Attaches a memory descriptor to a match entry. PUTs that wait at a lazy portal may be
    /// received at once.
    ///
    /// # Errors
    /// ENOENT if the service has no such entry, EBUSY if it has a descriptor; EINVAL if the
    /// descriptor accepts nothing, in which case the entry goes too, or is inconsistent.
    pub fn md_attach(
        &mut self,
        now: Time,
        service: ServiceId,
        me: MeId,
        md: Md,
        memory: Memory,
    ) -> Result<MdId, Errno> {
        let attached = self.attach(now, service, me, md, memory);
        self.settle(now);
        attached
    }

    pub(super) fn attach(
        &mut self,
        now: Time,
        service: ServiceId,
        me: MeId,
        md: Md,
        memory: Memory,
    ) -> Result<MdId, Errno> {
        let (id, portal) = self.matching.attach(service, me, md, memory)?;
        self.serve_delayed(now, portal, me);
        Ok(id)
    }

    /// Makes a memory descriptor that is the source of PUTs or the sink of GETs.
    ///
    /// # Errors
    /// EINVAL if it accepts operations of others, or is longer than 1 MiB; ESHUTDOWN if the service
    /// is closed.
    pub fn md_bind(&mut self, service: ServiceId, md: Md, memory: Memory) -> Result<MdId, Errno> {
        self.matching.bind(service, md, memory)
    }

    /// Unlinks a memory descriptor. If nothing is under way the UNLINK event comes at once;
    /// otherwise the last completion says `unlinked`.
    ///
    /// # Errors
    /// ENOENT if the service has no such descriptor, or it is unlinked already.
    pub fn md_unlink(&mut self, now: Time, service: ServiceId, md: MdId) -> Result<(), Errno> {
        self.matching.require(service, md)?;
        self.unlink(md);
        self.settle(now);
        Ok(())
    }

    /// Removes a match entry, and unlinks its descriptor.
    ///
    /// # Errors
    /// ENOENT if the service has no such entry.
    pub fn me_unlink(&mut self, now: Time, service: ServiceId, me: MeId) -> Result<(), Errno> {
        if let Some(md) = self.matching.md_of_entry(service, me)? {
            self.unlink(md);
        }
        self.matching.remove_entry(me);
        self.settle(now);
        Ok(())
    }

    /// Lets PUTs that nothing matches wait at a portal, or drops those that wait.
    ///
    /// # Errors
    /// EINVAL if there is no such portal, EPERM for portal 0.
    pub fn set_lazy(&mut self, now: Time, portal: u32, lazy: bool) -> Result<(), Errno> {
        self.matching.set_lazy(portal, lazy)?;
        if !lazy {
            for message in self.matching.delayed(portal) {
                self.drop_delayed(now, message, "its portal is no longer lazy");
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Drops the waiting messages that came through an interface.
    pub(super) fn drop_delayed_of(&mut self, now: Time, ni: Nid) {
        for message in self.matching.all_delayed() {
            if self.messages.live(message).arrival().is_some_and(|arrival| arrival.ni == ni) {
                self.drop_delayed(now, message, "our interface is gone");
            }
        }
    }

    /// Forgets a waiting message whose connection has died.
    pub(super) fn forget_delayed(&mut self, message: MessageId) -> (Arrival, Header) {
        let waiting = self.messages.remove(message);
        let Stage::Delayed(arrival) = waiting.stage else {
            unreachable!("{message:?} does not wait at a portal");
        };
        self.undelay(&waiting.header, message);
        self.received(arrival);
        self.counters.message_died();
        (arrival, waiting.header)
    }

    fn drop_delayed(&mut self, now: Time, message: MessageId, reason: &'static str) {
        let (arrival, header) = self.forget_delayed(message);
        self.drop_message(now, arrival, &header, reason);
    }

    fn undelay(&mut self, header: &Header, message: MessageId) {
        if let Body::Put { portal, .. } = header.body {
            self.matching.undelay(portal, message);
        }
    }

    /// Gives a fresh descriptor to the messages that wait for one, in order of arrival.
    fn serve_delayed(&mut self, now: Time, portal: u32, me: MeId) {
        for id in self.matching.delayed(portal) {
            let message = self.messages.live(id);
            let (header, stage) = (message.header, message.stage);
            let (Some(query), Stage::Delayed(arrival)) = (self.query(&header), stage) else {
                unreachable!("only PUTs wait at a portal");
            };
            let same_peer = |a, b| self.peers.same_peer(a, b);
            match self.matching.offer(me, &query, same_peer) {
                SearchResult::Found(found) => {
                    self.undelay(&header, id);
                    self.take_put(now, id, arrival, found);
                }
                SearchResult::TooLong => {
                    self.drop_delayed(now, id, "it is longer than the memory that it matches");
                }
                SearchResult::Nothing => {}
            }
        }
    }
}
