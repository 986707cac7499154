//! Extended attributes. Spec: mdt-ost §7.6, §10.1, §10.2.

use std::ops::Bound;

use fulmar_base::Errno;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::mdt::XattrFlags;
use fulmar_lustre_wire::xattr::{Lma, LmaCompat, LmaIncompat};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_store::StoreError;

use crate::access::{APPEND_ONLY, AccessMode, Caller, Capabilities, IMMUTABLE, check};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::{Extra, Inode};
use crate::layout::{ComponentChange, LayoutChange, changed, on_mdt};
use crate::names::NAME_MAX;
use crate::records::{Failure, XATTRS, fid_key};
use crate::{Mdt, acl, mode};

/// The bytes of all names of a file.
pub(crate) const NAMES_LEN_MAX: usize = 65_536;
/// How many names a file may have.
const COUNT_MAX: usize = 4096;
/// The capabilities that a program gives the process that runs it.
const CAPABILITIES: &[u8] = b"security.capability";
/// Names that the server keeps itself: setting them does nothing.
const KEPT: [&[u8]; 9] = [
    b"lustre.lov",
    b"trusted.lov",
    b"trusted.lma",
    b"trusted.lmv",
    b"trusted.link",
    b"trusted.fid",
    b"trusted.version",
    b"trusted.som",
    b"trusted.hsm",
];

/// Names with their values.
pub(crate) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A value that is to be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetXattr<'a> {
    pub(crate) name: &'a [u8],
    /// `None`: the attribute goes.
    pub(crate) value: Option<&'a [u8]>,
    /// Whether it must, or must not, exist.
    pub(crate) flags: XattrFlags,
    /// The time in seconds.
    pub(crate) time: i64,
}

impl Mdt {
    /// Returns the keys of the extended attributes of users.
    pub(crate) fn xattr_keys(&self, fid: Fid) -> Result<Vec<Vec<u8>>, StoreError> {
        Ok(self.user_xattrs(fid)?.into_iter().map(|(key, _)| key).collect())
    }

    fn user_xattrs(&self, fid: Fid) -> Result<Vec<(Vec<u8>, fulmar_store::Value)>, StoreError> {
        let from = fid_key(fid);
        let mut to = from.clone();
        to.push(0xff);
        let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.store.scan(XATTRS, from, to, COUNT_MAX)
    }

    /// Returns whether a file gives the process that runs it capabilities.
    ///
    /// # Errors
    /// EIO if the store does not say.
    pub fn has_capabilities(&self, fid: Fid) -> Result<bool, Errno> {
        let found = self.store.get(XATTRS, &xattr_key(fid, CAPABILITIES));
        Ok(found.map_err(|error| Failure::from(error).errno())?.is_some())
    }

    /// Returns an extended attribute.
    ///
    /// # Errors
    /// ENODATA if there is none.
    pub(crate) fn xattr(&self, fid: Fid, inode: &Inode, name: &[u8]) -> Result<Vec<u8>, Failure> {
        let name = match name {
            b"lustre.lov" => b"trusted.lov",
            _ => name,
        };
        if let Some(extra) = Extra::of_name(name) {
            let value = inode.extra(extra);
            return if value.is_empty() { Err(Errno::ENODATA.into()) } else { Ok(value.to_vec()) };
        }
        if name == b"trusted.lma" {
            return Ok(lma(fid));
        }
        let value = self.store.get(XATTRS, &xattr_key(fid, name))?;
        Ok(value.ok_or(Errno::ENODATA)?.to_vec())
    }

    /// Returns all extended attributes with their names.
    pub(crate) fn xattrs(&self, fid: Fid, inode: &Inode) -> Result<Xattrs, Failure> {
        let mut found = vec![(b"trusted.lma".to_vec(), lma(fid))];
        for (extra, name) in Extra::named() {
            let value = inode.extra(extra);
            if !value.is_empty() {
                found.push((name.to_vec(), value.to_vec()));
            }
        }
        let key_len = fid_key(fid).len();
        for (key, value) in self.user_xattrs(fid)? {
            found.push((key[key_len..].to_vec(), value.to_vec()));
        }
        Ok(found)
    }
}

