//! Names and attributes, from the cache or by intents. Spec: mdt-ost §8.2, §22.2, §22.3.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::client::Wanted;
use fulmar_lustre_wire::format::{
    ACL, ENQUEUE_GETATTR, INLINE_DATA, INTENT, LAYOUT, LOCK_REQUEST, MDT_BODY, NAME,
};
use fulmar_lustre_wire::ldlm::{
    Disposition, InodeBits, Intent, IntentOps, LockFlags, LockMode, LockRequest,
};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;
use futures_channel::oneshot;

use super::attributes::{Attributes, Entry};
use super::caller::Caller;
use super::inline;
use super::inode::is_regular;
use super::layout::FileLayout;
use super::request::{bits, body, ea_size, intent_room, name, resource};
use crate::machine::context::{Acquired, Context};

/// What an intent has found.
pub(crate) struct Found {
    pub(crate) done: Disposition,
    pub(crate) body: MdtBody,
    pub(crate) acquired: Acquired,
}

/// What of a file is wanted. A kernel MDT refuses clients that ask for the default striping of directories and
/// know no striped directories, as it refuses a directory that is striped. Spec: mdt-ost §7.3.
const WANTED: Valid = Valid(
    Valid::GETATTR.0
        | Valid::FLBLOCKS.0
        | Valid::FLEASIZE.0
        | Valid::FLMODEASIZE.0
        | Valid::FLDIREA.0
        | Valid::MEA.0
        | Valid::FLACL.0,
);
/// How often an operation that the server has not finished is tried again.
const TRIES: u64 = 60;
/// How often a name is looked up again whose file does not exist any more.
const STALE_TRIES: usize = 5;

impl Context {
    /// Returns the file of a name. No round trip if it is cached, else one, and one more for the size of
    /// a regular file. In the order of a directory that was read those that follow are fetched meanwhile.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EACCES, and what the servers say.
    pub(crate) async fn lookup(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
    ) -> Result<Entry, Errno> {
        self.until_looked_up(caller, parent, &name(text)?).await;
        self.look_up(caller, parent, text).await
    }

    /// Begins to look up the names that are likely to be next, and waits for this one if that was done for it.
    async fn until_looked_up(&self, caller: &Caller, parent: Fid, name: &Name) {
        let (next, waiting) = {
            let mut core = self.core();
            let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
            let waiting = mount.looking.get_mut(&(parent, name.clone())).map(|others| {
                let (sender, waiting) = oneshot::channel();
                others.push(sender);
                waiting
            });
            (mount.look_ahead(parent, name), waiting)
        };
        self.look_up_ahead(caller, parent, next);
        if let Some(waiting) = waiting {
            let _ = waiting.await;
        }
    }

    /// Begins to look up names that are likely to be next.
    pub(crate) fn look_up_ahead(&self, caller: &Caller, parent: Fid, next: Vec<Name>) {
        for name in next {
            let (cx, caller) = (self.clone(), caller.clone());
            self.spawn(async move {
                // Whoever wants it gets the error.
                let _ = cx.look_up(&caller, parent, name.as_bytes()).await;
                if let Some(mount) = cx.core().mounts.get_mut(&cx.mount) {
                    mount.looking.remove(&(parent, name));
                }
            });
        }
    }

    async fn look_up(&self, caller: &Caller, parent: Fid, text: &[u8]) -> Result<Entry, Errno> {
        for _ in 0..STALE_TRIES {
            let fid = self.find(caller, parent, text).await?;
            match self.getattr(caller, fid, true).await {
                // It was removed, or replaced, after its name was found.
                Err(Errno::ESTALE | Errno::ENOENT) => self.forget_name(parent, &name(text)?),
                attributes => return Ok(Entry { fid, attributes: attributes? }),
            }
        }
        Err(Errno::ESTALE)
    }

