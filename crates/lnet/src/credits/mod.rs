//! Credits: how many messages may be under way by an interface, to a NID of a peer, and, on a
//! router, from a NID of a peer. Spec: lnet-behaviour §6.
//!
//! ```text
//! add_ni, add_peer_ni, allow, remove_*     an interface or a peer NI has come, changed or gone
//! take       -> whether the message holds a credit; otherwise it waits
//! give_back  -> the waiting message that holds the credit from now on
//! withdraw      a message no longer waits
//! ```
//!
//! Messages that wait for the same credits get them in the order in which they came.

mod pool;
#[cfg(test)]
mod tests;

use fulmar_base::MessageId;

use crate::ni::NiId;
use crate::peers::PeerNiId;
use crate::slots::Slots;

use pool::Credits;
pub(crate) use pool::Level;

/// The credits of a peer NI, which its network decides: none on a remote one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Messages on their way to it.
    pub(crate) tx: u32,
    /// Messages of it that are forwarded.
    pub(crate) router: u32,
}

/// Whose credit is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Of one of our interfaces.
    Ni(NiId),
    /// Of a next hop, for a message with so many bytes of payload.
    Peer(PeerNiId, u32),
    /// Of the previous hop of a message that is forwarded.
    Router(PeerNiId),
}

/// What a message is charged for its header, in either form.
const HEADER_CHARGE: u64 = 72;

#[derive(Debug)]
struct PeerCredits {
    tx: Credits,
    router: Credits,
    /// Payload and [`HEADER_CHARGE`] of each message that holds or awaits a credit of `tx`.
    queued_bytes: u64,
}

impl PeerCredits {
    fn new(allowance: Allowance) -> Self {
        let (tx, router) = (Credits::new(allowance.tx), Credits::new(allowance.router));
        Self { tx, router, queued_bytes: 0 }
    }

    fn is_idle(&self) -> bool {
        self.tx.is_idle() && self.router.is_idle()
    }
}

/// All credits of a node.
#[derive(Debug, Default)]
pub(crate) struct CreditTable {
    nis: Vec<(NiId, Credits)>,
    peers: Slots<PeerCredits>,
}

impl CreditTable {
    pub(crate) fn add_ni(&mut self, id: NiId, credits: u32) {
        self.nis.push((id, Credits::new(credits)));
    }

    /// Removes the credits of an interface. What still holds one needs not give it back.
    pub(crate) fn remove_ni(&mut self, id: NiId) {
        self.nis.retain(|(other, _)| *other != id);
    }

    pub(crate) fn add_peer_ni(&mut self, id: PeerNiId, allowance: Allowance) {
        self.peers.insert(id.0, PeerCredits::new(allowance));
    }

    pub(crate) fn remove_peer_ni(&mut self, id: PeerNiId) {
        self.peers.remove(id.0);
    }

    /// Gives credits to a peer NI that has none, since its network was a remote one.
    pub(crate) fn allow(&mut self, id: PeerNiId, allowance: Allowance) {
        if let Some(peer) = self.peers.get_mut(id.0).filter(|peer| peer.tx.level().max == 0) {
            let queued_bytes = peer.queued_bytes;
            *peer = PeerCredits { queued_bytes, ..PeerCredits::new(allowance) };
        }
    }

    /// Acquires a credit for a message and returns true, or lets it wait for one. `None`: there is no
    /// such interface any more.
    pub(crate) fn take(&mut self, account: Account, message: MessageId) -> Option<bool> {
        if let Account::Peer(id, len) = account {
            self.peer_mut(id).queued_bytes += HEADER_CHARGE + u64::from(len);
        }
        Some(self.credits(account)?.take(message))
    }

    /// Receives a credit back, and returns the waiting message that holds it from now on.
    pub(crate) fn give_back(&mut self, account: Account) -> Option<MessageId> {
        if let Account::Peer(id, len) = account {
            self.peer_mut(id).queued_bytes -= HEADER_CHARGE + u64::from(len);
        }
        self.credits(account)?.give_back()
    }

    /// Ends the waiting of a message.
    pub(crate) fn withdraw(&mut self, account: Account, message: MessageId) {
        if let Account::Peer(id, len) = account {
            self.peer_mut(id).queued_bytes -= HEADER_CHARGE + u64::from(len);
        }
        self.credits(account).expect("it waits for this credit").withdraw(message);
    }

    /// Returns the credits that an interface has left; negative while messages wait.
    pub(crate) fn left_of_ni(&self, id: NiId) -> i64 {
        self.ni(id).map_or(0, Credits::current)
    }

