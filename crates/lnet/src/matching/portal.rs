//! Portals: which match entry takes a message, and the messages that wait for one.
//! Spec: lnet-behaviour §3.1, §3.2, §3.4, §3.5.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_base::{Errno, MessageId, Table};
use fulmar_lnet_wire::{Nid, PORTALS, Pid, RESERVED_PORTAL};

use crate::api::{MdId, MdOptions, Me, MeId, MePosition, ServiceId};

use super::descriptor::{Descriptor, Mds};

/// What an incoming PUT or GET asks a portal for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// [`MdOptions::OP_PUT`] or [`MdOptions::OP_GET`].
    pub(crate) operation: MdOptions,
    /// The primary NID of the sender.
    pub(crate) initiator: Nid,
    pub(crate) pid: Pid,
    pub(crate) portal: u32,
    pub(crate) match_bits: u64,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// The memory that an operation was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) me: MeId,
    pub(crate) md: MdId,
    pub(crate) initiator: Nid,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    Found(Placement),
    /// The right entry cannot take so much: the search is over.
    TooLong,
    Nothing,
}

/// The first match entry decides for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Bits, NID and PID are exact in every entry.
    Unique,
    Wildcard,
}

#[derive(Debug, Default)]
struct Portal {
    mode: Option<Mode>,
    lazy: bool,
    /// Entries that ignore bits, searched before the others, in order.
    ignoring: BTreeMap<i64, MeId>,
    /// The others by their bits, then in order.
    exact: BTreeMap<(u64, i64), MeId>,
    first: i64,
    last: i64,
    /// PUTs that wait for an entry. Message ids grow, so the order is that of arrival.
    delayed: BTreeSet<MessageId>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) service: ServiceId,
    pub(super) me: Me,
    pub(super) portal: u32,
    pub(super) md: Option<MdId>,
    order: i64,
}

/// All portals and match entries.
#[derive(Debug)]
pub(super) struct Portals {
    portals: Vec<Portal>,
    entries: Table<Entry>,
}

impl Default for Portals {
    fn default() -> Self {
        let portals = (0..PORTALS).map(|_| Portal::default()).collect();
        Self { portals, entries: Table::default() }
    }
}

impl Portals {
    pub(super) fn attach(&mut self, service: ServiceId, index: u32, me: Me) -> Result<MeId, Errno> {
        let portal = self.usable(index)?;
        let specific =
            me.ignore_bits == 0 && !me.match_id.nid.is_any() && me.match_id.pid != Pid::ANY;
        let mode = if specific { Mode::Unique } else { Mode::Wildcard };
        if *portal.mode.get_or_insert(mode) != mode {
            return Err(Errno::EPERM);
        }
        let order = match me.position {
            MePosition::Before => {
                portal.first -= 1;
                portal.first
            }
            MePosition::After => {
                portal.last += 1;
                portal.last
            }
        };
        let id = MeId(self.entries.insert(Entry { service, me, portal: index, md: None, order }));
        let portal = &mut self.portals[index as usize];
        if me.ignore_bits != 0 {
            portal.ignoring.insert(order, id);
        } else {
            portal.exact.insert((me.match_bits, order), id);
        }
        Ok(id)
    }

    pub(super) fn entry(&self, id: MeId) -> Option<&Entry> {
        self.entries.get(id.0)
    }

