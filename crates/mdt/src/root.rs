//! The files that every file system has, and those without a name or a user. Spec: mdt-ost §2.1.

use std::ops::Bound;

use fulmar_lustre_wire::Fid;
use fulmar_store::StoreError;

use crate::Mdt;
use crate::inode::{Attributes, Inode};
use crate::mode;
use crate::names::Entry;
use crate::records::{KeptFid, ORPHANS, decode};

/// The directory of files that lost their names.
const LOST_FOUND: Fid = Fid { oid: 3, ..Fid::BY_FID };
/// The name of [`Fid::DOT_LUSTRE`] in the root.
const DOT_LUSTRE: &[u8] = b".lustre";
/// How many orphans are read at once.
const PAGE: usize = 256;

impl Mdt {
    /// Makes the root directory, if there is none.
    pub(crate) fn make_root(&self, now: i64) -> Result<(), StoreError> {
        self.commit_own(|change| {
            if change.inode(Fid::ROOT)?.is_some() {
                return Ok(());
            }
            let mut root = directory(0o755, now);
            root.attributes.nlink += 1;
            change.set(Fid::ROOT, root)?;
            let own: [(Fid, &[u8], Fid, u32); 3] = [
                (Fid::ROOT, DOT_LUSTRE, Fid::DOT_LUSTRE, 0o100),
                (Fid::DOT_LUSTRE, b"fid", Fid::BY_FID, 0o100),
                (Fid::DOT_LUSTRE, b"lost+found", LOST_FOUND, 0o700),
            ];
            for (parent, name, fid, bits) in own {
                let mut inode = directory(bits, now);
                inode.add_link(parent, name, now);
                if fid == Fid::DOT_LUSTRE {
                    inode.attributes.nlink += 2;
                }
                change.set_entry(parent, name, Entry::new(fid, mode::DIRECTORY));
                change.set(fid, inode)?;
            }
            Ok(())
        })
    }

    /// Returns whether an entry is not listed.
    pub(crate) fn is_hidden(directory: Fid, name: &[u8]) -> bool {
        directory == Fid::ROOT && name == DOT_LUSTRE
    }

    /// Removes the files without a name that are not open.
    pub(crate) fn remove_orphans(&self, _now: i64) -> Result<(), StoreError> {
        let mut from: Bound<Vec<u8>> = Bound::Unbounded;
        loop {
            let key = from.as_ref().map(|key| &key[..]);
            let page = self.store.scan(ORPHANS, key, Bound::Unbounded, PAGE)?;
            for (key, _) in &page {
                let fid: KeptFid = decode(key, "a file without a name")?;
                self.remove_orphan(fid.into())?;
            }
            match page.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => return Ok(()),
            }
        }
    }

    /// Returns whether somebody has a file open, or has not replayed yet that he has: an open that was on disk has no turn
    /// among the replays, and may come after those of other clients.
    pub(crate) fn may_be_open(&self, fid: Fid) -> bool {
        self.recovers() || self.opens().is_open(fid)
    }

    /// Removes a file without a name, if it cannot be open.
    pub(crate) fn remove_orphan(&self, fid: Fid) -> Result<(), StoreError> {
        let _locked = self.lock(&[fid]);
        if self.may_be_open(fid) {
            return Ok(());
        }
        self.commit_own(|change| match change.inode(fid)? {
            Some(inode) if inode.attributes.nlink == 0 => change.remove(fid),
            _ => Ok(()),
        })
    }
}

fn directory(bits: u32, now: i64) -> Inode {
    Inode::new(Attributes {
        mode: mode::DIRECTORY | bits,
        nlink: 2,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        size: Inode::DIRECTORY_SIZE,
        blocks: Inode::DIRECTORY_SIZE / 512,
        ..Attributes::default()
    })
}
