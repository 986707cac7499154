//! Watching a node at work.

use std::fmt;

use fulmar_lnet::{Event, EventDone};
use fulmar_node::{Crossing, Node as Machine};

/// Sees everything that a node's core has to do with others, in the order in which it happens.
///
/// Called under the node's lock: it must not call the node, and should be quick. A node without a tap
/// pays nothing for it.
pub trait Tap: fmt::Debug + Send + Sync {
    /// A message passes between the core and an LND.
    fn crossing(&self, machine: &Machine, crossing: &Crossing);
    /// An event is on its way to its handler.
    fn event(&self, event: &Event);
    /// The handler of an event has returned, and the machine is about to be told.
    fn handled(&self, done: EventDone);
}
