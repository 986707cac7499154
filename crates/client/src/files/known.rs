//! What is known of files without waiting for anything: who asks for that needs no operation, and no caller.

use fulmar_base::Errno;
use fulmar_lustre_wire::ldlm::{Extent, LockMode, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::client::ImportId;

use super::attributes::{Attributes, Entry};
use super::inode::{DomSize, Inode, is_directory, is_regular};
use super::layout::FileLayout;
use super::mount::MountState;
use super::shape::{Shape, merged};
use super::size::{FileSize, extent_resource};
use super::xattrs::{ACL_ACCESS, ACL_DEFAULT, is_cached};
use crate::machine::context::Context;
use crate::machine::core::Core;

/// What of a file is protected by locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Whether the name is that of the file.
    pub name: bool,
    /// The attributes with the size, and the access control lists.
    pub attributes: Option<Attributes>,
}

impl Context {
    /// Calls `told` with the file of a name and its attributes, or ENOENT, if that is cached, before something of it
    /// can be lost. Returns what it returns, and the names that are to be looked up in advance now.
    pub(crate) fn known_entry<R>(
        &self,
        parent: Fid,
        name: &Name,
        told: impl FnOnce(Result<Entry, Errno>) -> R,
    ) -> Option<(R, Vec<Name>)> {
        let mut core = self.core();
        let mount = core.mounts.get(&self.mount)?;
        let key = (parent, name.clone());
        if mount.looking.contains_key(&key) {
            return None;
        }
        let found = match mount.names.get(&key) {
            Some(&fid) => Ok(Entry { fid, attributes: attributes(&core, mount, fid)? }),
            None if mount.is_absent(parent, name) => Err(Errno::ENOENT),
            None => return None,
        };
        let told = told(found);
        let next = core.mounts.get_mut(&self.mount)?.look_ahead(parent, name);
        Some((told, next))
    }

    /// Calls `told` with what of a file is protected by locks, before something of it can be lost.
    pub(crate) fn protected<R>(
        &self,
        file: Fid,
        name: Option<(Fid, Name)>,
        told: impl FnOnce(&Protection) -> R,
    ) -> R {
        let core = self.core();
        let found = core.mounts.get(&self.mount).map(|mount| Protection {
            name: name.is_some_and(|name| mount.names.get(&name) == Some(&file)),
            attributes: attributes(&core, mount, file),
        });
        told(&found.unwrap_or_default())
    }

    /// Returns a number of the names in a directory if a lock protects them: it is another one when they have changed.
    pub(crate) fn known_names(&self, directory: Fid) -> Option<u64> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount)?;
        // Those of a striped one are protected by the locks of its stripes.
        let is_plain = !mount.shapes.get(directory).is_some_and(Shape::is_striped);
        mount.protected_names(directory).filter(|_| is_plain).map(|number| number.0)
    }

    /// Returns an extended attribute of a file, or ENODATA, if that is cached.
    pub(crate) fn known_xattr(&self, fid: Fid, text: &[u8]) -> Option<Result<Vec<u8>, Errno>> {
        let core = self.core();
        let inode = core.mounts.get(&self.mount)?.inodes.get(&fid)?;
        let value = match text {
            ACL_ACCESS => Some(inode.has_attributes().then_some(&inode.acl)?),
            // Who asks keeps it as long as the attributes, so it is told only under their lock.
            ACL_DEFAULT if !inode.has_attributes() => return None,
            _ if is_cached(text) => inode.xattrs.as_ref()?.get(&Name::new(text)?),
            _ => return None,
        };
        Some(
            value
                .filter(|value| text != ACL_ACCESS || !value.is_empty())
                .cloned()
                .ok_or(Errno::ENODATA),
        )
    }
}

/// Returns the attributes of a file, if locks protect all of them.
pub(super) fn attributes(core: &Core, mount: &MountState, fid: Fid) -> Option<Attributes> {
    let inode = mount.inodes.get(&fid).filter(|one| one.has_attributes())?;
    let body = &inode.body;
    let found = if is_directory(body.mode) {
        directory_attributes(mount, inode)?
    } else if !is_regular(body.mode) || body.valid.has(Valid::FLSIZE) {
        Attributes::new(body, None)
    } else {
        let size = size(core, mount, fid, inode.layout.as_deref()?)?;
        Attributes::new(body, Some(size))
    };
    Some(inode.shown(found))
}

fn directory_attributes(mount: &MountState, inode: &Inode) -> Option<Attributes> {
    let body = &inode.body;
    // One that was opened may be striped.
    let shape = mount.shapes.get(body.fid);
    if mount.mdts.len() > 1 && !(inode.has_shape && shape.is_some()) {
        return None;
    }
    let mut all = Vec::new();
    for stripe in shape.and_then(|one| one.stripes.as_ref()).iter().flat_map(|one| one.all()) {
        all.push(mount.inodes.get(&stripe).filter(|one| one.has_attributes())?.body);
    }
    Some(Attributes::new(&merged(body, &all), None))
}

/// Returns the size of a file, if locks on all its objects are held.
pub(super) fn size(
    core: &Core,
    mount: &MountState,
    fid: Fid,
    layout: &FileLayout,
) -> Option<FileSize> {
    let whole = Extent { start: 0, end: Extent::EOF, gid: 0 };
    let mut sum = FileSize::NONE;
    for (component, stripe, object) in layout.objects() {
        let (ost, id) = (mount.ost(object.ost).ok()?, object.id.resource());
        core.peer(ost)?.locks.find(&extent_resource(id), LockMode::PR, whole)?;
        let lvb = mount.data.shown((ost, id), &mount.objects.get(&(ost, id))?.lvb);
        let size = layout.components[component].striping().file_size(stripe, lvb.size);
        sum = sum.with(size, &lvb);
    }
    for component in layout.components.iter().filter(|one| one.is_on_mdt()) {
        let lvb = size_on_mdt(mount, mount.mdt_of(fid)?, fid)?;
        sum = sum.with(component.striping().file_size(0, lvb.size), &lvb);
    }
    Some(sum)
}

/// Returns the attributes of data on the MDT, if a lock on them is held.
pub(super) fn size_on_mdt(mount: &MountState, mdt: ImportId, fid: Fid) -> Option<OstLvb> {
    let key = (mdt, ResourceId::of_fid(fid));
    if let Some(known) = mount.objects.get(&key).filter(|_| mount.data.has_lock(key)) {
        return Some(mount.data.shown(key, &known.lvb));
    }
    let inode = mount.inodes.get(&fid)?;
    let (DomSize { size, blocks }, body) = (inode.dom?, &inode.body);
    Some(OstLvb {
        size,
        blocks,
        mtime: body.mtime,
        atime: body.atime,
        ctime: body.ctime,
        ..OstLvb::default()
    })
}
