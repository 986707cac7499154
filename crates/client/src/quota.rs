//! Quotas: whose they are, what is asked of targets, and what they answer. Spec: mdt-ost §7.11, §14.6.

use std::fmt;
use std::str::FromStr;

use fulmar_base::Errno;
use fulmar_lustre_wire::Bytes;
use fulmar_lustre_wire::format::{MDS_QUOTACTL, OST_QUOTACTL, QUOTACTL};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_rpc::import::{Request, TargetKind};

use crate::inbox::Reply;
use crate::{Caller, Members, Session};

/// The longest [`QuotaControl`], with the name of a pool.
const CONTROL_LEN: usize = 128;
/// The capability to ask for quotas of others.
const CAP_SYS_ADMIN: u32 = 21;
const KINDS: [(QuotaKind, &str); 3] =
    [(QuotaKind::USER, "usr"), (QuotaKind::GROUP, "grp"), (QuotaKind::PROJECT, "prj")];

/// Whose a quota is: `usr:1000`, `grp:100`, `prj:7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaOwner {
    /// A user, a group or a project.
    pub kind: QuotaKind,
    /// Its number.
    pub id: u32,
}

/// What a target is asked of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaQuestion {
    /// Its limits. The first MDT knows them.
    Limits,
    /// What it uses on this target.
    Used,
}

impl QuotaOwner {
    /// Returns the name of its kind, as in its text.
    pub fn kind_name(&self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name)
    }

    /// Returns whether a process may ask for the quota: of its user, of its groups, and of any project.
    pub(crate) fn may_be_asked_by(&self, caller: &Caller) -> bool {
        let is_own = match self.kind {
            QuotaKind::USER => caller.uid == self.id,
            QuotaKind::GROUP => caller.gid == self.id || caller.groups.contains(&self.id),
            _ => true,
        };
        is_own || caller.has(CAP_SYS_ADMIN)
    }
}

impl fmt::Display for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind_name(), self.id)
    }
}

impl FromStr for QuotaOwner {
    type Err = Errno;

    fn from_str(text: &str) -> Result<Self, Errno> {
        let (name, id) = text.split_once(':').ok_or(Errno::EINVAL)?;
        let kind = KINDS.iter().find(|(_, known)| *known == name).ok_or(Errno::EINVAL)?.0;
        Ok(Self { kind, id: id.parse().map_err(|_| Errno::EINVAL)? })
    }
}

/// Returns the request for a quota.
pub(crate) fn request(to: TargetKind, owner: QuotaOwner, question: QuotaQuestion) -> Request {
    let control = QuotaControl {
        command: match question {
            QuotaQuestion::Limits => QuotaCommand::GETQUOTA,
            QuotaQuestion::Used => QuotaCommand::GETOQUOTA,
        },
        kind: owner.kind,
        id: owner.id,
        status: 0,
        times: QuotaTimes::default(),
        limits: QuotaLimits::default(),
        pool: None,
        rest: Bytes::default(),
    };
    let format = match to {
        TargetKind::Ost => &OST_QUOTACTL,
        _ => &MDS_QUOTACTL,
    };
    let message = Message::request(format).with(&QUOTACTL, &control);
    Request::new(message, len_with(&[Body::LEN, CONTROL_LEN, 0]))
}

/// Returns the answer in a reply.
pub(crate) fn answer(reply: &Message<'_>) -> Result<QuotaLimits, Errno> {
    let control = reply.require(&QUOTACTL).map_err(|_| Errno::EPROTO)?;
    Ok(control.limits)
}

impl Members {
    /// Asks each target for a quota, all at the same time.
    ///
    /// # Errors
    /// As [`Members::statfs`].
    pub fn quota(
        &self,
        session: &Session,
        owner: QuotaOwner,
        question: QuotaQuestion,
    ) -> Vec<Result<QuotaLimits, Errno>> {
        let replies = self.each(session, |kind| request(kind, owner, question));
        replies.into_iter().map(|reply: Reply| answer(&*reply?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_as_it_was_written() {
        for text in ["usr:0", "grp:4294967295", "prj:7"] {
            assert_eq!(text.parse::<QuotaOwner>().unwrap().to_string(), text);
        }
        for wrong in ["usr", "usr:", "usr:-1", "user:1", "usr:4294967296"] {
            assert!(wrong.parse::<QuotaOwner>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_may_ask_is_as_on_a_kernels_client() {
        let groups = vec![20];
        let caller = Caller { groups, ..Caller::new(10, 10) };
        let asks = |text: &str| text.parse::<QuotaOwner>().unwrap().may_be_asked_by(&caller);
        assert!(["usr:10", "grp:10", "grp:20", "prj:5"].into_iter().all(asks));
        assert!(!asks("usr:0") && !asks("grp:30"));
        assert!("usr:5".parse::<QuotaOwner>().unwrap().may_be_asked_by(&Caller::ROOT));
    }
}
