//! Names and attributes, from the cache or by intents. Spec: mdt-ost §8.2, §22.2, §22.3.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::format::{
    ACL, DEFAULT_LAYOUT, ENQUEUE_GETATTR, INLINE_DATA, INTENT, LAYOUT, LOCK_REQUEST, MDT_BODY, NAME,
};
use fulmar_lustre_wire::ldlm::{
    Disposition, InodeBits, Intent, IntentOps, LockFlags, LockMode, LockRequest,
};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;

use super::attributes::{Attributes, Entry};
use super::caller::Caller;
use super::inline;
use super::inode::{DomSize, Inode, is_directory, is_regular};
use super::layout::FileLayout;
use super::request::{bits, body, ea_size, intent_room, name, resource};
use super::shape::Shape;
use crate::machine::context::{Context, LockAnswer};
use crate::machine::peer::Build;

/// What an intent has found.
pub(crate) struct IntentResult {
    pub(crate) done: Disposition,
    pub(crate) body: MdtBody,
    pub(crate) acquired: LockAnswer,
}

/// What of a file is wanted. Spec: mdt-ost §8.2.
const WANTED: Valid = Valid(
    Valid::GETATTR.0
        | Valid::FLBLOCKS.0
        | Valid::FLEASIZE.0
        | Valid::FLMODEASIZE.0
        | Valid::FLDIREA.0
        | Valid::MEA.0
        | Valid::DEFAULT_MEA.0
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
        self.look_ahead(caller, parent, &name(text)?).await;
        self.look_up(caller, parent, text).await
    }

    /// Begins to look up the names that are likely to be next, and waits for this one if that was done for it.
    async fn look_ahead(&self, caller: &Caller, parent: Fid, name: &Name) {
        let (next, waiting) = {
            let mut core = self.core();
            let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
            let waiting = mount.waiting_for(parent, name);
            (mount.look_ahead(parent, name), waiting)
        };
        self.look_up_ahead(caller, parent, next);
        if let Some(waiting) = waiting {
            let _ = waiting.await;
        }
    }

    pub(super) async fn look_up(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
    ) -> Result<Entry, Errno> {
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

    /// Returns the attributes of a file. No round trip if they are cached, else one; with the size of a
    /// regular file one more, in which all its objects are asked, unless locks on them are held, and with that of a
    /// striped directory one, in which its stripes are.
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
            let found = Attributes::new(&self.with_stripes(caller, body).await?, None);
            return Ok(self.with_access(found));
        }
        let layout = self.layout(caller, fid).await?;
        let size = self.first_size(fid, &layout).await?;
        Ok(self.with_access(Attributes::new(&body, Some(size))))
    }

    /// Returns what the MDT says of a file, from the cache if it is valid.
    pub(crate) async fn attributes(&self, caller: &Caller, fid: Fid) -> Result<MdtBody, Errno> {
        {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            let is_known = |one: &&Inode| {
                let may_be_striped = one.is_directory() && mount.mdts.len() > 1;
                one.has_attributes() && (one.has_shape || !may_be_striped)
            };
            if let Some(inode) = mount.inodes.get(&fid).filter(is_known) {
                return Ok(inode.body);
            }
        }
        let (mdt, group) = (self.mdt(fid).await?, self.group_for(caller, fid));
        let nothing = Name::default();
        let found = self.getattr_intent(caller, mdt, (fid, fid), &nothing, group).await?;
        if found.body.fid == fid && found.body.valid.has(Valid::FLMODE) {
            Ok(found.body)
        } else {
            Err(Errno::ESTALE)
        }
    }

    /// Executes an intent GETATTR, by name or by FID, and caches what it finds. `group` is that of the directory.
    pub(super) async fn getattr_intent(
        &self,
        caller: &Caller,
        mdt: ImportId,
        (parent, child): (Fid, Fid),
        name: &Name,
        group: Option<u32>,
    ) -> Result<IntentResult, Errno> {
        let in_batch = self.is_in_advance(mdt, parent, name);
        for attempt in 1..=TRIES {
            let policy = bits(InodeBits::UPDATE);
            let wanted = LockSpec::new(resource(parent), LockMode::CR, policy).always();
            let wanted = wanted.with(LockFlags::HAS_INTENT);
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
            let build = if in_batch { Build::in_batch(build) } else { Build::alone(build) };
            let acquired = self.acquire(mdt, wanted, Some(build)).await?;
            match self.take(acquired, true) {
                Err(Errno::EINPROGRESS) => self.sleep(Duration::from_secs(attempt)).await,
                taken => return taken,
            }
        }
        Err(Errno::EINPROGRESS)
    }

    /// Handles the reply to an intent, and caches what it says under the lock that it gives. `has_shape`: whether it
    /// tells the stripes of a directory.
    pub(crate) fn take(
        &self,
        acquired: LockAnswer,
        has_shape: bool,
    ) -> Result<IntentResult, Errno> {
        let extra = acquired.extra.as_ref().ok_or(Errno::EPROTO)?;
        let (done, result) = (Disposition(extra.result1), extra.result2 as i32);
        if result < 0 {
            return Err(Errno(result.saturating_neg()));
        }
        let reply = acquired.reply.as_deref().ok_or(Errno::EPROTO)?;
        let body = reply.get(&MDT_BODY).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let covered = acquired.covered.filter(|one| one.resource.id.fid() == body.fid);
        let held = covered.map_or(InodeBits::NONE, |one| one.policy.inodebits().bits);
        self.cache(&body, held, reply, has_shape)?;
        Ok(IntentResult { done, body, acquired })
    }

    /// Caches what a reply says of a file, as far as a lock protects it.
    pub(crate) fn cache(
        &self,
        body: &MdtBody,
        held: InodeBits,
        reply: &Message<'_>,
        has_shape: bool,
    ) -> Result<(), Errno> {
        let has_shape = has_shape && body.valid.has(Valid::FLMODE) && is_directory(body.mode);
        let shape = has_shape.then(|| shape(body, reply)).transpose()?;
        if let (Some(shape), Some(mount)) = (shape, self.core().mounts.get_mut(&self.mount)) {
            mount.shapes.note(body.fid, shape);
        }
        if held == InodeBits::NONE || !body.valid.has(Valid::FLID) {
            return Ok(());
        }
        let layout = if held.has(InodeBits::LAYOUT) && body.valid.has(Valid::FLEASIZE) {
            let bytes = reply.bytes(&LAYOUT).unwrap_or_default();
            let bytes = bytes.get(..body.ea_size as usize).unwrap_or(bytes);
            FileLayout::decode(bytes)?
        } else {
            None
        };
        let acl = reply.bytes(&ACL).unwrap_or_default();
        let acl = acl.get(..body.acl_size as usize).unwrap_or(acl).to_vec();
        let dom = (held.has(InodeBits::DOM) && body.valid.has(Valid::DOM_SIZE))
            .then_some(DomSize { size: body.dom_size, blocks: body.dom_blocks });
        let inline = reply.bytes(&INLINE_DATA).unwrap_or_default();
        let data = dom.and_then(|dom| inline::whole(inline, dom.size));
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let inode = mount.inodes.entry(body.fid).or_default();
        // A reply without the lock on the data does not tell their size.
        inode.dom = dom.or(inode.dom);
        inode.inline = data.or(inode.inline.take());
        inode.bits = inode.bits | held;
        inode.has_shape |= has_shape && held.has(InodeBits::UPDATE);
        if body.valid.has(Valid::FLMODE) {
            (inode.body, inode.acl) = (*body, acl);
        }
        if held.has(InodeBits::LAYOUT) && is_regular(body.mode) {
            inode.layout = Some(Arc::new(layout.unwrap_or_else(FileLayout::none)));
        }
        Ok(())
    }

    /// Returns the group to which a caller owes most of what it may do with a file, as far as that is cached: that of
    /// the file, or one that its access control list names.
    pub(crate) fn group_for(&self, caller: &Caller, fid: Fid) -> Option<u32> {
        let core = self.core();
        let inode = core.mounts.get(&self.mount)?.inodes.get(&fid)?;
        // It may be an old one: the server decides.
        inode.body.valid.has(Valid::FLGID).then(|| caller.group_in(inode.body.gid, &inode.acl))
    }
}

/// Returns the stripes of a directory that come with its attributes.
fn shape(body: &MdtBody, reply: &Message<'_>) -> Result<Shape, Errno> {
    let of = |valid, bytes: Option<_>| bytes.filter(|_| body.valid.has(valid)).unwrap_or_default();
    let stripes = of(Valid::MEA, reply.bytes(&LAYOUT));
    Shape::decode(stripes, of(Valid::DEFAULT_MEA, reply.bytes(&DEFAULT_LAYOUT)))
}
