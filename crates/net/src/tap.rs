//! Observation of a running node.

use std::fmt;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventDone, MdId, Op};
use fulmar_node::{Crossing, Node as Machine};

/// Observes all inputs and outputs of a node's core that concern other nodes and services, in
/// order.
///
/// Called under the node's lock: it must not call the node, and should be fast. A node without a
/// tap has no cost.
pub trait Tap: fmt::Debug + Send + Sync {
    /// A service has posted an operation. [`Md::user`](fulmar_lnet::Md::user) and
    /// [`Md::buffer`](fulmar_lnet::Md::buffer) are the driver's.
    fn posted(&self, op: &Op, result: Result<MdId, Errno>);
    /// A message passes between the core and an LND.
    fn crossing(&self, machine: &Machine, crossing: &Crossing);
    /// An event is passed to its handler.
    fn event(&self, event: &Event);
    /// The handler of an event has returned, or its service is closed, and the machine is notified next.
    fn handled(&self, done: EventDone);
}

/// The observers of a node.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    /// Since its start.
    pub(crate) first: Option<Arc<dyn Tap>>,
    /// One that comes and goes.
    pub(crate) later: Option<Arc<dyn Tap>>,
}

impl Taps {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.later.is_none()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Tap>> {
        self.first.iter().chain(&self.later)
    }
}
