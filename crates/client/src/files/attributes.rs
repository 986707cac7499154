//! The attributes of a file for users.

use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use fulmar_lustre_wire::seq::Seq;

use super::size::FileSize;

/// The attributes of a file. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The file.
    pub fid: Fid,
    /// Type and permissions, as in `stat`.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project.
    pub project: u32,
    /// The number of names.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Of the last read.
    pub atime: i64,
    /// Of the last write.
    pub mtime: i64,
    /// Of the last change.
    pub ctime: i64,
    /// Of the creation, if it is known.
    pub btime: Option<i64>,
    /// The device of a device file: major << 8 | minor.
    pub device: u32,
    /// The flags of the inode, as `lsattr` shows them.
    pub flags: u32,
}

/// A name in a directory, and its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The file.
    pub fid: Fid,
    /// Its attributes.
    pub attributes: Attributes,
}

impl Attributes {
    /// Returns the attributes that an MDT has sent, with the size that the objects have, if any.
    pub(crate) fn new(body: &MdtBody, size: Option<FileSize>) -> Self {
        let own = FileSize {
            size: body.size,
            blocks: body.blocks,
            mtime: body.mtime,
            atime: body.atime,
            ctime: body.ctime,
        };
        let size = size.map_or(own, |size| size.newest(&own));
        Self {
            fid: body.fid,
            mode: body.mode,
            uid: body.uid,
            gid: body.gid,
            project: body.projid,
            links: body.nlink,
            size: size.size,
            blocks: size.blocks,
            atime: size.atime,
            mtime: size.mtime,
            ctime: size.ctime,
            btime: body.valid.has(Valid::FLBTIME).then_some(body.btime),
            device: body.rdev,
            flags: body.flags,
        }
    }

    /// Returns the attributes of a file that was just created, whose objects are empty. `None` if the MDT has not
    /// told all of them.
    pub(crate) fn new_file(body: &MdtBody) -> Option<Self> {
        let is_whole = body.valid.has(super::setattr::ATTRIBUTES);
        is_whole.then(|| Self::new(body, Some(FileSize::NONE)))
    }

    /// Returns the number of the inode, by which programs know the file. Spec: mdt-ost §2.4.
    pub fn inode(&self) -> u64 {
        inode(self.fid)
    }

    /// Returns whether this is a directory.
    pub fn is_directory(&self) -> bool {
        super::inode::is_directory(self.mode)
    }

    /// Returns whether this is a regular file.
    pub fn is_regular(&self) -> bool {
        super::inode::is_regular(self.mode)
    }
}

/// Returns the number of the inode of a file. Spec: mdt-ost §2.4.
pub fn inode(fid: Fid) -> u64 {
    if fid.is_igif() {
        return fid.seq;
    }
    let high = (fid.seq >> 24) & 0xff_ffff_0000;
    let number = (fid.seq << 24).wrapping_add(high).wrapping_add(fid.oid.into());
    if number == 0 { fid.oid.into() } else { number }
}

/// Returns the file whose inode has this number, if the number says it: that of an inode of Lustre 1 does not. A file of a
/// FID with another object number may have the same number.
pub fn file_of_inode(number: u64) -> Option<Fid> {
    const OBJECT: u32 = 0xff_ffff;
    let fid = Fid { seq: number >> 24, oid: number as u32 & OBJECT, version: 0 };
    (fid.seq >= Seq::ROOT.0 && inode(fid) == number).then_some(fid)
}

/// What is changed of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The permissions, without the type.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The project.
    pub project: Option<u32>,
    /// The length in bytes.
    pub size: Option<u64>,
    /// The time of the last read.
    pub atime: Option<SetTime>,
    /// The time of the last write.
    pub mtime: Option<SetTime>,
    /// The flags of the inode.
    pub flags: Option<u32>,
    /// The file loses what makes it run as its owner or its group, since its data change. Whoever may write
    /// it may do that.
    pub drops_privileges: bool,
}

/// A time that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of this client, which whoever may write the file may set.
    Now,
    /// Seconds since 1970, which only the owner may set.
    At(i64),
}

impl SetTime {
    /// Returns the time in seconds since 1970.
    pub(crate) fn seconds(self, now: i64) -> i64 {
        match self {
            Self::Now => now,
            Self::At(seconds) => seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_inode_says_which_file_it_is() {
        let file = Fid { seq: 0x2_0000_0401, oid: 0x1_ffff, version: 0 };
        for fid in [Fid::ROOT, file, Fid { seq: 0xff_ffff_ffff, ..file }] {
            assert_eq!(file_of_inode(inode(fid)), Some(fid));
        }
        let old = Fid { seq: 4711, oid: 5, version: 0 };
        let shared = Fid { oid: 0x100_0005, ..file };
        assert_eq!(file_of_inode(inode(old)), None);
        assert_ne!(file_of_inode(inode(shared)), Some(shared));
        for number in [0, 1] {
            assert_eq!(file_of_inode(number), None);
        }
    }
}
