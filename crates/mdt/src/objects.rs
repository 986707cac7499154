//! What an MDT wants of its OSTs.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_store::Transaction;

use crate::layout::Plan;

/// The owner of the objects of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project.
    pub projid: u32,
}

/// An object of a file: the index of its OST, and its FID.
pub type Object = (u32, Fid);

/// The objects of files, as far as an MDT needs them.
pub trait Objects: Send + Sync {
    /// Reserves objects for a new file, one for each stripe. There may be fewer than are wanted.
    ///
    /// # Errors
    /// EINVAL if an OST is wanted that does not exist; ENOSPC if there are too few; EAGAIN if they are being
    /// created: the request is repeated then.
    fn take(&self, plan: &Plan) -> Result<Vec<Object>, Errno>;

    /// Returns objects that no file got after all.
    fn give_back(&self, _objects: &[Object]) {}

    /// Returns whether there is an OST with this index. If none is known yet, any may be.
    fn exists(&self, _ost: u32) -> bool {
        true
    }

    /// Adds to a transaction that these objects belong to a file.
    fn used(&self, transaction: &mut Transaction<'_>, objects: &[Object]);

    /// Adds to a transaction that these objects go.
    fn destroy(&self, transaction: &mut Transaction<'_>, objects: &[Object]);

    /// Adds to a transaction that these objects have another owner.
    fn set_owner(&self, transaction: &mut Transaction<'_>, objects: &[Object], owner: Owner);
}

/// A file system without OSTs: files have no data.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObjects;

impl Objects for NoObjects {
    fn take(&self, _: &Plan) -> Result<Vec<Object>, Errno> {
        Err(Errno::ENOSPC)
    }

    fn used(&self, _: &mut Transaction<'_>, _: &[Object]) {}

    fn destroy(&self, _: &mut Transaction<'_>, _: &[Object]) {}

    fn set_owner(&self, _: &mut Transaction<'_>, _: &[Object], _: Owner) {}
}
