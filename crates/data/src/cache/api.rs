//! What goes into a cache and comes out of it.

use std::ops::Range;
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Span};
use thiserror::Error;

use crate::grants::Figures;
use crate::stripes::{Object, Target};

/// A file whose data may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(super) u64);

/// An open file: it has streams of reads, and has seen some of the errors of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenId(pub(super) u64);

/// An operation that the host has begun and that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub(super) u64);

/// A read or a write of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RpcId(pub u64);

/// A lock, as its host names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockKey(pub u64);

/// What an administrator may set. `None`: as measured, or as follows from the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The memory of all data in bytes, at least [`Settings::MEMORY_MIN`].
    #[doc(alias = "max_cached_mb")]
    pub memory: u64,
    /// The reads, and the writes, in flight to each target.
    #[doc(alias = "max_rpcs_in_flight")]
    pub rpcs_in_flight: Option<u32>,
    /// The most that is dirty for one target, in bytes.
    #[doc(alias = "max_dirty_mb")]
    pub dirty_max: Option<u64>,
    /// The most that is read ahead of one stream, in bytes.
    #[doc(alias = "max_read_ahead_per_file_mb")]
    pub read_ahead_max: Option<u64>,
    /// How far the kernel reads ahead, in bytes: its requests arrive out of order by so much.
    pub disorder: u64,
    /// After this time dirty data are written.
    pub age_max: Duration,
    /// After this time without writes, grant is given back.
    #[doc(alias = "grant_shrink_interval")]
    pub shrink_after: Duration,
}

impl Settings {
    /// The least memory: two of the largest operations, and data to write.
    pub const MEMORY_MIN: u64 = 64 << 20;
    /// The most that one read returns: a quarter of the least share of reads.
    pub const READ_MAX: u64 = 4 << 20;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory: 1 << 30,
            rpcs_in_flight: None,
            dirty_max: None,
            read_ahead_max: None,
            disorder: 4 << 20,
            age_max: Duration::from_secs(5),
            shrink_after: Duration::from_secs(1200),
        }
    }
}

/// Which way the data of an RPC go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

/// What of a write is on disk when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// Nothing: it is in the cache. Without grant or beyond a quota it waits for the target all the same.
    #[default]
    Cached,
    /// The data.
    Data,
    /// The data and all attributes of the file, of which the host takes care.
    File,
}

/// How a write is executed. Spec: mdt-ost §15.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The space was granted. Otherwise the target looks for some.
    pub from_grant: bool,
    /// The write is to be on disk before its reply: SYNC instead of ASYNC. Always if the space was not granted.
    pub sync: bool,
    /// Much memory waits for the disk of the target: it should write soon.
    pub soft_sync: bool,
    /// A lock waits for it.
    pub urgent: bool,
}

/// A read or a write to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// Its name.
    pub id: RpcId,
    /// The object, and its target.
    pub object: Object,
    /// Which way.
    pub direction: Direction,
    /// The ranges of the object in order, one for each niobuf. Only the first may begin, and only the
    /// last may end, within a page. A read has one, of whole pages.
    pub ranges: Vec<Range<u64>>,
    /// The memory of all ranges, one after the other. It is not changed until the RPC is done, or
    /// released.
    pub memory: Vec<Span>,
    /// For a write.
    pub flags: Flags,
    /// What it says about grants.
    pub grant: Figures,
}

/// The end of an RPC, after all that the layer below does to repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How many bytes were read: what is missing is zeros. Or the first error.
    pub result: Result<u64, Errno>,
    /// What the reply has granted.
    pub granted: u64,
    /// Whether the memory of a write is kept for a replay: [`Cache::handle_released`] follows.
    ///
    /// [`Cache::handle_released`]: super::Cache::handle_released
    pub keeps_data: bool,
}

/// A part of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// So many zeros.
    Zeros(u64),
    /// What is there.
    Memory(Span),
}

/// What the host does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Allocate a buffer of this name. Its bytes may be anything.
    Allocate {
        /// The name.
        buffer: BufferId,
        /// At most 1 MiB.
        len: u64,
    },
    /// Nothing uses a buffer any more.
    Release {
        /// Which.
        buffer: BufferId,
    },
    /// Send this, and report its end by [`Cache::handle_done`].
    ///
    /// [`Cache::handle_done`]: super::Cache::handle_done
    Rpc(Box<Rpc>),
    /// Copy what is to be written at `offset` of the file to this memory, then call
    /// [`Cache::handle_filled`].
    ///
    /// [`Cache::handle_filled`]: super::Cache::handle_filled
    Fill {
        /// The write.
        op: OpId,
        /// The offset in the file.
        offset: u64,
        /// Where it goes.
        memory: Span,
    },
    /// What a read has found: copy or send it, then call [`Cache::handle_read_end`]. It is shorter than what
    /// was requested at the end of the file, and where [`Settings::READ_MAX`] ends it.
    ///
    /// [`Cache::handle_read_end`]: super::Cache::handle_read_end
    Ready {
        /// The read.
        op: OpId,
        /// In order.
        bytes: Vec<Bytes>,
    },
    /// A write has ended.
    Written {
        /// Which.
        op: OpId,
        /// How many bytes from its start on are written. If these are not all, the error of the rest is left for what
        /// reports it next. Or an error, which is not reported again for the same open file.
        result: Result<u64, Errno>,
    },
    /// Another operation has ended. A read that was [`Output::Ready`] has no other end.
    Done {
        /// Which.
        op: OpId,
        /// An error of a read, or of a write that is reported here and not again for the same open file.
        result: Result<(), Errno>,
    },
    /// Give grant back to an idle target. Spec: mdt-ost §19.5.
    Shrink {
        /// Which.
        target: Target,
        /// How much.
        bytes: u64,
    },
}

/// Why a write cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The MDT has to make objects first (an intent LAYOUT for writing); then set the layout.
    #[error("bytes {} to {} of the file have no objects yet", .0.start, .0.end)]
    NoObjects(Range<u64>),
    /// The file has mirrors.
    #[error("the file has mirrors, of which others would become stale")]
    Mirrored,
    /// It ends beyond the largest offset, or the largest object of a target.
    #[error("the write ends beyond the largest file")]
    TooLarge,
}

/// A target, for those who look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// Dirty, being written, or about to be filled, in bytes.
    #[doc(alias = "cur_dirty_bytes")]
    pub dirty: u64,
    /// The most that may be dirty.
    pub dirty_max: u64,
    /// The grant that is not used, in bytes.
    #[doc(alias = "cur_grant_bytes")]
    pub grant: u64,
    /// The reads: how it goes.
    pub reads: Flow,
    /// The writes.
    pub writes: Flow,
}

/// The RPCs of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// How many are in flight.
    pub in_flight: u64,
    /// How many may be.
    pub window: u64,
    /// The measured rate, in bytes for each second.
    pub rate: u64,
    /// The time of the shortest RPC.
    pub round_trip: Option<Duration>,
}

/// Pages that were read, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// They were there, or on their way.
    pub hits: u64,
    /// They had to be requested.
    pub misses: u64,
}

/// What a cache has and does at the moment. All are zero when it is idle and all files are forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Memory that readers wait for, in bytes.
    pub demand: u64,
    /// Memory that was written and is not on disk.
    pub write_back: u64,
    /// Memory that was read ahead, or may be read again.
    pub speculation: u64,
    /// Dirty, being written, or about to be filled.
    pub dirty: u64,
    /// Operations that are not done.
    pub operations: u64,
    /// Of them, those that wait for memory or grant.
    pub waiting: u64,
    /// RPCs that are queued, sent, or kept.
    pub rpcs: u64,
}
