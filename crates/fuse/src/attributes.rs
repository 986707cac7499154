//! Attributes as the kernel has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_client::{Attributes, Change, SetTime};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// The best length of reads and writes.
const BLOCK: u32 = 1 << 20;

/// Returns the attributes of a file with this number.
pub(crate) fn file_attr(found: &Attributes, number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: found.size,
        blocks: found.blocks,
        atime: time(found.atime),
        mtime: time(found.mtime),
        ctime: time(found.ctime),
        crtime: time(found.btime.unwrap_or(found.ctime)),
        kind: kind(found.mode),
        perm: (found.mode & 0o7777) as u16,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: found.device,
        blksize: BLOCK,
        flags: 0,
    }
}

/// Returns the type that a mode has.
pub(crate) fn kind(mode: u32) -> FileType {
    match mode & 0o170_000 {
        0o010_000 => FileType::NamedPipe,
        0o020_000 => FileType::CharDevice,
        0o040_000 => FileType::Directory,
        0o060_000 => FileType::BlockDevice,
        0o120_000 => FileType::Symlink,
        0o140_000 => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

/// What the kernel changes.
#[derive(Clone, Copy)]
pub(crate) struct AttributeChange {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
    /// Whether the caller may leave a file its privileges.
    pub(crate) keeps_privileges: bool,
}

impl AttributeChange {
    /// Returns what the servers change.
    pub(crate) fn change(self) -> Change {
        // A new size sets the time of the last write.
        let is_implied = self.size.is_some() && matches!(self.mtime, Some(TimeOrNow::Now));
        Change {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            atime: self.atime.map(set_time),
            mtime: self.mtime.filter(|_| !is_implied).map(set_time),
            drops_privileges: self.size.is_some() && !self.keeps_privileges,
            ..Change::default()
        }
    }
}

fn time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::SpecificTime(time) => SetTime::At(seconds(time)),
        TimeOrNow::Now => SetTime::Now,
    }
}

/// Returns the whole seconds of a time that the kernel sets, rounded down. Before 1970, `fuser` subtracts the
/// nanoseconds that the kernel adds.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs() as i64,
        Err(before) => -(before.duration().as_secs() as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_rounded_down() {
        assert_eq!(seconds(time(-5)), -5);
        assert_eq!(seconds(time(5)), 5);
        // As the kernel's -5 s and 500 ms arrives.
        assert_eq!(seconds(UNIX_EPOCH - Duration::from_millis(5500)), -5);
    }

    #[test]
    fn who_cuts_a_file_takes_its_privileges() {
        let nothing = AttributeChange {
            mode: None,
            uid: None,
            gid: None,
            size: None,
            atime: None,
            mtime: None,
            keeps_privileges: false,
        };
        let cut = AttributeChange { size: Some(0), ..nothing }.change();
        assert_eq!((cut.mode, cut.size, cut.drops_privileges), (None, Some(0), true));
        let by_root = AttributeChange { size: Some(0), keeps_privileges: true, ..nothing }.change();
        assert!(!by_root.drops_privileges);
        let touched = AttributeChange { mtime: Some(TimeOrNow::Now), ..nothing }.change();
        assert_eq!((touched.mtime, touched.drops_privileges), (Some(SetTime::Now), false));
    }
}
