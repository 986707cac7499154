//! Which directory has a name: the one that programs see, or one of its stripes. Spec: mdt-ost §12.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::ldlm::{Disposition, InodeBits, LockMode};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::client::ImportId;
use futures_util::future::join_all;

use super::caller::Caller;
use super::inode::{UpdateNumber, is_directory};
use super::request::{bits, resource};
use super::shape::{Places, Shape, merged};
use crate::machine::context::Context;

/// How often an operation begins anew because a directory has got other stripes.
const TRIES: usize = 8;

/// A directory of an MDT that has a name, or gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) fid: Fid,
    pub(crate) mdt: ImportId,
    /// The version of the layout for which new names are; 0 for any.
    pub(crate) version: u32,
}

/// What was known of the directories of an operation when it began, as far as they may change.
pub(crate) struct DirectoryShapes {
    directories: Vec<(Fid, Option<Shape>)>,
    tries: usize,
}

impl DirectoryShapes {
    /// Returns whether one of the directories was striped.
    pub(crate) fn is_striped(&self) -> bool {
        let shapes = self.directories.iter().filter_map(|(_, shape)| shape.as_ref());
        shapes.into_iter().any(Shape::is_striped)
    }
}

impl Context {
    /// Returns the shape of a directory. One round trip if it is not known and there are several MDTs.
    pub(crate) async fn shape(&self, caller: &Caller, directory: Fid) -> Result<Shape, Errno> {
        {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            if let Some(shape) = mount.shapes.get(directory) {
                return Ok(shape.clone());
            }
            if mount.mdts.len() <= 1 {
                return Ok(Shape::default());
            }
        }
        self.ask_shape(caller, directory).await
    }

    /// Asks for the shape of a directory. One round trip.
    pub(super) async fn ask_shape(&self, caller: &Caller, directory: Fid) -> Result<Shape, Errno> {
        let mdt = self.mdt(directory).await?;
        let group = self.group_for(caller, directory);
        let (of, nothing) = ((directory, directory), Name::default());
        self.getattr_intent(caller, mdt, of, &nothing, group).await?;
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        // The MDT says what is wrong with what is not a directory.
        Ok(mount.shapes.get(directory).cloned().unwrap_or_default())
    }

    /// Returns what is known of directories before an operation on names in them.
    pub(crate) fn seen(&self, directories: &[Fid]) -> DirectoryShapes {
        let core = self.core();
        let mount = core.mounts.get(&self.mount);
        let shape = |fid: &Fid| mount.and_then(|mount| mount.shapes.get(*fid));
        // An MDT alone moves no names.
        let is_alone = mount.is_none_or(|mount| mount.mdts.len() <= 1);
        let may_change = |fid: &&Fid| !is_alone || shape(fid).is_some_and(Shape::is_striped);
        let known = |fid: &Fid| (*fid, shape(fid).cloned());
        DirectoryShapes {
            directories: directories.iter().filter(may_change).map(known).collect(),
            tries: 0,
        }
    }

    /// Returns whether an operation has failed because a directory is not as it was when the operation began: then it
    /// begins anew. One round trip if that is not known.
    pub(crate) async fn has_changed(
        &self,
        caller: &Caller,
        seen: &mut DirectoryShapes,
        errno: Errno,
    ) -> bool {
        if !matches!(errno, Errno::ENOENT | Errno::ESTALE | Errno::EREMOTE) || seen.tries == TRIES {
            return false;
        }
        seen.tries += 1;
        let mut has_changed = false;
        for (directory, before) in &mut seen.directories {
            let now = match self.certain_shape(*directory, errno) {
                Some(shape) => shape,
                None => match self.ask_shape(caller, *directory).await {
                    Ok(shape) => shape,
                    Err(_) => return false,
                },
            };
            // What was not known was asked for by the operation itself.
            let old = before.replace(now);
            has_changed |= old.is_some() && old != *before;
        }
        has_changed
    }