fn lma(fid: Fid) -> Vec<u8> {
    Lma { compat: LmaCompat::NONE, incompat: LmaIncompat::NONE, fid }.to_bytes()
}

fn xattr_key(fid: Fid, name: &[u8]) -> Vec<u8> {
    let mut key = fid_key(fid);
    key.extend(name);
    key
}

impl Change<'_> {
    /// Sets or removes an extended attribute.
    pub(crate) fn setxattr(
        &mut self,
        fid: Fid,
        set: &SetXattr<'_>,
        caller: &Caller,
    ) -> Result<Inode, Failure> {
        let mut inode = self.existing(fid)?;
        let SetXattr { name, value, .. } = *set;
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Errno::ERANGE.into());
        }
        if value.is_some_and(|value| value.len() > self.mdt.settings.xattr_max as usize) {
            return Err(Errno::E2BIG.into());
        }
        if name == CAPABILITIES && value.is_none() {
            // Who writes a program takes them away.
            check(&inode, caller, AccessMode::WRITE)
                .or_else(|_| check_setxattr(&inode, name, caller))?;
        } else {
            check_setxattr(&inode, name, caller)?;
        }
        if KEPT.contains(&name) {
            return Ok(inode);
        }
        match Extra::of_name(name) {
            Some(extra) => self.set_extra(&mut inode, extra, set, caller)?,
            None => self.set_named(fid, set)?,
        }
        inode.attributes.ctime = inode.attributes.ctime.max(set.time);
        self.set(fid, inode.clone())?;
        let prefixes: [&[u8]; 4] = [b"user.", b"system.posix_acl_", b"trusted.", b"security."];
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            self.note_xattr(fid, name);
        }
        Ok(inode)
    }

    /// Notes that an extended attribute of a file has changed.
    pub(crate) fn note_xattr(&mut self, fid: Fid, name: &[u8]) {
        let xattr = Some(name.to_vec());
        self.note(Note { xattr, ..Note::new(ChangeKind::XATTR, fid) });
    }

    /// Notes that the layout of a file has changed.
    pub(crate) fn note_layout(&mut self, fid: Fid) {
        if !self.mdt.opens().is_volatile(fid) {
            self.note(Note::new(ChangeKind::LAYOUT, fid));
        }
    }

    /// Adds, removes or marks components of the layout of a file.
    pub(crate) fn change_components(
        &mut self,
        fid: Fid,
        components: ComponentChange,
        set: &SetXattr<'_>,
        caller: &Caller,
    ) -> Result<Inode, Failure> {
        let mut inode = self.existing(fid)?;
        check_setxattr(&inode, set.name, caller)?;
        let Some(asked) = set.value.filter(|_| inode.is_regular()) else {
            return Err(Errno::EOPNOTSUPP.into());
        };
        let before = (fid, inode.extra(Extra::Layout));
        let LayoutChange { layout, gone } =
            changed(before, components, asked, set.time, self.mdt.rules()?)?;
        self.mdt.objects.destroy(&mut self.transaction, &gone);
        if on_mdt(&layout).is_none() && inode.on_mdt().is_some() {
            self.remove_data(fid, &mut inode);
        }
        if layout.is_empty() {
            inode.attributes.size = 0;
            inode.set_extra(Extra::Som, vec![]);
        }
        inode.set_extra(Extra::Layout, layout);
        inode.attributes.ctime = inode.attributes.ctime.max(set.time);
        self.set(fid, inode.clone())?;
        self.note_layout(fid);
        Ok(inode)
    }

    /// Removes the capabilities that a program gives.
    pub(super) fn drop_capabilities(&mut self, fid: Fid) -> Result<(), StoreError> {
        let key = xattr_key(fid, CAPABILITIES);
        if self.transaction.get(XATTRS, &key)?.is_some() {
            self.transaction.delete(XATTRS, &key);
        }
        Ok(())
    }

    fn set_named(&mut self, fid: Fid, set: &SetXattr<'_>) -> Result<(), Failure> {
        let key = xattr_key(fid, set.name);
        let exists = self.transaction.get(XATTRS, &key)?.is_some();
        check_flags(set, exists)?;
        match set.value {
            Some(value) => {
                if !exists && self.mdt.xattr_keys(fid)?.len() >= COUNT_MAX {
                    return Err(Errno::ENOSPC.into());
                }
                self.transaction.put(XATTRS, &key, value);
            }
            None => self.transaction.delete(XATTRS, &key),
        }
        Ok(())
    }

    fn set_extra(
        &mut self,
        inode: &mut Inode,
        extra: Extra,
        set: &SetXattr<'_>,
        caller: &Caller,
    ) -> Result<(), Failure> {
        check_flags(set, !inode.extra(extra).is_empty())?;
        // An empty list removes it too.
        let value = set.value.filter(|value| value.len() > 4);
        match (extra, value) {
            (Extra::Acl, Some(value)) => {
                let list = acl::decode(value)?;
                let attributes = &mut inode.attributes;
                attributes.mode = attributes.mode & !0o777 | acl::mode_of(&list);
                if !caller.is_in(attributes.gid) && !caller.has(Capabilities::FSETID) {
                    attributes.mode &= !mode::SGID;
                }
                inode.set_extra(Extra::Acl, acl::stored(&list));
            }
            (Extra::DefaultAcl, Some(value)) => {
                let is_directory = inode.is_directory();
                acl::decode(value)?;
                if !is_directory {
                    return Err(Errno::EACCES.into());
                }
                inode.set_extra(extra, value.to_vec());
            }
            (_, Some(value)) => inode.set_extra(extra, value.to_vec()),
            (_, None) => inode.set_extra(extra, vec![]),
        }
        Ok(())
    }
}

