//! Extended attributes and access control lists. Spec: mdt-ost §8.6, §10.2, §22.11.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::format::{
    EA_DATA, ENQUEUE_GETXATTR, GETXATTR, INTENT, LOCK_REQUEST, MDT_BODY, NAME, REINT,
    REINT_SETXATTR, XATTR_LENS, XATTR_NAMES, XATTR_VALUES,
};
use fulmar_lustre_wire::ldlm::{InodeBits, Intent, IntentOps, LockFlags, LockMode, LockRequest};
use fulmar_lustre_wire::mdt::{MdtBody, ReintChange, ReintOp, SetXattr, Valid, XattrFlags};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::{Fid, Name, portal};
use fulmar_rpc::import::Request;

use super::caller::Caller;
use super::request::{bits, body, body_room, given_up, record, resource};
use super::special::Special;
use crate::machine::context::Context;
use crate::machine::enqueue::REPLY_LEN;
use crate::machine::peer::Build;
use crate::mounting::BODY_LEN;

/// The access control list of a file is an attribute with this name.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The one that new files of a directory get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// The longest value.
const VALUE_MAX: usize = 64 << 10;
/// The room for all attributes of a file.
const ALL_ROOM: usize = 16 << 10;

type Xattrs = Arc<BTreeMap<Name, Vec<u8>>>;

impl Context {
    /// Returns the value of an attribute. No round trip if all of the file are cached, else one.
    ///
    /// # Errors
    /// ENODATA if there is none.
    pub(crate) async fn get_xattr(
        &self,
        caller: &Caller,
        fid: Fid,
        text: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if text == ACL_ACCESS {
            return self.access_list(caller, fid).await;
        }
        if let Some(special) = Special::of(text) {
            return self.get_special(caller, fid, special).await;
        }
        if !is_cached(text) {
            return self.read_xattr(caller, fid, text).await;
        }
        let name = Name::new(text).ok_or(Errno::EINVAL)?;
        match self.all_xattrs(caller, fid).await {
            Ok(all) => all.get(&name).cloned().ok_or(Errno::ENODATA),
            // There are too many for one reply.
            Err(Errno::ERANGE) => self.read_xattr(caller, fid, text).await,
            Err(errno) => Err(errno),
        }
    }

    /// Returns the names of all attributes. Round trips as [`Context::get_xattr`].
    pub(crate) async fn list_xattrs(&self, caller: &Caller, fid: Fid) -> Result<Vec<Name>, Errno> {
        let mut names: Vec<Name> = match self.all_xattrs(caller, fid).await {
            Ok(all) => all.keys().cloned().collect(),
            Err(Errno::ERANGE) => {
                let wanted = (Valid::FLXATTRLS, Name::default());
                let bytes = self.ask_xattr(caller, fid, wanted).await?;
                bytes.split(|byte| *byte == 0).filter_map(Name::new).collect()
            }
            Err(errno) => return Err(errno),
        };
        let access = Name::new(ACL_ACCESS).expect("it has no NUL");
        let has_access = names.contains(&access);
        if !has_access && self.access_list(caller, fid).await.is_ok() {
            names.push(access);
        }
        names.retain(|name| !name.as_bytes().is_empty());
        Ok(names)
    }

    /// Sets an attribute, or removes it. One round trip.
    ///
    /// # Errors
    /// EEXIST, ENODATA, and what the server says.
    pub(crate) async fn set_xattr(
        &self,
        caller: &Caller,
        fid: Fid,
        text: &[u8],
        value: Option<(Vec<u8>, XattrFlags)>,
    ) -> Result<(), Errno> {
        match Special::of(text) {
            Some(special) => self.set_special(caller, fid, special, value).await,
            None => self.set_stored(caller, fid, text, value).await,
        }
    }

    /// Sets or removes an attribute at the MDT. One round trip.
    pub(crate) async fn set_stored(
        &self,
        caller: &Caller,
        fid: Fid,
        text: &[u8],
        value: Option<(Vec<u8>, XattrFlags)>,
    ) -> Result<(), Errno> {
        let name = Name::new(text).ok_or(Errno::EINVAL)?;
        let mdt = self.mdt(fid).await?;
        let lost = match text {
            ACL_ACCESS => InodeBits::PERM | InodeBits::UPDATE,
            _ => InodeBits::XATTR | InodeBits::UPDATE,
        };
        let group = self.group_for(caller, fid);
        let early = self.give_up(mdt, &[(Some(fid), lost)]).await;
        let what = if value.is_some() { Valid::FLXATTR } else { Valid::FLXATTRRM };
        let (bytes, flags) = value.unwrap_or_default();
        if bytes.len() > VALUE_MAX {
            return Err(Errno::E2BIG);
        }
        let change = ReintChange::SetXattr(SetXattr {
            valid: what | Valid::FLCTIME,
            time: self.core().seconds(),
            flags,
            ..SetXattr::default()
        });
        let record = record(caller, ReintOp::SETXATTR, (fid, [group, None]), change);
        let message = Message::request(&REINT_SETXATTR)
            .with(&REINT, &record)
            .with(&NAME, &name)
            .with_bytes(&EA_DATA, bytes)
            .with(&LOCK_REQUEST, &given_up(early));
        self.request(mdt, Request::new(message, body_room()).modifying()).await?;
        Ok(())
    }

