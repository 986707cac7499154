//! The kinds of records, and the bodies of those that are not configuration.

use fulmar_wire::{wire_enum, wire_struct};
use serde::Serialize;

use super::LogId;
use crate::mdt::Valid;
use crate::ost::OstId;
use crate::{Fid, Padding};

wire_enum! {
    /// The kind of a record. The upper 12 bits are the same in all kinds, so that they show the
    /// byte order of a log. Spec: ptlrpc-ldlm-mgs §29.3.
    pub struct RecordKind(u32) {
        /// Fills the end of a chunk.
        PAD = 0x1060_0000,
        /// The size of an object.
        OST_SIZE = 0x1060_0f00,
        /// Configuration: a [`ConfigRecord`](super::config::ConfigRecord).
        CONFIG = 0x1062_0000,
        /// A generation of a log.
        GENERATION = 0x1064_0000,
        /// The header of a log: a [`LogHeader`](super::LogHeader).
        HEADER = 0x1064_5539,
        /// The name of another log: a [`CatalogEntry`].
        CATALOG_ENTRY = 0x1064_553b,
        /// A change of the file system: a [`Changelog`](crate::changelog::Changelog).
        CHANGELOG = 0x1066_0000,
        /// A user of the changelog.
        CHANGELOG_USER = 0x1067_0000,
        /// A user of the changelog, with a name.
        CHANGELOG_USER2 = 0x1067_0002,
        /// A request for a copy tool.
        HSM_AGENT = 0x1068_0000,
        /// The removal of an object, of an old release.
        UNLINK = 0x1061_2404,
        /// The removal of objects: an [`Unlink64`].
        UNLINK64 = 0x1069_2404,
        /// A new owner of an object: a [`SetAttr64`].
        SETATTR64 = 0x1069_2401,
        /// Updates of several MDTs.
        UPDATE = 0x106a_0000,
    }
}

wire_struct! {
    /// The name of another log: 40 bytes.
    #[doc(alias = "llog_logid_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct CatalogEntry {
        pub id: LogId,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<20>,
    }
}

wire_struct! {
    /// The objects of a file that is gone: 40 bytes. Spec: mdt-ost §14.3.
    #[doc(alias = "llog_unlink64_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct Unlink64 {
        pub object: Fid,
        /// The number of consecutive objects.
        pub count: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<20>,
    }
}

wire_struct! {
    /// A new owner or layout version of an object: 64 bytes. Spec: mdt-ost §16.3.
    #[doc(alias = "llog_setattr64_rec_v2")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct SetAttr64 {
        pub object: OstId,
        pub uid: u32,
        pub uid_high: u32,
        pub gid: u32,
        pub gid_high: u32,
        pub valid: Valid,
        pub projid: u32,
        pub layout_version: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding: Padding<16>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! { CatalogEntry = 40, Unlink64 = 40, SetAttr64 = 64 }
}
