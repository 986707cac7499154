//! The pages that the kernel fills from files, and writes to them.

use std::sync::Arc;

use fulmar_base::Errno;
use fuser::{FileHandle, FopenFlags, Request};

use crate::dropping::{FillGuard, Writer};
use crate::front::Front;
use crate::handles::Handle;
use crate::options::DataCache;
use crate::replies::Reply;
use crate::requests::COPIED_MAX;
use crate::state::State;

/// What of the flags of an open file says what it is open for.
const ACCESS: i32 = 0o3;
const READ_ONLY: i32 = 0;
const READ_AND_WRITE: i32 = 2;
/// `O_DIRECT`.
const DIRECT: i32 = 0o40_000;

impl State {
    /// Returns how the kernel reads and writes a file that is opened with these flags. What it has of the file it
    /// keeps: that is protected, or dropped already.
    pub(crate) fn opened(&self, flags: i32) -> FopenFlags {
        if !self.notices.keeps_data() {
            return FopenFlags::FOPEN_DIRECT_IO;
        }
        // Who writes through pages would hold them locked while it waits for a lock of a server.
        let is_cached = self.options.data_cache == DataCache::Locks && flags & ACCESS == READ_ONLY;
        let is_direct = !is_cached || flags & DIRECT != 0;
        let how = if is_direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        how | FopenFlags::FOPEN_KEEP_CACHE
    }

    /// Returns a file that may be written to where it is mapped, if that is so.
    pub(crate) fn writer(&self, number: u64, flags: i32) -> Option<Writer> {
        let is_one = flags & ACCESS == READ_AND_WRITE && self.notices.keeps_data();
        is_one.then(|| Writer::new(&self.notices, number))
    }
}

/// The reply to a request that fills pages, which the kernel has locked until then.
struct FillReply {
    reply: fuser::ReplyData,
    filling: FillGuard,
}

impl Reply for FillReply {
    fn fail(self, errno: Errno) {
        // The pages are not filled, and others may fill them after the reply.
        drop(self.filling);
        self.reply.fail(errno);
    }
}

impl Front {
    /// Reads a range that the kernel fills its pages with.
    pub(crate) fn fill(
        &self,
        request: &Request,
        (number, handle): (u64, Arc<Handle>),
        (offset, size): (u64, u32),
        reply: fuser::ReplyData,
    ) {
        let filling = self.state.notices.begin_fill(number, (offset, size.into()));
        let fill = filling.fill.clone();
        let read = |_| async move {
            loop {
                let told = fill.attempt();
                let data = handle.file.read_to_keep(offset, size.into(), told).await?;
                if fill.is_found() {
                    return Ok(data);
                }
            }
        };
        let done = |FillReply { reply, filling }: FillReply, data: Vec<u8>| {
            reply.data(&data);
            drop(filling);
        };
        let reply = FillReply { reply, filling };
        if size <= COPIED_MAX {
            self.run(request, reply, read, done);
        } else {
            self.run_apart(request, reply, read, done);
        }
    }

    /// Writes what a program has changed in memory. The pages stay, and are then those of a file that was read.
    pub(crate) fn write_pages(
        &self,
        request: &Request,
        (number, handle): (u64, FileHandle),
        (offset, data): (u64, Arc<[u8]>),
        reply: fuser::ReplyWrite,
    ) {
        let len = data.len() as u32;
        let filling = self.state.notices.begin_fill(number, (offset, len.into()));
        let write = |_, handle: Arc<Handle>| async move {
            let written = handle.file.write_to_keep(offset, data, filling.fill.attempt()).await;
            filling.fill.stays();
            written.map(|()| filling)
        };
        self.on_handle(request, reply, handle, write, move |reply, filling| {
            reply.written(len);
            drop(filling);
        });
    }
}
