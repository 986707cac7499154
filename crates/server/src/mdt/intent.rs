//! Requests for locks with an intent. Spec: mdt-ost §5.5, §5.6, §8.1 to §8.6.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_ldlm::server::{IntentResult, Outcome};
use fulmar_lustre_wire::format::{
    INTENT, LAYOUT_INTENT, LOCK_REPLY, LOCK_REQUEST, MDT_BODY, NAME, REINT,
};
use fulmar_lustre_wire::ldlm::{
    Disposition, InodeBits, IntentOps, LayoutIntentOp, LockMode, LockReply, OstLvb, ResourceId,
};
use fulmar_lustre_wire::mdt::{Create, MdtBody, OpenFlags, ReintChange, Valid};
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::{Fid, Status};
use fulmar_mdt::{Caller, IntentReply, Target, mode};
use fulmar_rpc::service::Request;

use super::{MdtTarget, locks};
use crate::context::{Context, Lock, LockAnswer, LockRequest};
use crate::locks::enqueue;
use crate::memory::Memory;
use crate::target::Answer;

/// Whether an operation waits for locks that others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Ever,
    /// It fails with EAGAIN if a lock is not free.
    Never,
}

/// How often an open waits for a change of the OSTs.
const MOST_TRIES: u32 = 4;

impl<M: Memory> MdtTarget<M> {
    /// Executes an enqueue.
    pub(super) async fn enqueue(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let message = &request.message;
        let Some(intent) = message.get(&INTENT).map_err(|_| Errno::EPROTO)? else {
            return enqueue(context, &request).await;
        };
        let asked = message.require(&LOCK_REQUEST).map_err(|_| Errno::EPROTO)?;
        let given_up = asked.valid_handles().get(1..).unwrap_or_default().to_vec();
        context.give_up(&request, given_up);
        let resource = asked.lock.resource.id;
        let ops = intent.ops;
        match () {
            () if ops.has(IntentOps::OPEN) => self.open(context, request).await,
            () if ops == IntentOps::GETATTR || ops == IntentOps::LOOKUP => {
                self.getattr(context, request, ops, Wait::Ever).await
            }
            () if ops == IntentOps::LAYOUT => self.layout(context, request, resource.fid()).await,
            () if ops == IntentOps::GETXATTR => self.getxattr(context, request).await,
            () if ops == IntentOps::GLIMPSE || ops == IntentOps::BRW => {
                self.lock_data(context, request, asked.lock.requested, resource).await
            }
            () => {
                let outcome = Outcome::Failed(Errno::EOPNOTSUPP);
                let answer = context.enqueue(&request, outcome).await?;
                Ok(Answer::Reply(crate::locks::message_of(&request, &answer)))
            }
        }
    }

    /// Executes LOOKUP or GETATTR.
    pub(super) async fn getattr(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
        ops: IntentOps,
        wait: Wait,
    ) -> Result<Answer, Errno> {
        let is_immediate = wait == Wait::Never;
        let body: MdtBody = request.message.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        let name = request.message.get(&NAME).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let by_name = !matches!(name.as_bytes(), b"" | b"/");
        let (child, mut named);
        named = None;
        if by_name {
            let resource = self.mdt.name_resource(body.fid, name.as_bytes());
            let wanted = locks::name(resource, LockMode::PR);
            named = Some(context.lock(LockRequest { is_immediate, ..wanted }).await?);
            let this = self.clone();
            let caller = this.mdt.caller(&this.call(&request), Caller::of_body(&body));
            let find = move || {
                let found = this.mdt.lookup(body.fid, name.as_bytes(), &caller?);
                found.map_err(|failure| failure.errno())
            };
            match self.on_keys(&context, find).await? {
                Ok(found) => child = found,
                Err(errno) => {
                    let done = self.failed_lookup(&request, errno);
                    return self.without_lock(&context, &request, done).await;
                }
            }
        } else {
            let fid = if body.child == Fid::default() { body.fid } else { body.child };
            child = Some(fid);
        }
        let Some(fid) = child else {
            let done = self.mdt.getattr_intent(&self.call(&request), None);
            return self.without_lock(&context, &request, done).await;
        };
        let wanted = locks::of_getattr(ops, fid, body.fid);
        let mut lock = context.lock(LockRequest { is_immediate, ..wanted }).await?;
        let (this, asked, bits) = (self.clone(), request.clone(), lock.bits());
        let execute = move || {
            let done = this.mdt.getattr_intent(&this.call(&asked), child);
            this.with_data(&asked, done, bits)
        };
        let (done, has_data) = if bits.has(InodeBits::DOM) {
            context.run(execute).await?
        } else {
            self.on_keys(&context, execute).await?
        };
        if wait == Wait::Never && has_other_names(&done) {
            return Err(Errno::EAGAIN);
        }
        if !has_data && bits.has(InodeBits::DOM) {
            context.give_up_bits(&mut lock, InodeBits::DOM);
        }
        let answer = match done.result {
            Ok(()) => self.with_lock(&context, &request, done, lock).await,
            Err(_) => self.without_lock(&context, &request, done).await,
        };
        drop(named);
        answer
    }

