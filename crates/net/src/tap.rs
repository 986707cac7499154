//! Watching a node at work.

use std::fmt;

use fulmar_base::Errno;
use fulmar_lnet::{Event, EventDone, MdId, Op};
use fulmar_node::{Crossing, Node as Machine};

/// Sees everything that a node's core has to do with others, in the order in which it happens.
///
/// Called under the node's lock: it must not call the node, and should be quick. A node without a tap
/// pays nothing for it.
pub trait Tap: fmt::Debug + Send + Sync {
    /// A service has posted an operation. [`Md::user`](fulmar_lnet::Md::user) and
    /// [`Md::buffer`](fulmar_lnet::Md::buffer) are the driver's.
    fn posted(&self, op: &Op, result: Result<MdId, Errno>);
    /// A message passes between the core and an LND.
    fn crossing(&self, machine: &Machine, crossing: &Crossing);
    /// An event is on its way to its handler.
    fn event(&self, event: &Event);
    /// The handler of an event has returned, and the machine is about to be told.
    fn handled(&self, done: EventDone);
}
