//! Services: the users of LNet, and the batches that they post.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::{Nid, ProcessId};

use crate::Lnet;
use crate::api::{Bound, Event, MdId, Op, ServiceConfig, ServiceId};

/// A service as a pure machine, whose state is its own and not LNet's. Its host feeds it, does what
/// it says, in order, and reports the result of each post.
///
/// ```text
/// Output::Event of LNet     -> handle_event
/// ServiceOutput::Post       -> Lnet::post, then handle_posted
/// ServiceOutput::Host       -> the host, as the service defines it
/// clock                     -> handle_timeout, as poll_timeout asks
/// ```
pub trait Service {
    /// What it requests of its host that LNet has no part in.
    type Request;

    /// Takes an event of one of its descriptors, and the bytes that came with it.
    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>);

    /// Takes the result of a post; `user` is that of its descriptor. A post that failed leaves
    /// nothing behind, and no event comes of it.
    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>);

    /// Takes the passing of time.
    fn handle_timeout(&mut self, now: Time);

    /// Returns when to call [`Service::handle_timeout`] next, if at all.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the next thing to do, if any.
    fn poll_output(&mut self) -> Option<ServiceOutput<Self::Request>>;
}

/// What a service wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceOutput<R> {
    /// Post this to LNet.
    Post(Op),
    /// Do this, in which LNet has no part.
    Host(R),
}

/// What a service wants done next: posts and then, perhaps, something of its host.
#[derive(Debug)]
pub struct Batch<R> {
    /// For [`Lnet::post`].
    pub ops: Vec<Op>,
    /// Of each operation, [`Md::user`](crate::Md::user) of the descriptor that it makes, if any.
    users: Vec<Option<u64>>,
    /// For the host, once the operations are posted.
    pub request: Option<R>,
}

impl<R> Batch<R> {
    /// Takes what a service wants, up to its next request to the host. `None`: nothing.
    pub fn take(service: &mut impl Service<Request = R>) -> Option<Self> {
        let mut batch = Self { ops: Vec::new(), users: Vec::new(), request: None };
        while batch.request.is_none() {
            match service.poll_output() {
                Some(ServiceOutput::Post(op)) => {
                    batch.users.push(op.user());
                    batch.ops.push(op);
                }
                Some(ServiceOutput::Host(request)) => batch.request = Some(request),
                None if batch.ops.is_empty() => return None,
                None => break,
            }
        }
        Some(batch)
    }

    /// Reports to the service what became of the operations, in order.
    pub fn report(
        &self,
        now: Time,
        service: &mut impl Service<Request = R>,
        results: impl IntoIterator<Item = Result<MdId, Errno>>,
    ) {
        for (user, result) in self.users.iter().zip(results) {
            if let Some(user) = user {
                service.handle_posted(now, *user, result);
            }
        }
    }
}

impl Op {
    /// Returns [`Md::user`](crate::Md::user) of the descriptor that it makes, if it makes one.
    pub fn user(&self) -> Option<u64> {
        match self {
            Self::Attach { md, .. }
            | Self::Put { from: Bound::New(md, _), .. }
            | Self::Get { into: Bound::New(md, _), .. } => Some(md.user),
            Self::Put { from: Bound::Again(_), .. }
            | Self::Get { into: Bound::Again(_), .. }
            | Self::Unlink(_) => None,
        }
    }
}

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
    pub(crate) fn addressed(
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
