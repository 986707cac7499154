//! A file as the MDT keeps it.

use fulmar_lustre_wire::xattr::{LinkEntry, Links, Som};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_store::StoreError;
use fulmar_wire::{Field, Order, Reader, Writer, wire_struct};

use crate::layout::{OnMdt, on_mdt};
use crate::mode;
use crate::records::{damaged, encode};

wire_struct! {
    /// The attributes of a file. Times are in seconds: the protocol has no others.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Attributes {
        /// Type and permissions.
        pub mode: u32,
        /// The owner.
        pub uid: u32,
        /// The group.
        pub gid: u32,
        /// The project.
        pub projid: u32,
        /// The number of names; of a directory, of those that lead to it. 0: it is unlinked.
        pub nlink: u32,
        /// As `lsattr` shows them.
        pub flags: u32,
        /// The device of a special file, in the old encoding.
        pub rdev: u32,
        /// The last access.
        pub atime: i64,
        /// The last change of the content.
        pub mtime: i64,
        /// The last change of the attributes.
        pub ctime: i64,
        /// The creation.
        pub btime: i64,
        /// Bytes. Of a file with objects it is not known here.
        pub size: u64,
        /// Units of 512 bytes.
        pub blocks: u64,
        /// The last transaction that changed it.
        pub version: u64,
    }
}

/// An extended attribute that the MDT itself uses. They are in the record of the file, in the form in
/// which clients read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Extra {
    /// `trusted.lov`: the layout; of a directory, that of new files.
    Layout = 1,
    /// `trusted.link`: the names.
    Links = 2,
    /// `system.posix_acl_access`.
    Acl = 3,
    /// `system.posix_acl_default`.
    DefaultAcl = 4,
    /// `trusted.dmv`: the layout of new directories.
    DefaultLmv = 5,
    /// The target of a symbolic link.
    Symlink = 6,
    /// `trusted.som`: the size, as far as it is known.
    Som = 7,
    /// `trusted.hsm`: the state with respect to an archive.
    Hsm = 8,
    /// The bytes that its data occupy here.
    Charged = 9,
}

/// Those that clients read by a name.
const NAMED: [(Extra, &[u8]); 7] = [
    (Extra::Layout, b"trusted.lov"),
    (Extra::Links, b"trusted.link"),
    (Extra::Acl, b"system.posix_acl_access"),
    (Extra::DefaultAcl, b"system.posix_acl_default"),
    (Extra::DefaultLmv, b"trusted.dmv"),
    (Extra::Som, b"trusted.som"),
    (Extra::Hsm, b"trusted.hsm"),
];

impl Extra {
    /// Returns all that clients can read, with their names.
    pub fn named() -> impl Iterator<Item = (Self, &'static [u8])> {
        NAMED.into_iter()
    }

    /// Returns the one of a name.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        NAMED.iter().find(|(_, known)| *known == name).map(|(extra, _)| *extra)
    }
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Its attributes.
    pub attributes: Attributes,
    /// In the order of their numbers. There are few.
    extras: Vec<(u8, Vec<u8>)>,
}

impl Inode {
    /// The flag of a directory whose files have its project.
    pub(crate) const PROJECT_INHERIT: u32 = 0x2000_0000;
    /// The size of a directory.
    pub(crate) const DIRECTORY_SIZE: u64 = 4096;
    /// The bytes that its names may take beside the first.
    const LINKS_MAX: usize = 4096;

    /// Returns a file with these attributes.
    pub fn new(attributes: Attributes) -> Self {
        Self { attributes, extras: Vec::new() }
    }

