//! Connections to the targets of a file system.

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{MDS_STATFS, OST_STATFS, PING, STATFS};
use fulmar_lustre_wire::mdt::Statfs;
use fulmar_lustre_wire::message::{Body, EARLY_LEN, Message, len_with};
use fulmar_lustre_wire::portal;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, RequestId, Target, TargetKind};

use crate::connect::requested;
use crate::inbox::Reply;
use crate::{FsTarget, Session};

/// The length of a [`Statfs`].
const STATFS_LEN: usize = 144;

/// A target, and the connection to it.
#[derive(Clone, Debug)]
pub struct Member {
    /// The target.
    pub target: FsTarget,
    /// The connection, or why there is none: ENODATA if the target is not active, ENETUNREACH if this
    /// machine can reach no network of it.
    pub import: Result<ImportId, Errno>,
}

/// Targets, and the connections to them.
#[derive(Clone, Debug)]
pub struct Members(pub Vec<Member>);

impl Session {
    /// Begins to connect to the active ones of these targets.
    pub fn connect_targets<'a>(
        &mut self,
        targets: impl IntoIterator<Item = &'a FsTarget>,
    ) -> Members {
        let member = |target: &FsTarget| {
            let (target, import) = (target.clone(), self.connect_target(target));
            Member { target, import }
        };
        Members(targets.into_iter().map(member).collect())
    }

    /// Returns whether a service answers.
    ///
    /// # Errors
    /// Why it does not: as [`Members::statfs`].
    pub fn ping(&self, import: ImportId) -> Result<(), Errno> {
        self.call(import, ping()).map(drop)
    }

    fn connect_target(&mut self, target: &FsTarget) -> Result<ImportId, Errno> {
        if !target.is_active {
            return Err(Errno::ENODATA);
        }
        let usable = self.reach(&target.nids);
        if usable.is_empty() {
            return Err(Errno::ENETUNREACH);
        }
        self.connect(Target::new(target.kind, target.uuid, usable, requested(target.kind)))
    }
}

impl Members {
    /// Returns the size and the use of each target. All are asked at the same time.
    ///
    /// # Errors
    /// For each target, why there is no answer: as [`Member::import`], ETIMEDOUT, or what the target
    /// or the attempt to connect to it says.
    pub fn statfs(&self, session: &Session) -> Vec<Result<Statfs, Errno>> {
        let replies = self.each(session, statfs);
        let statfs = |reply: Reply| reply?.require(&STATFS).map_err(|_| Errno::EPROTO);
        replies.into_iter().map(statfs).collect()
    }

    /// Returns whether each target answers.
    ///
    /// # Errors
    /// For each target, why it does not: as [`Members::statfs`].
    pub fn ping(&self, session: &Session) -> Vec<Result<(), Errno>> {
        let replies = self.each(session, |_| ping());
        replies.into_iter().map(|reply| reply.map(drop)).collect()
    }

    /// Sends each target a request, then waits for the replies. A target that recovers is asked again
    /// until it has done so: it refuses light connections meanwhile. Spec: ptlrpc-ldlm-mgs §15.3.
    pub(crate) fn each(
        &self,
        session: &Session,
        request: impl Fn(TargetKind) -> Request,
    ) -> Vec<Reply> {
        let begin = |member: &Member| -> Result<(ImportId, RequestId), Errno> {
            let import = member.import?;
            Ok((import, session.request(import, request(member.target.kind))?))
        };
        let mut replies: Vec<Reply> = self.0.iter().map(|_| Err(Errno::EAGAIN)).collect();
        loop {
            let open = self.0.iter().zip(&mut replies).filter(|(_, reply)| is_busy(reply));
            let begun: Vec<_> = open.map(|(member, reply)| (begin(member), reply)).collect();
            for (begun, reply) in begun {
                *reply = begun.and_then(|(import, request)| session.reply(import, request));
            }
            if !replies.iter().any(is_busy) || !session.pause() {
                return replies;
            }
        }
    }
}

/// Returns whether a target is there, but does not answer yet.
fn is_busy(reply: &Reply) -> bool {
    matches!(reply, Err(Errno::EAGAIN))
}

/// Returns the request for the size and the use of a target.
pub(crate) fn statfs(kind: TargetKind) -> Request {
    let room = len_with(&[Body::LEN, STATFS_LEN]);
    match kind {
        TargetKind::Ost => Request::new(Message::request(&OST_STATFS), room).at(portal::OST_CREATE),
        _ => Request::new(Message::request(&MDS_STATFS), room),
    }
}

/// Returns the request that every service answers.
pub(crate) fn ping() -> Request {
    Request::new(Message::request(&PING), EARLY_LEN)
}
