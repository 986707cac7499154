//! What the sockets have carried.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counts of a node's sockets since it started.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $( pub(crate) $name: Counter, )+
        }

        /// Counts of a node's sockets since it started, as they were at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct IoCounters {
            $( $(#[$doc])* pub $name: u64, )+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> IoCounters {
                IoCounters { $( $name: self.$name.0.load(Ordering::Relaxed), )+ }
            }
        }
    };
}

counters! {
    /// Payload that the kernel put where it belongs: copied once, by the kernel.
    payload_bytes_direct_in,
    /// Payload of small messages that came along with headers, and was copied once more.
    payload_bytes_staged_in,
    /// Payload that was to go nowhere.
    payload_bytes_discarded,
    /// Payload that the kernel took from where it was.
    payload_bytes_out,
    /// Headers that the kernel took.
    head_bytes_out,
    /// Payload that was copied within the node, for a message to itself.
    payload_bytes_looped,
    /// System calls that read sockets.
    reads,
    /// Of these, those that found nothing.
    reads_empty,
    /// System calls that wrote to sockets.
    writes,
    /// Of these, those that a full socket cut short.
    writes_short,
    /// Events given to handlers.
    events,
    /// Handlers that panicked.
    handler_panics,
    /// Lines for the log, written or not.
    notices,
    /// Lines for the log that were too many to be written.
    notices_suppressed,
    /// Connections that could not be accepted for want of descriptors or memory.
    accept_failures,
    /// Connections that were closed at once, because they would have used the last descriptors.
    accept_refusals,
}

/// One count, to which any thread may add.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }
}
