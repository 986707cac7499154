//! Requests that are kept for replay. Spec: ptlrpc-ldlm-mgs §14.2, §14.3.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lustre_wire::message::Message;

use super::{Request, RequestId};
use crate::Xid;
use crate::bulk::Bulk;

/// A transaction of a target: its number, and the request that it executed.
pub(super) type Key = (u64, Xid);

/// A request that the target has executed, and may lose.
#[derive(Clone, Debug)]
pub(super) struct ReplayRequest {
    pub(super) id: RequestId,
    /// As it is sent again: its message has the transaction number and the versions.
    pub(super) request: Request,
    /// Whether a file is open as long as it is kept.
    pub(super) is_open: bool,
}

/// What an import keeps: transactions that are not on disk, and opens until their close is.
#[derive(Debug, Default)]
pub(super) struct ReplayList {
    /// Opens whose transaction is on disk.
    opens: BTreeMap<Key, ReplayRequest>,
    uncommitted: BTreeMap<Key, ReplayRequest>,
    keys: BTreeMap<RequestId, Key>,
    /// When opens are dropped: the transaction of the close, and the open.
    closing: BTreeSet<(u64, Key)>,
    /// The last transaction on disk, as far as is known.
    committed: u64,
    /// The length in bytes of the data that are kept with requests.
    data_len: u64,
    /// Requests with data that are not kept any more, since [`ReplayList::take_dropped`].
    dropped: Vec<RequestId>,
}

impl ReplayList {
    /// While so many transactions are not on disk, no request is sent.
    pub(super) const UNCOMMITTED_MAX: usize = 16_384;

    /// Returns the last transaction on disk.
    pub(super) fn committed(&self) -> u64 {
        self.committed
    }

    pub(super) fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.uncommitted.len() >= Self::UNCOMMITTED_MAX
    }

    /// Returns how many requests are kept.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the length in bytes of the data that are kept with requests.
    pub(super) fn data_len(&self) -> u64 {
        self.data_len
    }

    /// Returns whether a request is kept.
    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.keys.contains_key(&id)
    }

    /// Returns whether a request is kept with data.
    pub(super) fn keeps_data(&self, id: RequestId) -> bool {
        let kept = self.keys.get(&id).and_then(|&key| self.get(key));
        kept.is_some_and(|kept| kept.data_len() > 0)
    }

    /// Returns the requests with data that are not kept any more.
    pub(super) fn take_dropped(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.dropped)
    }

    /// Keeps a request, if its transaction is not on disk or it is an open.
    pub(super) fn keep(&mut self, key: Key, kept: ReplayRequest) {
        let is_committed = key.0 <= self.committed;
        if is_committed && !kept.is_open {
            return;
        }
        if let Some(old) = self.uncommitted.remove(&key).or_else(|| self.opens.remove(&key)) {
            self.forget(&old);
        }
        self.keys.insert(kept.id, key);
        self.data_len += kept.data_len();
        let entries = if is_committed { &mut self.opens } else { &mut self.uncommitted };
        entries.insert(key, kept);
    }

    /// Records that a request is not kept any more.
    fn forget(&mut self, kept: &ReplayRequest) {
        self.keys.remove(&kept.id);
        if kept.data_len() > 0 {
            self.data_len -= kept.data_len();
            self.dropped.push(kept.id);
        }
    }

    /// Handles a report of the last transaction on disk, and drops what needs no replay.
    pub(super) fn commit(&mut self, transno: u64) {
        if transno <= self.committed {
            return;
        }
        self.committed = transno;
        while let Some(entry) = self.uncommitted.first_entry().filter(|one| one.key().0 <= transno)
        {
            let (key, kept) = entry.remove_entry();
            if kept.is_open {
                self.opens.insert(key, kept);
            } else {
                self.forget(&kept);
            }
        }
        while let Some(&(close, open)) = self.closing.first().filter(|(close, _)| *close <= transno)
        {
            self.closing.remove(&(close, open));
            self.drop_open(open);
        }
    }

    /// Drops an open as soon as `close` is on disk. It is an ordinary transaction until then.
    pub(super) fn release(&mut self, id: RequestId, close: u64) {
        let Some(&key) = self.keys.get(&id) else { return };
        if close <= self.committed {
            self.drop_open(key)
        } else {
            self.closing.insert((close, key));
        }
    }

    fn drop_open(&mut self, key: Key) {
        if let Some(kept) = self.opens.remove(&key) {
            self.forget(&kept);
        } else if let Some(kept) = self.uncommitted.get_mut(&key) {
            kept.is_open = false;
        }
    }

    /// Returns the message of a request, to change it.
    pub(super) fn message_mut(&mut self, id: RequestId) -> Option<&mut Message<'static>> {
        let key = self.keys.get(&id)?;
        let kept = self.uncommitted.get_mut(key).or(self.opens.get_mut(key))?;
        Some(&mut kept.request.message)
    }

    /// Returns all transactions after `last` in order. Opens on disk are the oldest.
    pub(super) fn after(&self, last: Option<Key>) -> impl Iterator<Item = (Key, &ReplayRequest)> {
        let first = move |key: &Key| last.is_none_or(|last| *key > last);
        let from = last.unwrap_or((0, Xid(0)));
        let all = self.opens.range(from..).chain(self.uncommitted.range(from..));
        all.filter(move |(key, _)| first(key)).map(|(key, kept)| (*key, kept))
    }

    pub(super) fn get(&self, key: Key) -> Option<&ReplayRequest> {
        self.uncommitted.get(&key).or(self.opens.get(&key))
    }

    /// Forgets everything: the target has forgotten this client.
    pub(super) fn clear(&mut self) {
        let Self { opens, uncommitted, mut dropped, .. } = std::mem::take(self);
        let all = opens.into_values().chain(uncommitted.into_values());
        dropped.extend(all.filter(|kept| kept.data_len() > 0).map(|kept| kept.id));
        self.dropped = dropped;
    }
}

