//! The replies that a client may not have received: the last one of each slot.
//! Spec: ptlrpc-ldlm-mgs §6.6, §6.7.

use std::sync::Arc;

/// The last modifying request of each slot of a client, with its reply.
///
/// Slots are the tags of requests; slot 0 is that of clients with one modifying request at a time. A
/// slot is free again when the client has the reply.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// In no order: there are few.
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    tag: u16,
    xid: u64,
    /// `None` while the request is executed.
    reply: Option<Arc<[u8]>>,
    /// Whether the reply is of an earlier start of the target: a replay is executed nevertheless.
    is_restored: bool,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlotCheck {
    /// It is new.
    New,
    /// It was executed, and this is its reply.
    Answered(Arc<[u8]>),
    /// Its slot was used by a later request, so its client has the reply.
    Stale,
    /// There are more slots than a client may use.
    TooMany,
}

impl Replies {
    /// The most slots of a client. Kernel servers grant 8, and clients use one more for closes.
    pub(super) const SLOTS_MAX: usize = 256;

    /// Handles a request before it is executed. Only requests with a tag claim their slot.
    /// `in_order`: the client has promised that the XIDs of a slot increase.
    /// `is_replay`: it was executed before the target restarted. Replays may be older than what their
    /// slot has, and do not take it then.
    pub(super) fn begin(
        &mut self,
        tag: u16,
        xid: u64,
        in_order: bool,
        is_replay: bool,
    ) -> SlotCheck {
        let mut saved = self.slots.iter().filter(|slot| slot.xid == xid);
        let saved = saved.find(|slot| !is_replay || !slot.is_restored);
        if let Some(reply) = saved.and_then(|slot| slot.reply.clone()) {
            return SlotCheck::Answered(reply);
        }
        if tag == 0 {
            return SlotCheck::New;
        }
        let count = self.slots.len();
        match self.slots.iter_mut().find(|slot| slot.tag == tag) {
            Some(slot) if is_replay && xid <= slot.xid => SlotCheck::New,
            Some(slot) if in_order && xid < slot.xid => SlotCheck::Stale,
            Some(slot) => {
                *slot = Slot { tag, xid, reply: None, is_restored: false };
                SlotCheck::New
            }
            None if count >= Self::SLOTS_MAX => SlotCheck::TooMany,
            None => {
                self.slots.push(Slot { tag, xid, reply: None, is_restored: false });
                SlotCheck::New
            }
        }
    }

    /// Returns the saved reply to a request.
    #[cfg(test)]
    fn find(&self, xid: u64) -> Option<Arc<[u8]>> {
        self.slots.iter().find(|slot| slot.xid == xid)?.reply.clone()
    }

    /// Saves a reply, which replaces an earlier one of the slot. A slot that another request has
    /// claimed since is not changed.
    pub(super) fn save(&mut self, tag: u16, xid: u64, is_replay: bool, reply: Arc<[u8]>) {
        let saved = Slot { tag, xid, reply: Some(reply), is_restored: false };
        match self.slots.iter_mut().find(|slot| slot.tag == tag) {
            Some(slot) if is_replay && xid < slot.xid => {}
            Some(slot) if tag == 0 || slot.xid == xid => *slot = saved,
            None if tag == 0 => self.slots.push(saved),
            _ => {}
        }
    }

    /// Saves a reply of an earlier start. Of each slot the latest counts.
    pub(super) fn restore(&mut self, tag: u16, xid: u64, reply: Arc<[u8]>) {
        let restored = Slot { tag, xid, reply: Some(reply), is_restored: true };
        let has_room = self.slots.len() < Self::SLOTS_MAX;
        match self.slots.iter_mut().find(|slot| slot.tag == tag) {
            Some(slot) if slot.xid > xid => {}
            Some(slot) => *slot = restored,
            None if has_room => self.slots.push(restored),
            None => {}
        }
    }

    /// Frees the slots of requests up to `last_xid`: the client has their replies.
    pub(super) fn release(&mut self, last_xid: u64) {
        self.slots.retain(|slot| slot.xid > last_xid);
        if self.slots.is_empty() {
            // A client at rest needs no memory.
            self.slots = Vec::new();
        }
    }

