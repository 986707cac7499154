//! Clients that one target has found silent: the other targets of the node do not wait for them again.
//! docs/decisions/silent-clients.md

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_ldlm::server::EvictReason;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::{Handle, Uuid};
use fulmar_rpc::export::{Export, Exports, TargetId};

/// From when on a client is silent that has not answered a target. It sends a ping every 25 s.
const LIMIT: Duration = Duration::from_secs(100);
/// How long an eviction matters. Exports of a silent client go before that.
const AGE_MAX: Duration = Duration::from_secs(600);
/// The most clients that are remembered.
const CLIENTS_MAX: usize = 4096;

/// The clients that targets have evicted because they did not give a lock up, or did not answer, and when.
#[derive(Debug, Default)]
pub(crate) struct Silent(BTreeMap<Uuid, Time>);

impl Silent {
    /// A target has evicted a client.
    pub(crate) fn insert(&mut self, now: Time, client: Uuid) {
        if self.0.len() >= CLIENTS_MAX {
            self.0.retain(|_, since| now.since(*since) < AGE_MAX);
        }
        if self.0.len() < CLIENTS_MAX {
            self.0.insert(client, now);
        }
    }

    /// Returns the exports that a client still has, if a target has evicted it and nothing came from it to any of them for so
    /// long that it must have sent something if it were there. Otherwise none.
    pub(crate) fn exports(
        &self,
        now: Time,
        client: Uuid,
        exports: &Exports,
    ) -> Vec<(TargetId, Handle)> {
        if self.0.get(&client).is_none_or(|since| now.since(*since) >= AGE_MAX) {
            return vec![];
        }
        let of_client = || exports.iter().filter(|(_, export)| export.client == client);
        let is_silent = |export: &Export| {
            now.since(export.last_request) >= LIMIT && !export.flags.has(ConnectFlags::PINGLESS)
        };
        if of_client().all(|(_, export)| is_silent(export)) {
            of_client().map(|(handle, export)| (export.target, handle)).collect()
        } else {
            vec![]
        }
    }
}

/// Returns what the log says of an eviction because of a lock, for which a target has waited so long.
pub(crate) fn told(now: Time, client: &Export, why: EvictReason, after: Duration) -> String {
    let (nid, uuid, waited) = (client.peer.nid, client.client, after.as_secs());
    let what = match why {
        EvictReason::NotCancelled => {
            format!("it has kept a lock that others wait for, {waited} s long")
        }
        EvictReason::NotAnswered if after.is_zero() => {
            "it has not answered another target".to_owned()
        }
        EvictReason::NotAnswered => format!("it has not answered a lock callback for {waited} s"),
    };
    let heard = now.since(client.last_request).as_secs();
    format!("evicting client {nid} ({uuid}): {what}, and nothing from it for {heard} s")
}

#[cfg(test)]
mod tests {
    use fulmar_rpc::HandleSource;
    use fulmar_rpc::export::ExportLimits;

    use super::*;

    fn after(seconds: u64) -> Time {
        Time::from_secs(1000 + seconds)
    }

    /// Two clients of two targets, from which nothing has come since they connected.
    fn exports() -> (Exports, [Uuid; 2], Vec<(TargetId, Handle)>) {
        let mut exports = Exports::new(HandleSource::new(7), ExportLimits::default());
        let clients = ["one", "two"].map(|name| Uuid::new(name).unwrap());
        let mut of_first = vec![];
        for target in [TargetId(0), TargetId(1)] {
            of_first.push((target, exports.restore(after(0), target, clients[0])));
            exports.restore(after(0), target, clients[1]);
        }
        of_first.sort_by_key(|(_, handle)| *handle);
        (exports, clients, of_first)
    }

    #[test]
    fn a_client_that_one_target_has_evicted_is_silent_for_the_others() {
        let (mut exports, [first, second], mut of_first) = exports();
        let mut silent = Silent::default();
        assert!(silent.exports(after(120), first, &exports).is_empty(), "no target waits for it");
        let (_, evicted) = of_first.remove(0);
        exports.remove(evicted);
        silent.insert(after(100), first);
        assert_eq!(silent.exports(after(100), first, &exports), of_first);
        assert!(silent.exports(after(100), second, &exports).is_empty());
        assert!(silent.exports(after(700), first, &exports).is_empty(), "that was long ago");
    }

    #[test]
    fn a_client_that_any_target_has_heard_of_is_not_silent() {
        let (mut exports, [first, _], of_first) = exports();
        let mut silent = Silent::default();
        silent.insert(after(100), first);
        exports.get_mut(of_first[1].1).unwrap().last_request = after(50);
        assert!(silent.exports(after(149), first, &exports).is_empty());
        assert_eq!(silent.exports(after(150), first, &exports), of_first);
        exports.get_mut(of_first[0].1).unwrap().flags = ConnectFlags::PINGLESS;
        assert!(silent.exports(after(150), first, &exports).is_empty(), "it sends no pings");
    }

    #[test]
    fn the_log_says_who_did_not_answer_and_for_how_long() {
        let (exports, _, of_first) = exports();
        let client = exports.get(of_first[0].1).unwrap();
        let told = |why, seconds| told(after(103), client, why, Duration::from_secs(seconds));
        let nid = client.peer.nid;
        let rest = ", and nothing from it for 103 s";
        assert_eq!(
            told(EvictReason::NotAnswered, 100),
            format!(
                "evicting client {nid} (one): it has not answered a lock callback for 100 s{rest}"
            )
        );
        assert_eq!(
            told(EvictReason::NotCancelled, 100),
            format!(
                "evicting client {nid} (one): it has kept a lock that others wait for, 100 s long{rest}"
            )
        );
        assert_eq!(
            told(EvictReason::NotAnswered, 0),
            format!("evicting client {nid} (one): it has not answered another target{rest}")
        );
    }
}
