//! How often the kernel asks what it could have kept.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often the kernel has asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// What a name is.
    pub names: u64,
    /// For the attributes of a file.
    pub attributes: u64,
    /// For an access control list, or another extended attribute.
    pub lists: u64,
    /// For data of a file.
    pub data: u64,
}

/// Counts that.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) names: AtomicU64,
    pub(crate) attributes: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) data: AtomicU64,
}

impl Counts {
    pub(crate) fn so_far(&self) -> RequestCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (names, attributes) = (of(&self.names), of(&self.attributes));
        RequestCounts { names, attributes, lists: of(&self.lists), data: of(&self.data) }
    }
}

/// Counts one more.
pub(crate) fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