    /// Returns the credits that a peer NI has left; negative while messages wait.
    pub(crate) fn left_of_peer_ni(&self, id: PeerNiId) -> i64 {
        self.peers.get(id.0).map_or(0, |peer| peer.tx.current())
    }

    /// Returns payload and headers of the messages that hold or await a credit of a peer NI.
    pub(crate) fn queued_bytes(&self, id: PeerNiId) -> u64 {
        self.peers.get(id.0).map_or(0, |peer| peer.queued_bytes)
    }

    /// Returns whether no message holds or awaits a credit of a peer NI.
    pub(crate) fn is_peer_ni_idle(&self, id: PeerNiId) -> bool {
        self.peers.get(id.0).is_none_or(PeerCredits::is_idle)
    }

    /// Makes the present credits of interfaces the lowest so far.
    pub(crate) fn forget_ni_minima(&mut self) {
        self.nis.iter_mut().for_each(|(_, credits)| credits.forget_minimum());
    }

    /// The same for those of peer NIs.
    pub(crate) fn forget_peer_ni_minima(&mut self) {
        for name in self.peers.names() {
            if let Some(peer) = self.peers.get_mut(name) {
                peer.tx.forget_minimum();
                peer.router.forget_minimum();
            }
        }
    }

    pub(crate) fn ni_level(&self, id: NiId) -> Level {
        self.ni(id).map(Credits::level).unwrap_or_default()
    }

    pub(crate) fn peer_ni_level(&self, id: PeerNiId) -> Level {
        self.peers.get(id.0).map(|peer| peer.tx.level()).unwrap_or_default()
    }

    pub(crate) fn router_level(&self, id: PeerNiId) -> Level {
        self.peers.get(id.0).map(|peer| peer.router.level()).unwrap_or_default()
    }

    /// Returns the messages that wait for a credit of a peer NI, in order.
    pub(crate) fn waiting_for_peer_ni(&self, id: PeerNiId) -> impl Iterator<Item = MessageId> {
        self.peers.get(id.0).into_iter().flat_map(|peer| peer.tx.waiting())
    }

    /// Checks the credits of an interface, which `users` messages hold or await.
    pub(crate) fn check_ni(&self, id: NiId, users: u64) -> Result<(), String> {
        self.ni(id).ok_or("an interface without credits")?.check(users)
    }

    /// Checks the credits of a peer NI: `sent` messages of so many bytes of payload are under way
    /// to it, `routed` of it are forwarded.
    pub(crate) fn check_peer_ni(
        &self,
        id: PeerNiId,
        (sent, payload): (u64, u64),
        routed: u64,
    ) -> Result<(), String> {
        let peer = self.peers.get(id.0).ok_or("a peer NI without credits")?;
        peer.tx.check(sent)?;
        peer.router.check(routed).map_err(|error| format!("router: {error}"))?;
        let bytes = sent * HEADER_CHARGE + payload;
        if peer.queued_bytes == bytes {
            Ok(())
        } else {
            Err(format!("{bytes} bytes, charged {}", peer.queued_bytes))
        }
    }

    /// Checks that no message holds or awaits a credit.
    pub(crate) fn check_idle(&self) -> Result<(), String> {
        let busy = self.nis.iter().find(|(_, credits)| !credits.is_idle());
        if let Some((id, credits)) = busy {
            return Err(format!("{id:?} lacks credits: {credits:?}"));
        }
        match self.peers.iter().find(|(_, peer)| !peer.is_idle() || peer.queued_bytes != 0) {
            Some((id, peer)) => Err(format!("peer NI {id} lacks credits: {peer:?}")),
            None => Ok(()),
        }
    }

    fn ni(&self, id: NiId) -> Option<&Credits> {
        self.nis.iter().find(|(other, _)| *other == id).map(|(_, credits)| credits)
    }

    fn peer_mut(&mut self, id: PeerNiId) -> &mut PeerCredits {
        self.peers.get_mut(id.0).expect("a message keeps the credits of its peer NI")
    }

    /// Returns the credits of an account. Only those of an interface may be missing.
    fn credits(&mut self, account: Account) -> Option<&mut Credits> {
        Some(match account {
            Account::Ni(id) => {
                let found = self.nis.iter_mut().find(|(other, _)| *other == id);
                return found.map(|(_, credits)| credits);
            }
            Account::Peer(id, _) => &mut self.peer_mut(id).tx,
            Account::Router(id) => &mut self.peer_mut(id).router,
        })
    }
}
