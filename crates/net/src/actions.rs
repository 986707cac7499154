//! The actions of a turn that are executed without the node's lock, and their results.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fulmar_base::{Errno, Time};
use fulmar_lnet::{CopyId, EventDone};
use fulmar_node::Notice;
use smallvec::SmallVec;

use crate::conn::Conn;
use crate::memory::{Memory, Piece};
use crate::queues::Delivery;
use crate::tx::FlushResult;

/// Actions to execute without the lock.
///
/// Every message causes a few of these: common actions are stored in place, rare ones are boxed.
#[derive(Default)]
pub(crate) struct Actions {
    /// Connections with queued writes.
    pub(crate) flush: SmallVec<[Arc<Conn>; 2]>,
    /// When the node is to be called for its timeouts.
    pub(crate) arm: Option<Time>,
    /// Services have events that no thread handles.
    pub(crate) dispatch: bool,
    pub(crate) rare: Option<Box<Rare>>,
}

/// A copy within the node: from where and to where, or nowhere.
pub(crate) type LoopCopy = (CopyId, Option<(Piece, Piece)>);

/// Actions when connections are opened or closed, or an administrator requests something.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) dial: Vec<(Arc<Conn>, IpAddr, SocketAddr)>,
    /// Connections that their I/O thread removes: at once, or soon if they are still written to.
    pub(crate) close: Vec<(Arc<Conn>, bool)>,
    pub(crate) resume: Vec<Arc<Conn>>,
    pub(crate) copy: Vec<LoopCopy>,
    /// Answers to waiting callers.
    pub(crate) answers: Vec<Box<dyn FnOnce() + Send>>,
    pub(crate) notices: Vec<Notice>,
    /// Memory and events to be dropped.
    pub(crate) released: Vec<Memory>,
    pub(crate) unclaimed: Vec<Delivery>,
}

impl Actions {
    /// Adds the actions of another call of the same thread.
    pub(crate) fn merge(&mut self, other: Self) {
        for conn in other.flush {
            self.flush(conn);
        }
        self.arm = self.arm.into_iter().chain(other.arm).min();
        self.dispatch |= other.dispatch;
        if let Some(other) = other.rare {
            let own = self.rare();
            own.dial.extend(other.dial);
            own.close.extend(other.close);
            own.resume.extend(other.resume);
            own.copy.extend(other.copy);
            own.answers.extend(other.answers);
            own.notices.extend(other.notices);
            own.released.extend(other.released);
            own.unclaimed.extend(other.unclaimed);
        }
    }

    pub(crate) fn flush(&mut self, conn: Arc<Conn>) {
        // The connections of one batch are few; one that is listed twice costs an empty flush.
        if !self.flush.iter().rev().take(4).any(|listed| Arc::ptr_eq(listed, &conn)) {
            self.flush.push(conn);
        }
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// The results of [`Actions`].
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) flushed: SmallVec<[(Arc<Conn>, FlushResult); 2]>,
    pub(crate) not_dialled: Vec<(Arc<Conn>, Errno)>,
    pub(crate) handled: SmallVec<[EventDone; 4]>,
}

impl Report {
    pub(crate) fn is_empty(&self) -> bool {
        self.flushed.is_empty() && self.not_dialled.is_empty() && self.handled.is_empty()
    }

    /// Adds the results of later actions.
    pub(crate) fn merge(&mut self, other: Self) {
        self.flushed.extend(other.flushed);
        self.not_dialled.extend(other.not_dialled);
        self.handled.extend(other.handled);
    }

    /// Returns whether the report can be deferred: only a few small messages were written.
    pub(crate) fn can_wait(&self) -> bool {
        let small = |(_, flushed): &(Arc<Conn>, FlushResult)| {
            flushed.error.is_none() && flushed.sent <= SMALL_MAX
        };
        self.not_dialled.is_empty() && self.handled.is_empty() && self.flushed.iter().all(small)
    }
}

/// Reports of more bytes than this are not deferred: other messages may wait for their credits.
const SMALL_MAX: u64 = 512;
