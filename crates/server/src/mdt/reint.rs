//! Changes, under the locks that they need. Spec: mdt-ost §7.6.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{NAME, NEW_LAYOUT, REINT, TARGET_NAME};
use fulmar_lustre_wire::ldlm::{InodeBits, LockMode};
use fulmar_lustre_wire::mdt::{AttrValid, Bias, OpenFlags, Reint, ReintChange};
use fulmar_mdt::Entry;
use fulmar_rpc::service::Request;

use super::{MdtTarget, give_up, locks};
use crate::context::{Context, Lock};
use crate::memory::Memory;
use crate::target::Answer;

/// The locks of a change.
#[derive(Default)]
pub(super) struct ChangeLocks {
    /// Until it is made.
    during: Vec<Lock>,
    /// Until its client knows of it: no other client sees before it what may be lost with the server.
    until_known: Vec<Lock>,
}

impl<M: Memory> MdtTarget<M> {
    pub(super) async fn reint(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let message = &request.message;
        let record: Reint = message.require(&REINT).map_err(|_| Errno::EPROTO)?;
        give_up(&context, &request);
        let held = self.clone().lock_for(&context, &request, &record).await?;
        let (this, asked) = (self.clone(), request.clone());
        let change = move || this.mdt.reint(&this.call(&asked));
        let answer = match &record.change {
            // It may cut data that are here.
            ReintChange::SetAttr(asked) if asked.valid.has(AttrValid::SIZE) => {
                context.run(change).await??
            }
            _ => self.on_keys(&context, change).await??,
        };
        let ChangeLocks { during, until_known } = held;
        drop(during);
        if let Some((resource, lvb)) =
            answer.changed.and_then(|id| Some((id, self.mdt.lvb(id).ok()?)))
        {
            context.changed(resource, lvb);
        }
        if let Some(resource) = answer.gone {
            self.discard(&context, &request, resource).await;
        }
        Ok(if answer.reply.body.transno == 0 || until_known.is_empty() {
            Answer::Reply(answer.reply)
        } else {
            Answer::Difficult(answer.reply, until_known)
        })
    }

    /// Acquires the locks that a change needs.
    async fn lock_for(
        self: Arc<Self>,
        context: &Context,
        request: &Request,
        record: &Reint,
    ) -> Result<ChangeLocks, Errno> {
        let message = &request.message;
        let name = message.get(&NAME).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let name = name.as_bytes();
        let mut held = ChangeLocks::default();
        let fid = record.head.fid;
        match &record.change {
            ReintChange::SetAttr(asked) => {
                let this = self.clone();
                let drops_capabilities = locks::may_drop_capabilities(asked)
                    && self.on_keys(context, move || this.mdt.has_capabilities(fid)).await??;
                let wanted = match message.bytes(&NEW_LAYOUT) {
                    Some(_) => locks::bits(fid, LockMode::EX, InodeBits::UPDATE | InodeBits::XATTR),
                    None => locks::of_setattr(fid, asked, drops_capabilities),
                };
                let cuts = asked.valid.has(AttrValid::SIZE);
                let breaks = cuts && !asked.bias.has(Bias::TRUNC_KEEP_LEASE);
                if breaks {
                    drop(self.break_lease(context, fid, OpenFlags::WRITE).await?);
                }
                held.until_known.push(context.lock(wanted).await?);
            }
            ReintChange::Create(_) => self.lock_places(context, &mut held, &[(fid, name)]).await?,
            ReintChange::Link(asked) => {
                self.lock_places(context, &mut held, &[(asked.parent, name)]).await?;
                let (this, parent) = (self.clone(), asked.parent);
                // Otherwise the operation fails, and the lock could be above those that it has.
                if !self.on_keys(context, move || this.mdt.may_link(fid, parent)).await?? {
                    return Ok(held);
                }
                let parts = InodeBits::UPDATE | InodeBits::XATTR;
                held.until_known.push(context.lock(locks::bits(fid, LockMode::EX, parts)).await?);
            }
            ReintChange::Unlink(_) => {
                self.lock_places(context, &mut held, &[(fid, name)]).await?;
                let children = self.clone().children(context, &[(fid, name)]).await?;
                self.lock_children(context, &mut held, &children, None).await?;
            }
            ReintChange::Rename(asked) => {
                let new_name = message.require(&TARGET_NAME).map_err(|_| Errno::EPROTO)?;
                let places = [(fid, name), (asked.target, new_name.as_bytes())];
                self.lock_rename(context, &mut held, places).await?;
            }
            ReintChange::SetXattr(_) => {
                held.until_known.push(context.lock(locks::of_setxattr(fid, name)).await?);
            }
            _ => {}
        }
        Ok(held)
    }