impl ReplayRequest {
    /// Returns the length in bytes of its data: without data it is 0.
    fn data_len(&self) -> u64 {
        self.request.bulk.as_ref().map_or(0, Bulk::len)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::BufferId;
    use fulmar_lustre_wire::format;

    use super::*;
    use crate::bulk::Direction;

    fn keep(kept: &mut ReplayList, transno: u64, is_open: bool) {
        let request = Request::new(Message::request(&format::PING), 256);
        let one = ReplayRequest { id: RequestId(transno), request, is_open };
        kept.keep((transno, Xid(transno * 128)), one);
    }

    fn transnos(kept: &ReplayList, last: Option<u64>) -> Vec<u64> {
        let last = last.map(|last| (last, Xid(last * 128)));
        kept.after(last).map(|(key, _)| key.0).collect()
    }

    #[test]
    fn transactions_are_kept_in_order_until_they_are_on_disk() {
        let mut kept = ReplayList::default();
        for transno in [12, 10, 11, 13] {
            keep(&mut kept, transno, false);
        }
        assert_eq!(transnos(&kept, None), [10, 11, 12, 13]);
        assert_eq!(transnos(&kept, Some(11)), [12, 13]);
        kept.commit(12);
        kept.commit(11);
        assert_eq!((transnos(&kept, None), kept.committed()), (vec![13], 12));
        keep(&mut kept, 9, false);
        assert_eq!(kept.len(), 1, "it is on disk already");
        kept.commit(13);
        assert!(!kept.has_uncommitted() && kept.len() == 0);
    }

    #[test]
    fn data_are_kept_as_long_as_their_request() {
        let keep = |kept: &mut ReplayList, transno: u64| {
            let memory = (BufferId(1), 0, 1000 * transno);
            let bulk = Bulk::new(Direction::ToServer, 8, memory, 0);
            let request = Request::new(Message::request(&format::OST_WRITE), 256).with_bulk(bulk);
            let one = ReplayRequest { id: RequestId(transno), request, is_open: false };
            kept.keep((transno, Xid(transno * 128)), one);
        };
        let mut kept = ReplayList::default();
        (1..5).for_each(|transno| keep(&mut kept, transno));
        assert_eq!((kept.data_len(), kept.take_dropped()), (10_000, vec![]));
        kept.commit(2);
        assert_eq!(
            (kept.data_len(), kept.take_dropped()),
            (7000, vec![RequestId(1), RequestId(2)])
        );
        assert!(kept.contains(RequestId(3)) && !kept.contains(RequestId(2)));
        kept.clear();
        assert_eq!((kept.data_len(), kept.take_dropped()), (0, vec![RequestId(3), RequestId(4)]));
        assert_eq!((kept.committed(), kept.take_dropped()), (0, vec![]));
    }

    #[test]
    fn an_open_is_kept_until_its_close_is_on_disk() {
        let mut kept = ReplayList::default();
        keep(&mut kept, 10, true);
        keep(&mut kept, 11, false);
        keep(&mut kept, 12, true);
        kept.commit(11);
        assert_eq!(transnos(&kept, None), [10, 12]);
        keep(&mut kept, 5, true);
        assert_eq!(transnos(&kept, None), [5, 10, 12]);
        kept.release(RequestId(10), 20);
        kept.release(RequestId(12), 20);
        kept.release(RequestId(5), 0);
        assert_eq!(transnos(&kept, None), [10, 12]);
        assert!(kept.message_mut(RequestId(10)).is_some());
        kept.commit(19);
        assert_eq!(transnos(&kept, None), [10, 12]);
        kept.commit(20);
        assert_eq!(kept.len(), 0);
        assert!(kept.message_mut(RequestId(10)).is_none());
        kept.release(RequestId(10), 30);
        assert!(kept.closing.is_empty());
    }

    #[test]
    fn an_open_that_was_released_early_is_an_ordinary_transaction() {
        let mut kept = ReplayList::default();
        keep(&mut kept, 10, true);
        kept.release(RequestId(10), 0);
        assert_eq!(transnos(&kept, None), [10]);
        kept.commit(10);
        assert_eq!(kept.len(), 0);
    }
}
