//! Messages that do not move, because a peer does not read: they take no credits from others.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnd::Output;
use fulmar_lnet_wire::Nid;

use super::{Socklnd, Timer};
use crate::conn::Phase;

impl Socklnd {
    /// Searches again, as long as there are messages that may have stopped to move.
    pub(super) fn handle_waiting_timer(&mut self, now: Time, nid: Nid) {
        if self.find_waiting(now, nid) {
            self.timers.set(Timer::Waiting(nid), now + TIMEOUT);
        }
    }

    /// Reports the messages of an interface whose sockets have accepted nothing for a while.
    /// Returns whether there are others.
    pub(super) fn find_waiting(&mut self, now: Time, nid: Nid) -> bool {
        let mut others = false;
        for conn in self.conns.values_mut() {
            let Phase::Open(open) = &mut conn.phase else { continue };
            // Those of a slow connection were reported when it became slow, or when they were sent.
            let searched = open.key.ni == nid && open.slow_until <= now;
            let Some(since) = conn.tx.stalled_since().filter(|_| searched) else { continue };
            if since + TIMEOUT > now {
                others = true;
                continue;
            }
            open.slow_until = now + SLOW;
            let waiting = conn.tx.unsent().map(|message| Output::Waiting { message });
            self.outputs.extend(waiting);
        }
        others
    }
}

/// How long a socket accepts nothing before its messages count as waiting. On a link that is long
/// and full it is about a round trip; then nothing is lost but an early credit.
pub(super) const TIMEOUT: Duration = Duration::from_millis(20);
/// How long a peer that did not read is assumed to do so again.
const SLOW: Duration = Duration::from_secs(10);
