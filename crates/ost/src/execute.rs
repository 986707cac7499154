//! Requests to an OST, each to what executes it. Spec: mdt-ost §16.1 to §16.11.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::quota::QuotaKind;
use fulmar_lustre_wire::{Handle, Opcode, Status};
use fulmar_target::data::{Holder, Total};
use fulmar_target::stats::Tally;
use fulmar_target::usage::UsageRecord;

use crate::Ost;
use crate::ost::{Answer, Call, errno_of};
use crate::stats::BrwStats;

impl Ost {
    /// The requests that it executes, without those about connections and locks.
    pub const OPERATIONS: &[Opcode] = &[
        Opcode::OST_GETATTR,
        Opcode::OST_SETATTR,
        Opcode::OST_READ,
        Opcode::OST_WRITE,
        Opcode::OST_CREATE,
        Opcode::OST_DESTROY,
        Opcode::OST_GET_INFO,
        Opcode::OST_PUNCH,
        Opcode::OST_STATFS,
        Opcode::OST_SYNC,
        Opcode::OST_SET_INFO,
        Opcode::OST_QUOTACTL,
        Opcode::OST_LADVISE,
        Opcode::OST_FALLOCATE,
        Opcode::OST_SEEK,
        Opcode::SEQ_QUERY,
    ];

    /// Executes a request whose data, if it has any, are in its message. For other reads and writes
    /// [`Holder::prepare`] comes first.
    ///
    /// # Errors
    /// The status of a reply without buffers: EPROTO if the request is not whole or inconsistent, EROFS
    /// if the client may not change anything, EOPNOTSUPP, ENOSPC, EIO if the store has failed.
    pub fn execute(&self, call: &Call<'_>) -> Result<Answer, Errno> {
        let opcode = call.message.body.opcode;
        if opcode == Opcode::OST_CONNECT {
            return call.finish(self.connect(call));
        }
        let export = self.export(call.export)?;
        if export.client.flags.has(ConnectFlags::RDONLY) && changes(opcode) {
            return Err(Errno::EROFS);
        }
        if opcode != Opcode::OST_DISCONNECT {
            self.check_nodemap(call, changes(opcode))?;
        }
        let result = match opcode {
            Opcode::OST_DISCONNECT => {
                self.forget(call.export).map_err(|error| errno_of(&error))?;
                Ok(Answer::new(Message::reply(call.message.format(), Status::OK)))
            }
            Opcode::OST_GETATTR => self.getattr(call),
            Opcode::OST_SETATTR => self.setattr(call),
            Opcode::OST_READ | Opcode::OST_WRITE => self.short(call),
            Opcode::OST_CREATE => self.create(call),
            Opcode::OST_DESTROY => self.destroy(call),
            Opcode::OST_GET_INFO => self.get_info(call),
            Opcode::OST_PUNCH => self.punch(call),
            Opcode::OST_STATFS => self.statfs(call),
            Opcode::OST_SYNC => self.sync(call),
            Opcode::OST_SET_INFO => self.set_info(call),
            Opcode::OST_QUOTACTL => self.quotactl(call),
            Opcode::OST_LADVISE => self.advise(call),
            Opcode::OST_FALLOCATE => self.fallocate(call),
            Opcode::OST_SEEK => self.seek(call),
            Opcode::SEQ_QUERY => self.allocate_sequence(call),
            _ => Err(Errno::EOPNOTSUPP.into()),
        };
        call.finish(result)
    }

    /// Checks that the nodemap of a client lets it work, and change something.
    ///
    /// # Errors
    /// EPERM if the client is banned, EROFS.
    pub(crate) fn check_nodemap(&self, call: &Call<'_>, changes: bool) -> Result<(), Errno> {
        let view = self.view(call);
        view.check()?;
        if changes && view.is_read_only() { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// Returns what a user, a group or a project uses.
    pub fn used(&self, kind: QuotaKind, id: u32) -> UsageRecord {
        self.usage.of(kind, id)
    }

    /// Returns the sums of all grants.
    pub fn granted(&self) -> Total {
        self.data.granted()
    }

    /// Records how long a request took from its arrival to its reply. The bytes of reads and writes are
    /// counted anyway.
    pub fn spent(&self, call: &Call<'_>, took: Duration) {
        self.stats().count(call, took);
    }

    /// Returns what all clients have done.
    pub fn total_stats(&self) -> Tally {
        self.stats().operations.all()
    }

    /// Returns what a client has done.
    pub fn client_stats(&self, export: Handle) -> Tally {
        self.stats().operations.of_export(export)
    }

    /// Returns what each job has done, by its name. `now`: seconds since 1970.
    pub fn job_stats(&self, now: i64) -> Vec<(Vec<u8>, Tally)> {
        self.stats().operations.of_jobs(now)
    }

    /// Returns the histograms of reads and writes.
    pub fn brw_stats(&self) -> BrwStats {
        self.stats().brw
    }
}

/// Returns whether an operation changes something.
fn changes(opcode: Opcode) -> bool {
    [
        Opcode::OST_SETATTR,
        Opcode::OST_WRITE,
        Opcode::OST_CREATE,
        Opcode::OST_DESTROY,
        Opcode::OST_PUNCH,
        Opcode::OST_FALLOCATE,
    ]
    .contains(&opcode)
}
