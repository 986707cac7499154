//! How often users have done what, and how long it took: `llite.*.stats`.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_data::PageCounts;
use fulmar_rpc::stats::Histogram;

use crate::machine::context::Context;

/// What users do with files, in the order of a kernel's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    ReadBytes,
    WriteBytes,
    Read,
    Write,
    Open,
    Close,
    Seek,
    Fsync,
    ReadDir,
    SetAttr,
    Truncate,
    Flock,
    GetAttr,
    Fallocate,
    Create,
    Link,
    Unlink,
    Symlink,
    MkDir,
    RmDir,
    Mknod,
    Rename,
    Statfs,
    SetXattr,
    GetXattr,
    ListXattr,
    RemoveXattr,
}

impl Op {
    /// Returns the name that it has in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadBytes => "read_bytes",
            Self::WriteBytes => "write_bytes",
            Self::Read => "read",
            Self::Write => "write",
            Self::Open => "open",
            Self::Close => "close",
            Self::Seek => "seek",
            Self::Fsync => "fsync",
            Self::ReadDir => "readdir",
            Self::SetAttr => "setattr",
            Self::Truncate => "truncate",
            Self::Flock => "flock",
            Self::GetAttr => "getattr",
            Self::Fallocate => "fallocate",
            Self::Create => "create",
            Self::Link => "link",
            Self::Unlink => "unlink",
            Self::Symlink => "symlink",
            Self::MkDir => "mkdir",
            Self::RmDir => "rmdir",
            Self::Mknod => "mknod",
            Self::Rename => "rename",
            Self::Statfs => "statfs",
            Self::SetXattr => "setxattr",
            Self::GetXattr => "getxattr",
            Self::ListXattr => "listxattr",
            Self::RemoveXattr => "removexattr",
        }
    }

    /// Returns the unit of its values.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::ReadBytes | Self::WriteBytes => "bytes",
            _ => "usecs",
        }
    }
}

/// The operations of a mount, each with the times that it took or the bytes that it was about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) counts: BTreeMap<Op, Histogram>,
    /// When they were cleared, since 1970.
    pub(crate) begun: Option<Duration>,
    /// When the counts of pages were cleared, and what they were.
    pub(crate) pages_begun: Option<(Duration, PageCounts)>,
}

impl Operations {
    pub(crate) fn add(&mut self, op: Op, value: u64) {
        self.counts.entry(op).or_default().add(value);
    }
}

impl Context {
    /// Counts an operation that ends now, unless it has failed.
    pub(crate) fn count<T>(&self, op: Op, begun: Time, result: &Result<T, Errno>) {
        let mut core = self.core();
        let taken = core.now.since(begun);
        if let Some(mount) = core.mounts.get_mut(&self.mount).filter(|_| result.is_ok()) {
            mount.operations.add(op, u64::try_from(taken.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Counts the bytes of an operation.
    pub(crate) fn count_bytes(&self, op: Op, bytes: u64) {
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            mount.operations.add(op, bytes);
        }
    }
}
