//! When files are read. Spec: mdt-ost §14.2, §7.12.
//!
//! The MDT learns it when the file is closed. Until then this mount shows it, and after that as long as it knows the file:
//! the MDT notes only what is more than a minute newer.

use fulmar_lustre_wire::Fid;

use super::attributes::Attributes;
use super::known;
use crate::machine::context::Context;

/// After this many seconds a time is old in any case: a day.
const OLD: i64 = 24 * 60 * 60;

/// Which reads change the time of the last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// The first one after a change, and one a day.
    #[default]
    Relative,
    /// Each one.
    Always,
    /// None.
    Never,
}

impl AccessTimes {
    /// Returns whether a read changes these times of a file.
    fn is_noted(self, before: &Attributes, now: i64) -> bool {
        let Attributes { atime, mtime, ctime, .. } = *before;
        let is_due = match self {
            Self::Relative => atime <= mtime || atime <= ctime || now.saturating_sub(atime) >= OLD,
            Self::Always => true,
            Self::Never => false,
        };
        is_due && now > atime
    }
}

/// When a file was read here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Seconds since 1970.
    time: i64,
    /// The time of the file without this read. Where the file has another one, somebody has set that.
    before: i64,
    /// Whether the next close has to tell the MDT.
    is_new: bool,
}

impl Access {
    /// A file is read now, which has shown this time until now: perhaps that of an earlier read.
    fn new(now: i64, shown: i64, earlier: Option<Self>) -> Self {
        let earlier = earlier.filter(|earlier| earlier.time == shown);
        let before = earlier.map_or(shown, |earlier| earlier.before);
        Self { time: now, before, is_new: true }
    }

    /// Returns whether the MDT need not be told.
    pub(super) fn is_told(&self) -> bool {
        !self.is_new
    }

    /// Returns attributes of the file with this time, if that is newer, unless somebody has set another one.
    pub(super) fn shown(&self, found: Attributes) -> Attributes {
        let atime =
            if found.atime == self.before { self.time.max(found.atime) } else { found.atime };
        Attributes { atime, ..found }
    }
}

impl Context {
    /// A file or a directory is read. `is_first`: since it was opened.
    pub(crate) fn note_access(&self, fid: Fid, is_first: bool) {
        let mut core = self.core();
        let now = core.seconds();
        let Some(mount) = core.mounts.get(&self.mount) else { return };
        let policy = mount.access_times;
        if policy == AccessTimes::Never || policy == AccessTimes::Relative && !is_first {
            return;
        }
        let Some(inode) = mount.inodes.get(&fid) else { return };
        let before = known::attributes(&core, mount, fid)
            .unwrap_or_else(|| inode.shown(Attributes::new(&inode.body, None)));
        if policy.is_noted(&before, now)
            && let Some(mount) = core.mounts.get_mut(&self.mount)
            && let Some(inode) = mount.inodes.get_mut(&fid)
        {
            inode.access = Some(Access::new(now, before.atime, inode.access));
        }
    }

    /// Returns attributes of a file with the time at which it was read here.
    pub(crate) fn with_access(&self, found: Attributes) -> Attributes {
        let core = self.core();
        let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&found.fid));
        inode.map_or(found, |inode| inode.shown(found))
    }

    /// Returns what a close tells the MDT: when the file was read, or 0.
    pub(super) fn tell_access(&self, fid: Fid) -> i64 {
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount);
        let access = mount.and_then(|mount| mount.inodes.get_mut(&fid)?.access.as_mut());
        let Some(access) = access.filter(|access| access.is_new) else { return 0 };
        access.is_new = false;
        access.time
    }

    /// An operation sets the time of the last access.
    pub(super) fn forget_access(&self, fid: Fid) {
        let mut core = self.core();
        if let Some(mount) = core.mounts.get_mut(&self.mount)
            && let Some(inode) = mount.inodes.get_mut(&fid)
        {
            inode.access = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_noted_after_a_change_and_once_a_day() {
        let file =
            |atime, mtime, ctime| Attributes { atime, mtime, ctime, ..Attributes::default() };
        let noted = |policy: AccessTimes, before, now| policy.is_noted(&before, now);
        let relative = AccessTimes::Relative;
        assert!(noted(relative, file(10, 10, 5), 20) && noted(relative, file(10, 5, 12), 20));
        assert!(
            !noted(relative, file(15, 10, 12), 20) && noted(relative, file(15, 10, 12), 15 + OLD)
        );
        assert!(noted(AccessTimes::Always, file(15, 10, 12), 20));
        assert!(!noted(AccessTimes::Never, file(10, 10, 12), 20));
        assert!(!noted(AccessTimes::Always, file(20, 10, 12), 20), "times do not go back");
    }

    #[test]
    fn a_read_is_shown_until_somebody_sets_another_time() {
        let shown = |access: Access, atime| {
            access.shown(Attributes { atime, ..Attributes::default() }).atime
        };
        let first = Access::new(20, 10, None);
        let second = Access::new(30, 20, Some(first));
        assert_eq!([shown(first, 10), shown(second, 10)], [20, 30]);
        assert_eq!([shown(first, 5), shown(second, 5), shown(second, 40)], [5, 5, 40]);
        // Somebody has set the time between the reads.
        assert_eq!(shown(Access::new(30, 7, Some(first)), 7), 30);
    }
}
