//! Opening files. Spec: mdt-ost §8.3, §22.4.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::format::{
    ENQUEUE_OPEN, INTENT, LAYOUT, LOCK_REQUEST, NAME, NEW_LAYOUT, REINT,
};
use fulmar_lustre_wire::ldlm::{
    Disposition, InodeBits, Intent, IntentOps, LockFlags, LockMode, LockRequest,
};
use fulmar_lustre_wire::mdt::{
    Create, MdtBody, OpenFlags, Reint, ReintChange, ReintOp, SplitOpenFlags, Valid,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use super::caller::Caller;
use super::lookup::IntentResult;
use super::mount::Open;
use super::open_cache::HandleKey;
use super::request::{bits, excludes, name, open_room, record, resource};
use super::stripes::Place;
use crate::data::state::OpenKey;
use crate::machine::context::Context;
use crate::machine::peer::Build;
use crate::machine::replay::set_old_handle;

/// How a file is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// To read it.
    pub read: bool,
    /// To read it as a program that is run, for which the permission to do so is enough.
    pub execute: bool,
    /// To write it.
    pub write: bool,
    /// Each write is at the end of the file.
    pub append: bool,
    /// It is cut to nothing.
    pub truncate: bool,
    /// It is created if it does not exist, with these permissions, from which the caller's umask is taken.
    pub create: Option<u32>,
    /// It must not exist.
    pub exclusive: bool,
    /// Reads do not change the time of the last access.
    pub keeps_access: bool,
    /// The layout of a new file, as `lfs setstripe` makes it; by default that of its directory.
    pub layout: Option<Vec<u8>>,
}

impl OpenOptions {
    /// To read a file.
    pub fn read() -> Self {
        Self { read: true, ..Self::default() }
    }

    /// To write a file.
    pub fn write() -> Self {
        Self { write: true, ..Self::default() }
    }

    /// To write a file, which is created if it does not exist.
    pub fn create(mode: u32) -> Self {
        Self { write: true, create: Some(mode), ..Self::default() }
    }

    fn flags(&self) -> OpenFlags {
        let all = [
            (self.read, OpenFlags::READ),
            (self.execute, OpenFlags::EXEC),
            (self.write, OpenFlags::WRITE),
            (self.append, OpenFlags::APPEND),
            (self.truncate, OpenFlags::TRUNC),
            (self.create.is_some(), OpenFlags::CREAT),
            (self.create.is_some() && self.exclusive, OpenFlags::EXCL),
            (self.layout.is_some(), OpenFlags::HAS_EA),
        ];
        let set = all.into_iter().filter(|(is_set, _)| *is_set);
        set.fold(OpenFlags::NONE, |flags, (_, flag)| flags | flag)
    }

    /// The same with a lock on the open, if it is to be kept.
    fn flags_to_keep(&self, keeps: bool) -> OpenFlags {
        self.flags() | if keeps { OpenFlags::LOCK } else { OpenFlags::NONE }
    }
}

/// What an open has found or made.
pub(crate) struct OpenResult {
    pub(crate) open: Arc<Open>,
    pub(crate) body: MdtBody,
    /// By which its import keeps it.
    pub(crate) key: HandleKey,
    /// By which it is known in the cache of data.
    pub(crate) number: OpenKey,
    pub(crate) is_new: bool,
}

/// The answer to an open.
enum Answer {
    Here(Box<OpenResult>),
    /// The file is on another MDT.
    Elsewhere(Fid),
}

impl Answer {
    /// Returns what was opened at the MDT that has it.
    fn here(self) -> Result<OpenResult, Errno> {
        match self {
            Self::Here(opened) => Ok(*opened),
            Self::Elsewhere(_) => Err(Errno::EREMOTE),
        }
    }
}

/// What a file is opened by.
enum Which {
    /// A name in a directory, which is in this part of it.
    Name(Fid, Place, Name),
    /// A file.
    Fid(Fid),
}

/// How often an open that the server has not finished is tried again.
const TRIES: u64 = 60;
/// How often, and after which time each, a program is opened again that is open for writing.
const BUSY_TRIES: u32 = 10;
const BUSY_WAIT: Duration = Duration::from_millis(100);
const REGULAR: u32 = 0o100_000;

impl Context {
    /// Opens a file by its name, and creates it if that is wanted. One round trip, or none if it is kept open.
    pub(crate) async fn open_name(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
        options: &OpenOptions,
    ) -> Result<OpenResult, Errno> {
        let name = name(text)?;
        let known = self.known_file(parent, &name);
        if let Some(opened) = known.and_then(|fid| self.reopen(caller, fid, options)) {
            return Ok(opened);
        }
        let keeps = known.is_some_and(|fid| self.is_reopened(fid, options));
        let mut seen = self.seen(&[parent]);
        loop {
            match self.open_in(caller, parent, &name, (options, keeps)).await {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                opened => return opened,
            }
        }
    }

