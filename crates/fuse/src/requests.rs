//! The requests of the kernel, which are decoded here.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fulmar_base::Errno;
use fulmar_client::{Allocate, File, OpenOptions, Seek, XattrFlags};
use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, Request, TimeOrNow, WriteFlags,
};

use crate::attributes::{self, AttributeChange};
use crate::caller::{caller, keeps_privileges};
use crate::counts::count;
use crate::front::{APPEND, Front, configure, open_options, stability, value};
use crate::handles::Handle;
use crate::locks::described;
use crate::replies::Reply;
use crate::state::{EntryReply, NO_TIME, State, found, name};

/// Bytes of a block of `statfs`.
const BLOCK: u32 = 4096;
/// The most bytes that are copied while operations wait.
pub(crate) const COPIED_MAX: u32 = 64 << 10;

impl Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config, &self.state.options);
        Ok(())
    }

    fn destroy(&mut self) {
        self.state.notices.end();
        if let Some(ended) = self.ended.take() {
            let _ = ended.send(());
        }
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: fuser::ReplyEntry) {
        self.look_up(request, parent, name, reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.state.notices.forget(number.0, lookups);
    }

    fn getattr(
        &self,
        request: &Request,
        number: INodeNo,
        _: Option<FileHandle>,
        reply: fuser::ReplyAttr,
    ) {
        self.get_attributes(request, number, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: fuser::ReplyAttr,
    ) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        let keeps_privileges = keeps_privileges(&caller);
        let change =
            AttributeChange { mode, uid, gid, size, atime, mtime, keeps_privileges }.change();
        let set = |state: Arc<State>| async move {
            let found = found(state.file_system.setattr(&caller, file?, change).await);
            if size.is_some() {
                state.notices.changed(number.0);
            }
            let found = found.inspect_err(|_| state.notices.drop_attributes(number.0))?;
            Ok(attributes::file_attr(&found, found.inode()))
        };
        self.run(request, reply, set, |reply, attr| reply.attr(&NO_TIME, &attr));
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: fuser::ReplyData) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        let read = |state: Arc<State>| async move {
            found(state.file_system.read_link(&caller, file?).await)
        };
        self.run(request, reply, read, |reply, target| reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: fuser::ReplyEntry,
    ) {
        let (caller, parent, name) = (caller(request, umask), self.state.fid(parent), name(text));
        let make = |state: Arc<State>| async move {
            let (parent, name) = (parent?, name?);
            let made = state.file_system.mknod(&caller, parent, &name, (mode, device)).await?;
            state.entry_of(&caller, made.fid).await
        };
        self.run_entry(request, reply, make);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        mode: u32,
        umask: u32,
        reply: fuser::ReplyEntry,
    ) {
        let (caller, parent, name) = (caller(request, umask), self.state.fid(parent), name(text));
        let make = |state: Arc<State>| async move {
            let made = state.file_system.mkdir(&caller, parent?, &name?, mode).await?;
            state.entry_of(&caller, made.fid).await
        };
        self.run_entry(request, reply, make);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, text: &OsStr, reply: fuser::ReplyEmpty) {
        let (caller, parent, name) = (caller(request, 0), self.state.fid(parent), name(text));
        let remove = |state: Arc<State>| async move {
            state.file_system.unlink(&caller, parent?, &name?).await
        };
        self.run(request, reply, remove, |reply, ()| reply.ok());
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, text: &OsStr, reply: fuser::ReplyEmpty) {
        let (caller, parent, name) = (caller(request, 0), self.state.fid(parent), name(text));
        let remove = |state: Arc<State>| async move {
            state.file_system.rmdir(&caller, parent?, &name?).await
        };
        self.run(request, reply, remove, |reply, ()| reply.ok());
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        target: &Path,
        reply: fuser::ReplyEntry,
    ) {
        let (caller, parent, name) = (caller(request, 0), self.state.fid(parent), name(text));
        let target = target.as_os_str().as_bytes().to_vec();
        let make = |state: Arc<State>| async move {
            let made = state.file_system.symlink(&caller, parent?, &name?, &target).await?;
            state.entry_of(&caller, made.fid).await
        };
        self.run_entry(request, reply, make);
    }

    fn rename(
        &self,
        request: &Request,
        from: INodeNo,
        old: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: fuser::ReplyEmpty,
    ) {
        // As a kernel's client: the protocol has none of them.
        if !flags.is_empty() {
            return reply.fail(Errno::EINVAL);
        }
        let (caller, from, to) = (caller(request, 0), self.state.fid(from), self.state.fid(to));
        let (old, new) = (name(old), name(new));
        let rename = |state: Arc<State>| async move {
            let (old, new) = (old?, new?);
            state.file_system.rename(&caller, (from?, &old), (to?, &new)).await
        };
        self.run(request, reply, rename, |reply, ()| reply.ok());
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        parent: INodeNo,
        text: &OsStr,
        reply: fuser::ReplyEntry,
    ) {
        let (caller, parent, name) = (caller(request, 0), self.state.fid(parent), name(text));
        let file = self.state.fid(number);
        let link = |state: Arc<State>| async move {
            let file = file?;
            state.file_system.link(&caller, file, parent?, &name?).await?;
            state.entry_of(&caller, file).await
        };
        self.run_entry(request, reply, link);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: fuser::ReplyOpen) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        let options = open_options(flags.0);
        let (writer, how) = (self.state.writer(number.0, flags.0), self.state.opened(flags.0));
        let open = |state: Arc<State>| async move {
            let opened = found(state.file_system.open_file(&caller, file?, options).await)?;
            Ok(state.handles.add(opened, writer))
        };
        let done = move |reply: fuser::ReplyOpen, handle| reply.opened(FileHandle(handle), how);
        self.run_or_undo(request, reply, open, done, |state, handle| {
            drop(state.handles.remove(handle));
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: fuser::ReplyCreate,
    ) {
        let (caller, parent, name) = (caller(request, umask), self.state.fid(parent), name(text));
        let options = OpenOptions { create: Some(mode & 0o7777), ..open_options(flags) };
        let create = |state: Arc<State>| async move {
            let (parent, name) = (parent?, name?);
            let file: File = state.file_system.open(&caller, parent, &name, options).await?;
            let found = match file.new_attributes() {
                Some(found) => state.entry(&found),
                None => state.entry_of(&caller, file.fid()).await?,
            };
            let writer = state.writer(found.attr.ino.0, flags);
            Ok((found, state.handles.add(file, writer)))
        };
        // Whatever the kernel has of a file that was there already goes.
        let how = self.state.opened(flags) - FopenFlags::FOPEN_KEEP_CACHE;
        let done = move |reply: fuser::ReplyCreate, (found, handle): (EntryReply, u64)| {
            reply.created(&NO_TIME, &found.attr, found.generation, FileHandle(handle), how);
        };
        self.run_or_undo(request, reply, create, done, |state, (found, handle)| {
            state.not_told(&found);
            drop(state.handles.remove(handle));
        });
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: fuser::ReplyData,
    ) {
        count(&self.state.asked.data);
        let Some(handle) = self.state.handles.get(handle.0) else {
            return reply.fail(Errno::EBADF);
        };
        // Who reads for himself has an owner of locks.
        if owner.is_none() && self.state.notices.keeps_data() {
            return self.fill(request, (number.0, handle), (offset, size), reply);
        }
        let read = |_| async move { handle.file.read(offset, size.into()).await };
        let done = |reply: fuser::ReplyData, data: Vec<u8>| reply.data(&data);
        if size <= COPIED_MAX {
            self.run(request, reply, read, done)
        } else {
            self.run_apart(request, reply, read, done)
        }
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        open: OpenFlags,
        _: Option<LockOwner>,
        reply: fuser::ReplyWrite,
    ) {
        let data: Arc<[u8]> = data.into();
        if flags.contains(WriteFlags::FUSE_WRITE_CACHE) && self.state.notices.keeps_data() {
            return self.write_pages(request, (number.0, handle), (offset, data), reply);
        }
        // Flags of an open file change, so they come with each write.
        let offset = (open.0 & APPEND == 0).then_some(offset);
        let stability = stability(open.0);
        let drops = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let caller = drops.then(|| caller(request, 0));
        let write = |state: Arc<State>, handle: Arc<Handle>| async move {
            if let Some(caller) = caller {
                state.file_system.drop_privileges(&caller, handle.file.fid()).await?;
            }
            let written = handle.file.write_some(offset, data, stability).await;
            state.notices.changed(number.0);
            written
        };
        self.on_handle(request, reply, handle, write, |reply, range: Range<u64>| {
            reply.written((range.end - range.start) as u32);
        });
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        number: FileHandle,
        owner: LockOwner,
        reply: fuser::ReplyEmpty,
    ) {
        self.close_descriptor(request, number, owner, reply);
    }

    fn release(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: fuser::ReplyEmpty,
    ) {
        self.close(request, handle, reply);
    }

    fn fsync(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        only_data: bool,
        reply: fuser::ReplyEmpty,
    ) {
        let sync = |_, handle: Arc<Handle>| async move { handle.file.sync(only_data).await };
        self.on_handle(request, reply, handle, sync, |reply, ()| reply.ok());
    }

    fn opendir(
        &self,
        request: &Request,
        number: INodeNo,
        flags: OpenFlags,
        reply: fuser::ReplyOpen,
    ) {
        self.open_directory(request, number, flags.0, reply);
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: fuser::ReplyDirectory,
    ) {
        self.read_directory(request, handle, offset, reply);
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: fuser::ReplyDirectoryPlus,
    ) {
        self.list_directory(request, handle, offset, reply);
    }

    fn releasedir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: fuser::ReplyEmpty,
    ) {
        self.state.notices.has_read(handle.0);
        self.close(request, handle, reply);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        only_data: bool,
        reply: fuser::ReplyEmpty,
    ) {
        let sync = |_, handle: Arc<Handle>| async move { handle.file.sync(only_data).await };
        self.on_handle(request, reply, handle, sync, |reply, ()| reply.ok());
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: fuser::ReplyStatfs) {
        let ask = |state: Arc<State>| async move { state.file_system.statfs().await };
        self.run(request, reply, ask, |reply, usage: fulmar_client::Usage| {
            let blocks = |bytes: u64| bytes / u64::from(BLOCK);
            let (all, free) = (blocks(usage.bytes), blocks(usage.free));
            let available = blocks(usage.available);
            let (files, free_files) = (usage.files, usage.free_files);
            reply.statfs(all, free, available, files, free_files, BLOCK, 255, BLOCK);
        });
    }

    fn ioctl(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: fuser::ReplyIoctl,
    ) {
        self.control(request, number, (command, data), reply);
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: fuser::ReplyEmpty,
    ) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        let (name, value) = (name.as_bytes().to_vec(), value.to_vec());
        let set = |state: Arc<State>| async move {
            state.check_xattr(&name)?;
            let value = (value.as_slice(), XattrFlags(flags as u32));
            state.file_system.set_xattr(&caller, file?, &name, value).await
        };
        self.run(request, reply, set, |reply, ()| reply.ok());
    }

    fn getxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        room: u32,
        reply: fuser::ReplyXattr,
    ) {
        self.get_value(request, number, name, room, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: fuser::ReplyXattr) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        let list = |state: Arc<State>| async move {
            let mut names = state.file_system.list_xattrs(&caller, file?).await?;
            names.retain(|name| state.check_xattr(name).is_ok());
            let with_end = |mut name: Vec<u8>| {
                name.push(0);
                name
            };
            Ok(names.into_iter().flat_map(with_end).collect())
        };
        self.run(request, reply, list, move |reply, bytes: Vec<u8>| value(reply, &bytes, room));
    }

    fn removexattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        reply: fuser::ReplyEmpty,
    ) {
        let (caller, file) = (caller(request, 0), self.state.fid(number));
        let name = name.as_bytes().to_vec();
        let remove = |state: Arc<State>| async move {
            state.check_xattr(&name)?;
            state.file_system.remove_xattr(&caller, file?, &name).await
        };
        self.run(request, reply, remove, |reply, ()| reply.ok());
    }

    fn getlk(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: fuser::ReplyLock,
    ) {
        let lock = described(kind, (start, end), owner.0, pid);
        self.test_lock(request, number, lock, reply);
    }

    fn setlk(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        waits: bool,
        reply: fuser::ReplyEmpty,
    ) {
        let lock = described(kind, (start, end), owner.0, pid);
        self.lock(request, (number, handle), (kind, lock, waits), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: fuser::ReplyEmpty,
    ) {
        let how = match mode {
            0 => Allocate::Grow,
            0x1 => Allocate::KeepSize,
            0x3 => Allocate::PunchHole,
            0x10 => Allocate::ZeroRange,
            0x11 => Allocate::ZeroKeepSize,
            _ => return reply.fail(Errno::EOPNOTSUPP),
        };
        let caller = caller(request, 0);
        let allocate = |state: Arc<State>, handle: Arc<Handle>| async move {
            if !keeps_privileges(&caller) {
                state.file_system.drop_privileges(&caller, handle.file.fid()).await?;
            }
            let done = handle.file.allocate(offset, len, how).await;
            state.notices.changed(number.0);
            done.inspect_err(|_| state.notices.drop_attributes(number.0))
        };
        self.on_handle(request, reply, handle, allocate, |reply, ()| reply.ok());
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: fuser::ReplyLseek,
    ) {
        let (what, offset) = match (whence, u64::try_from(offset)) {
            (3, Ok(offset)) => (Seek::Data, offset),
            (4, Ok(offset)) => (Seek::Hole, offset),
            (_, Err(_)) => return reply.fail(Errno::ENXIO),
            _ => return reply.fail(Errno::EINVAL),
        };
        let seek = |_, handle: Arc<Handle>| async move { handle.file.seek(offset, what).await };
        self.on_handle(request, reply, handle, seek, |reply, at: u64| reply.offset(at as i64));
    }
}
