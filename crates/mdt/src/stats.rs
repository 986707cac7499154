//! What clients and jobs have done, under the names of `md_stats`.

use std::time::Duration;

use fulmar_lustre_wire::format::{INTENT, LOCK_REPLY, REINT};
use fulmar_lustre_wire::ldlm::{Disposition, IntentOps};
use fulmar_lustre_wire::mdt::{Reint, ReintChange, ReintOp};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode};
use fulmar_target::stats::{Doer, Names, Tally};

use crate::mode;
use crate::{Call, Mdt};

/// All names, in the order in which they are shown, with their units.
pub(crate) const NAMES: Names = &[
    ("open", "usecs"),
    ("close", "usecs"),
    ("mknod", "usecs"),
    ("link", "usecs"),
    ("unlink", "usecs"),
    ("mkdir", "usecs"),
    ("rmdir", "usecs"),
    ("rename", "usecs"),
    ("getattr", "usecs"),
    ("setattr", "usecs"),
    ("getxattr", "usecs"),
    ("setxattr", "usecs"),
    ("statfs", "usecs"),
    ("sync", "usecs"),
    ("samedir_rename", "usecs"),
    ("crossdir_rename", "usecs"),
    ("readpage", "usecs"),
];

impl Mdt {
    /// Records how long a request took from its arrival to its reply. Only what was successful is counted.
    pub fn spent(&self, call: &Call<'_>, reply: &Message<'_>, took: Duration) {
        let doer = Doer::of(call.export, call.message, call.now);
        let mut stats = self.stats();
        for name in names_of(call.message, reply) {
            stats.add_time(doer, name, took);
        }
    }

    /// Returns the file `stats` of a node with these exports. `now`: since 1970.
    pub fn client_file(&self, exports: &[Handle], now: Duration) -> String {
        let mut all = Tally::default();
        let stats = self.stats();
        exports.iter().for_each(|export| all.merge(&stats.of_export(*export)));
        all.text(NAMES, now)
    }
}

/// Returns the names of what a request has done.
fn names_of(request: &Message<'_>, reply: &Message<'_>) -> Vec<&'static str> {
    if request.body.opcode == Opcode::LDLM_ENQUEUE {
        return names_of_intent(request, reply);
    }
    if reply.body.status.errno().is_some() {
        return vec![];
    }
    match request.body.opcode {
        Opcode::MDS_CLOSE => vec!["close"],
        Opcode::MDS_GETATTR | Opcode::MDS_GETATTR_NAME => vec!["getattr"],
        Opcode::MDS_GETXATTR => vec!["getxattr"],
        Opcode::MDS_STATFS => vec!["statfs"],
        Opcode::MDS_SYNC => vec!["sync"],
        Opcode::MDS_READPAGE => vec!["readpage"],
        Opcode::MDS_REINT => request
            .get(&REINT)
            .ok()
            .flatten()
            .map(|record| names_of_change(&record))
            .unwrap_or_default(),
        _ => vec![],
    }
}

fn names_of_intent(request: &Message<'_>, reply: &Message<'_>) -> Vec<&'static str> {
    let intent = request.get(&INTENT).ok().flatten();
    let (Some(intent), Ok(Some(lock))) = (intent, reply.get(&LOCK_REPLY)) else { return vec![] };
    let disposition = Disposition(lock.result1);
    let is_failed = lock.result2 < 0;
    match intent.ops {
        ops if ops.has(IntentOps::OPEN) => {
            let done = [(Disposition::OPEN_OPEN, "open"), (Disposition::OPEN_CREATE, "mknod")];
            let done = done.into_iter().filter(|(bit, _)| !is_failed && disposition.has(*bit));
            done.map(|(_, name)| name).collect()
        }
        IntentOps::GETATTR | IntentOps::LOOKUP
            if !is_failed && disposition.has(Disposition::LOOKUP_POS) =>
        {
            vec!["getattr"]
        }
        IntentOps::GETXATTR if !is_failed => vec!["getxattr"],
        _ => vec![],
    }
}

fn names_of_change(record: &Reint) -> Vec<&'static str> {
    let is_directory = |bits: u32| bits & mode::FORMAT == mode::DIRECTORY;
    match &record.change {
        ReintChange::SetAttr(_) => vec!["setattr"],
        ReintChange::Create(new) if is_directory(new.mode) => vec!["mkdir"],
        ReintChange::Create(_) => vec!["mknod"],
        ReintChange::Link(_) => vec!["link"],
        ReintChange::Unlink(gone) if is_directory(gone.mode) => vec!["rmdir"],
        ReintChange::Unlink(_) => vec!["unlink"],
        ReintChange::Rename(moved) if record.head.op == ReintOp::RENAME => {
            let is_same = moved.target == record.head.fid;
            vec!["rename", if is_same { "samedir_rename" } else { "crossdir_rename" }]
        }
        ReintChange::SetXattr(_) => vec!["setxattr"],
        _ => vec![],
    }
}
