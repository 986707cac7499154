//! Nodemaps as the records of an index, which a management service keeps and its servers read.
//! Spec: ptlrpc-ldlm-mgs §32.4.

use std::fmt;

use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::mgs::{
    Nodemap as Record, NodemapEntry, NodemapFilesetHead, NodemapFilesetPart, NodemapFlags,
    NodemapId, NodemapKey, NodemapKind, NodemapNetmask, NodemapOffset, NodemapRange, NodemapRecord,
};
use fulmar_lustre_wire::{LargeNid, Padding, SmallNid, Text};

use crate::change::MAPS;
use crate::fileset::{COUNT_MAX, PATH_MAX};
use crate::map::IdKind;
use crate::nodemap::{Nodemap, Role};
use crate::nodemaps::Nodemaps;
use crate::ranges::{Nids, Range};

/// Why records are no nodemaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistent(pub String);

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The parts of a nodemap.
const ROLES: u32 = 1;
const OFFSET: u32 = 2;
/// The first part of the first fileset, and how many each has: a head, and pieces of its path.
const FILESETS: u32 = 512;
const FILESET_PARTS: u32 = 256;
/// The length of a piece.
const PIECE: usize = 28;
/// The upper 4 bits of the number of a range say whether it is banned.
const BANNED: u32 = 1 << 28;

fn key(kind: NodemapKind, nodemap: u32, part: u32) -> NodemapKey {
    NodemapKey { kind, nodemap, part }
}

impl Nodemaps {
    /// Returns all records: those of nodemaps first, as their readers expect.
    pub fn entries(&self) -> Vec<NodemapEntry> {
        let records = self.iter().map(|(id, nodemap)| NodemapEntry {
            key: key(NodemapKind::CLUSTER, id, 0),
            record: NodemapRecord::Nodemap(nodemap.record()),
        });
        let details = self.iter().flat_map(|(id, nodemap)| nodemap.details(id));
        let ranges = self.ranges.iter().map(|(id, range)| range.entry(id));
        let is_active = NodemapEntry {
            key: key(NodemapKind::GLOBAL, 0, 0),
            record: NodemapRecord::Global {
                is_active: u8::from(self.is_active()),
                padding: Padding::default(),
            },
        };
        records.chain(details).chain(ranges).chain([is_active]).collect()
    }

    /// Returns the nodemaps of records, in any order. Records of an unknown kind are ignored.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn of(entries: &[NodemapEntry]) -> Result<Self, Inconsistent> {
        let mut this = Self::default();
        for entry in entries {
            if let NodemapRecord::Nodemap(record) = &entry.record {
                this.take_record(entry.key.nodemap, record)?;
            }
        }
        for entry in entries {
            this.take_detail(entry)?;
        }
        Ok(this)
    }

    fn take_record(&mut self, id: u32, record: &Record) -> Result<(), Inconsistent> {
        let name = record.name.to_string();
        let mut nodemap = Nodemap::new(&name);
        (nodemap.flags, nodemap.flags2) = (record.flags, record.flags2);
        // Old management services have none of the three where they map users and groups.
        if nodemap.flags.0 & MAPS.0 == 0 {
            nodemap.flags = nodemap.flags | NodemapFlags::MAP_UID | NodemapFlags::MAP_GID;
        }
        nodemap.squash = [record.squash_uid, record.squash_gid, record.squash_projid];
        let is_twice = self.iter().any(|(other, known)| other != id && known.name() == name);
        if is_twice || (id == 0) != (name == Nodemap::DEFAULT) {
            return Err(Inconsistent(format!("{name:?} cannot be the name of nodemap {id}")));
        }
        self.put(id, nodemap);
        Ok(())
    }

    fn take_detail(&mut self, entry: &NodemapEntry) -> Result<(), Inconsistent> {
        let NodemapKey { kind, nodemap: id, part } = entry.key;
        match (&entry.record, kind) {
            (NodemapRecord::Nodemap(_), _) => return Ok(()),
            (NodemapRecord::Global { is_active, .. }, _) => {
                self.set_active(*is_active != 0);
                return Ok(());
            }
            (_, NodemapKind::CLUSTER | NodemapKind::RANGE | NodemapKind::NID_MASK)
            | (_, NodemapKind::UID | NodemapKind::GID | NodemapKind::PROJID) => {}
            _ => return Ok(()),
        }
        let Some(nodemap) = self.get_mut(id) else {
            return Err(Inconsistent(format!(
                "{kind:?} {part} is of nodemap {id}, which is missing"
            )));
        };
        match &entry.record {
            NodemapRecord::Id(record) => {
                let kind = match kind {
                    NodemapKind::UID => IdKind::User,
                    NodemapKind::GID => IdKind::Group,
                    _ => IdKind::Project,
                };
                nodemap.ids[kind as usize].insert(part, record.id);
            }
            NodemapRecord::Range(range) => {
                let nids = Nids::between(range.start.nid(), range.end.nid());
                self.take_range(id, part, nids)?;
            }
            NodemapRecord::Netmask(mask) => {
                let nids = mask.prefix.nid().ok().map(|nid| Nids::Prefix(nid, mask.netmask));
                self.take_range(id, part, nids)?;
            }
            record => nodemap.take_part(part, record),
        }
        Ok(())
    }

    fn take_range(
        &mut self,
        nodemap: u32,
        part: u32,
        nids: Option<Nids>,
    ) -> Result<(), Inconsistent> {
        let broken =
            |why: &str| Inconsistent(format!("the range {part} of nodemap {nodemap} {why}"));
        let nids = nids.ok_or_else(|| broken("has no valid NIDs"))?;
        let is_banned = part & BANNED != 0;
        let range = Range { nids, nodemap, is_banned };
        let inserted = self.ranges.insert(Some(part & (BANNED - 1)), range);
        inserted.map(drop).map_err(|errno| broken(&format!("does not fit: {errno}")))
    }
}

