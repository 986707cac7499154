//! What an MDT wants of its OSTs.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_store::Transaction;

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

/// The range of a file that needs objects: from a byte to the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one; `u64::MAX` without an end.
    pub end: u64,
}

/// The objects of files, as far as an MDT needs them. Layouts are in the form in which they are kept.
pub trait Objects: Send + Sync {
    /// Returns the layout of a file that has none: `wanted`, a layout that its creator wants, or no
    /// bytes; else the default of its directory, else that of the file system. Objects for the beginning
    /// of the file are taken, if `with_objects`.
    ///
    /// # Errors
    /// EINVAL and others if the wanted layout is not allowed; ENOSPC; EAGAIN if objects are being
    /// created: the request is repeated when there are some.
    fn layout(
        &self,
        file: Fid,
        wanted: &[u8],
        defaults: [&[u8]; 2],
        with_objects: bool,
    ) -> Result<Vec<u8>, Errno>;

    /// Returns the layout of a file with objects for a range of it; `None` if they are there.
    ///
    /// # Errors
    /// As [`Objects::layout`].
    fn extend(&self, file: Fid, layout: &[u8], range: Range) -> Result<Option<Vec<u8>>, Errno>;

    /// Checks a layout that somebody wants for the new files of a directory, and returns what is kept; no
    /// bytes for none.
    ///
    /// # Errors
    /// EINVAL and others if it is not allowed.
    fn default_layout(&self, wanted: &[u8]) -> Result<Vec<u8>, Errno>;

    /// Adds to a transaction that the objects of `layout`, which are not in `before`, belong to a file.
    fn used(&self, transaction: &mut Transaction<'_>, before: &[u8], layout: &[u8]);

    /// Adds to a transaction that the objects of a layout go.
    fn destroy(&self, transaction: &mut Transaction<'_>, layout: &[u8]);

    /// Adds to a transaction that the objects of a layout have another owner.
    fn set_owner(&self, transaction: &mut Transaction<'_>, layout: &[u8], owner: Owner);
}

/// A file system without OSTs: files have no data.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObjects;

impl Objects for NoObjects {
    fn layout(&self, _: Fid, _: &[u8], _: [&[u8]; 2], _: bool) -> Result<Vec<u8>, Errno> {
        Err(Errno::ENOSPC)
    }

    fn extend(&self, _: Fid, _: &[u8], _: Range) -> Result<Option<Vec<u8>>, Errno> {
        Ok(None)
    }

    fn default_layout(&self, wanted: &[u8]) -> Result<Vec<u8>, Errno> {
        Ok(wanted.to_vec())
    }

    fn used(&self, _: &mut Transaction<'_>, _: &[u8], _: &[u8]) {}

    fn destroy(&self, _: &mut Transaction<'_>, _: &[u8]) {}

    fn set_owner(&self, _: &mut Transaction<'_>, _: &[u8], _: Owner) {}
}
