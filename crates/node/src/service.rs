//! Operations of a service on a node.

use fulmar_base::{Errno, Time};
use fulmar_lnet::{Batch, Get, Md, MdId, Me, MeId, Memory, Op, Put, Service, ServiceId};

use crate::Node;

/// The interface for a service: a borrowed handle. Calls are processed before they return; work for
/// the owner is among the outputs of the node.
#[derive(Debug)]
pub struct ServiceHandle<'a> {
    node: &'a mut Node,
    now: Time,
    id: ServiceId,
}

impl<'a> ServiceHandle<'a> {
    pub(crate) fn new(node: &'a mut Node, now: Time, id: ServiceId) -> Self {
        Self { node, now, id }
    }

    /// Executes a batch of operations in order; see [`Lnet::post`](fulmar_lnet::Lnet::post).
    pub fn post(
        &mut self,
        ops: impl IntoIterator<Item = Op>,
        done: impl FnMut(Result<MdId, Errno>),
    ) {
        self.node.lnet.post(self.now, self.id, ops, done);
        self.node.pump(self.now);
    }

    /// Executes the posts of a service machine, and returns its next request to its host, if any.
    /// For hosts with one thread; call it until it returns `None`.
    pub fn serve<S: Service>(&mut self, service: &mut S) -> Option<S::Request> {
        loop {
            let mut batch = Batch::take(service)?;
            let mut results = Vec::with_capacity(batch.ops.len());
            self.post(std::mem::take(&mut batch.ops), |result| results.push(result));
            batch.report(self.now, service, results);
            if batch.request.is_some() {
                return batch.request;
            }
        }
    }

    /// Attaches a match entry to a portal.
    ///
    /// # Errors
    /// As [`Lnet::me_attach`](fulmar_lnet::Lnet::me_attach).
    pub fn me_attach(&mut self, portal: u32, me: Me) -> Result<MeId, Errno> {
        self.node.lnet.me_attach(self.id, portal, me)
    }

    /// Attaches a memory descriptor to a match entry.
    ///
    /// # Errors
    /// As [`Lnet::md_attach`](fulmar_lnet::Lnet::md_attach).
    pub fn md_attach(&mut self, me: MeId, md: Md, memory: Memory) -> Result<MdId, Errno> {
        let attached = self.node.lnet.md_attach(self.now, self.id, me, md, memory);
        self.done(attached)
    }

    /// Creates a memory descriptor that is the source of PUTs or the sink of GETs.
    ///
    /// # Errors
    /// As [`Lnet::md_bind`](fulmar_lnet::Lnet::md_bind).
    pub fn md_bind(&mut self, md: Md, memory: Memory) -> Result<MdId, Errno> {
        self.node.lnet.md_bind(self.id, md, memory)
    }

    /// Unlinks a memory descriptor; its last event reports when it is gone.
    ///
    /// # Errors
    /// As [`Lnet::md_unlink`](fulmar_lnet::Lnet::md_unlink).
    pub fn md_unlink(&mut self, md: MdId) -> Result<(), Errno> {
        let unlinked = self.node.lnet.md_unlink(self.now, self.id, md);
        self.done(unlinked)
    }

    /// Removes a match entry, and unlinks its descriptor.
    ///
    /// # Errors
    /// As [`Lnet::me_unlink`](fulmar_lnet::Lnet::me_unlink).
    pub fn me_unlink(&mut self, me: MeId) -> Result<(), Errno> {
        let unlinked = self.node.lnet.me_unlink(self.now, self.id, me);
        self.done(unlinked)
    }

    /// Starts a PUT to another node.
    ///
    /// # Errors
    /// As [`Lnet::put`](fulmar_lnet::Lnet::put).
    pub fn put(&mut self, md: MdId, put: Put) -> Result<(), Errno> {
        let begun = self.node.lnet.put(self.now, self.id, md, put);
        self.done(begun)
    }

    /// Starts a GET from another node.
    ///
    /// # Errors
    /// As [`Lnet::get`](fulmar_lnet::Lnet::get).
    pub fn get(&mut self, md: MdId, get: Get) -> Result<(), Errno> {
        let begun = self.node.lnet.get(self.now, self.id, md, get);
        self.done(begun)
    }

    /// Sets whether PUTs that no entry matches wait at a portal, or are dropped.
    ///
    /// # Errors
    /// As [`Lnet::set_lazy`](fulmar_lnet::Lnet::set_lazy).
    pub fn set_lazy(&mut self, portal: u32, lazy: bool) -> Result<(), Errno> {
        let set = self.node.lnet.set_lazy(self.now, portal, lazy);
        self.done(set)
    }

    /// Ends the service; see [`Lnet::close_service`](fulmar_lnet::Lnet::close_service).
    ///
    /// # Errors
    /// ENOENT if it is already closed.
    pub fn close(&mut self) -> Result<(), Errno> {
        let closed = self.node.lnet.close_service(self.now, self.id);
        self.done(closed)
    }

    fn done<R>(&mut self, result: R) -> R {
        self.node.pump(self.now);
        result
    }
}
