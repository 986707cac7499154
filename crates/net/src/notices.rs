//! What the machines have to say, in the log: as much of it as a person can read.

use fulmar_base::Time;
use fulmar_lnet::Notice as Lnet;
use fulmar_node::{Notice, SelftestNotice as Selftest};
use fulmar_socklnd::Notice as Socklnd;
use tracing::{Level, debug, info, warn};

use crate::counters::Counters;
use crate::lock::Lock;

/// Writes the notices of one node, but not too many.
pub(crate) struct Log {
    /// How the node is called in the log.
    name: String,
    bucket: Lock<Bucket>,
}

/// Lines that may be written now; they come back with time.
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

    /// Returns how the node is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn write(&self, now: Time, notices: Vec<Notice>, counters: &Counters) {
        counters.notices.add(notices.len());
        let node = self.name.as_str();
        for notice in notices {
            let Some(suppressed) = self.bucket.lock().take(now) else {
                counters.notices_suppressed.add(1);
                continue;
            };
            if suppressed > 0 {
                warn!(node, "{suppressed} notices were not written: too many in a short time");
            }
            match level(&notice) {
                Level::WARN => warn!(node, "{notice}"),
                Level::INFO => info!(node, "{notice}"),
                _ => debug!(node, "{notice}"),
            }
        }
    }
}

impl Bucket {
    /// Takes a line and returns how many were not written before it.
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

/// Warnings are what an administrator may have to act on.
fn level(notice: &Notice) -> Level {
    match notice {
        Notice::Socklnd(
            Socklnd::PeerUp { .. } | Socklnd::Restarted { .. } | Socklnd::Link { up: true, .. },
        )
        | Notice::Lnet(Lnet::Discovered { .. } | Lnet::GatewayUp { .. } | Lnet::Routing { .. })
        | Notice::Selftest(Selftest::SessionBegun { .. } | Selftest::SessionEnded { .. }) => {
            Level::INFO
        }
        Notice::Lnet(Lnet::Dropped { .. }) => Level::DEBUG,
        _ => Level::WARN,
    }
}

/// So many lines may be written at once,
const BURST: u64 = 20;
/// and so many each second.
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
