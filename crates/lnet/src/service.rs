//! Services: the users of LNet, and the batches that they post.

use fulmar_base::{Errno, Time};

use crate::api::{Bound, Event, MdId, Op};

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

    /// Handles an event of one of its descriptors, and the bytes that came with it.
    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>);

    /// Handles the result of a post; `user` is that of its descriptor. A post that failed leaves
    /// nothing behind, and no event comes of it.
    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>);

    /// Handles the passing of time.
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
    /// For [`Lnet::post`](crate::Lnet::post).
    pub ops: Vec<Op>,
    /// Of each operation, [`Md::user`](crate::Md::user) of the descriptor that it makes, if any.
    users: Vec<Option<u64>>,
    /// For the host, once the operations are posted.
    pub request: Option<R>,
}

impl<R> Batch<R> {
    /// Drains what a service wants, up to its next request to the host. `None`: nothing.
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
