//! Services, and the batches that they post.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::{Nid, ProcessId};

use super::Lnet;
use crate::api::{Bound, MdId, Op, ServiceConfig, ServiceId};

impl Lnet {
    /// Makes a service, with a queue of events of its own.
    pub fn open_service(&mut self, config: ServiceConfig) -> ServiceId {
        self.matching.open(config)
    }

    /// Ends a service: its match entries go, and its descriptors are unlinked. Events of what is
    /// under way still come.
    ///
    /// # Errors
    /// ENOENT if it is closed already.
    pub fn close_service(&mut self, now: Time, service: ServiceId) -> Result<(), Errno> {
        for md in self.matching.close(service)? {
            self.unlink(md);
        }
        self.settle(now);
        Ok(())
    }

    /// Does a batch of operations, in order. The results are in the same order: the descriptor of
    /// each, or why there is none. An operation that fails leaves nothing behind.
    ///
    /// The errors are those of [`Lnet::me_attach`], [`Lnet::md_attach`], [`Lnet::md_bind`],
    /// [`Lnet::put`], [`Lnet::get`] and [`Lnet::md_unlink`].
    pub fn post(
        &mut self,
        now: Time,
        service: ServiceId,
        ops: impl IntoIterator<Item = Op>,
        mut done: impl FnMut(Result<MdId, Errno>),
    ) {
        for op in ops {
            done(self.post_one(now, service, op));
        }
        self.settle(now);
    }

    fn post_one(&mut self, now: Time, service: ServiceId, op: Op) -> Result<MdId, Errno> {
        match op {
            Op::Attach { portal, me, md, memory } => {
                let me = self.me_attach(service, portal, me)?;
                let attached = self.attach(now, service, me, md, memory);
                if attached.is_err() {
                    self.matching.remove_entry(me);
                }
                attached
            }
            Op::Put { from, put } => {
                let (md, fresh) = self.source_of(service, from)?;
                let begun = self.begin_put(now, service, md, put);
                self.kept_if(begun, md, fresh)
            }
            Op::Get { into, get } => {
                let (md, fresh) = self.source_of(service, into)?;
                let begun = self.begin_get(now, service, md, get);
                self.kept_if(begun, md, fresh)
            }
            Op::Unlink(md) => {
                self.matching.require(service, md)?;
                self.unlink(md);
                Ok(md)
            }
        }
    }

    fn source_of(&mut self, service: ServiceId, bound: Bound) -> Result<(MdId, bool), Errno> {
        match bound {
            Bound::New(md, memory) => Ok((self.md_bind(service, md, memory)?, true)),
            Bound::Again(md) => Ok((md, false)),
        }
    }

    /// Removes a descriptor whose only operation could not begin.
    fn kept_if(&mut self, begun: Result<(), Errno>, md: MdId, fresh: bool) -> Result<MdId, Errno> {
        if begun.is_err() && fresh {
            self.matching.discard(md);
        }
        begun.map(|()| md)
    }

    /// Returns a process as a service means it.
    pub(super) fn addressed(
        &self,
        service: ServiceId,
        process: ProcessId,
    ) -> Result<ProcessId, Errno> {
        let config = self.matching.service(service)?;
        let is_own = config.own_nids_are_loopback && self.is_own(process.nid);
        let nid = if is_own { Nid::LOOPBACK } else { process.nid };
        Ok(ProcessId { nid, ..process })
    }
}