    /// Returns what is said of a name that could not be looked up.
    fn failed_lookup(&self, request: &Request, errno: Errno) -> IntentReply {
        let done = self.mdt.getattr_intent(&self.call(request), None);
        let disposition = Disposition::IT_EXECD | Disposition::LOOKUP_EXECD;
        IntentReply { disposition, result: Err(errno), ..done }
    }

    /// Executes OPEN, or OPEN and CREAT.
    async fn open(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let record = request.message.require(&REINT).map_err(|_| Errno::EPROTO)?;
        let ReintChange::Create(create) = record.change else { return Err(Errno::EPROTO) };
        let flags = create.flags.0;
        let name = request.message.get(&NAME).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let is_replay = request.message.body.flags.has(MessageFlags::REPLAY);
        let by_fid = flags.has(OpenFlags::BY_FID) || flags.has(OpenFlags::VOLATILE);
        let creates = flags.has(OpenFlags::CREAT) && !by_fid;
        let parent = record.head.fid;
        let mut named = None;
        if !by_fid {
            let mode = if creates { LockMode::PW } else { LockMode::PR };
            let resource = self.mdt.name_resource(parent, name.as_bytes());
            named = Some(context.lock(locks::name(resource, mode)).await?);
        }
        let caller = self.mdt.caller(&self.call(&request), Caller::of_reint(&record.head));
        let (this, searched) = (self.clone(), (!by_fid).then(|| name.as_bytes().to_vec()));
        let find = move || {
            let place = (parent, searched.as_deref());
            this.mdt.find_target(place, create.child, flags, &caller?)
        };
        // What is wrong with the name is found again.
        let found = self.on_keys(&context, find).await?.unwrap_or_default();
        let mut broken = None;
        if let Some(target) = found.filter(|_| !is_replay) {
            if flags.has(OpenFlags::LEASE) && self.mdt.is_leased(target.fid) {
                // Its holder is not asked.
                let done = refused(&request, Errno::EBUSY);
                return self.without_lock(&context, &request, done).await;
            }
            broken = self.break_lease(&context, target.fid, flags).await?;
        }
        let mut entries = None;
        if found.is_none() && creates {
            entries = Some(context.lock(locks::entries(parent)).await?);
        }
        let child = if is_replay && found.is_none_or(|target| !target.needs_layout) {
            None
        } else {
            lock_target(&context, found, &create).await?
        };
        let (this, asked) = (self.clone(), request.clone());
        let bits = child.as_ref().map_or(InodeBits::NONE, |(lock, _)| lock.bits());
        let execute = move || {
            let done = this.mdt.open(&this.call(&asked));
            this.with_data(&asked, done, bits).0
        };
        let mut done = self.clone().when_ready(&context, bits.has(InodeBits::DOM), execute).await?;
        drop((entries, broken));
        let is_open = done.disposition.has(Disposition::OPEN_OPEN);
        let is_made = done.disposition.has(Disposition::OPEN_CREATE) && done.result.is_ok();
        let answer = match child {
            Some((lock, true)) if is_open && (has_size(&done) || !bits.has(InodeBits::DOM)) => {
                if flags.has(OpenFlags::LOCK) {
                    done.disposition = done.disposition | Disposition::OPEN_LOCK;
                }
                self.with_lock(&context, &request, done, lock).await?
            }
            _ => self.without_lock(&context, &request, done).await?,
        };
        Ok(match (answer, named) {
            // No other client finds the new file before its creator knows of it.
            (Answer::Reply(reply), Some(lock)) if is_made => Answer::Difficult(reply, vec![lock]),
            (answer, _) => answer,
        })
    }

    /// Breaks the lease of a file, if there is one, for an open with these flags. No client has another one before
    /// the lock ends.
    pub(super) async fn break_lease(
        &self,
        context: &Context,
        fid: Fid,
        flags: OpenFlags,
    ) -> Result<Option<Lock>, Errno> {
        if !self.mdt.must_break_lease(fid, flags) {
            return Ok(None);
        }
        let lock = context.lock(locks::to_open(fid, flags)).await?;
        self.mdt.break_lease(fid);
        Ok(Some(lock))
    }

