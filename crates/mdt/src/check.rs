//! The examination of an MDT at rest: what is noted twice must match.

use std::collections::BTreeMap;
use std::ops::Bound;

use fulmar_lustre_wire::Fid;
use fulmar_store::Space;
use fulmar_target::usage::Deltas;

use crate::Mdt;
use crate::change::charge;
use crate::data::object_of;
use crate::inode::Inode;
use crate::names::{Entry, split};
use crate::records::{INODES, KeptFid, NAMES, ORPHANS, XATTRS, decode};

/// How many keys are read at once.
const PAGE: usize = 1024;

/// What entries say of a file.
#[derive(Default)]
struct FileEntries {
    names: Vec<(Fid, Vec<u8>)>,
    subdirectories: u32,
}

impl Mdt {
    /// Compares inodes, names, links and the sums of what is used. For tests and examinations: it reads
    /// everything. No transaction may be under way.
    ///
    /// # Errors
    /// What does not match, or why the store cannot be read.
    pub fn check(&self) -> Result<(), String> {
        self.data.check()?;
        let mut files: BTreeMap<Fid, FileEntries> = BTreeMap::new();
        let mut objects = self.store.objects().map_err(|error| error.to_string())?;
        self.each(NAMES, |key, value| {
            let (directory, hash, name) = split(key).map_err(|error| error.to_string())?;
            let entry = Entry::decode(value).map_err(|error| error.to_string())?;
            if hash != self.names.hash(name) {
                return Err(format!("{} of {directory} has a wrong place", name.escape_ascii()));
            }
            if u32::from(entry.kind) == crate::mode::DIRECTORY {
                files.entry(directory).or_default().subdirectories += 1;
            }
            files.entry(entry.fid).or_default().names.push((directory, name.to_vec()));
            Ok(())
        })?;
        for (space, what) in [(XATTRS, "an extended attribute"), (ORPHANS, "a note of an orphan")] {
            self.each(space, |key, _| self.check_owner(key, what))?;
        }
        let mut deltas = Deltas::default();
        self.each(INODES, |key, value| {
            let fid: KeptFid = decode(key, "a FID").map_err(|error| error.to_string())?;
            let inode = Inode::decode(value).map_err(|error| error.to_string())?;
            deltas.add(&charge(&inode));
            self.check_data(fid.into(), &inode)?;
            if inode.on_mdt().is_some() {
                objects.remove(&object_of(fid.into()));
            }
            let found = files.remove(&fid.into()).unwrap_or_default();
            self.check_inode(fid.into(), &inode, &found)
        })?;
        if let Some((fid, found)) = files.first_key_value() {
            return Err(format!("{fid} has {} names and does not exist", found.names.len()));
        }
        if let Some(object) = objects.first() {
            return Err(format!("the {object} is that of no file"));
        }
        self.usage.check(&deltas)
    }

    /// Checks that the file exists that a record belongs to.
    fn check_owner(&self, key: &[u8], what: &str) -> Result<(), String> {
        let fid: KeptFid = decode(key, what).map_err(|error| error.to_string())?;
        let fid = Fid::from(fid);
        match self.inode(fid) {
            Ok(_) => Ok(()),
            Err(failure) => {
                Err(format!("{what} is of {fid}, of which there is no inode: {}", failure.errno()))
            }
        }
    }

    fn check_inode(&self, fid: Fid, inode: &Inode, found: &FileEntries) -> Result<(), String> {
        let nlink = inode.attributes.nlink;
        let names = found.names.len() as u32;
        let expected = match inode.is_directory() {
            true if nlink == 0 => names + found.subdirectories,
            true => 2 + found.subdirectories,
            false => names,
        };
        if nlink != expected {
            return Err(format!("{fid} has {nlink} links, and {expected} were found"));
        }
        if inode.is_directory() && names != u32::from(nlink > 0 && fid != Fid::ROOT) {
            return Err(format!("the directory {fid} has {names} names"));
        }
        let is_orphan = self.store.get(ORPHANS, &crate::records::fid_key(fid));
        let is_orphan = is_orphan.map_err(|error| error.to_string())?.is_some();
        if is_orphan != (nlink == 0) {
            return Err(format!("{fid} has {nlink} links, and is an orphan: {is_orphan}"));
        }
        let links = inode.links();
        let noted: Vec<_> =
            links.entries.iter().map(|link| (link.parent, link.name.clone())).collect();
        let all_exist = noted.iter().all(|link| found.names.contains(link));
        if !all_exist || links.overflow_time == 0 && noted.len() != found.names.len() {
            return Err(format!("{fid} has the links {noted:?}, and the names {:?}", found.names));
        }
        Ok(())
    }

    fn each(
        &self,
        space: Space,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = self.store.scan(space, key, Bound::Unbounded, PAGE);
            let page = page.map_err(|error| error.to_string())?;
            page.iter().try_for_each(|(key, value)| each(key, value))?;
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => return Ok(()),
            }
        }
    }
}
