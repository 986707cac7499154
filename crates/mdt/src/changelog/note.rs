//! What a change says of itself, and who has made it.

use fulmar_lustre_wire::changelog::{
    ChangeExtra, ChangeFlags, ChangeKind, ChangeOwner, Changelog, RenameSource,
};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Bytes, Content, Fid, LargeNid, Text};

use crate::access::Caller;
use crate::mdt::Call;

/// A change that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) kind: ChangeKind,
    /// 12 bits whose meaning depends on the kind.
    pub(crate) flags: u16,
    pub(crate) target: Fid,
    pub(crate) parent: Fid,
    pub(crate) rename: Option<RenameSource>,
    pub(crate) open_flags: Option<u32>,
    pub(crate) xattr: Option<Vec<u8>>,
    /// The name; of a renaming the new one, NUL and the old one.
    pub(crate) name: Vec<u8>,
}

impl Note {
    /// The flag of a removal: the file is gone.
    pub(crate) const LAST: u16 = 0x1;
    /// The flag of a removal: the file is gone, and an archive has a copy.
    pub(crate) const LAST_IN_ARCHIVE: u16 = 0x2;
    /// The flags of a new state with respect to an archive, and of one that is dirty.
    pub(crate) const HSM_STATE: u16 = 5 << 7;
    pub(crate) const HSM_DIRTY: u16 = 1 << 10;
    /// The bits of all of them.
    const FLAGS: u16 = 0xfff;

    /// Returns one about a file.
    pub(crate) fn new(kind: ChangeKind, target: Fid) -> Self {
        Self {
            kind,
            flags: 0,
            target,
            parent: Fid::default(),
            rename: None,
            open_flags: None,
            xattr: None,
            name: vec![],
        }
    }

    /// Returns the same with flags.
    pub(crate) fn with_flags(self, flags: u16) -> Self {
        Self { flags, ..self }
    }

    /// Returns the same with a name in a directory.
    pub(crate) fn at(self, parent: Fid, name: &[u8]) -> Self {
        Self { parent, name: name.to_vec(), ..self }
    }

    /// Returns the record, but for its number. `who`: of the process that has made the change.
    pub(crate) fn record(&self, who: &Who) -> Changelog {
        let mut flags = ChangeFlags(self.flags & Self::FLAGS) | ChangeFlags::EXTRA;
        flags = flags.with(match self.rename {
            Some(_) => ChangeFlags::RENAME,
            None => ChangeFlags::VERSION,
        });
        if who.job.is_some() {
            flags = flags | ChangeFlags::JOBID;
        }
        let mut extra = ChangeExtra::UIDGID | ChangeExtra::NID | ChangeExtra::NID_BE;
        if self.open_flags.is_some() {
            extra = extra | ChangeExtra::OPEN;
        }
        if self.xattr.is_some() {
            extra = extra | ChangeExtra::XATTR;
        }
        let mut record = Changelog {
            flags,
            kind: self.kind,
            index: 0,
            previous: 0,
            time: who.time,
            target: self.target,
            parent: self.parent,
            rename: self.rename,
            job: who.job,
            extra: Some(extra),
            owner: Some(who.owner),
            nid: Some(who.nid.into()),
            open_flags: self.open_flags,
            xattr: self.xattr.as_deref().map(text),
            name: self.name.clone(),
            rest: Bytes::default(),
        };
        record
            .rest
            .0
            .resize(record.to_bytes().len().next_multiple_of(8) - record.to_bytes().len(), 0);
        record
    }
}

/// Returns a text of some bytes, cut if it is too long.
fn text<const N: usize>(bytes: &[u8]) -> Text<N> {
    let mut text = [0; N];
    let len = bytes.len().min(N - 1);
    text[..len].copy_from_slice(&bytes[..len]);
    Text(text)
}

/// Who has made a change, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    owner: ChangeOwner,
    nid: LargeNid,
    job: Option<Text<32>>,
    /// Seconds, 34 bits, and nanoseconds, 30 bits.
    time: u64,
}

impl Who {
    /// Returns who makes a request.
    pub(crate) fn of(call: &Call<'_>, caller: &Caller) -> Self {
        let seconds = u64::try_from(call.now).unwrap_or_default();
        Self {
            owner: ChangeOwner { uid: caller.uid.into(), gid: caller.gid.into() },
            nid: call.from,
            job: job_of(call.message),
            time: seconds << 30 | u64::from(call.nanos),
        }
    }
}

fn job_of(message: &Message<'_>) -> Option<Text<32>> {
    let job = Text(message.body.job?.0);
    (!job.as_bytes().is_empty()).then(|| text(job.as_bytes()))
}
