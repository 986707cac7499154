//! What others cache of a mount, such as a kernel, and when it is not valid any more.

use std::fmt;

use fulmar_lustre_wire::Fid;

/// What must be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// The attributes of a file with its size, and its access control lists.
    Attributes(Fid),
    /// The content of a file from `start` up to `end`, or the names in a directory, also those that
    /// do not exist.
    Content {
        /// The file.
        file: Fid,
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
    },
    /// All names of a file: each of them may be that of another one, or of none.
    Names(Fid),
    /// Everything: a target has evicted this client.
    Everything,
}

/// Somebody who caches what a mount has told.
///
/// What was cached under a lock has to be dropped before the target gets the lock back. Other clients wait
/// meanwhile, and after 100 seconds a server evicts this one.
pub trait Watcher: Send + Sync + 'static {
    /// Returns whether something of `stale` is cached, or is being dropped: if not, there is no call of
    /// [`Watcher::stale`]. It is called with a lock of the mount, so it must not use that, nor wait.
    fn concerns(&self, stale: &[Stale]) -> bool;

    /// Drops `stale`, and then `done`. The calls come from the threads of the node, without any lock of the mount:
    /// they may wait for a short time, and longer work takes `done` along.
    fn stale(&self, stale: Vec<Stale>, done: StaleGuard);
}

/// To be dropped as soon as nothing stale is cached any more.
pub struct StaleGuard(Option<Box<dyn FnOnce() + Send>>);

impl StaleGuard {
    pub(crate) fn new(call: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(call)))
    }
}

impl Drop for StaleGuard {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl fmt::Debug for StaleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaleGuard")
    }
}
