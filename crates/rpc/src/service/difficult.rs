//! Difficult replies. Spec: ptlrpc-ldlm-mgs §8.
//!
//! The host keeps its locks on what a request has changed, so that no other client builds on a change
//! that a crash may undo while its own client does not even know it. The locks are kept until the
//! client has acknowledged the reply, the transaction is on disk, or the client is gone.
//!
//! A *difficult* reply is about a change that is not on disk yet, and that locks of the host
//! protect from other clients. The client acknowledges it by LNet. The host releases the locks when
//! it has, when the change is on disk, or when the client is gone (`service::difficult`).

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lustre_wire::Handle;

use super::RequestId;
use crate::export::TargetId;

/// The difficult replies that are not confirmed.
#[derive(Debug, Default)]
pub(super) struct Difficult {
    /// By export and XID: a reply that is sent again is the same.
    replies: BTreeMap<(Handle, u64), Reply>,
    /// Those with transactions.
    transactions: BTreeSet<(TargetId, u64, (Handle, u64))>,
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    request: RequestId,
    target: TargetId,
    transno: u64,
}

impl Difficult {
    /// Handles the reply to a request. Returns an earlier request with the same number, which is
    /// confirmed: a replay has taken its place.
    pub(super) fn insert(
        &mut self,
        key: (Handle, u64),
        request: RequestId,
        target: TargetId,
        transno: u64,
    ) -> Option<RequestId> {
        let earlier = self.remove(key);
        self.replies.insert(key, Reply { request, target, transno });
        if transno != 0 {
            self.transactions.insert((target, transno, key));
        }
        earlier
    }

    /// Returns whether the client is to acknowledge the reply.
    pub(super) fn has(&self, key: (Handle, u64)) -> bool {
        self.replies.contains_key(&key)
    }

    /// Ends one reply, and returns its request.
    pub(super) fn remove(&mut self, key: (Handle, u64)) -> Option<RequestId> {
        let Reply { request, target, transno } = self.replies.remove(&key)?;
        self.transactions.remove(&(target, transno, key));
        Some(request)
    }

    /// Ends a reply whose transaction is on disk, and returns its request.
    pub(super) fn pop_committed(&mut self, target: TargetId, last: u64) -> Option<RequestId> {
        let first = self.transactions.range((target, 0, (Handle(0), 0))..).next();
        let &(_, _, key) = first.filter(|(of, transno, _)| *of == target && *transno <= last)?;
        self.remove(key)
    }

    /// Ends a reply to a client that is gone, and returns its request.
    pub(super) fn pop_of(&mut self, export: Handle) -> Option<RequestId> {
        let (&key, _) = self.replies.range((export, 0)..=(export, u64::MAX)).next()?;
        self.remove(key)
    }

    /// Returns whether all replies are confirmed.
    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Returns the exports that replies wait for.
    pub(super) fn exports(&self) -> impl Iterator<Item = Handle> {
        self.replies.keys().map(|&(export, _)| export)
    }
}
