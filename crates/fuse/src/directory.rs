//! Reading directories, also with the attributes of the files.
//!
//! A file whose attributes are not known is in such a reply too: the kernel shows its name and
//! counts nothing for it. At the start of a directory it is not known whether attributes will be
//! used, so the reply has only those that are cached, and at most 16 names if some are not. The
//! kernel asks with attributes again if it has looked files up; then those of the reply are fetched
//! at the same time and waited for, and up to 512 that follow are fetched ahead. Attributes that
//! the kernel has already are not sent again, since it would then read the access control lists
//! again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Attributes, Caller, DirectoryItem, FileSystem, inode};
use fulmar_lustre_wire::Fid;
use fuser::{
    FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus,
    ReplyOpen, Request,
};
use futures_util::future::join;

use crate::attributes::{file_attr, kind};
use crate::caller::caller;
use crate::calls::Call;
use crate::front::{Front, open_options};
use crate::handles::Handle;
use crate::nodes::KernelCache;
use crate::replies::Reply;
use crate::state::{NO_TIME, State, found};

/// The position at the end, which is one for `lseek` too.
const END: u64 = i64::MAX as u64;
/// The most bytes of a reply with attributes: those of a program that reads 32 KiB at once, and more than a hundred files.
const ROOM: usize = 24 << 10;
/// The length of an entry with attributes, without its name.
const ENTRY: usize = 152;
/// The most names of the first reply with attributes if some are not known: who asks for it may want names only.
const FIRST: usize = 16;
/// How many names are looked up before they are asked for.
const AHEAD: usize = 512;

/// What was read of a directory, and where the kernel has come to: one read from the server serves many of
/// the kernel.
#[derive(Debug)]
pub(crate) struct Position {
    items: Arc<Vec<DirectoryItem>>,
    /// Where the server goes on after them.
    next: Option<u64>,
    /// The item that is next, and its position for the kernel.
    place: usize,
    at: Option<u64>,
    /// If this was read when the directory was opened, and not used yet: the number of its names.
    new: Option<u64>,
    /// The first item that was not looked up ahead.
    ahead: usize,
    /// The bytes of a reply with attributes.
    room: usize,
}

impl Default for Position {
    fn default() -> Self {
        let (items, next, at) = (Arc::default(), None, None);
        Self { items, next, place: 0, at, new: None, ahead: 0, room: ROOM }
    }
}

impl Position {
    /// Returns whether the kernel may be told what follows.
    fn is_at(&self, offset: u64, file_system: &FileSystem, directory: Fid) -> bool {
        let is_valid = match offset {
            // Who begins anew wants the present names.
            0 => self.new.is_some() && self.new == file_system.names_of(directory),
            _ => true,
        };
        self.at == Some(offset) && is_valid
    }

    /// Returns the items that the kernel has not read, and of which fit into a reply with attributes how many.
    fn left(&self) -> (&[DirectoryItem], usize) {
        let left = self.items.get(self.place..).unwrap_or_default();
        let mut room = self.room;
        let fits = |item: &&DirectoryItem| match room.checked_sub(len(item)) {
            Some(less) => {
                room = less;
                true
            }
            None => false,
        };
        (left, left.iter().take_while(fits).count().max(1))
    }

    /// The kernel has got an item.
    fn pass(&mut self, next: u64) {
        (self.place, self.at) = (self.place + 1, Some(next));
    }
}

impl Front {
    /// Opens a directory, and reads its first names at the same time, since they are wanted next.
    pub(crate) fn open_directory(
        &self,
        request: &Request,
        number: INodeNo,
        flags: i32,
        reply: ReplyOpen,
    ) {
        let options = open_options(flags);
        let (caller, directory) = (caller(request, 0), self.state.fid(number));
        let open = |state: Arc<State>| async move {
            let (directory, file_system) = (directory?, &state.file_system);
            let begun = file_system.names_of(directory);
            let early = state.expected.take(directory, &caller);
            let names = async {
                if let Some(early) = early
                    && let Ok(names) = early.await
                    && names.is_at(0, file_system, directory)
                {
                    return Some(names);
                }
                // Without a lock they may be others when they are wanted.
                let new = Some(begun?);
                let names = read(file_system, &caller, directory, (0, ROOM)).await;
                // Who reads it is told what is wrong.
                names.ok().map(|names| Position { new, ..names })
            };
            let opened = file_system.open_directory(&caller, directory, options);
            let (opened, names) = join(opened, names).await;
            let position = names.unwrap_or_default();
            Ok(state.handles.add_directory(found(opened)?, position))
        };
        let flags = FopenFlags::empty();
        let done = move |reply: ReplyOpen, handle| reply.opened(FileHandle(handle), flags);
        self.run_or_undo(request, reply, open, done, |state, handle| {
            drop(state.handles.remove(handle));
        });
    }