impl Nodemap {
    fn record(&self) -> Record {
        let [squash_uid, squash_gid, squash_projid] = self.squash;
        Record {
            name: Text::new(&self.name).expect("names are short"),
            flags: self.flags,
            flags2: self.flags2,
            padding: Padding::default(),
            squash_projid,
            squash_uid,
            squash_gid,
        }
    }

    /// Returns its other records.
    fn details(&self, id: u32) -> Vec<NodemapEntry> {
        let part = |part, record| NodemapEntry { key: key(NodemapKind::CLUSTER, id, part), record };
        let mut all = vec![];
        let has_roles = self.roles.roles != u64::from(Role::ALL)
            || (self.roles.privileges, self.roles.raised) != (0, 0);
        if has_roles {
            all.push(part(ROLES, NodemapRecord::Roles(self.roles)));
        }
        if let Some((start, limit)) = self.offset {
            let starts = NodemapOffset {
                start_uid: start,
                limit_uid: limit,
                start_gid: start,
                limit_gid: limit,
                start_projid: start,
                limit_projid: limit,
                padding: Padding::default(),
            };
            all.push(part(OFFSET, NodemapRecord::Offset(starts)));
        }
        all.extend(self.others.iter().map(|(at, other)| part(*at, NodemapRecord::Other(*other))));
        for (number, fileset) in &self.filesets {
            let first = FILESETS + number * FILESET_PARTS;
            let flags = u8::from(fileset.is_read_only);
            let head = NodemapFilesetHead { flags, padding: Padding::default() };
            all.push(part(first, NodemapRecord::FilesetHead(head)));
            for (at, piece) in (0..).zip(fileset.path.as_bytes().chunks(PIECE)) {
                let mut text = [0; PIECE];
                text[..piece.len()].copy_from_slice(piece);
                let record = NodemapFilesetPart {
                    text: Text(text),
                    number: at as u16,
                    padding: Padding::default(),
                };
                all.push(part(first + 1 + at, NodemapRecord::FilesetPart(record)));
            }
        }
        let kinds = [NodemapKind::UID, NodemapKind::GID, NodemapKind::PROJID];
        for (kind, ids) in kinds.into_iter().zip(&self.ids) {
            all.extend(ids.pairs().map(|(client, fs)| NodemapEntry {
                key: key(kind, id, client),
                record: NodemapRecord::Id(NodemapId { id: fs, padding: Padding::default() }),
            }));
        }
        all
    }

    fn take_part(&mut self, part: u32, record: &NodemapRecord) {
        let number = part.saturating_sub(FILESETS) / FILESET_PARTS;
        match record {
            NodemapRecord::Roles(roles) => self.roles = *roles,
            // As on a kernel server, that of users is that of all.
            NodemapRecord::Offset(offset) => {
                let range = (offset.start_uid, offset.limit_uid);
                self.offset = (range != (0, 0)).then_some(range);
            }
            NodemapRecord::FilesetHead(head) if number < COUNT_MAX => {
                self.filesets.entry(number).or_default().is_read_only = head.flags & 1 != 0;
            }
            NodemapRecord::FilesetPart(piece) if number < COUNT_MAX => {
                self.take_piece(number, piece);
            }
            NodemapRecord::Other(other) => {
                self.others.insert(part, *other);
            }
            _ => {}
        }
    }

    /// Adds a piece of the path of a fileset. Pieces come in any order.
    fn take_piece(&mut self, number: u32, piece: &NodemapFilesetPart) {
        let path = &mut self.filesets.entry(number).or_default().path;
        let (at, text) = (usize::from(piece.number) * PIECE, piece.text.as_bytes());
        if at + text.len() > PATH_MAX {
            return;
        }
        let mut bytes = std::mem::take(path).into_bytes();
        bytes.resize(bytes.len().max(at + text.len()), 0);
        bytes[at..at + text.len()].copy_from_slice(text);
        *path = String::from_utf8(bytes).unwrap_or_default();
    }
}

impl Range {
    fn entry(&self, id: u32) -> NodemapEntry {
        let part = id | if self.is_banned { BANNED } else { 0 };
        let small = |nid: Nid| SmallNid(nid.to_small().unwrap_or_default());
        let (kind, record) = match self.nids {
            Nids::Range(first, last) => {
                let (start, end) = (small(first), small(last));
                let range = NodemapRange { start, end, padding: Padding::default() };
                (NodemapKind::RANGE, NodemapRecord::Range(range))
            }
            Nids::Prefix(nid, netmask) => {
                let prefix = LargeNid(nid.to_large());
                let mask = NodemapNetmask { prefix, padding: Padding::default(), netmask };
                (NodemapKind::NID_MASK, NodemapRecord::Netmask(mask))
            }
        };
        NodemapEntry { key: key(kind, self.nodemap, part), record }
    }
}
