//! Attributes of objects: read by the host, raised by glimpses. Spec: ptlrpc-ldlm-mgs §27.2.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{OstLvb, ResourceId};

use super::api::Output;
use super::namespace::Namespace;
use super::resource::{LvbState, LvbWaiter};

impl Namespace {
    /// The host has read the attributes of an object, as [`Output::ReadLvb`] requests.
    pub fn handle_lvb(&mut self, now: Time, id: ResourceId, result: Result<OstLvb, Errno>) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let resource = &mut self.resources[place];
        let Some(lvb) = &mut resource.lvb else { return };
        let result = match (lvb.state, lvb.value) {
            (LvbState::Stale | LvbState::Fresh, _) => return,
            (LvbState::ReadingStale, _) => {
                lvb.state = LvbState::Reading;
                return self.outputs.push_back(Output::ReadLvb { resource: id });
            }
            (LvbState::ReadingKnown, Some(value)) => Ok(value),
            (LvbState::Reading | LvbState::ReadingKnown, _) => result,
        };
        match result {
            Ok(value) => (lvb.value, lvb.state) = (Some(value), LvbState::Fresh),
            // What was known of an object that cannot be read is all that holders get.
            Err(_) => lvb.state = LvbState::Stale,
        }
        let pending = resource.more.as_mut().map(|more| std::mem::take(&mut more.pending));
        for one in pending.unwrap_or_default() {
            self.pending -= 1;
            match (one, result) {
                (LvbWaiter::Glimpsed(request, export), _) => {
                    self.end_glimpse(place, request, export)
                }
                (LvbWaiter::Enqueue(enqueue), Ok(_)) => self.decide_postponed(now, place, &enqueue),
                (LvbWaiter::Enqueue(enqueue), Err(errno)) => self.refuse(enqueue.request, errno),
            }
        }
        self.reprocess(now, place, result.is_err());
        self.drop_unused(place);
        self.settle(now);
    }

    /// The host has changed an object, and knows its attributes.
    pub fn set_lvb(&mut self, id: ResourceId, value: OstLvb) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let Some(lvb) = &mut self.resources[place].lvb else { return };
        lvb.value = Some(value);
        lvb.state = match lvb.state {
            LvbState::Stale | LvbState::Fresh => LvbState::Fresh,
            LvbState::Reading | LvbState::ReadingStale | LvbState::ReadingKnown => {
                LvbState::ReadingKnown
            }
        };
    }

    pub(super) fn is_lvb_fresh(&self, place: u32) -> bool {
        self.resources[place].lvb_state() == LvbState::Fresh
    }

    /// Keeps something until the attributes are read.
    pub(super) fn postpone(&mut self, place: u32, pending: LvbWaiter) -> Result<(), Errno> {
        if self.pending >= self.config.limits.pending {
            return Err(Errno::EINPROGRESS);
        }
        self.pending += 1;
        self.resources[place].more().pending.push(pending);
        self.read_lvb(place);
        Ok(())
    }

    /// Requests the attributes of a resource, unless that was done.
    pub(super) fn read_lvb(&mut self, place: u32) {
        let resource = &mut self.resources[place];
        let lvb = resource.lvb.get_or_insert_default();
        if lvb.state == LvbState::Stale {
            lvb.state = LvbState::Reading;
            self.outputs.push_back(Output::ReadLvb { resource: resource.id });
        }
    }

    /// Raises the attributes of an object to those that a holder reports.
    pub(super) fn raise_lvb(&mut self, place: u32, reported: &OstLvb) {
        let Some(lvb) = &mut self.resources[place].lvb else { return };
        let Some(lvb) = &mut lvb.value else { return };
        lvb.size = lvb.size.max(reported.size);
        lvb.mtime = lvb.mtime.max(reported.mtime);
        lvb.atime = lvb.atime.max(reported.atime);
        lvb.ctime = lvb.ctime.max(reported.ctime);
        lvb.blocks = lvb.blocks.max(reported.blocks);
    }
}
