//! What the host has to know of a request before it takes locks.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::mdt::OpenFlags;

use crate::Mdt;
use crate::access::Caller;
use crate::inode::Extra;
use crate::names::Entry;
use crate::opens::breaks_lease;
use crate::records::Failure;

/// A file that an open is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its FID.
    pub fid: Fid,
    /// Whether it is a regular file.
    pub is_regular: bool,
    /// Whether this open gives it its layout.
    pub needs_layout: bool,
    /// Whether it has data on the MDT.
    pub has_data: bool,
}

impl Mdt {
    /// Returns whether a client has a lease of a file that is not broken.
    pub fn is_leased(&self, fid: Fid) -> bool {
        self.opens().is_leased(fid)
    }

    /// Returns whether an open has to break the lease of a file first: the host gets a lock on the part OPEN
    /// of the file, for which it calls back the lease, and then calls [`Mdt::break_lease`].
    pub fn must_break_lease(&self, fid: Fid, flags: OpenFlags) -> bool {
        breaks_lease(flags) && self.is_leased(fid)
    }

    /// Records that another client has a file now: its lease, if there is one, is broken.
    pub fn break_lease(&self, fid: Fid) {
        self.opens().break_lease(fid);
    }

    /// Returns the file that an open is about, if it exists. `name`: `None` if it is known by its FID.
    ///
    /// # Errors
    /// As [`Mdt::lookup`].
    pub fn find_target(
        &self,
        (directory, name): (Fid, Option<&[u8]>),
        fid: Fid,
        flags: OpenFlags,
        caller: &Caller,
    ) -> Result<Option<Target>, Errno> {
        let find = || {
            let fid = match name {
                Some(name) => self.lookup(directory, name, caller)?,
                None => Some(fid),
            };
            let Some(fid) = fid else { return Ok(None) };
            let Some(inode) = self.inode_if_any(fid)? else { return Ok(None) };
            let has_layout = !inode.extra(Extra::Layout).is_empty();
            let creates_layout = flags.has(OpenFlags::WRITE)
                && !flags.has(OpenFlags::DELAY_CREATE)
                && !flags.has(OpenFlags::LEASE);
            let is_regular = inode.is_regular();
            let needs_layout = is_regular && !has_layout && creates_layout;
            let has_data = inode.on_mdt().is_some();
            Ok(Some(Target { fid, is_regular, needs_layout, has_data }))
        };
        find().map_err(|failure: Failure| failure.errno())
    }

    /// Returns the files that names lead to, for a removal or a renaming.
    ///
    /// # Errors
    /// EIO if the store does not say.
    pub fn find_entries(&self, places: &[(Fid, &[u8])]) -> Result<Vec<Option<Entry>>, Errno> {
        self.entries(places).map_err(|error| Failure::from(error).errno())
    }

    /// Returns whether a file can get a name in a directory: the one is not a directory, and the other one is.
    ///
    /// # Errors
    /// EIO if the store does not say.
    pub fn may_link(&self, fid: Fid, directory: Fid) -> Result<bool, Errno> {
        let is_directory = |fid| {
            let found = self.inode_if_any(fid).map_err(|failure| failure.errno())?;
            Ok(found.map(|inode| inode.is_directory()))
        };
        Ok(is_directory(fid)? == Some(false) && is_directory(directory)? == Some(true))
    }

    /// Returns whether a directory is another one, or above it.
    ///
    /// # Errors
    /// ENOENT if one of them does not exist, EIO if the store does not say.
    pub fn is_above(&self, above: Fid, below: Fid) -> Result<bool, Errno> {
        let mut at = Some(below);
        while let Some(fid) = at {
            if fid == above {
                return Ok(true);
            }
            let inode = self.inode(fid).map_err(|failure| failure.errno())?;
            at = if fid == Fid::ROOT { None } else { inode.parent() };
        }
        Ok(false)
    }
}