    /// Returns the access control list of a file, which comes with its attributes.
    async fn access_list(&self, caller: &Caller, fid: Fid) -> Result<Vec<u8>, Errno> {
        self.attributes(caller, fid).await?;
        let acl = {
            let core = self.core();
            let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
            inode.filter(|one| one.has_attributes()).map(|one| one.acl.clone())
        };
        match acl {
            Some(acl) if acl.is_empty() => Err(Errno::ENODATA),
            Some(acl) => Ok(acl),
            None => self.read_xattr(caller, fid, ACL_ACCESS).await,
        }
    }

    /// Reads an attribute from the MDT. One round trip.
    pub(crate) async fn read_xattr(
        &self,
        caller: &Caller,
        fid: Fid,
        text: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let name = Name::new(text).ok_or(Errno::EINVAL)?;
        self.ask_xattr(caller, fid, (Valid::FLXATTR, name)).await
    }

    async fn ask_xattr(
        &self,
        caller: &Caller,
        fid: Fid,
        (what, name): (Valid, Name),
    ) -> Result<Vec<u8>, Errno> {
        let mdt = self.mdt(fid).await?;
        let ea_size = VALUE_MAX as u32;
        let wanted = MdtBody { valid: what | Valid::FLID, ea_size, ..body(caller, fid, None) };
        let message = Message::request(&GETXATTR)
            .with(&MDT_BODY, &wanted)
            .with(&NAME, &name)
            .with_bytes(&EA_DATA, vec![]);
        let room = len_with(&[Body::LEN, BODY_LEN, VALUE_MAX]);
        let reply = self.request(mdt, Request::new(message, room).at(portal::MDS_READPAGE)).await?;
        let found: MdtBody = reply.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        let bytes = reply.bytes(&EA_DATA).unwrap_or_default();
        Ok(bytes.get(..found.ea_size as usize).unwrap_or(bytes).to_vec())
    }

    /// Returns all attributes of a file that may be cached.
    async fn all_xattrs(&self, caller: &Caller, fid: Fid) -> Result<Xattrs, Errno> {
        {
            let core = self.core();
            let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
            if let Some(all) = inode.and_then(|inode| inode.xattrs.clone()) {
                return Ok(all);
            }
        }
        let mdt = self.mdt(fid).await?;
        let wanted = LockSpec::new(resource(fid), LockMode::PR, bits(InodeBits::XATTR)).always();
        let valid = Valid::FLID | Valid::FLXATTR | Valid::FLXATTRLS;
        let asked = MdtBody { valid, ea_size: ALL_ROOM as u32, ..body(caller, fid, None) };
        let build = move |lock: &LockRequest| {
            let message = Message::request(&ENQUEUE_GETXATTR)
                .with(&LOCK_REQUEST, lock)
                .with(&INTENT, &Intent { ops: IntentOps::GETXATTR })
                .with(&MDT_BODY, &asked);
            let rooms = [Body::LEN, REPLY_LEN, BODY_LEN, 4096, 4096, ALL_ROOM, ALL_ROOM, 4096];
            Request::new(message, len_with(&rooms))
        };
        let wanted = wanted.with(LockFlags::HAS_INTENT);
        let acquired = self.acquire(mdt, wanted, Some(Build::alone(build))).await?;
        let extra = acquired.extra.as_ref().ok_or(Errno::EPROTO)?;
        if extra.result2 < 0 {
            return Err(Errno((extra.result2 as i32).saturating_neg()));
        }
        let all = Arc::new(decode(acquired.reply.as_deref().ok_or(Errno::EPROTO)?)?);
        if let Some(mount) = self.core().mounts.get_mut(&self.mount)
            && acquired.held.is_some()
        {
            let inode = mount.inodes.entry(fid).or_default();
            inode.bits = inode.bits | InodeBits::XATTR;
            inode.xattrs = Some(all.clone());
        }
        Ok(all)
    }
}

/// Labels of security modules, which are not among the attributes of an intent.
const LABELS: [&[u8]; 2] = [b"security.selinux", b"security.SMACK64"];

/// Returns whether an attribute is among those of an intent, and protected by its lock.
pub(super) fn is_cached(name: &[u8]) -> bool {
    let is_of_kind = |kind: &[u8]| name.starts_with(kind);
    match name {
        ACL_DEFAULT => true,
        _ if is_of_kind(b"security.") => !LABELS.contains(&name),
        _ => is_of_kind(b"user.") || is_of_kind(b"trusted.") && name != b"trusted.som",
    }
}

/// Returns the attributes in a reply.
fn decode(reply: &Message<'_>) -> Result<BTreeMap<Name, Vec<u8>>, Errno> {
    let invalid = |_| Errno::EPROTO;
    let body: MdtBody = reply.require(&MDT_BODY).map_err(invalid)?;
    let names = reply.bytes(&XATTR_NAMES).unwrap_or_default();
    let names = names.get(..body.ea_size as usize).unwrap_or(names);
    let values = reply.bytes(&XATTR_VALUES).unwrap_or_default();
    let lens = reply.get(&XATTR_LENS).map_err(invalid)?.unwrap_or_default();
    let (mut all, mut at) = (BTreeMap::new(), 0);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    for (name, len) in names.zip(&lens.0) {
        let end = at + *len as usize;
        let value = values.get(at..end).ok_or(Errno::EPROTO)?;
        if let Some(name) = Name::new(name) {
            all.insert(name, value.to_vec());
        }
        at = end;
    }
    Ok(all)
}
