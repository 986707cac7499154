//! What the log says of operations that wait for locks for long. docs/decisions/silent-clients.md

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_ldlm::client::LockId;
use fulmar_rpc::import::State;

use super::core::Core;
use super::debug_log;
use super::peer::LockWait;

/// How long a wait takes before the log has it, and how often such waits are looked for.
const INTERVAL: Duration = Duration::from_secs(10);

impl Core {
    /// An operation waits for a lock.
    pub(super) fn expect_long_waits(&mut self) {
        self.long_waits_due.get_or_insert(self.now + INTERVAL);
    }

    /// Reports the waits that have become long. A target that is not connected is waited for itself.
    pub(super) fn report_long_waits(&mut self) {
        let now = self.now;
        if self.long_waits_due.is_none_or(|due| due > now) {
            return;
        }
        for (import, peer) in &mut self.peers {
            let count = if peer.state == State::Full { new_long(&mut peer.waits, now) } else { 0 };
            if count > 0 {
                debug_log::waits(self.both.client.import(*import), count, INTERVAL);
            }
        }
        let is_waiting = self.peers.values().any(|peer| !peer.waits.is_empty());
        self.long_waits_due = is_waiting.then_some(now + INTERVAL);
    }
}

/// Returns how many waits have become long, and marks them as reported.
fn new_long(waits: &mut BTreeMap<LockId, LockWait>, now: Time) -> usize {
    let is_long = |wait: &&mut LockWait| wait.since.is_some_and(|at| now.since(at) >= INTERVAL);
    waits.values_mut().filter(is_long).map(|wait| wait.since = None).count()
}

#[cfg(test)]
mod tests {
    use futures_channel::oneshot;

    use super::*;

    fn begun(seconds: Option<u64>) -> LockWait {
        let (waiting, since) = (oneshot::channel().0, seconds.map(Time::from_secs));
        LockWait { build: None, request: None, reply: None, waiting, since }
    }

    #[test]
    fn a_long_wait_is_reported_once() {
        let all = [Some(100), None, Some(105)].map(begun);
        let mut waits: BTreeMap<_, _> = (0..).map(LockId).zip(all).collect();
        let new = |waits: &mut _, seconds| new_long(waits, Time::from_secs(seconds));
        assert_eq!(new(&mut waits, 109), 0);
        assert_eq!(new(&mut waits, 110), 1);
        assert_eq!(new(&mut waits, 120), 1);
        assert_eq!(new(&mut waits, 1000), 0);
    }
}
