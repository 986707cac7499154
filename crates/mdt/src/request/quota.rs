//! Quotas: what somebody uses on this target, and how many files somebody may have. Spec: mdt-ost §7.11.
//!
//! OSTs know no limits, so limits of blocks are refused. It would be worse to keep limits that are not enforced.

use fulmar_base::Errno;
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::format::QUOTACTL;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_nodemap::IdKind;

use super::Answer;
use crate::Mdt;
use crate::limits::{GRACE, Limit};
use crate::mdt::Call;
use crate::records::Failure;

/// Which fields of the limits are set.
const BLOCK_LIMITS: u32 = 0x1;
const INODE_LIMITS: u32 = 0x4;
const BLOCK_TIME: u32 = 0x10;
const INODE_TIME: u32 = 0x20;
/// The use of both.
const USED: u32 = 0x2 | 0x8;

impl Mdt {
    /// Executes QUOTACTL. Clients add what somebody uses on other targets.
    pub(crate) fn quotactl(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let asked = call.message.require(&QUOTACTL).map_err(|_| Errno::EPROTO)?;
        if !QuotaKind::KNOWN.contains(&asked.kind) {
            return Err(Errno::EINVAL.into());
        }
        let view = self.view(call);
        view.check()?;
        let kind = asked.kind;
        let id = view.to_fs(id_kind(kind), asked.id).id;
        let mut durable = None;
        let (times, limits) = match asked.command {
            QuotaCommand::GETINFO | QuotaCommand::GETOINFO => {
                let (block_grace, inode_grace) = (GRACE, self.limits.grace(kind));
                (QuotaTimes { block_grace, inode_grace, ..asked.times }, asked.limits)
            }
            QuotaCommand::GETQUOTA | QuotaCommand::GETDEFAULT => {
                (asked.times, self.limits_of(kind, id))
            }
            QuotaCommand::GETOQUOTA => {
                let used = self.usage.of(kind, id);
                let (space, inodes) = (used.bytes, used.objects);
                (asked.times, QuotaLimits { space, inodes, valid: USED, ..QuotaLimits::default() })
            }
            QuotaCommand::SETINFO
            | QuotaCommand::SETQUOTA
            | QuotaCommand::SETDEFAULT
            | QuotaCommand::DELETEQID => {
                let project = (kind == QuotaKind::PROJECT).then_some(asked.id);
                let is_default = asked.command == QuotaCommand::SETDEFAULT;
                if !view.may_set_quota(project, is_default) {
                    return Err(Errno::EPERM.into());
                }
                self.set_quota(call, &asked, id)?;
                durable = Some(self.store.applied());
                (asked.times, asked.limits)
            }
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        let reply = Message::reply(call.message.format(), Status::OK);
        let reply = reply.with(&QUOTACTL, &QuotaControl { times, limits, ..asked });
        Ok(Answer { durable, ..Answer::new(reply) })
    }

    fn limits_of(&self, kind: QuotaKind, id: u32) -> QuotaLimits {
        let (Limit { hard, soft }, inode_time) = self.limits.of(kind, id);
        QuotaLimits {
            inode_hard: hard,
            inode_soft: soft,
            inode_time,
            valid: BLOCK_LIMITS | INODE_LIMITS | BLOCK_TIME | INODE_TIME,
            ..QuotaLimits::default()
        }
    }

    fn set_quota(&self, call: &Call<'_>, asked: &QuotaControl, id: u32) -> Result<(), Failure> {
        if self.export(call.export)?.is_read_only() {
            return Err(Errno::EROFS.into());
        }
        let (kind, limits) = (asked.kind, asked.limits);
        let has = |bit| limits.valid & bit != 0;
        // Clients say also for graces which fields are set in those of the limits.
        if asked.command == QuotaCommand::SETINFO {
            if has(BLOCK_TIME) && asked.times.block_grace != GRACE {
                return Err(Errno::EOPNOTSUPP.into());
            }
            if has(INODE_TIME) {
                let grace = asked.times.inode_grace;
                self.repeat(|transaction| {
                    self.limits.set_grace(transaction, kind, grace);
                    Ok(())
                })?;
            }
            return Ok(());
        }
        let is_default = asked.command == QuotaCommand::SETDEFAULT;
        let limit = match asked.command {
            QuotaCommand::SETDEFAULT | QuotaCommand::DELETEQID if id != 0 => None,
            QuotaCommand::DELETEQID => return Err(Errno::EINVAL.into()),
            _ => {
                if has(BLOCK_LIMITS) && (limits.block_hard, limits.block_soft) != (0, 0) {
                    return Err(Errno::EOPNOTSUPP.into());
                }
                match (has(INODE_LIMITS), has(BLOCK_LIMITS)) {
                    (true, _) => {}
                    (false, true) => return Ok(()),
                    (false, false) => return Err(Errno::EOPNOTSUPP.into()),
                }
                let (hard, soft) = (limits.inode_hard, limits.inode_soft);
                // The limits of the id 0 are the default ones.
                if hard != 0 && soft > hard || id == 0 && !is_default {
                    return Err(Errno::EINVAL.into());
                }
                if !self.limits.has_room(kind, id) {
                    return Err(Errno::ENOSPC.into());
                }
                Some(Limit { hard, soft })
            }
        };
        // A client that changes only the hard limit keeps the grace.
        let end = if has(INODE_TIME) && limit.is_some() {
            limits.inode_time
        } else {
            self.limits.end(kind, call.now)
        };
        self.repeat(|transaction| {
            let used = self.usage.of(kind, id).objects;
            self.limits.set(transaction, (kind, id), limit, (used, end));
            Ok(())
        })?;
        Ok(())
    }
}

fn id_kind(kind: QuotaKind) -> IdKind {
    match kind {
        QuotaKind::USER => IdKind::User,
        QuotaKind::GROUP => IdKind::Group,
        _ => IdKind::Project,
    }
}
