//! Questions about the OST: its size, its last objects, maps of objects, quotas. Spec: mdt-ost §16.1, §16.11.

use std::sync::atomic::Ordering;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{FIEMAP_KEY, KEY, LAST_FID, LAST_ID, OST_BODY, QUOTACTL, STATFS};
use fulmar_lustre_wire::mdt::{Statfs, StatfsState};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{Obdo, OstId};
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaKind, QuotaLimits};
use fulmar_lustre_wire::{Status, Text};
use fulmar_nodemap::IdKind;
use fulmar_store::{ObjectId, StoreError};
use fulmar_target::data::BLOCK;

use crate::Ost;
use crate::ids;
use crate::ost::{Answer, Call, Failure};

/// The kind of file system that kernel OSTs name. Without one, an MDT creates no objects here.
const FS_KIND: u64 = 0xef53;

impl Ost {
    /// Returns the bytes of the medium that clients may use.
    pub(crate) fn free(&self) -> Result<u64, StoreError> {
        self.data.free()
    }

    /// Returns whether so little is left that no objects are created.
    pub(crate) fn is_nearly_full(&self) -> Result<bool, StoreError> {
        Ok(self.free()? <= self.store.room()?.total >> 10)
    }

    /// Answers STATFS. Spec: mdt-ost §7.2.
    pub(crate) fn statfs(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Answer::new(reply.with(&STATFS, &self.size()?)))
    }

    /// Returns how large it is, and what is free.
    pub(crate) fn size(&self) -> Result<Statfs, StoreError> {
        let (room, free) = (self.store.room()?, self.free()?);
        let granted = self.data.granted();
        let pending = granted.dirty.saturating_add(granted.pending);
        let objects = self.usage.objects();
        // An object needs a record, and a file when it is written.
        let free_files = free / BLOCK;
        let states = [
            (free <= room.total >> 10, StatfsState::ENOSPC),
            (free_files < 32, StatfsState::ENOINO),
            (self.creates_nothing.load(Ordering::Relaxed), StatfsState::NOCREATE),
        ];
        let states = states.iter().filter(|(is, _)| *is);
        let state = states.fold(StatfsState::NONE, |state, (_, bit)| state | *bit);
        Ok(Statfs {
            kind: FS_KIND,
            blocks: room.total / BLOCK,
            free: room.free / BLOCK,
            available: free.saturating_sub(pending) / BLOCK,
            files: objects.saturating_add(free_files),
            free_files,
            block_size: BLOCK as u32,
            name_max: 255,
            max_bytes: self.settings.bytes_max,
            granted: u32::try_from(granted.granted / BLOCK).unwrap_or(u32::MAX),
            state,
            ..Statfs::default()
        })
    }

    /// Answers GET_INFO.
    pub(crate) fn get_info(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let message = call.message;
        let reply = Message::reply(message.format(), Status::OK);
        let key = match message.get(&FIEMAP_KEY) {
            Ok(Some(key)) if key.name == Text::new("fiemap").unwrap_or_default() => {
                let object = crate::attributes::named(&key.object)?;
                self.attributes(object)?.ok_or(Errno::ENOENT)?;
                let map = self.data.map(object, key.range, self.settings.index)?;
                return Ok(Answer::new(call.reply_with_map(&map)));
            }
            _ => message.require(&KEY).map_err(|_| Errno::EPROTO)?,
        };
        let reply = match key.as_bytes() {
            b"last_id" => {
                let group = self.export(call.export)?.client.group;
                reply.with(&LAST_ID, &self.last(group.into())?)
            }
            b"last_fid" => {
                let asked = message.require(&LAST_FID).map_err(|_| Errno::EPROTO)?;
                let ObjectId(seq, _) = ids::any_object(OstId::Fid(asked))?;
                let last = ids::fid(ObjectId(seq, self.last(seq)?), self.settings.index);
                reply.with(&LAST_FID, &last)
            }
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        Ok(Answer::new(reply))
    }

    /// Executes SET_INFO: a client gives grant back.
    pub(crate) fn set_info(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let message = call.message;
        let key = message.require(&KEY).map_err(|_| Errno::EPROTO)?;
        if key.as_bytes() != b"grant_shrink" {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let asked = call.body()?;
        self.data.shrink(call.export, asked.grant)?;
        let body = Obdo { grant: 0, ..asked };
        let reply = Message::reply(message.format(), Status::OK);
        Ok(Answer::new(reply.with(&OST_BODY, &body)))
    }

    /// Answers QUOTACTL: what an id uses here. Limits are those of the quota master.
    pub(crate) fn quotactl(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let mut control = call.message.require(&QUOTACTL).map_err(|_| Errno::EPROTO)?;
        match control.command {
            QuotaCommand::GETOINFO => {}
            QuotaCommand::GETOQUOTA if QuotaKind::KNOWN.contains(&control.kind) => {
                let kind = match control.kind {
                    QuotaKind::USER => IdKind::User,
                    QuotaKind::GROUP => IdKind::Group,
                    _ => IdKind::Project,
                };
                let id = self.view(call).to_fs(kind, control.id).id;
                let used = self.usage.of(control.kind, id);
                let (space, inodes) = (used.bytes, used.objects);
                /// Which of the fields of the limits are set: the use of blocks and of inodes.
                const USED: u32 = 0x2 | 0x8;
                control.limits = QuotaLimits { space, inodes, valid: USED, ..control.limits };
            }
            _ => return Err(Errno::EOPNOTSUPP.into()),
        }
        let reply = Message::reply(call.message.format(), Status::OK);
        Ok(Answer::new(reply.with(&QUOTACTL, &control)))
    }
}
