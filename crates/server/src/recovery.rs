//! What the log says of the recovery of a target, and of clients that it evicts.

use fulmar_base::Time;
use fulmar_rpc::export::Eviction;
use fulmar_rpc::service::Window;

/// The recovery of a target, which is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetRecovery {
    since: Time,
    clients: usize,
    evicted: usize,
}

impl TargetRecovery {
    pub(crate) fn new(since: Time, clients: usize) -> Self {
        Self { since, clients, evicted: 0 }
    }

    /// Handles the eviction of a client.
    pub(crate) fn evicted(&mut self) {
        self.evicted += 1;
    }

    /// Returns how it begins.
    pub(crate) fn begins(self, window: Window) -> String {
        let soft = window.soft.as_secs();
        format!("recovers: it waits for its {} clients, {soft} s after the first", self.clients)
    }

    /// Returns how it ended.
    pub(crate) fn ended(self, now: Time) -> String {
        let Self { since, clients, evicted } = self;
        let took = now.since(since).as_secs();
        format!("has recovered after {took} s: of {clients} clients, {evicted} were evicted")
    }
}

/// Returns why a client was evicted; `None` if the log of the locks says it.
pub(crate) fn reason(why: Eviction) -> Option<&'static str> {
    Some(match why {
        Eviction::NotCancelled | Eviction::NotAnswered => return None,
        Eviction::Administrator => "an administrator requested it",
        Eviction::Silence => "nothing came from it for too long",
        Eviction::Replay => {
            "it repeated requests of an earlier start, and the target has recovered"
        }
        Eviction::Recovery => "it did not complete its recovery in time",
        Eviction::Replaced => "it was restarted",
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_recovery_is_told_with_its_numbers() {
        let start = Time::ZERO + Duration::from_secs(5);
        let mut recovering = TargetRecovery::new(start, 3);
        assert_eq!(
            recovering.begins(Window::default().imperative(5)),
            "recovers: it waits for its 3 clients, 150 s after the first"
        );
        recovering.evicted();
        assert_eq!(
            recovering.ended(start + Duration::from_secs(151)),
            "has recovered after 151 s: of 3 clients, 1 were evicted"
        );
    }
}
