//! Records of the changelog: the body of a [log record](crate::llog::LogRecord) of the kind
//! [`CHANGELOG`](crate::llog::RecordKind::CHANGELOG). Spec: mdt-ost §14.7.
//!
//! ```text
//!  0 name length u16  2 flags u16  4 kind u32  8 index  16 previous  24 time  32 target [16]
//! 48 parent [16]  64 extensions, name
//! ```

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_enum, wire_flags, wire_struct};
use serde::Serialize;

use crate::{Bytes, Content, Fid, LargeNid, Padding, Text};

wire_enum! {
    /// What changed.
    pub struct ChangeKind(u32) {
        /// The changelog was turned on or off.
        MARK = 0,
        /// A regular file was created.
        CREAT = 1,
        /// A directory was created.
        MKDIR = 2,
        /// A link was created.
        HLINK = 3,
        /// A symlink was created.
        SLINK = 4,
        /// A device or a pipe was created.
        MKNOD = 5,
        /// A name was removed.
        UNLINK = 6,
        /// A directory was removed.
        RMDIR = 7,
        /// A file was renamed.
        RENAME = 8,
        /// The new name, in old releases.
        EXT = 9,
        /// A file was opened.
        OPEN = 10,
        /// A file was closed.
        CLOSE = 11,
        /// A layout changed.
        LAYOUT = 12,
        /// A file was truncated.
        TRUNC = 13,
        /// Attributes changed.
        SATTR = 14,
        /// An extended attribute changed.
        XATTR = 15,
        /// A copy tool did something.
        HSM = 16,
        /// The modification time changed.
        MTIME = 17,
        /// The change time changed.
        CTIME = 18,
        /// The access time changed.
        ATIME = 19,
        /// A file moved to another MDT.
        MIGRATE = 20,
        /// A mirrored file was written.
        FLRW = 21,
        /// Mirrors were resynchronised.
        RESYNC = 22,
        /// An extended attribute was read.
        GXATR = 23,
        /// An open was denied.
        NOPEN = 24,
    }
}

wire_flags! {
    /// Which extensions follow; the lower 12 bits depend on the kind.
    #[doc(alias = "CLF")]
    pub struct ChangeFlags(u16) {
        VERSION = 0x1000,
        RENAME = 0x2000,
        JOBID = 0x4000,
        EXTRA = 0x8000,
    }
}

wire_flags! {
    /// Which further extensions follow.
    #[doc(alias = "CLFE")]
    pub struct ChangeExtra(u64) {
        UIDGID = 0x1,
        NID = 0x2,
        OPEN = 0x4,
        XATTR = 0x8,
        /// The NID is in the large form.
        NID_BE = 0x10,
    }
}

wire_struct! {
    /// From where a file was renamed.
    #[doc(alias = "changelog_ext_rename")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct RenameSource {
        pub fid: Fid,
        pub parent: Fid,
    }
}

wire_struct! {
    /// Who did it.
    #[doc(alias = "changelog_ext_uidgid")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct ChangeOwner {
        pub uid: u64,
        pub gid: u64,
    }
}

wire_struct! {
    /// From which node it was done: 24 bytes.
    #[doc(alias = "changelog_ext_nid")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ChangeNid {
        /// With [`ChangeExtra::NID_BE`] in the large form, else the first 8 bytes are the number of a
        /// small one.
        pub nid: LargeNid,
        /// Unused.
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<4>,
    }
}

impl From<LargeNid> for ChangeNid {
    fn from(nid: LargeNid) -> Self {
        Self { nid, padding: Padding::default() }
    }
}

/// A change.
#[doc(alias = "changelog_rec")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Changelog {
    /// The flags of the extensions must agree with them: [`Changelog::decode`] ensures it.
    pub flags: ChangeFlags,
    pub kind: ChangeKind,
    pub index: u64,
    /// The previous record of the file, or 0.
    pub previous: u64,
    /// Seconds, 34 bits, and nanoseconds, 30 bits.
    pub time: u64,
    pub target: Fid,
    pub parent: Fid,
    pub rename: Option<RenameSource>,
    pub job: Option<Text<32>>,
    pub extra: Option<ChangeExtra>,
    pub owner: Option<ChangeOwner>,
    /// The node of the client.
    pub nid: Option<ChangeNid>,
    pub open_flags: Option<u32>,
    pub xattr: Option<Text<256>>,
    /// The name; of a rename the new name, NUL and the old one.
    #[serde(serialize_with = "crate::bytes::show_name")]
    pub name: Vec<u8>,
    /// Bytes to a multiple of 8.
    #[serde(skip)]
    pub rest: Bytes,
}