    /// Executes an intent. If its file is to have objects that are not there yet, it waits for them.
    async fn when_ready(
        self: Arc<Self>,
        context: &Context,
        reads_data: bool,
        execute: impl Fn() -> IntentReply + Clone + Send + 'static,
    ) -> Result<IntentReply, Errno> {
        let mut tries_left = MOST_TRIES;
        loop {
            let execute = execute.clone();
            let done = if reads_data {
                context.run(execute).await?
            } else {
                self.on_keys(context, execute).await?
            };
            match done.result {
                Err(Errno::EAGAIN) if tries_left > 0 => self.osts.changed().await,
                // The client tries again.
                Err(Errno::EAGAIN) => {
                    return Ok(IntentReply { result: Err(Errno::EINPROGRESS), ..done });
                }
                _ => return Ok(done),
            }
            tries_left -= 1;
        }
    }

    /// Executes LAYOUT.
    async fn layout(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
        fid: Fid,
    ) -> Result<Answer, Errno> {
        let intent = request.message.require(&LAYOUT_INTENT).map_err(|_| Errno::EPROTO)?;
        let changes = matches!(intent.op, LayoutIntentOp::WRITE | LayoutIntentOp::TRUNC);
        let (this, asked) = (self.clone(), request.clone());
        let execute = move || this.mdt.layout_intent(&this.call(&asked), fid);
        if !changes {
            let executed = IntentResult { disposition: Disposition::IT_EXECD.0, status: 0 };
            let answer = context.enqueue(&request, Outcome::Executed(executed)).await?;
            let is_granted = answer.reply.lock.granted != LockMode::default();
            let done = self.on_keys(&context, execute).await?;
            let reply = if is_granted && done.result.is_ok() {
                done.reply
            } else {
                Message::reply(request.message.format(), answer.status)
            };
            return Ok(Answer::Reply(locked(reply, &answer)));
        }
        let parts = InodeBits::UPDATE | InodeBits::LAYOUT;
        let wanted = locks::bits(fid, LockMode::EX, parts);
        let exclusive = context.lock(wanted).await?;
        let done = self.clone().when_ready(&context, false, execute).await?;
        drop(exclusive);
        if done.result.is_err() || request.message.body.flags.has(MessageFlags::REPLAY) {
            return self.without_lock(&context, &request, done).await;
        }
        let wanted = locks::bits(fid, LockMode::CR, parts);
        let lock = context.lock(wanted).await?;
        self.with_lock(&context, &request, done, lock).await
    }

    /// Executes GETXATTR.
    async fn getxattr(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let body: MdtBody = request.message.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        let wanted = locks::bits(body.fid, LockMode::PR, InodeBits::XATTR);
        let lock = context.lock(wanted).await?;
        let (this, asked) = (self.clone(), request.clone());
        let done =
            self.on_keys(&context, move || this.mdt.getxattr_intent(&this.call(&asked))).await?;
        match done.result {
            Ok(()) => self.with_lock(&context, &request, done, lock).await,
            Err(_) => self.without_lock(&context, &request, done).await,
        }
    }

    /// Gives a client before 2.14 a lock on data, or their size. Spec: ptlrpc-ldlm-mgs §27.3.
    async fn lock_data(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
        mode: LockMode,
        resource: ResourceId,
    ) -> Result<Answer, Errno> {
        let intent = request.message.require(&INTENT).map_err(|_| Errno::EPROTO)?;
        let answer = match intent.ops {
            IntentOps::GLIMPSE => context.enqueue(&request, Outcome::Ordinary).await?,
            _ => {
                let lock = context.lock(locks::data(resource, mode, locks::WHOLE)).await?;
                context.replace(&request, lock, IntentResult::default()).await?
            }
        };
        let mut body = MdtBody::default();
        let lvb = answer.lvb.map_or_else(|| self.mdt.lvb(resource), Ok);
        if let Ok(OstLvb { size, mtime, atime, ctime, blocks, .. }) = lvb {
            let times = Valid::FLATIME | Valid::FLMTIME | Valid::FLCTIME;
            let (valid, dom_size, dom_blocks) = (times | Valid::DOM_SIZE, size, blocks);
            body = MdtBody { valid, dom_size, dom_blocks, mtime, atime, ctime, ..body };
        }
        let reply = Message::reply(request.message.format(), answer.status);
        Ok(Answer::Reply(locked(reply.with(&MDT_BODY, &body), &answer)))
    }