    /// Returns the type.
    pub fn kind(&self) -> u32 {
        self.attributes.mode & mode::FORMAT
    }

    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == mode::DIRECTORY
    }

    /// Returns whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.kind() == mode::REGULAR
    }

    /// Returns whether files of this directory have its project.
    pub(crate) fn inherits_project(&self) -> bool {
        self.attributes.flags & Self::PROJECT_INHERIT != 0
    }

    /// Returns an extended attribute; no bytes if it has none.
    pub fn extra(&self, extra: Extra) -> &[u8] {
        self.place_of(extra as u8).map_or(&[], |place| &self.extras[place].1)
    }

    /// Sets an extended attribute, or removes it if there are no bytes.
    pub fn set_extra(&mut self, extra: Extra, value: Vec<u8>) {
        match self.place_of(extra as u8) {
            Ok(place) if value.is_empty() => drop(self.extras.remove(place)),
            Ok(place) => self.extras[place].1 = value,
            Err(_) if value.is_empty() => {}
            Err(place) => self.extras.insert(place, (extra as u8, value)),
        }
    }

    /// Returns where an extended attribute is, or where it would be.
    fn place_of(&self, extra: u8) -> Result<usize, usize> {
        self.extras.binary_search_by_key(&extra, |(number, _)| *number)
    }

    /// Returns the names that are noted.
    pub fn links(&self) -> Links {
        Links::decode(self.extra(Extra::Links), Order::Little).unwrap_or_default()
    }

    /// Returns the part of its data that is here, if its layout has one.
    pub(crate) fn on_mdt(&self) -> Option<OnMdt> {
        if self.is_regular() { on_mdt(self.extra(Extra::Layout)) } else { None }
    }

    /// Returns the bytes that its data occupy here.
    pub(crate) fn charged(&self) -> u64 {
        let charged = self.extra(Extra::Charged);
        u64::read(&mut Reader::new(charged, Order::Big), "charged").unwrap_or(0)
    }

    /// Sets the bytes that its data occupy here.
    pub(crate) fn set_charged(&mut self, bytes: u64) {
        self.set_extra(Extra::Charged, if bytes == 0 { vec![] } else { encode(&bytes) });
    }

    /// Returns the directory of the first name: the parent of a directory.
    pub fn parent(&self) -> Option<Fid> {
        Some(self.links().entries.first()?.parent)
    }

    /// Returns the directory of the first name, or the one that is known otherwise.
    pub(crate) fn parent_or(&self, other: Fid) -> Fid {
        self.parent().unwrap_or(other)
    }

    /// Notes a name. If there are too many, `time` is noted instead.
    pub(crate) fn add_link(&mut self, parent: Fid, name: &[u8], time: i64) {
        let mut links = self.links();
        links.entries.push(LinkEntry { parent, name: name.to_vec() });
        let overflow = u32::try_from(time).unwrap_or(u32::MAX);
        self.set_links(links, overflow);
    }

    /// Forgets a name.
    pub(crate) fn remove_link(&mut self, parent: Fid, name: &[u8]) {
        let mut links = self.links();
        links.entries.retain(|entry| (entry.parent, &entry.name[..]) != (parent, name));
        self.set_links(links, 0);
    }

    fn set_links(&mut self, mut links: Links, overflow: u32) {
        links.rest.0.clear();
        links.len = links.to_bytes().len() as u64;
        if links.entries.len() > 1 && links.len as usize > Self::LINKS_MAX {
            links.entries.pop();
            links.overflow_time = overflow;
            links.len = links.to_bytes().len() as u64;
        }
        let is_empty = links.entries.is_empty() && links.overflow_time == 0;
        self.set_extra(Extra::Links, if is_empty { vec![] } else { links.to_bytes() });
    }

    /// Returns the size as far as it is known.
    pub(crate) fn som(&self) -> Option<Som> {
        Som::decode(self.extra(Extra::Som), Order::Little).ok()
    }

    /// Returns the record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        let w = &mut Writer::new(&mut bytes, Order::Big);
        self.attributes.write(w);
        w.u8(self.extras.len() as u8);
        for (extra, value) in &self.extras {
            w.u8(*extra);
            w.u32(value.len() as u32);
            w.bytes(value);
        }
        bytes
    }

    /// Reads a record that this program has written. Later versions may append to it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let r = &mut Reader::new(bytes, Order::Big);
        let mut read = || {
            let mut inode = Self::new(Attributes::read(r, "attributes")?);
            let count = r.u8("extras")?;
            inode.extras.reserve_exact(count.into());
            for _ in 0..count {
                let extra = r.u8("extra")?;
                let len = r.u32("extra.len")? as usize;
                // They were written in order.
                inode.extras.push((extra, r.take("extra.value", len)?.to_vec()));
            }
            Ok(inode)
        };
        read().map_err(|error: fulmar_wire::DecodeError| damaged("an inode", &error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Fid = Fid::ROOT;

    #[test]
    fn an_inode_is_read_as_it_was_written() {
        let mut inode = Inode::new(Attributes { mode: 0o100_644, size: 5, ..Default::default() });
        inode.set_extra(Extra::Acl, vec![1, 2, 3]);
        inode.set_extra(Extra::Layout, vec![7; 300]);
        inode.add_link(PARENT, b"file", 0);
        assert_eq!(Inode::decode(&inode.encode()).unwrap(), inode);
        assert!(Inode::decode(&inode.encode()[..90]).is_err());
        inode.set_extra(Extra::Acl, vec![]);
        assert_eq!(inode.extra(Extra::Acl), b"");
    }

    #[test]
    fn names_come_and_go_and_too_many_are_only_counted() {
        let mut inode = Inode::default();
        inode.add_link(PARENT, b"a", 9);
        inode.add_link(PARENT, b"b", 9);
        assert_eq!(inode.links().entries.len(), 2);
        inode.remove_link(PARENT, b"a");
        assert_eq!(inode.links().entries[0].name, b"b");
        assert_eq!(inode.links().len, inode.extra(Extra::Links).len() as u64);
        for n in 0..500 {
            inode.add_link(PARENT, format!("name-{n}").as_bytes(), 9);
        }
        assert!(inode.extra(Extra::Links).len() <= Inode::LINKS_MAX);
        assert_eq!(inode.links().overflow_time, 9);
        for link in inode.links().entries {
            inode.remove_link(link.parent, &link.name);
        }
        assert_eq!(inode.links().overflow_time, 9, "other names exist");
    }
}
