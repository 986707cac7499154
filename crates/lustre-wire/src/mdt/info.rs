//! Values of `MDS_GET_INFO` and `MDS_SET_INFO`, and the exchange of two layouts.

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_struct};
use serde::Serialize;

use crate::{Bytes, Content, Fid, Padding, Text};

wire_struct! {
    /// Which path of a file is wanted: 32 bytes. Spec: mdt-ost §7.9.
    #[doc(alias = "getinfo_fid2path")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Fid2Path {
        pub fid: Fid,
        /// The changelog record whose time is meant; `u64::MAX` for now.
        pub record: u64,
        /// Which of the links.
        pub link: u32,
        /// The room for the path in bytes.
        pub path_len: u32,
    }
}

/// The key of a request for a path: `fid2path`, the question and, since 2.14, the root of the
/// client. Spec: mdt-ost §7.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Fid2PathKey {
    pub name: Text<16>,
    pub question: Fid2Path,
    pub root: Option<Fid>,
}

impl Content for Fid2PathKey {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        let name = Field::read(r, "Fid2PathKey.name")?;
        let question = Field::read(r, "Fid2PathKey.question")?;
        let root = match r.rest() {
            [] => None,
            _ => Some(Field::read(r, "Fid2PathKey.root")?),
        };
        Ok(Self { name, question, root })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.name.write(w);
        self.question.write(w);
        if let Some(root) = self.root {
            root.write(w);
        }
    }
}

/// The answer to a [`Fid2PathKey`]. Spec: mdt-ost §7.9.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fid2PathReply {
    /// The question, or the ancestor where another MDT must go on.
    pub answer: Fid2Path,
    /// The path and its NUL, then unused room.
    pub room: Bytes,
}

impl Fid2PathReply {
    /// Returns the path from the root of the client, without `/` in front.
    pub fn path(&self) -> &[u8] {
        crate::bytes::until_nul(&self.room.0)
    }
}

impl Content for Fid2PathReply {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        Ok(Self { answer: Field::read(r, "Fid2PathReply.answer")?, room: Bytes::take_rest(r) })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        self.answer.write(w);
        w.bytes(&self.room.0);
    }
}

wire_struct! {
    /// Removes changelog records: the value of `changelog_clear`, 12 bytes. Spec: mdt-ost §7.10.
    #[doc(alias = "changelog_setinfo")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ChangelogClear {
        /// The last record to remove; 0 for all.
        pub record: u64,
        /// The number of the user.
        pub user: u32,
    }
}

wire_struct! {
    /// Which records of the changelog a user wants: the value of `changelog_user`, 48 bytes.
    /// Spec: mdt-ost §14.10.
    #[doc(alias = "changelog_filter")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ChangelogFilter {
        /// A bit for each kind.
        pub mask: u64,
        /// The number of the user; 0: it is known by its name.
        pub user: u32,
        /// Unused.
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<4>,
        /// The name.
        pub name: Text<30>,
        /// Unused.
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<2>,
    }
}

/// Exchange the layouts of two files: 24 bytes, or 8 up to 2.17.0. Spec: mdt-ost §7.13.
#[doc(alias = "mdc_swap_layouts")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct SwapLayouts {
    pub flags: u64,
    /// The expected versions of the data of both files.
    pub versions: Option<[u64; 2]>,
}

impl Content for SwapLayouts {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        let flags = r.u64("SwapLayouts.flags")?;
        let versions = match r.rest() {
            [] => None,
            _ => Some(Field::read(r, "SwapLayouts.versions")?),
        };
        Ok(Self { flags, versions })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.flags);
        if let Some(versions) = self.versions {
            versions.write(w);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_example;

    crate::testing::sizes! { Fid2Path = 32, ChangelogClear = 12, ChangelogFilter = 48 }

    const QUESTION: Fid2Path = Fid2Path {
        fid: Fid { seq: 0x2_0000_0401, oid: 5, version: 0 },
        record: u64::MAX,
        link: 0,
        path_len: 4096,
    };

    #[test]
    fn a_path_is_asked_for_with_or_without_the_root() {
        let name = Text::new("fid2path").unwrap();
        let root = Fid { seq: 0x2_0000_0007, oid: 1, version: 0 };
        for (root, len) in [(None, 48), (Some(root), 64)] {
            let key = Fid2PathKey { name, question: QUESTION, root };
            assert_eq!(key.to_bytes().len(), len);
            assert_eq!(check_example::<Fid2PathKey>(&key.to_bytes()), key);
        }
    }

    #[test]
    fn a_path_ends_with_nul() {
        let mut bytes = QUESTION.to_bytes();
        bytes.extend_from_slice(b"a/b2\0\0\0");
        assert_eq!(check_example::<Fid2PathReply>(&bytes).path(), b"a/b2");
        assert_eq!(check_example::<Fid2PathReply>(&bytes[..32]).path(), b"");
    }

    #[test]
    fn layouts_are_exchanged_with_or_without_versions() {
        let swap: SwapLayouts = check_example(&[3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(swap, SwapLayouts { flags: 3, versions: None });
        let swap = SwapLayouts { flags: 3, versions: Some([1, 2]) };
        assert_eq!(check_example::<SwapLayouts>(&swap.to_bytes()), swap);
    }
}