    /// Opens a file that is known, and gives it a layout if it has none and one is wanted. One round trip, or none if
    /// it is kept open.
    pub(crate) async fn open_fid(
        &self,
        caller: &Caller,
        fid: Fid,
        options: &OpenOptions,
    ) -> Result<OpenResult, Errno> {
        let executes = options.execute;
        let options = OpenOptions { create: None, execute: false, ..options.clone() };
        if let Some(opened) = self.reopen(caller, fid, &options) {
            return Ok(opened);
        }
        let keeps = self.is_reopened(fid, &options);
        match self.open_at_mdt(caller, fid, (&options, keeps)).await {
            Err(Errno::EACCES) if executes => self.open_program(caller, fid).await,
            opened => opened,
        }
    }

    /// Opens a program that the caller may run, but not read. One round trip.
    async fn open_program(&self, caller: &Caller, fid: Fid) -> Result<OpenResult, Errno> {
        let options = OpenOptions { execute: true, ..OpenOptions::default() };
        for _ in 0..BUSY_TRIES {
            match self.open_at_mdt(caller, fid, (&options, false)).await {
                // Who has written it may have closed it, and the server does not know yet.
                Err(Errno::ETXTBSY) => self.sleep(BUSY_WAIT).await,
                opened => return opened,
            }
        }
        Err(Errno::ETXTBSY)
    }

    /// Opens a directory. One round trip.
    pub(crate) async fn open_directory(
        &self,
        caller: &Caller,
        fid: Fid,
    ) -> Result<OpenResult, Errno> {
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY | OpenFlags::BY_FID;
        self.open(caller, Which::Fid(fid), flags, &OpenOptions::read()).await?.here()
    }

    /// Opens a file at the MDT that has it. `keeps`: the open is kept if locks allow that.
    pub(super) async fn open_at_mdt(
        &self,
        caller: &Caller,
        fid: Fid,
        (options, keeps): (&OpenOptions, bool),
    ) -> Result<OpenResult, Errno> {
        let flags = options.flags_to_keep(keeps) | OpenFlags::BY_FID;
        self.open(caller, Which::Fid(fid), flags, options).await?.here()
    }

