//! Pages of directories. Little-endian from every peer.
//!
//! ```text
//! page     0 hash start  8 hash end  16 flags  20 padding  24 entries
//! entry    0 fid [16]  16 hash  24 length u16  26 name length u16  28 attributes  32 name
//! ```
//! A file type of 2 bytes is at the next even place after the name. The length of the last entry
//! of a page is 0. Spec: mdt-ost §9.1.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags};
use serde::{Serialize, Serializer};

use crate::{Bytes, Fid, Padding};

wire_flags! {
    /// The state of a page. Spec: mdt-ost §9.1.
    #[doc(alias = "LDF")]
    pub struct PageFlags(u32) {
        /// The directory has no entries.
        EMPTY = 0x1,
        /// The next page begins with the hash of the last entry of this one.
        COLLIDE = 0x2,
    }
}

wire_flags! {
    /// What is known of an entry besides its name. Spec: mdt-ost §9.1.
    #[doc(alias = "LUDA")]
    pub struct EntryAttributes(u32) {
        FID = 0x1,
        TYPE = 0x2,
        /// The hash has 64 bits.
        HASH64 = 0x4,
    }
}

/// An entry of a directory.
#[doc(alias = "lu_dirent")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DirectoryEntry {
    pub fid: Fid,
    pub hash: u64,
    pub attributes: EntryAttributes,
    /// Fewer than 2¹⁶ bytes, not 0.
    pub name: Vec<u8>,
    /// What stands between the name and the next entry: NULs and the [type](Self::file_type).
    pub tail: Bytes,
}

impl DirectoryEntry {
    const HEADER_LEN: usize = 32;

    /// Returns the entry of a file of a type, which is `mode & 0o170_000`, with a hash of 64 bits.
    pub fn new(fid: Fid, hash: u64, name: &[u8], file_type: u16) -> Self {
        let attributes = EntryAttributes::FID | EntryAttributes::TYPE | EntryAttributes::HASH64;
        let mut tail = vec![0; name.len() % 2];
        tail.extend(file_type.to_le_bytes());
        tail.resize(Self::len(name.len(), attributes) - Self::HEADER_LEN - name.len(), 0);
        Self { fid, hash, attributes, name: name.to_vec(), tail: Bytes(tail) }
    }

    /// Returns the type of the file, if it is known: `mode & 0o170_000`.
    pub fn file_type(&self) -> Option<u16> {
        let place = self.name.len() % 2;
        let &[low, high] = self.tail.0.get(place..place + 2)? else { return None };
        self.attributes.has(EntryAttributes::TYPE).then_some(u16::from_le_bytes([low, high]))
    }

    /// Returns the length that entries of real nodes have, a multiple of 8.
    fn len(name_len: usize, attributes: EntryAttributes) -> usize {
        let len = Self::HEADER_LEN + name_len + 1;
        if attributes.has(EntryAttributes::TYPE) {
            (len.next_multiple_of(2) + 2).next_multiple_of(8)
        } else {
            len.next_multiple_of(8)
        }
    }

    /// Reads an entry, and whether it is the last one.
    fn read(r: &mut Reader<'_>) -> Result<(Self, bool), DecodeError> {
        let fid = Field::read(r, "DirectoryEntry.fid")?;
        let hash = r.u64("DirectoryEntry.hash")?;
        let len = r.u16("DirectoryEntry.len")?;
        let name_len = usize::from(r.u16("DirectoryEntry.name_len")?);
        let attributes = Field::read(r, "DirectoryEntry.attributes")?;
        let end = match len {
            0 => Self::len(name_len, attributes),
            len => usize::from(len),
        };
        let tail = end.checked_sub(Self::HEADER_LEN + name_len);
        let range = DecodeError::Range { field: "DirectoryEntry.len", got: len.into() };
        let tail = tail.ok_or(range)?;
        let name = r.take("DirectoryEntry.name", name_len)?.to_vec();
        let tail = Bytes(r.take("DirectoryEntry.tail", tail)?.to_vec());
        Ok((Self { fid, hash, attributes, name, tail }, len == 0))
    }