    /// Returns the FID of a name. No round trip if it is cached, else one.
    pub(crate) async fn find(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
    ) -> Result<Fid, Errno> {
        let name = name(text)?;
        let updates = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            if let Some(fid) = mount.names.get(&(parent, name.clone())) {
                return Ok(*fid);
            }
            if mount.absent.get(&parent).is_some_and(|absent| absent.contains(&name)) {
                return Err(Errno::ENOENT);
            }
            let inode = mount.inodes.get(&parent);
            inode.filter(|one| one.bits.has(InodeBits::UPDATE)).map(|one| one.updates)
        };
        let mdt = self.mdt(parent).await?;
        let found = self.getattr_intent(caller, mdt, (parent, Fid::default()), &name).await?;
        if !found.done.has(Disposition::LOOKUP_POS) || found.body.fid == Fid::default() {
            self.note_absent(parent, name, updates);
            return Err(Errno::ENOENT);
        }
        let fid = found.body.fid;
        if let Some(mount) = self.core().mounts.get_mut(&self.mount) {
            mount.add_name(parent, &name, fid);
        }
        drop(found);
        Ok(fid)
    }

    /// Notes that a name does not exist, if the directory has not changed since it was asked for.
    fn note_absent(&self, parent: Fid, name: Name, updates: Option<u64>) {
        let mut core = self.core();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
        let inode = mount.inodes.get(&parent);
        let is_same = inode
            .is_some_and(|one| one.bits.has(InodeBits::UPDATE) && updates == Some(one.updates));
        if is_same {
            mount.absent.entry(parent).or_default().insert(name);
        }
    }

    /// Returns the attributes of a file. No round trip if they are cached, else one; with the size of a
    /// regular file one more, in which all its objects are asked, unless locks on them are held.
    ///
    /// # Errors
    /// ESTALE if the file does not exist, and what the servers say.
    pub(crate) async fn getattr(
        &self,
        caller: &Caller,
        fid: Fid,
        with_size: bool,
    ) -> Result<Attributes, Errno> {
        let body = self.attributes(caller, fid).await?;
        if !is_regular(body.mode) || !with_size || body.valid.has(Valid::FLSIZE) {
            return Ok(Attributes::new(&body, None));
        }
        let layout = self.layout(caller, fid).await?;
        let size = self.first_size(fid, &layout).await?;
        Ok(Attributes::new(&body, Some(size)))
    }

    /// Returns what the MDT says of a file, from the cache if it is valid.
    pub(crate) async fn attributes(&self, caller: &Caller, fid: Fid) -> Result<MdtBody, Errno> {
        {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            if let Some(inode) = mount.inodes.get(&fid).filter(|one| one.has_attributes()) {
                return Ok(inode.body);
            }
        }
        let mdt = self.mdt(fid).await?;
        let nothing = Name::default();
        let found = self.getattr_intent(caller, mdt, (fid, fid), &nothing).await?;
        match found.body.fid == fid && found.body.valid.has(Valid::FLMODE) {
            true => Ok(found.body),
            false => Err(Errno::ESTALE),
        }
    }

    /// Executes an intent GETATTR, by name or by FID, and caches what it finds.
    async fn getattr_intent(
        &self,
        caller: &Caller,
        mdt: ImportId,
        (parent, child): (Fid, Fid),
        name: &Name,
    ) -> Result<Found, Errno> {
        for attempt in 1..=TRIES {
            let policy = bits(InodeBits::UPDATE);
            let wanted = Wanted::new(resource(parent), LockMode::CR, policy).always();
            let wanted = wanted.with(LockFlags::HAS_INTENT);
            let group = self.group_of(parent);
            let asked = MdtBody {
                child,
                valid: WANTED,
                ea_size: ea_size(),
                flags: u32::from(child == Fid::default()),
                ..body(caller, parent, group)
            };
            let name = name.clone();
            let build = move |lock: &LockRequest| {
                let message = Message::request(&ENQUEUE_GETATTR)
                    .with(&LOCK_REQUEST, lock)
                    .with(&INTENT, &Intent { ops: IntentOps::GETATTR })
                    .with(&MDT_BODY, &asked)
                    .with(&NAME, &name);
                Request::new(message, intent_room())
            };
            let acquired = self.acquire(mdt, wanted, Some(Box::new(build))).await?;
            match self.take(acquired) {
                Err(Errno::EINPROGRESS) => self.sleep(Duration::from_secs(attempt)).await,
                taken => return taken,
            }
        }
        Err(Errno::EINPROGRESS)
    }

    /// Takes the reply to an intent, and caches what it says under the lock that it gives.
    pub(crate) fn take(&self, acquired: Acquired) -> Result<Found, Errno> {
        let extra = acquired.extra.as_ref().ok_or(Errno::EPROTO)?;
        let (done, result) = (Disposition(extra.result1), extra.result2 as i32);
        if result < 0 {
            return Err(Errno(result.saturating_neg()));
        }
        let reply = acquired.reply.as_deref().ok_or(Errno::EPROTO)?;
        let body = reply.get(&MDT_BODY).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let covered = acquired.covered.filter(|one| one.resource.id.fid() == body.fid);
        let held = covered.map_or(InodeBits::NONE, |one| one.policy.inodebits().bits);
        self.cache(&body, held, reply)?;
        Ok(Found { done, body, acquired })
    }

    /// Caches what a reply says of a file, as far as a lock protects it.
    pub(crate) fn cache(
        &self,
        body: &MdtBody,
        held: InodeBits,
        reply: &Message<'_>,
    ) -> Result<(), Errno> {
        if held == InodeBits::NONE || !body.valid.has(Valid::FLID) {
            return Ok(());
        }
        let layout = match held.has(InodeBits::LAYOUT) && body.valid.has(Valid::FLEASIZE) {
            true => {
                let bytes = reply.bytes(&LAYOUT).unwrap_or_default();
                let bytes = bytes.get(..body.ea_size as usize).unwrap_or(bytes);
                FileLayout::decode(bytes)?
            }
            false => None,
        };
        let acl = reply.bytes(&ACL).unwrap_or_default();
        let acl = acl.get(..body.acl_size as usize).unwrap_or(acl).to_vec();
        let data = match held.has(InodeBits::DOM) && body.valid.has(Valid::DOM_SIZE) {
            true => inline::whole(reply.bytes(&INLINE_DATA).unwrap_or_default(), body.dom_size),
            false => None,
        };
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let inode = mount.inodes.entry(body.fid).or_default();
        inode.inline = data.or(inode.inline.take());
        inode.bits = inode.bits | held;
        if body.valid.has(Valid::FLMODE) {
            (inode.body, inode.acl) = (*body, acl);
        }
        if held.has(InodeBits::LAYOUT) && is_regular(body.mode) {
            inode.layout = Some(Arc::new(layout.unwrap_or_else(FileLayout::none)));
        }
        Ok(())
    }

    /// Returns the group of a file, if that is cached.
    pub(crate) fn group_of(&self, fid: Fid) -> Option<u32> {
        let core = self.core();
        let inode = core.mounts.get(&self.mount)?.inodes.get(&fid)?;
        inode.has_attributes().then_some(inode.body.gid)
    }
}
