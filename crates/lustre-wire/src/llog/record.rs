//! The kinds of records, and what they say.

use fulmar_wire::{Order, wire_enum, wire_struct};
use serde::Serialize;

use super::config::{Config, ConfigRecord};
use super::{LogId, LogRecord};
use crate::changelog::Changelog;
use crate::mdt::Valid;
use crate::ost::OstId;
use crate::{Bytes, Content, Fid, Padding, Text};

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
        /// A user of the changelog: a [`ChangelogUser`].
        CHANGELOG_USER = 0x1067_0000,
        /// A user of the changelog: a [`NamedChangelogUser`].
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

wire_struct! {
    /// A user of the changelog: 16 bytes. Records are kept until every user has read them.
    #[doc(alias = "llog_changelog_user_rec")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct ChangelogUser {
        pub id: u32,
        /// When it read, in seconds.
        pub time: u32,
        /// The last record that it has read.
        pub last: u64,
    }
}

wire_struct! {
    /// A user of the changelog with a name: 56 bytes.
    #[doc(alias = "llog_changelog_user_rec2")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[allow(missing_docs)]
    pub struct NamedChangelogUser {
        #[serde(flatten)]
        pub user: ChangelogUser,
        /// The kinds of changes that it wants.
        pub mask: u32,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding1: Padding<4>,
        pub name: Text<16>,
        #[serde(skip_serializing_if = "Padding::is_zero")]
        pub padding2: Padding<16>,
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum RecordBody {
    Config(Config),
    CatalogEntry(CatalogEntry),
    Unlink(Unlink64),
    SetAttr(SetAttr64),
    Changelog(Box<Changelog>),
    ChangelogUser(ChangelogUser),
    NamedChangelogUser(NamedChangelogUser),
    /// Of another kind, or damaged.
    Other(Bytes),
}

impl LogRecord {
    /// Returns what the record, of a log in `order`, says.
    pub fn typed(&self, order: Order) -> RecordBody {
        let bytes = &self.body.0;
        let typed = match self.kind {
            RecordKind::CONFIG => ConfigRecord::decode(bytes, order)
                .map(|record| RecordBody::Config(Config::of(&record, order))),
            RecordKind::CATALOG_ENTRY => {
                Content::decode(bytes, order).map(RecordBody::CatalogEntry)
            }
            RecordKind::UNLINK64 => Content::decode(bytes, order).map(RecordBody::Unlink),
            RecordKind::SETATTR64 => Content::decode(bytes, order).map(RecordBody::SetAttr),
            RecordKind::CHANGELOG => {
                Changelog::decode(bytes, order).map(Box::new).map(RecordBody::Changelog)
            }
            RecordKind::CHANGELOG_USER => {
                Content::decode(bytes, order).map(RecordBody::ChangelogUser)
            }
            RecordKind::CHANGELOG_USER2 => {
                Content::decode(bytes, order).map(RecordBody::NamedChangelogUser)
            }
            _ => Content::decode(bytes, order).map(RecordBody::Other),
        };
        typed.unwrap_or_else(|_| RecordBody::Other(self.body.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::testing::sizes! {
        CatalogEntry = 40,
        Unlink64 = 40,
        SetAttr64 = 64,
        ChangelogUser = 16,
        NamedChangelogUser = 56,
    }

    #[test]
    fn a_record_says_what_its_kind_says() {
        let record = |kind, body| LogRecord { index: 1, kind, id: 0, body: Bytes(body) };
        let typed = |record: LogRecord| record.typed(Order::Little);
        let unlink = Unlink64 { object: Fid::ROOT, count: 2, ..Unlink64::default() };
        let found = typed(record(RecordKind::UNLINK64, unlink.to_bytes()));
        assert_eq!(found, RecordBody::Unlink(unlink));
        let config = Config::Detach { device: "a".to_owned() };
        let body = config.record(Order::Little).to_bytes();
        let found = typed(record(RecordKind::CONFIG, body));
        assert_eq!(found, RecordBody::Config(config));
        let damaged = record(RecordKind::CONFIG, vec![1; 16]);
        assert_eq!(typed(damaged), RecordBody::Other(Bytes(vec![1; 16])));
        let user = NamedChangelogUser { mask: 7, ..NamedChangelogUser::default() };
        let found = typed(record(RecordKind::CHANGELOG_USER2, user.to_bytes()));
        assert_eq!(found, RecordBody::NamedChangelogUser(user));
    }
}