    pub(super) fn entry_mut(&mut self, id: MeId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0)
    }

    /// Returns the match entries of a service.
    pub(super) fn of_service(&self, service: ServiceId) -> Vec<MeId> {
        let own = self.entries.iter().filter(|(_, entry)| entry.service == service);
        own.map(|(id, _)| MeId(id)).collect()
    }

    /// Removes a match entry.
    pub(super) fn remove(&mut self, id: MeId) {
        let Some(entry) = self.entries.remove(id.0) else { return };
        let portal = &mut self.portals[entry.portal as usize];
        if entry.me.ignore_bits != 0 {
            portal.ignoring.remove(&entry.order);
        } else {
            portal.exact.remove(&(entry.me.match_bits, entry.order));
        }
    }

    /// Removes the descriptor from its entry, and removes the entry if it was to go with it.
    pub(super) fn detach(&mut self, id: MeId) {
        let Some(entry) = self.entries.get_mut(id.0) else { return };
        entry.md = None;
        if entry.me.unlink {
            self.remove(id);
        }
    }

    /// Searches the portal of `query` for an entry that takes it.
    ///
    /// `same_peer` tells whether two NIDs are of one node.
    pub(super) fn search(
        &self,
        mds: &Mds,
        query: &Query,
        same_peer: impl Fn(Nid, Nid) -> bool,
    ) -> SearchResult {
        let Some(portal) = self.portals.get(query.portal as usize) else {
            return SearchResult::Nothing;
        };
        let bits = query.match_bits;
        let exact = portal.exact.range((bits, i64::MIN)..=(bits, i64::MAX));
        let candidates = portal.ignoring.values().chain(exact.map(|(_, id)| id));
        for id in candidates {
            match self.try_entry(*id, mds, query, &same_peer) {
                SearchResult::Nothing => {}
                matched => return matched,
            }
        }
        SearchResult::Nothing
    }

    /// Tells whether one entry takes `query`.
    pub(super) fn try_entry(
        &self,
        id: MeId,
        mds: &Mds,
        query: &Query,
        same_peer: &impl Fn(Nid, Nid) -> bool,
    ) -> SearchResult {
        let Some(Entry { me, md: Some(md), .. }) = self.entries.get(id.0) else {
            return SearchResult::Nothing;
        };
        let Some(found) = mds.find(*md) else { return SearchResult::Nothing };
        let bits = (me.match_bits ^ query.match_bits) & !me.ignore_bits;
        let pid = me.match_id.pid;
        if found.is_exhausted()
            || !found.md.options.has(query.operation)
            || bits != 0
            || (pid != Pid::ANY && pid != query.pid)
        {
            return SearchResult::Nothing;
        }
        let nid = me.match_id.nid;
        if !nid.is_any() && nid != query.initiator && !same_peer(nid, query.initiator) {
            return SearchResult::Nothing;
        }
        match room(found, query) {
            Some((offset, len)) => {
                let initiator = query.initiator;
                SearchResult::Found(Placement { me: id, md: *md, initiator, offset, len })
            }
            None => SearchResult::TooLong,
        }
    }

    /// Returns whether a PUT that nothing takes waits at the portal.
    pub(super) fn is_lazy(&self, index: u32) -> bool {
        self.portals.get(index as usize).is_some_and(|portal| portal.lazy)
    }

    pub(super) fn set_lazy(&mut self, index: u32, lazy: bool) -> Result<(), Errno> {
        self.usable(index)?.lazy = lazy;
        Ok(())
    }

    pub(super) fn delay(&mut self, index: u32, message: MessageId) {
        self.portals[index as usize].delayed.insert(message);
    }

    pub(super) fn undelay(&mut self, index: u32, message: MessageId) {
        let was = self.portals[index as usize].delayed.remove(&message);
        assert!(was, "{message:?} waits at portal {index}");
    }

    /// Returns the waiting messages of a portal in order of arrival.
    pub(super) fn delayed(&self, index: u32) -> Vec<MessageId> {
        self.portals[index as usize].delayed.iter().copied().collect()
    }

    pub(super) fn all_delayed(&self) -> impl Iterator<Item = MessageId> {
        self.portals.iter().flat_map(|portal| portal.delayed.iter().copied())
    }

    /// Returns a portal that applications may use: portal 0 is the machine's own.
    fn usable(&mut self, index: u32) -> Result<&mut Portal, Errno> {
        if index == RESERVED_PORTAL {
            return Err(Errno::EPERM);
        }
        self.portals.get_mut(index as usize).ok_or(Errno::EINVAL)
    }
}

/// Returns where in the descriptor the operation goes and how much of it fits, or `None` if it
/// is too long and may not be shortened.
fn room(found: &Descriptor, query: &Query) -> Option<(u64, u32)> {
    let options = found.md.options;
    let offset =
        if options.has(MdOptions::MANAGE_REMOTE) { query.offset.into() } else { found.offset };
    // The offset is the peer's: beyond the end there is no room, whatever the options say.
    let left = found.md.len.saturating_sub(offset);
    let room =
        if options.has(MdOptions::MAX_SIZE) { left.min(found.md.max_size.into()) } else { left };
    match u32::try_from(room) {
        Ok(room) if query.len > room => {
            options.has(MdOptions::TRUNCATE).then_some((offset.min(found.md.len), room))
        }
        _ => Some((offset.min(found.md.len), query.len)),
    }
}