    fn write(&self, is_last: bool, w: &mut Writer<'_>) {
        let len = Self::HEADER_LEN + self.name.len() + self.tail.0.len();
        self.fid.write(w);
        w.u64(self.hash);
        w.u16(if is_last { 0 } else { len as u16 });
        w.u16(self.name.len() as u16);
        self.attributes.write(w);
        w.bytes(&self.name);
        w.bytes(&self.tail.0);
    }
}

impl Serialize for DirectoryEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown {
            name: String,
            fid: Fid,
            file_type: Option<u16>,
            hash: u64,
            attributes: EntryAttributes,
        }
        let name = String::from_utf8_lossy(&self.name).into_owned();
        let Self { fid, hash, attributes, .. } = *self;
        let file_type = self.file_type();
        Shown { name, fid, file_type, hash, attributes }.serialize(serializer)
    }
}

/// A page of a directory: 4096 bytes. Spec: mdt-ost §9.1.
#[doc(alias = "lu_dirpage")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectoryPage {
    /// The hash that was asked for, or the end of the page before.
    pub hash_start: u64,
    /// The hash of the first entry after this page; [`DirectoryPage::END`] if there is none.
    pub hash_end: u64,
    /// Flags.
    pub flags: PageFlags,
    /// 0.
    #[serde(skip_serializing_if = "Padding::is_zero")]
    pub padding: Padding<4>,
    /// Entries by hash. An empty directory has none.
    pub entries: Vec<DirectoryEntry>,
    /// Unused room, which need not be zero.
    #[serde(skip)]
    pub rest: Bytes,
}

impl DirectoryPage {
    /// The length in bytes, on every machine.
    #[doc(alias = "LU_PAGE_SIZE")]
    pub const LEN: usize = 4096;
    /// The hash after the last entry of a directory.
    #[doc(alias = "MDS_DIR_END_OFF")]
    pub const END: u64 = 0xffff_ffff_ffff_fffe;
    const HEADER_LEN: usize = 24;

    /// Returns the page of the first of `entries`, and how many of them are in it: those that fit.
    /// The hash of the next one, or [`DirectoryPage::END`], ends the page.
    pub fn fill(hash_start: u64, entries: &[DirectoryEntry]) -> (Self, usize) {
        let mut room = Self::LEN - Self::HEADER_LEN;
        let fits = |entry: &&DirectoryEntry| {
            let len = DirectoryEntry::HEADER_LEN + entry.name.len() + entry.tail.0.len();
            room.checked_sub(len).map(|left| room = left).is_some()
        };
        let inside: Vec<_> = entries.iter().take_while(fits).cloned().collect();
        let hash_end = entries.get(inside.len()).map_or(Self::END, |next| next.hash);
        let flags = match inside.last() {
            None => PageFlags::EMPTY,
            Some(last) if last.hash == hash_end => PageFlags::COLLIDE,
            Some(_) => PageFlags::NONE,
        };
        let count = inside.len();
        let rest = Bytes(vec![0; room]);
        let padding = Padding::default();
        (Self { hash_start, hash_end, flags, padding, entries: inside, rest }, count)
    }
}

impl Field for DirectoryPage {
    fn read(r: &mut Reader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        let mut r = r.sub("DirectoryPage", Self::LEN)?.in_order(Order::Little);
        let r = &mut r;
        let hash_start = r.u64("DirectoryPage.hash_start")?;
        let hash_end = r.u64("DirectoryPage.hash_end")?;
        let flags = PageFlags::read(r, "DirectoryPage.flags")?;
        let padding = Field::read(r, "DirectoryPage.padding")?;
        let mut entries = Vec::new();
        let mut is_last = flags.has(PageFlags::EMPTY);
        while !is_last {
            let entry;
            (entry, is_last) = DirectoryEntry::read(r)?;
            entries.push(entry);
        }
        let rest = Bytes::take_rest(r);
        Ok(Self { hash_start, hash_end, flags, padding, entries, rest })
    }

    fn write(&self, w: &mut Writer<'_>) {
        let w = &mut w.in_order(Order::Little);
        w.u64(self.hash_start);
        w.u64(self.hash_end);
        self.flags.write(w);
        self.padding.write(w);
        let last = self.entries.len().saturating_sub(1);
        for (index, entry) in self.entries.iter().enumerate() {
            entry.write(index == last, w);
        }
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests;