    /// Returns the shape of a directory if it cannot be another one.
    fn certain_shape(&self, directory: Fid, errno: Errno) -> Option<Shape> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount)?;
        let shape = mount.shapes.get(directory);
        if mount.mdts.len() <= 1 && shape.is_none_or(|shape| shape.stripes.is_none()) {
            return Some(Shape::default());
        }
        let is_held = errno == Errno::ENOENT && mount.is_shape_held(directory);
        shape.filter(|_| is_held).cloned()
    }

    async fn place(&self, fid: Fid, shape: &Shape) -> Result<Place, Errno> {
        let mdt = self.mdt(fid).await?;
        let core = self.core();
        let several = core.mounts.get(&self.mount).is_some_and(|mount| mount.mdts.len() > 1);
        // An MDT alone has no layouts of directories that could change.
        let version = if several || shape.stripes.is_some() { shape.version() } else { 0 };
        Ok(Place { fid, mdt, version })
    }

    /// Returns the directory that has a name. No round trip if the name can be in one only.
    ///
    /// # Errors
    /// ENOENT if none of several has it.
    pub(crate) async fn holder(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &Name,
    ) -> Result<Place, Errno> {
        let shape = self.shape(caller, parent).await?;
        let fid = match shape.places(parent, name.as_bytes()) {
            Places::One(fid) => fid,
            places => self.find_at(caller, parent, places, name).await?.1,
        };
        self.place(fid, &shape).await
    }

    /// Returns the directory that a new name is added to, and the file that has the name already if that is seen on
    /// the way. No round trip, unless the directory moves.
    ///
    /// # Errors
    /// EBADFD if it is unknown which directory that is.
    pub(crate) async fn receiver(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &Name,
    ) -> Result<(Place, Option<Fid>), Errno> {
        let shape = self.shape(caller, parent).await?;
        match shape.places(parent, name.as_bytes()) {
            Places::One(fid) => Ok((self.place(fid, &shape).await?, None)),
            Places::Moving(new, old) => match self.find_in(caller, (parent, old), name).await {
                Ok(found) => Ok((self.place(old, &shape).await?, Some(found))),
                Err(Errno::ENOENT) => Ok((self.place(new, &shape).await?, None)),
                Err(errno) => Err(errno),
            },
            Places::Any(_) => Err(Errno::EBADFD),
        }
    }

    /// Returns the FID of a name. No round trip if it is cached, else one.
    pub(crate) async fn find(
        &self,
        caller: &Caller,
        parent: Fid,
        text: &[u8],
    ) -> Result<Fid, Errno> {
        let name = super::request::name(text)?;
        let mut seen = self.seen(&[parent]);
        loop {
            match self.find_now(caller, parent, &name).await {
                Err(errno) if self.has_changed(caller, &mut seen, errno).await => {}
                found => return found,
            }
        }
    }

    async fn find_now(&self, caller: &Caller, parent: Fid, name: &Name) -> Result<Fid, Errno> {
        {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            if let Some(fid) = mount.names.get(&(parent, name.clone())) {
                return Ok(*fid);
            }
            if mount.is_absent(parent, name) {
                return Err(Errno::ENOENT);
            }
        }
        let shape = self.shape(caller, parent).await?;
        let places = shape.places(parent, name.as_bytes());
        Ok(self.find_at(caller, parent, places, name).await?.0)
    }

    /// Returns the FID of a name, and the directory that has it.
    async fn find_at(
        &self,
        caller: &Caller,
        parent: Fid,
        places: Places,
        name: &Name,
    ) -> Result<(Fid, Fid), Errno> {
        let order = match places {
            Places::One(only) => vec![only],
            // It may be moved after it was not found in the new one.
            Places::Moving(new, old) => vec![new, old, new],
            Places::Any(all) => all,
        };
        for place in order {
            match self.find_in(caller, (parent, place), name).await {
                Err(Errno::ENOENT) => {}
                found => return Ok((found?, place)),
            }
        }
        Err(Errno::ENOENT)
    }

    /// Returns the FID of a name in a directory or a stripe of it. One round trip.
    async fn find_in(
        &self,
        caller: &Caller,
        (parent, place): (Fid, Fid),
        name: &Name,
    ) -> Result<Fid, Errno> {
        let updates = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            mount.protected_names(place)
        };
        let mdt = self.mdt(place).await?;
        let (of, group) = ((place, Fid::default()), self.group_for(caller, parent));
        let found = self.getattr_intent(caller, mdt, of, name, group).await?;
        if !found.done.has(Disposition::LOOKUP_POS) || found.body.fid == Fid::default() {
            self.note_absent(place, name.clone(), updates);
            return Err(Errno::ENOENT);
        }
        let fid = found.body.fid;
        self.note_name(parent, name, (fid, mdt));
        drop(found);
        Ok(fid)
    }

    /// Notes that a name is that of a file, if the MDT that has the name has given a lock for it.
    pub(crate) fn note_name(&self, parent: Fid, name: &Name, (fid, mdt): (Fid, ImportId)) {
        let mut core = self.core();
        let held = core.peer(mdt).and_then(|peer| {
            peer.locks.find(&resource(fid), LockMode::CR, bits(InodeBits::LOOKUP))
        });
        if let (Some(_), Some(mount)) = (held, core.mounts.get_mut(&self.mount)) {
            mount.add_name(parent, name, fid);
        }
    }

    /// Notes that a name does not exist, if the directory has not changed since it was asked for.
    fn note_absent(&self, place: Fid, name: Name, updates: Option<UpdateNumber>) {
        let mut core = self.core();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
        if updates.is_some() && updates == mount.protected_names(place) {
            mount.absent.entry(place).or_default().insert(name);
        }
    }

    /// Returns the attributes of a directory that its stripes have together. One round trip for all of them that are
    /// not cached.
    pub(crate) async fn with_stripes(
        &self,
        caller: &Caller,
        body: MdtBody,
    ) -> Result<MdtBody, Errno> {
        if !is_directory(body.mode) {
            return Ok(body);
        }
        let shape = self.shape(caller, body.fid).await?;
        let Some(stripes) = shape.stripes else { return Ok(body) };
        let all = join_all(stripes.all().map(|stripe| self.attributes(caller, stripe))).await;
        let mut found = Vec::new();
        for stripe in all {
            match stripe {
                // It was removed with its directory, or by a change of the stripes.
                Err(Errno::ENOENT | Errno::ESTALE) => {}
                stripe => found.push(stripe?),
            }
        }
        Ok(merged(&body, &found))
    }
}