    /// Reads the first names of a directory that is most likely opened next, if a lock protects them.
    pub(crate) fn read_early(&self, caller: &Caller, directory: Fid) {
        let Some(new) = self.state.file_system.names_of(directory) else { return };
        let begun = self.state.expected.begin(directory, caller, Instant::now());
        let Some(sender) = begun else { return };
        let (state, caller) = (self.state.clone(), caller.clone());
        self.state.file_system.spawn(async move {
            // Who opens it reads them himself if there are none.
            if let Ok(names) = read(&state.file_system, &caller, directory, (0, ROOM)).await {
                let _ = sender.send(Position { new: Some(new), ..names });
            }
        });
    }

    /// Reads names.
    pub(crate) fn read_directory(
        &self,
        request: &Request,
        number: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let (caller, state) = (caller(request, 0), self.state.clone());
        let Some(handle) = state.handles.get(number.0) else { return reply.fail(Errno::EBADF) };
        state.notices.has_read(number.0);
        handle.file.note_access();
        let call = Call::new(&state, request);
        self.tasks.begin(async move {
            let fill = fill((&state.file_system, &caller), &handle, offset, &mut reply);
            let filled = call.dropped(fill).await;
            // The kernel may have it closed as soon as it has the reply.
            drop(handle);
            match filled {
                Ok(()) => reply.ok(),
                Err(errno) => reply.fail(errno),
            }
        });
    }

    /// Reads names with attributes.
    pub(crate) fn list_directory(
        &self,
        request: &Request,
        number: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (caller, state) = (caller(request, 0), self.state.clone());
        let reader = request.pid();
        let Some(handle) = state.handles.get(number.0) else { return reply.fail(Errno::EBADF) };
        state.notices.has_read(number.0);
        handle.file.note_access();
        let call = Call::new(&state, request);
        self.tasks.begin(async move {
            let (who, which) = ((&*state, &caller, reader), (number.0, &*handle));
            let fill = fill_with_attributes(who, which, offset, &mut reply);
            let filled = call.dropped(fill).await;
            drop(handle);
            match filled {
                Ok(()) => reply.ok(),
                Err(errno) => reply.fail(errno),
            }
        });
    }
}

/// Fills a reply with names from a position on.
async fn fill(
    (file_system, caller): (&FileSystem, &Caller),
    handle: &Handle,
    offset: u64,
    reply: &mut ReplyDirectory,
) -> Result<(), Errno> {
    let directory = handle.file.fid();
    let mut position = begin(file_system, caller, handle, offset).await?;
    loop {
        let is_full = add(&mut position, reply);
        let Some(next) = position.next.filter(|_| !is_full) else { break };
        position = read(file_system, caller, directory, (next, position.room)).await?;
    }
    *handle.position.lock().unwrap_or_else(PoisonError::into_inner) = position;
    Ok(())
}

/// Fills a reply with names and attributes from a position on. The kernel asks for that at the beginning, and later if
/// files were looked up since it has asked the last time: then the attributes are waited for.
async fn fill_with_attributes(
    (state, caller, reader): (&State, &Caller, u32),
    (number, handle): (u64, &Handle),
    offset: u64,
    reply: &mut ReplyDirectoryPlus,
) -> Result<(), Errno> {
    let (file_system, directory) = (&state.file_system, handle.file.fid());
    let mut position = begin(file_system, caller, handle, offset).await?;
    while position.left().0.is_empty()
        && let Some(next) = position.next
    {
        position = read(file_system, caller, directory, (next, position.room)).await?;
    }
    if offset != 0 {
        look_up(file_system, caller, directory, &mut position).await;
    }
    // Before the first name, since each may be lost as soon as it is told.
    state.nodes(|nodes| nodes.begin_listing(number, reader));
    let told = Listing { state, directory, is_first: offset == 0 }.add(&mut position, reply);
    state.nodes(|nodes| match told {
        Some(last) => nodes.listings.end(number, last),
        None => drop(nodes.listings.read_by(number)),
    });
    *handle.position.lock().unwrap_or_else(PoisonError::into_inner) = position;
    Ok(())
}

/// Returns a position, from what was read before or from the server.
async fn begin(
    file_system: &FileSystem,
    caller: &Caller,
    handle: &Handle,
    offset: u64,
) -> Result<Position, Errno> {
    let position = {
        let mut locked = handle.position.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *locked)
    };
    if position.is_at(offset, file_system, handle.file.fid()) {
        Ok(Position { new: None, ..position })
    } else {
        read(file_system, caller, handle.file.fid(), (offset, position.room)).await
    }
}

async fn read(
    file_system: &FileSystem,
    caller: &Caller,
    directory: Fid,
    (from, room): (u64, usize),
) -> Result<Position, Errno> {
    let nothing = Position { at: Some(from), room, ..Position::default() };
    if from == END {
        return Ok(nothing);
    }
    let (items, next) = file_system.read_directory(caller, directory, from).await?;
    Ok(Position { items: Arc::new(items), next, ..nothing })
}

