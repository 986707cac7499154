//! What the kernel asks most: names, attributes, and access control lists.
//!
//! What is cached is answered at once, by the thread that has read the request. What locks protect then, the kernel may
//! keep.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_client::{ACL_ACCESS, ACL_DEFAULT, Attributes, Caller, Entry, file_of_inode};
use fulmar_lustre_wire::Fid;
use fuser::{FileAttr, Generation, INodeNo, Request};

use crate::attributes::file_attr;
use crate::caller::caller;
use crate::counts::count;
use crate::front::{Front, entry, value};
use crate::nodes::KernelCache;
use crate::replies::Reply;
use crate::state::{EntryReply, LONG, NO_TIME, State, found, lifetime, name};

/// Attributes, and how long the kernel may use them without asking.
type AttributesReply = (FileAttr, Duration);

/// The names by which the kernel asks for a directory itself, and for the one above.
const OWN: &[u8] = b".";
const ABOVE: &[u8] = b"..";

impl Front {
    /// Finds a name.
    pub(crate) fn look_up(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        reply: fuser::ReplyEntry,
    ) {
        count(&self.state.asked.names);
        match text.as_bytes() {
            OWN => return self.find_again(request, parent, reply),
            ABOVE => return self.find_above(request, parent, reply),
            _ => {}
        }
        let (parent, name, state) =
            (self.state.fid_asked(request, parent), name(text), &self.state);
        if let (Ok(parent), Ok(name)) = (&parent, &name)
            && let Some(found) = state.file_system.cached_entry(
                || caller(request, 0),
                *parent,
                name,
                |found| state.entry_cached((*parent, name), found),
            )
        {
            return match found {
                Ok(found) => entry(reply, found),
                Err(errno) => reply.fail(errno),
            };
        }
        let caller = caller(request, 0);
        let look = |state: Arc<State>| async move {
            let (parent, name) = (parent?, name?);
            let found = state.file_system.lookup(&caller, parent, &name).await?;
            Ok(state.entry_of_name((parent, &name), &found.attributes))
        };
        self.run_entry(request, reply, look);
    }

    /// Finds a file that the kernel has forgotten, and of which a program has a handle.
    fn find_again(&self, request: &Request, number: INodeNo, reply: fuser::ReplyEntry) {
        let caller = caller(request, 0);
        let find = |state: Arc<State>| async move {
            let file = state.fid(number).ok().or_else(|| file_of_inode(number.0));
            let found = state.file_system.getattr(&caller, file.ok_or(Errno::ESTALE)?).await?;
            Ok(state.entry(&found))
        };
        self.run_entry(request, reply, find);
    }

    /// Finds the directory above one that was found by a handle.
    fn find_above(&self, request: &Request, number: INodeNo, reply: fuser::ReplyEntry) {
        let (caller, directory) = (caller(request, 0), self.state.fid(number));
        let find = |state: Arc<State>| async move {
            let directory = directory?;
            let (names, _) = state.file_system.read_directory(&caller, directory, 0).await?;
            let above = names.iter().find(|item| item.name == ABOVE).map(|item| item.fid);
            // That of a striped one may not be known.
            let above = above.filter(|above| *above != directory).ok_or(Errno::ESTALE)?;
            let found = state.file_system.getattr(&caller, above).await?;
            Ok(state.entry(&found))
        };
        self.run_entry(request, reply, find);
    }

    /// Returns the attributes of a file.
    pub(crate) fn get_attributes(
        &self,
        request: &Request,
        number: INodeNo,
        reply: fuser::ReplyAttr,
    ) {
        count(&self.state.asked.attributes);
        let file = self.state.fid_asked(request, number);
        if let Ok(file) = file
            && let Some(found) = self.state.kept_attributes(file)
        {
            return reply.attr(&LONG, &file_attr(&found, found.inode()));
        }
        let caller = caller(request, 0);
        let get = |state: Arc<State>| async move { state.attributes(&caller, file?).await };
        self.run(request, reply, get, |reply, (attr, time): AttributesReply| {
            reply.attr(&time, &attr)
        });
    }

    /// Returns an extended attribute of a file.
    pub(crate) fn get_value(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        room: u32,
        reply: fuser::ReplyXattr,
    ) {
        count(&self.state.asked.lists);
        let name = name.as_bytes().to_vec();
        if let Err(errno) = self.state.check_xattr(&name) {
            return reply.fail(errno);
        }
        let is_list = [ACL_ACCESS, ACL_DEFAULT].contains(&name.as_slice());
        let file = if is_list {
            self.state.fid_asked(request, number)
        } else {
            // A label may be read in the middle of a listing.
            self.state.fid(number)
        };
        if let Ok(file) = file {
            // The kernel keeps access control lists as long as attributes.
            self.state.nodes(|nodes| is_list.then(|| nodes.tell_attributes(file)));
            if let Some(found) = self.state.file_system.cached_xattr(file, &name) {
                return match found {
                    Ok(bytes) => value(reply, &bytes, room),
                    Err(errno) => reply.fail(errno),
                };
            }
        }
        let caller = caller(request, 0);
        if let (Ok(file), ACL_DEFAULT) = (file, name.as_slice()) {
            self.read_early(&caller, file);
        }
        let get = |state: Arc<State>| async move {
            let file = file?;
            let was_protected = state.protects_lists(file);
            let found = state.file_system.get_xattr(&caller, file, &name).await;
            if is_list && !(was_protected && state.protects_lists(file)) {
                state.notices.drop_attributes(number.0);
            }
            found
        };
        self.run(request, reply, get, move |reply, bytes: Vec<u8>| value(reply, &bytes, room));
    }
}

impl State {
    /// Returns what the kernel is told of a name that is cached, and so is protected by locks.
    fn entry_cached(
        &self,
        place: (Fid, &[u8]),
        found: Result<Entry, Errno>,
    ) -> Result<EntryReply, Errno> {
        match found {
            Ok(found) => {
                let protected = KernelCache { name: Some(place), attributes: true };
                Ok(self.entry_kept(&found.attributes, protected))
            }
            // Somebody has asked for it before: so it is asked for again and again.
            Err(Errno::ENOENT) if self.nodes(|nodes| nodes.tell_absent(place.0, place.1)) => {
                Ok(EntryReply::absent())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Returns the attributes of a file, and how long the kernel may keep them.
    async fn attributes(&self, caller: &Caller, file: Fid) -> Result<AttributesReply, Errno> {
        let asked = found(self.file_system.getattr(caller, file).await)?;
        let kept: Option<Attributes> = self.kept_attributes(file);
        let found = kept.unwrap_or(asked);
        Ok((file_attr(&found, found.inode()), lifetime(kept.is_some())))
    }

    /// Returns whether a lock protects the access control lists of a file.
    fn protects_lists(&self, file: Fid) -> bool {
        self.file_system.cached_xattr(file, ACL_ACCESS).is_some()
    }
}

impl EntryReply {
    /// The file of a name that does not exist.
    fn absent() -> Self {
        let attr = file_attr(&Attributes::default(), 0);
        Self { attr, generation: Generation(0), name: LONG, attributes: NO_TIME }
    }
}
