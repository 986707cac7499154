//! The notices of the machines, in the log, with a limited rate.

use std::fmt;

use fulmar_base::Time;
use fulmar_lnd::Notice as Lnd;
use fulmar_lnet::Notice as Lnet;
use fulmar_node::Notice;
use tracing::{Level, debug, info, warn};

use crate::counters::Counters;
use crate::lock::Lock;

/// Writes the notices of one node with a limited rate.
pub(crate) struct Log {
    /// The name of the node in the log.
    name: String,
    bucket: Lock<Bucket>,
}

/// Number of lines that may be written now; it grows with time.
struct Bucket {
    lines: u64,
    refilled: Time,
    suppressed: u64,
}

impl Log {
    pub(crate) fn new(name: String) -> Self {
        let bucket = Bucket { lines: BURST, refilled: Time::ZERO, suppressed: 0 };
        Self { name, bucket: Lock::new(bucket) }
    }

    /// Returns the name of the node.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes a line, unless there were too many in a short time.
    pub(crate) fn write(
        &self,
        now: Time,
        level: Level,
        line: &dyn fmt::Display,
        counters: &Counters,
    ) {
        counters.notices.add(1);
        let node = self.name.as_str();
        let Some(suppressed) = self.bucket.lock().take(now) else {
            return counters.notices_suppressed.add(1);
        };
        if suppressed > 0 {
            warn!(node, "{suppressed} notices were not written: too many in a short time");
        }
        match level {
            Level::ERROR | Level::WARN => warn!(node, "{line}"),
            Level::INFO => info!(node, "{line}"),
            _ => debug!(node, "{line}"),
        }
    }
}

impl Bucket {
    /// Counts a line and returns how many were not written before it.
    fn take(&mut self, now: Time) -> Option<u64> {
        let earned = now.since(self.refilled).as_secs() * PER_SECOND;
        if earned > 0 {
            self.lines = (self.lines + earned).min(BURST);
            self.refilled = now;
        }
        if self.lines == 0 {
            self.suppressed += 1;
            return None;
        }
        self.lines -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Returns the level of a notice: warnings are what an administrator may have to act on.
pub(crate) fn level(notice: &Notice) -> Level {
    match notice {
        Notice::Lnd(
            Lnd::PeerUp { .. }
            | Lnd::Restarted { .. }
            | Lnd::WindowLimited { .. }
            | Lnd::Link { up: true, .. },
        )
        | Notice::Lnet(Lnet::Discovered { .. } | Lnet::GatewayUp { .. } | Lnet::Routing { .. }) => {
            Level::INFO
        }
        Notice::Lnet(Lnet::Dropped { .. }) => Level::DEBUG,
        _ => Level::WARN,
    }
}

/// The most lines that may be written at once.
const BURST: u64 = 20;
/// The most lines in each second after that.
const PER_SECOND: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_those_left_out_are_counted() {
        let mut bucket = Bucket { lines: 2, refilled: Time::ZERO, suppressed: 0 };
        let at = |second| Time::from_secs(second);
        assert_eq!(bucket.take(at(0)), Some(0));
        assert_eq!(bucket.take(at(0)), Some(0));
        assert_eq!(bucket.take(at(0)), None);
        assert_eq!(bucket.take(at(0)), None);
        assert_eq!(bucket.take(at(1)), Some(2));
        assert_eq!(bucket.take(at(1)), Some(0));
        assert_eq!(bucket.take(at(1)), None);
        assert_eq!(bucket.take(at(1000)), Some(1));
        assert_eq!(bucket.lines, BURST - 1);
    }
}