/// Reads an extension if it is there.
fn optional<T: Field>(
    r: &mut Reader<'_>,
    is_there: bool,
    name: &'static str,
) -> Result<Option<T>, DecodeError> {
    is_there.then(|| T::read(r, name)).transpose()
}

impl Content for Changelog {
    fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes, order);
        let name_len = r.u16("Changelog.name_len")?;
        let flags = ChangeFlags::read(r, "Changelog.flags")?;
        let kind = Field::read(r, "Changelog.kind")?;
        let index = r.u64("Changelog.index")?;
        let previous = r.u64("Changelog.previous")?;
        let time = r.u64("Changelog.time")?;
        let target = Field::read(r, "Changelog.target")?;
        let parent = Field::read(r, "Changelog.parent")?;
        let rename = optional(r, flags.has(ChangeFlags::RENAME), "Changelog.rename")?;
        let job = optional(r, flags.has(ChangeFlags::JOBID), "Changelog.job")?;
        let extra: Option<ChangeExtra> =
            optional(r, flags.has(ChangeFlags::EXTRA), "Changelog.extra")?;
        let has = |bit| extra.is_some_and(|extra| extra.has(bit));
        let owner = optional(r, has(ChangeExtra::UIDGID), "Changelog.owner")?;
        let nid = optional(r, has(ChangeExtra::NID), "Changelog.nid")?;
        let open_flags = optional(r, has(ChangeExtra::OPEN), "Changelog.open_flags")?;
        let xattr = optional(r, has(ChangeExtra::XATTR), "Changelog.xattr")?;
        let name = r.take("Changelog.name", name_len.into())?.to_vec();
        let rest = Bytes::take_rest(r);
        Ok(Self {
            flags,
            kind,
            index,
            previous,
            time,
            target,
            parent,
            rename,
            job,
            extra,
            owner,
            nid,
            open_flags,
            xattr,
            name,
            rest,
        })
    }

    fn encode(&self, w: &mut Writer<'_>) {
        fn write(extension: &Option<impl Field>, w: &mut Writer<'_>) {
            if let Some(extension) = extension {
                extension.write(w);
            }
        }
        w.u16(self.name.len() as u16);
        self.flags.write(w);
        self.kind.write(w);
        w.u64(self.index);
        w.u64(self.previous);
        w.u64(self.time);
        self.target.write(w);
        self.parent.write(w);
        write(&self.rename, w);
        write(&self.job, w);
        write(&self.extra, w);
        write(&self.owner, w);
        write(&self.nid, w);
        write(&self.open_flags, w);
        write(&self.xattr, w);
        w.bytes(&self.name);
        w.bytes(&self.rest.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_any, check_example};

    crate::testing::sizes! { RenameSource = 32, ChangeOwner = 16, ChangeNid = 24 }

    fn change() -> Changelog {
        let fid = Fid { seq: 0x2_0000_0401, oid: 7, version: 0 };
        Changelog {
            flags: ChangeFlags::VERSION,
            kind: ChangeKind::CREAT,
            index: 3,
            previous: 0,
            time: 0x6b00_57b1 << 30,
            target: fid,
            parent: fid,
            rename: None,
            job: None,
            extra: None,
            owner: None,
            nid: None,
            open_flags: None,
            xattr: None,
            name: b"f1".to_vec(),
            rest: Bytes(vec![0; 6]),
        }
    }

    #[test]
    fn a_creation_has_a_name() {
        let change = change();
        assert_eq!(change.to_bytes().len(), 72);
        assert_eq!(check_example::<Changelog>(&change.to_bytes()), change);
        assert_eq!(serde_json::json!(change)["name"], "f1");
    }

    #[test]
    fn extensions_follow_in_their_order() {
        let Changelog { target, parent, .. } = change();
        let extra = ChangeExtra::UIDGID | ChangeExtra::NID | ChangeExtra::OPEN | ChangeExtra::XATTR;
        let flags = change().flags | ChangeFlags::RENAME | ChangeFlags::JOBID | ChangeFlags::EXTRA;
        let change = Changelog {
            flags,
            rename: Some(RenameSource { fid: target, parent }),
            job: Text::new("cp.0"),
            extra: Some(extra),
            owner: Some(ChangeOwner { uid: 500, gid: 501 }),
            nid: Some(LargeNid([1; 20]).into()),
            open_flags: Some(0o102),
            xattr: Text::new("user.a"),
            ..change()
        };
        assert_eq!(change.to_bytes().len(), 72 + 32 + 32 + 8 + 16 + 24 + 4 + 256);
        assert_eq!(check_example::<Changelog>(&change.to_bytes()), change);
        check_any::<Changelog>(&[]);
    }
}
