//! What must hold, looked at from outside: sums over messages against what the tables say.
//! Spec: lnet-behaviour §17, 1 to 3.

use std::collections::BTreeMap;

use super::Lnet;
use super::message::{Hold, RouterHold, Stage, Transit};
use crate::ni::NiId;
use crate::peers::PeerNiId;

/// What the messages add up to.
#[derive(Debug, Default)]
struct Sums {
    /// Messages that hold or await a credit of each peer NI, and their bytes of payload.
    peer: BTreeMap<PeerNiId, (u64, u64)>,
    ni: BTreeMap<NiId, u64>,
    /// Responses to each peer NI.
    responses: BTreeMap<PeerNiId, u64>,
    /// Router credits of each peer NI that messages hold or wait for.
    router: BTreeMap<PeerNiId, u64>,
    /// Of each class of router buffers: how many hold one, how many wait.
    buffers: [(u32, u32); 3],
    committed: u64,
}

impl Sums {
    fn add_transit(&mut self, transit: &Transit) {
        let (held, waiting) = &mut self.buffers[transit.class];
        match transit.hold {
            RouterHold::Nothing => return,
            RouterHold::WaitsForCredit | RouterHold::Credit => {}
            RouterHold::WaitsForBuffer => *waiting += 1,
            RouterHold::Buffer => *held += 1,
        }
        *self.router.entry(transit.from).or_default() += 1;
    }
}

impl Lnet {
    /// Checks what holds at any time.
    ///
    /// # Errors
    /// What does not.
    pub fn check_invariants(&self) -> Result<(), String> {
        if !self.work.is_empty() {
            return Err(format!("{} things were left undone", self.work.len()));
        }
        let sums = self.sums();
        self.peers.check()?;
        self.routing.check()?;
        self.check_peer_credits(&sums)?;
        for ni in &self.nis {
            let users = sums.ni.get(&ni.id).copied().unwrap_or(0);
            let nid = ni.config.nid;
            self.credits.check_ni(ni.id, users).map_err(|error| format!("{nid:?}: {error}"))?;
        }
        self.backpressure.check_total(sums.responses.values().sum())?;
        self.check_router(&sums)?;
        if sums.committed != self.counters.alive {
            return Err(format!(
                "{} messages are committed, msgs_alloc is {}",
                sums.committed, self.counters.alive
            ));
        }
        self.check_operations()
    }

    /// Checks what holds when nothing is under way: no message, no credit missing, no byte queued.
    ///
    /// # Errors
    /// What is still under way.
    pub fn is_idle(&self) -> Result<(), String> {
        self.check_invariants()?;
        if let Some((id, message)) = self.messages.iter().next() {
            return Err(format!("{id:?} is under way: {message:?}"));
        }
        self.credits.check_idle()?;
        self.backpressure.check_idle()?;
        self.pushes.check_idle()?;
        match (self.copies.len(), self.receiving.len()) {
            (0, 0) => Ok(()),
            (copies, received) => Err(format!("{copies} copies, {received} messages are underway")),
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for (_, message) in self.messages.iter() {
            sums.committed += u64::from(message.is_committed());
            if let Some(transit) = &message.transit {
                sums.add_transit(transit);
            }
            let Stage::Sending(path) = message.stage else { continue };
            let (users, bytes) = sums.peer.entry(path.peer_ni).or_default();
            *users += 1;
            *bytes += u64::from(message.header.payload_len);
            if path.response {
                *sums.responses.entry(path.peer_ni).or_default() += 1;
            }
            let none = matches!(path.hold, Hold::Nothing | Hold::WaitsForPeer | Hold::Peer);
            if !none && !path.waits {
                *sums.ni.entry(path.ni).or_default() += 1;
            }
        }
        sums
    }

    fn check_router(&self, sums: &Sums) -> Result<(), String> {
        self.routing.check_buffers(sums.buffers)?;
        Ok(())
    }

    fn check_peer_credits(&self, sums: &Sums) -> Result<(), String> {
        for (id, ni) in self.peers.all_nis() {
            let sent = sums.peer.get(&id).copied().unwrap_or_default();
            let routed = sums.router.get(&id).copied().unwrap_or(0);
            let nid = ni.nid();
            let checked = self.credits.check_peer_ni(id, sent, routed);
            checked.map_err(|error| format!("{nid:?}: {error}"))?;
            let responses = sums.responses.get(&id).copied().unwrap_or(0);
            let checked = self.backpressure.check(id, responses);
            checked.map_err(|error| format!("{nid:?}: {error}"))?;
            for waiting in self.credits.waiting_for_peer_ni(id) {
                let message = self.messages.get(waiting).and_then(|message| message.sending());
                if !message.is_some_and(|path| path.hold == Hold::WaitsForPeer) {
                    return Err(format!("{waiting:?} is queued for {nid:?} and does not wait"));
                }
            }
        }
        Ok(())
    }

    /// Each descriptor is referred to by as many messages as it has operations under way.
    fn check_operations(&self) -> Result<(), String> {
        let mut operations = BTreeMap::new();
        for (_, message) in self.messages.iter() {
            let over = matches!(message.stage, Stage::InHandler(_));
            if let (Some(md), false) = (message.md(), over) {
                *operations.entry(md).or_insert(0) += 1;
            }
        }
        self.matching.check(|md| operations.remove(&md).unwrap_or(0))?;
        match operations.pop_first() {
            None => Ok(()),
            Some((md, _)) => Err(format!("a message refers to {md:?}, which is gone")),
        }
    }
}