/// Looks up the names that fit into a reply, and begins to look up those that follow.
async fn look_up(
    file_system: &FileSystem,
    caller: &Caller,
    directory: Fid,
    position: &mut Position,
) {
    let items = position.items.clone();
    let (left, count) = position.left();
    let names = |from: usize, end: usize| -> Vec<&[u8]> {
        let items = items.get(position.place + from..position.place + end).unwrap_or_default();
        items.iter().filter(|item| !is_own(item)).map(|item| item.name.as_slice()).collect()
    };
    let (begun, end) =
        (position.ahead.saturating_sub(position.place), left.len().min(AHEAD.max(count)));
    let (wanted, next) = (names(0, count), names(begun.min(end), end));
    // Many at once, so that the servers have something to do meanwhile.
    if begun < AHEAD / 2 || begun < count {
        file_system.look_up_ahead(caller, directory, &next);
        position.ahead = position.place + end;
    }
    file_system.until_looked_up(directory, &wanted).await;
}

/// Adds what fits, and returns whether something does not.
fn add(position: &mut Position, reply: &mut ReplyDirectory) -> bool {
    while let Some(item) = position.items.get(position.place) {
        let next = item.next.min(END);
        let name = OsStr::from_bytes(&item.name);
        if reply.add(INodeNo(inode(item.fid)), next, kind(item.file_type), name) {
            return true;
        }
        position.pass(next);
    }
    false
}

/// A part of a directory, with attributes.
struct Listing<'a> {
    state: &'a State,
    directory: Fid,
    is_first: bool,
}

/// What the kernel is told of a file in it.
struct ListedFile {
    attr: FileAttr,
    generation: Generation,
    /// How long it may use the name and the attributes.
    time: Duration,
}

impl Listing<'_> {
    /// Adds what fits. If names were told that the kernel keeps, it returns the last file, unless the kernel takes that
    /// one: it says that it has read the others when it gives that one back.
    fn add(&self, position: &mut Position, reply: &mut ReplyDirectoryPlus) -> Option<Option<u64>> {
        let items = position.items.clone();
        let (first, count) = (position.place, position.left().1);
        let (mut has_told, mut last, mut used) = (false, None, 0);
        for (place, item) in items.iter().skip(first).take(count).enumerate() {
            let told = match place + 1 < count {
                _ if is_own(item) => ListedFile::refused(item, inode(item.fid)),
                true => self.tell(item),
                false => self.refuse(item),
            };
            let (number, next) = (told.attr.ino, item.next.min(END));
            let name = OsStr::from_bytes(&item.name);
            if reply.add(number, next, name, &told.time, &told.attr, told.generation) {
                if !is_own(item) {
                    self.state.notices.forget(number.0, 1);
                }
                position.room = position.room.min(used);
                break;
            }
            used += len(item);
            position.pass(next);
            let is_kept = told.time != NO_TIME;
            has_told |= is_kept;
            last = (!is_kept && !is_own(item)).then_some(number.0);
            // Who asks for the beginning may want names only.
            if self.is_first && last.is_some() && place + 1 >= FIRST {
                break;
            }
        }
        has_told.then_some(last)
    }

    /// Tells a file to keep, if locks protect its name and its attributes and it may keep names. Not one that the kernel
    /// has: it would ask for its access control lists again.
    fn tell(&self, item: &DirectoryItem) -> ListedFile {
        if self.state.nodes(|nodes| nodes.is_kept(item.fid) || !nodes.may_keep_names()) {
            return self.refuse(item);
        }
        let name = Some((self.directory, item.name.as_slice()));
        let told = self.state.file_system.protected(item.fid, name, |now| {
            let found = now.attributes.filter(|_| now.name)?;
            let found = self.state.entry_kept(&found, KernelCache { name, attributes: true });
            Some(ListedFile { attr: found.attr, generation: found.generation, time: found.name })
        });
        told.unwrap_or_else(|| self.refuse(item))
    }

    /// Tells only the name of a file.
    fn refuse(&self, item: &DirectoryItem) -> ListedFile {
        let (number, _) = self.state.nodes(|nodes| nodes.tell(item.fid, KernelCache::default()));
        ListedFile::refused(item, number)
    }
}

impl ListedFile {
    /// Attributes that are not valid: the kernel shows the name, and then gives the file back. Without a number, as the
    /// protocol has it, programs would not see the name.
    fn refused(item: &DirectoryItem, number: u64) -> Self {
        let invalid = Attributes { mode: item.file_type, size: u64::MAX, ..Attributes::default() };
        Self { attr: file_attr(&invalid, number), generation: Generation(0), time: NO_TIME }
    }
}

/// Returns whether this is the directory itself, or the one above: the kernel takes neither.
fn is_own(item: &DirectoryItem) -> bool {
    [b".".as_slice(), b".."].contains(&item.name.as_slice())
}

/// Returns the length of a file in a reply with attributes.
fn len(item: &DirectoryItem) -> usize {
    (ENTRY + item.name.len()).next_multiple_of(8)
}