    /// Adds the data of a file that an intent is about to its result, if its client gets the lock on them. Returns
    /// whether there are any.
    fn with_data(
        &self,
        request: &Request,
        mut done: IntentReply,
        bits: InodeBits,
    ) -> (IntentReply, bool) {
        if done.result.is_err() || !bits.has(InodeBits::DOM) {
            return (done, false);
        }
        let reads = done.disposition.has(Disposition::OPEN_OPEN) && bits.has(InodeBits::LAYOUT);
        let has_data = self.mdt.show_data(&self.call(request), &mut done, reads);
        (done, has_data)
    }

    /// Gives a client a lock with the result of its intent.
    async fn with_lock(
        &self,
        context: &Context,
        request: &Request,
        done: IntentReply,
        lock: Lock,
    ) -> Result<Answer, Errno> {
        let answer = context.replace(request, lock, result_of(&done)).await?;
        Ok(Answer::Reply(locked(done.reply, &answer)))
    }

    /// Answers an intent without a lock.
    async fn without_lock(
        &self,
        context: &Context,
        request: &Request,
        done: IntentReply,
    ) -> Result<Answer, Errno> {
        let outcome = Outcome::Aborted(result_of(&done));
        let answer = context.enqueue(request, outcome).await?;
        Ok(Answer::Reply(locked(done.reply, &answer)))
    }
}

/// Locks a file that is opened, or will be created. Returns the lock, if there is one, and whether the client
/// gets it.
async fn lock_target(
    context: &Context,
    found: Option<Target>,
    create: &Create,
) -> Result<Option<(Lock, bool)>, Errno> {
    let flags = create.flags.0;
    let creates = flags.has(OpenFlags::CREAT) && !flags.has(OpenFlags::BY_FID);
    let wanted = match found {
        Some(target) if target.needs_layout => {
            let wanted = locks::bits(target.fid, LockMode::EX, InodeBits::LAYOUT);
            return Ok(Some((context.lock(wanted).await?, false)));
        }
        Some(target) => locks::of_open(flags, &target),
        // No other client knows the new file yet, so this is granted at once.
        None if creates || flags.has(OpenFlags::VOLATILE) => {
            let fid = create.child;
            let new = Target { fid, is_regular: true, needs_layout: false, has_data: false };
            locks::of_open(flags, &new)
        }
        None => None,
    };
    let Some(wanted) = wanted else { return Ok(None) };
    match context.lock(wanted).await {
        Ok(lock) => Ok(Some((lock, true))),
        // Only optional parts were wanted.
        Err(Errno::EAGAIN) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether a file has several names, which a batch does not look up, as that of a kernel does not.
fn has_other_names(done: &IntentReply) -> bool {
    let body: Option<MdtBody> = done.reply.get(&MDT_BODY).ok().flatten();
    body.is_some_and(|body| {
        let is_directory = body.mode & mode::FORMAT == mode::DIRECTORY;
        body.valid.has(Valid::FLNLINK) && body.nlink > 1 && !is_directory
    })
}

/// Returns whether a reply has the size of data on the MDT, without which no client may get the lock on them.
fn has_size(done: &IntentReply) -> bool {
    let body: Option<MdtBody> = done.reply.get(&MDT_BODY).ok().flatten();
    body.is_some_and(|body| body.valid.has(Valid::DOM_SIZE))
}

/// Returns what is said of a file that exists, but is not opened.
fn refused(request: &Request, errno: Errno) -> IntentReply {
    let reply = Message::reply(request.message.format(), Status::OK)
        .with(&LOCK_REPLY, &LockReply::default())
        .with(&MDT_BODY, &MdtBody::default());
    let looked_up = Disposition::LOOKUP_EXECD | Disposition::LOOKUP_POS;
    IntentReply { reply, disposition: Disposition::IT_EXECD | looked_up, result: Err(errno) }
}

/// Returns a reply with what the lock manager says.
fn locked(mut reply: Message<'static>, answer: &LockAnswer) -> Message<'static> {
    reply.body.status = answer.status;
    reply.with(&LOCK_REPLY, &answer.reply)
}

/// Returns what a reply says of an intent. That a name does not exist is no error of a lookup.
fn result_of(done: &IntentReply) -> IntentResult {
    let disposition = done.disposition;
    let is_missing =
        disposition.has(Disposition::LOOKUP_NEG) && !disposition.has(Disposition::OPEN_CREATE);
    let status = match done.result {
        Err(Errno::ENOENT) if is_missing => 0,
        Err(errno) => -i64::from(errno.0),
        Ok(()) => 0,
    };
    IntentResult { disposition: disposition.0, status }
}