    /// Opens a name where it is, or creates it where it belongs. `keeps`: as for a file.
    async fn open_in(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &Name,
        (options, keeps): (&OpenOptions, bool),
    ) -> Result<OpenResult, Errno> {
        let flags = options.flags_to_keep(keeps);
        let (place, found) = if flags.has(OpenFlags::CREAT) {
            self.receiver(caller, parent, name).await?
        } else {
            (self.holder(caller, parent, name).await?, None)
        };
        let elsewhere = match found {
            Some(fid) => fid,
            None => {
                let which = Which::Name(parent, place, name.clone());
                let above = self.watched_name(parent);
                match self.open(caller, which, flags, options).await? {
                    Answer::Here(opened) => {
                        if opened.is_new {
                            self.look_up_again(caller, above);
                        }
                        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
                            mount.remove_name(parent, name);
                        }
                        self.note_name(parent, name, (opened.body.fid, place.mdt));
                        return Ok(*opened);
                    }
                    Answer::Elsewhere(fid) => fid,
                }
            }
        };
        if flags.has(OpenFlags::CREAT | OpenFlags::EXCL) {
            Err(Errno::EEXIST)
        } else {
            let options = OpenOptions { create: None, ..options.clone() };
            self.open_at_mdt(caller, elsewhere, (&options, keeps)).await
        }
    }

    async fn open(
        &self,
        caller: &Caller,
        which: Which,
        flags: OpenFlags,
        options: &OpenOptions,
    ) -> Result<Answer, Errno> {
        let (parent, place, known, name) = match which {
            Which::Name(parent, place, name) => (parent, place, Fid::default(), name),
            Which::Fid(fid) => {
                let place = Place { fid, mdt: self.mdt(fid).await?, version: 0 };
                (fid, place, fid, Name::default())
            }
        };
        let creates = flags.has(OpenFlags::CREAT);
        let child = if creates { self.new_fid(place.mdt).await? } else { known };
        let group = self.group_for(caller, parent);
        for attempt in 1..=TRIES {
            let of = (place, child, &name);
            let result = self.open_once(caller, of, group, (flags, options)).await;
            match result {
                Err(Errno::EINPROGRESS) => self.sleep(Duration::from_secs(attempt)).await,
                result => return result,
            }
        }
        Err(Errno::EINPROGRESS)
    }

    async fn open_once(
        &self,
        caller: &Caller,
        (place, child, name): (Place, Fid, &Name),
        group: Option<u32>,
        (flags, options): (OpenFlags, &OpenOptions),
    ) -> Result<Answer, Errno> {
        let Place { fid: parent, mdt, version } = place;
        let creates = flags.has(OpenFlags::CREAT);
        let (mode, wanted, ops) = if creates {
            (LockMode::CW, InodeBits::UPDATE, IntentOps::OPEN | IntentOps::CREAT)
        } else {
            (LockMode::CR, InodeBits::LOOKUP, IntentOps::OPEN)
        };
        let early = if creates {
            self.early(mdt, &[excludes(parent, InodeBits::UPDATE)]).await
        } else {
            Vec::new()
        };
        let wanted = LockSpec::new(resource(parent), mode, bits(wanted)).always();
        let wanted = LockSpec { early, ..wanted.with(LockFlags::HAS_INTENT) };
        let change = ReintChange::Create(Create {
            child,
            time: self.core().seconds(),
            mode: REGULAR | options.create.unwrap_or(0) & 0o7777,
            flags: SplitOpenFlags(flags),
            umask: caller.umask,
            ..Create::default()
        });
        let mut record = record(caller, ReintOp::OPEN, (parent, [group, None]), change);
        record.head.layout_version = if creates { version } else { 0 };
        // Room for the layout, which a replay must name.
        let layout =
            options.layout.clone().unwrap_or_else(|| vec![0; if creates { 128 } else { 0 }]);
        let name = name.clone();
        let build = move |lock: &LockRequest| {
            let message = Message::request(&ENQUEUE_OPEN)
                .with(&LOCK_REQUEST, lock)
                .with(&INTENT, &Intent { ops })
                .with(&REINT, &record)
                .with(&NAME, &name)
                .with_bytes(&NEW_LAYOUT, layout);
            Request::new(message, open_room()).modifying().opening()
        };
        let acquired = self.acquire(mdt, wanted, Some(Build::alone(build))).await?;
        let found = self.take(acquired, false)?;
        match self.opened(mdt, found, flags.has(OpenFlags::LOCK).then_some(caller)) {
            // What has the name now is not opened, but it has it.
            Err(Errno::ENXIO) if flags.has(OpenFlags::CREAT | OpenFlags::EXCL) => {
                Err(Errno::EEXIST)
            }
            opened => opened,
        }
    }

    /// Handles the result of an open, which is kept for `keeper` if locks allow that.
    fn opened(
        &self,
        mdt: ImportId,
        found: IntentResult,
        keeper: Option<&Caller>,
    ) -> Result<Answer, Errno> {
        let IntentResult { done, body, acquired } = found;
        if done.has(Disposition::LOOKUP_POS) && body.valid.has(Valid::MDS) {
            return Ok(Answer::Elsewhere(body.fid));
        }
        if !done.has(Disposition::OPEN_OPEN) || body.open_handle.is_none() {
            let is_absent = done.has(Disposition::LOOKUP_NEG);
            // A device or a symbolic link is not opened at the server.
            return Err(if is_absent { Errno::ENOENT } else { Errno::ENXIO });
        }
        let request = acquired.request.ok_or(Errno::EPROTO)?;
        let reply = acquired.reply.as_deref().ok_or(Errno::EPROTO)?;
        let key = (mdt, request);
        let is_new = done.has(Disposition::OPEN_CREATE);
        let has_new_layout = is_new || done.has(Disposition::OPEN_STRIPE);
        let layout = has_new_layout.then(|| reply.bytes(&LAYOUT).unwrap_or_default().to_vec());
        let mut core = self.core();
        let evictions = core.peer(mdt).map_or(0, |peer| peer.evictions);
        let open = Arc::new(Open::new(body.fid, mdt, evictions, body.open_handle));
        if let Some(message) = core.client().message_mut(mdt, request) {
            prepare_replay(message, &body, layout);
        }
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        mount.opens.insert(key, open.clone());
        let inode = mount.inodes.entry(body.fid).or_default();
        inode.opens += 1;
        inode.is_new |= is_new;
        inode.is_own |= is_new && inode.bits.has(InodeBits::UPDATE);
        inode.is_changed |= is_new;
        if !inode.has_attributes() {
            inode.body = body;
        }
        let number = OpenKey(core.number());
        drop(core);
        if let Some(caller) = keeper {
            self.keep_open(caller, key, &open);
        }
        drop(acquired);
        Ok(Answer::Here(Box::new(OpenResult { open, body, key, number, is_new })))
    }
}

/// Changes an open that was executed into what a replay must be. Spec: ptlrpc-ldlm-mgs §14.3.
fn prepare_replay(message: &mut Message<'static>, body: &MdtBody, layout: Option<Vec<u8>>) {
    if let Ok(mut lock) = message.require(&LOCK_REQUEST) {
        lock.flags = lock.flags | LockFlags::INTENT_ONLY;
        message.set(&LOCK_REQUEST, &lock);
    }
    if let Ok(mut reint) = message.require::<Reint>(&REINT) {
        if let ReintChange::Create(create) = &mut reint.change {
            create.child = body.fid;
        }
        set_old_handle(&mut reint, body.open_handle);
        message.set(&REINT, &reint);
    }
    if let Some(layout) = layout {
        let layout = layout.get(..body.ea_size as usize).unwrap_or(&layout).to_vec();
        message.set_bytes(&NEW_LAYOUT, layout);
    }
}