    /// Locks names in directories, and then the directories: in the order of an open, which creates a file
    /// only if the name is new.
    pub(super) async fn lock_places(
        &self,
        context: &Context,
        held: &mut ChangeLocks,
        places: &[(Fid, &[u8])],
    ) -> Result<(), Errno> {
        let mut names: Vec<_> = places
            .iter()
            .map(|(directory, name)| self.mdt.name_resource(*directory, name))
            .collect();
        names.sort_unstable();
        names.dedup();
        for resource in names {
            held.until_known.push(context.lock(locks::name(resource, LockMode::PW)).await?);
        }
        for (place, (directory, _)) in places.iter().enumerate() {
            // A file may be renamed to the name that it has.
            if places[..place].iter().all(|(other, _)| other != directory) {
                held.during.push(context.lock(locks::entries(*directory)).await?);
            }
        }
        Ok(())
    }

    /// Returns the files that names lead to.
    pub(super) async fn children(
        self: Arc<Self>,
        context: &Context,
        places: &[(Fid, &[u8])],
    ) -> Result<Vec<Option<Entry>>, Errno> {
        let owned: Vec<(Fid, Vec<u8>)> =
            places.iter().map(|(fid, name)| (*fid, name.to_vec())).collect();
        let this = self.clone();
        let find = move || {
            let places: Vec<(Fid, &[u8])> =
                owned.iter().map(|(fid, name)| (*fid, &name[..])).collect();
            this.mdt.find_entries(&places)
        };
        self.on_keys(context, find).await?
    }

    /// Locks files whose names change. `moved`: the one that only gets another name.
    pub(super) async fn lock_children(
        &self,
        context: &Context,
        held: &mut ChangeLocks,
        children: &[Option<Entry>],
        moved: Option<Entry>,
    ) -> Result<(), Errno> {
        let mut children: Vec<Entry> = children.iter().flatten().copied().collect();
        // The other one may have a name in a directory too.
        children.sort_unstable_by_key(|child| (!child.is_directory(), child.fid));
        children.dedup();
        for child in children {
            let parts = if Some(child) == moved {
                InodeBits::LOOKUP | InodeBits::XATTR
            } else {
                InodeBits::LOOKUP | InodeBits::UPDATE
            };
            let wanted = locks::bits(child.fid, LockMode::EX, parts);
            held.until_known.push(context.lock(wanted).await?);
        }
        Ok(())
    }

    /// Acquires the locks of a renaming: first those above, so that no two operations wait for each other.
    async fn lock_rename(
        self: Arc<Self>,
        context: &Context,
        held: &mut ChangeLocks,
        places: [(Fid, &[u8]); 2],
    ) -> Result<(), Errno> {
        let [(source, _), (target, _)] = places;
        let mut ordered = places;
        if source != target {
            // Directories do not move meanwhile, so what is above what does not change.
            let moving = locks::bits(Fid::RENAME_LOCK, LockMode::EX, InodeBits::UPDATE);
            held.during.push(context.lock(moving).await?);
            let this = self.clone();
            let order = self.on_keys(context, move || {
                Ok::<_, Errno>(if this.mdt.is_above(source, target)? {
                    true
                } else {
                    !this.mdt.is_above(target, source)? && source < target
                })
            });
            if !order.await?? {
                ordered.reverse();
            }
        }
        self.lock_places(context, held, &ordered).await?;
        let children = self.clone().children(context, &places).await?;
        if source != target {
            for (child, other) in [(children[0], target), (children[1], source)] {
                let Some(child) = child else { continue };
                let this = self.clone();
                // The operation fails. Its locks would be above those that it has.
                if self.on_keys(context, move || this.mdt.is_above(child.fid, other)).await?? {
                    return Ok(());
                }
            }
        }
        self.lock_children(context, held, &children, children[0]).await
    }
}