/// Checks that a caller may set an attribute of this name.
fn check_setxattr(inode: &Inode, name: &[u8], caller: &Caller) -> Result<(), Errno> {
    let has_prefix = |prefix: &[u8]| name.starts_with(prefix) && name.len() > prefix.len();
    if inode.attributes.flags & (IMMUTABLE | APPEND_ONLY) != 0 {
        return Err(Errno::EPERM);
    }
    if has_prefix(b"user.") {
        let is_sticky = inode.is_directory() && inode.attributes.mode & mode::STICKY != 0;
        let has_data = inode.is_directory() || inode.is_regular();
        if !has_data || is_sticky && !caller.owns(inode) {
            return Err(Errno::EPERM);
        }
        return check(inode, caller, AccessMode::WRITE);
    }
    if name.starts_with(b"system.posix_acl_") {
        return match caller.owns(inode) {
            _ if Extra::of_name(name).is_none() => Err(Errno::EOPNOTSUPP),
            true => Ok(()),
            false => Err(Errno::EPERM),
        };
    }
    match () {
        () if has_prefix(b"trusted.") && !caller.has(Capabilities::SYS_ADMIN) => Err(Errno::EPERM),
        () if [&b"trusted."[..], b"lustre.", b"security."]
            .iter()
            .any(|prefix| has_prefix(prefix)) =>
        {
            if caller.owns(inode) {
                Ok(())
            } else {
                Err(Errno::EPERM)
            }
        }
        () => Err(Errno::EOPNOTSUPP),
    }
}

fn check_flags(set: &SetXattr<'_>, exists: bool) -> Result<(), Errno> {
    match () {
        () if set.value.is_none() && !exists => Err(Errno::ENODATA),
        () if set.flags.has(XattrFlags::CREATE) && exists => Err(Errno::EEXIST),
        () if set.flags.has(XattrFlags::REPLACE) && !exists => Err(Errno::ENODATA),
        () => Ok(()),
    }
}