    /// Returns how many replies are saved, and their length in bytes.
    pub(super) fn saved(&self) -> (usize, usize) {
        let replies = self.slots.iter().filter_map(|slot| slot.reply.as_ref());
        replies.fold((0, 0), |(count, len), reply| (count + 1, len + reply.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(n: u8) -> Arc<[u8]> {
        vec![n; 4].into()
    }

    #[test]
    fn a_reply_is_kept_until_its_slot_is_used_again() {
        let mut replies = Replies::default();
        assert_eq!(replies.begin(1, 128, true, false), SlotCheck::New);
        assert_eq!(replies.begin(2, 256, true, false), SlotCheck::New);
        replies.save(1, 128, false, bytes(1));
        assert_eq!(replies.begin(1, 128, true, false), SlotCheck::Answered(bytes(1)));
        assert_eq!(replies.begin(1, 384, true, false), SlotCheck::New);
        assert_eq!(replies.begin(1, 128, true, false), SlotCheck::Stale);
        assert_eq!(replies.saved(), (0, 0));
        // Older clients have not promised that XIDs increase.
        assert_eq!(replies.begin(1, 128, false, false), SlotCheck::New);
    }

    #[test]
    fn a_client_without_slots_has_one_reply() {
        let mut replies = Replies::default();
        assert_eq!(replies.begin(0, 128, true, false), SlotCheck::New);
        replies.save(0, 128, false, bytes(1));
        // A request that changes nothing claims no slot.
        assert_eq!(replies.begin(0, 256, true, false), SlotCheck::New);
        assert_eq!(replies.begin(0, 128, true, false), SlotCheck::Answered(bytes(1)));
        replies.save(0, 384, false, bytes(2));
        assert_eq!((replies.find(128), replies.find(384)), (None, Some(bytes(2))));
    }

    #[test]
    fn a_reply_from_disk_answers_no_replay_and_stays_after_older_ones() {
        let mut replies = Replies::default();
        replies.restore(0, 512, bytes(1));
        replies.restore(0, 128, bytes(2));
        replies.restore(3, 640, bytes(3));
        assert_eq!(replies.begin(0, 512, true, true), SlotCheck::New);
        assert_eq!(replies.begin(0, 512, true, false), SlotCheck::Answered(bytes(1)));
        for tag in [0, 3] {
            assert_eq!(replies.begin(tag, 384, true, true), SlotCheck::New);
            replies.save(tag, 384, true, bytes(4));
        }
        assert_eq!((replies.find(512), replies.find(640)), (Some(bytes(1)), Some(bytes(3))));
        assert_eq!(replies.find(384), None);
        // A later one takes the slot, and is known when it comes again.
        assert_eq!(replies.begin(3, 768, true, true), SlotCheck::New);
        replies.save(3, 768, true, bytes(5));
        assert_eq!(replies.begin(3, 768, true, true), SlotCheck::Answered(bytes(5)));
    }

    #[test]
    fn a_client_that_has_its_replies_needs_no_memory() {
        let mut replies = Replies::default();
        for tag in 1..=8 {
            replies.begin(tag, u64::from(tag) * 128, true, false);
            replies.save(tag, u64::from(tag) * 128, false, bytes(0));
        }
        replies.release(3 * 128);
        assert_eq!(replies.saved(), (5, 20));
        replies.release(8 * 128);
        assert_eq!((replies.saved(), replies.slots.capacity()), ((0, 0), 0));
    }

    #[test]
    fn slots_are_limited_and_a_late_reply_does_not_replace_a_newer_request() {
        let mut replies = Replies::default();
        for tag in 1..=Replies::SLOTS_MAX as u16 {
            assert_eq!(replies.begin(tag, 1000, true, false), SlotCheck::New);
        }
        assert_eq!(replies.begin(9999, 1000, true, false), SlotCheck::TooMany);
        assert_eq!(replies.begin(5, 2000, true, false), SlotCheck::New);
        replies.save(5, 1000, false, bytes(1));
        assert_eq!(replies.find(1000), None);
        replies.save(5, 2000, false, bytes(2));
        assert_eq!(replies.find(2000), Some(bytes(2)));
    }
}
