//! Other nodes: which NIDs belong to one, and what is known of it.
//! Spec: lnet-behaviour §2.4, §2.5, §9.6.

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::MessageId;
use fulmar_lnet_wire::ping::NiStatus;
use fulmar_lnet_wire::{Net, Nid};

use crate::api::{MdId, QueryId};
use crate::slots::{Names, Slots};
use crate::views::{self, PRIORITY_LOWEST};

/// A node; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerId(pub(crate) u64);

/// A NID of a node; never used twice, so that messages in flight outlive it safely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerNiId(pub(crate) u64);

impl PeerNiId {
    /// No peer NI: at the other end of `0@lo` there is none.
    pub(crate) const NONE: Self = Self(0);
}

/// What is known of a peer and what is to be done: the bits that verbose peer output shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerState(pub(crate) u32);

impl PeerState {
    pub(crate) const MULTI_RAIL: Self = Self(1 << 0);
    pub(crate) const NO_DISCOVERY: Self = Self(1 << 1);
    pub(crate) const ROUTER_ENABLED: Self = Self(1 << 2);
    pub(crate) const CONFIGURED: Self = Self(1 << 3);
    pub(crate) const DISCOVERED: Self = Self(1 << 4);
    pub(crate) const REDISCOVER: Self = Self(1 << 5);
    pub(crate) const DISCOVERING: Self = Self(1 << 6);
    pub(crate) const NIDS_UPTODATE: Self = Self(1 << 8);
    pub(crate) const PING_SENT: Self = Self(1 << 9);
    pub(crate) const PUSH_SENT: Self = Self(1 << 10);
    pub(crate) const FORCE_PING: Self = Self(1 << 13);
    pub(crate) const FORCE_PUSH: Self = Self(1 << 14);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn has_any(self, others: &[Self]) -> bool {
        others.iter().any(|other| self.has(*other))
    }

    pub(crate) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(crate) fn set(&mut self, other: Self, on: bool) {
        if on { self.insert(other) } else { self.remove(other) }
    }
}

#[derive(Debug)]
pub(crate) struct PeerNi {
    pub(crate) nid: Nid,
    pub(crate) peer: PeerId,
    pub(crate) stamp: u64,
    /// Our NID that a peer without multi-rail knows us by.
    pub(crate) preferred: Option<Nid>,
    pub(crate) status: NiStatus,
    /// Its node has told that it is down, and not used it for a request since.
    pub(crate) told_down: bool,
    /// The LND finds no way to it, or nothing arrives there.
    pub(crate) lost: bool,
    pub(crate) policy: Policy,
    /// Deleted: it goes when its last message does.
    retired: bool,
    pub(crate) traffic: views::Traffic,
}

/// What rules of the administrator say of a peer NI. Spec: lnet-behaviour §12.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) priority: u32,
    pub(crate) net_priority: u32,
    /// Our NIDs from which it is best reached.
    pub(crate) nids: Vec<Nid>,
    /// The gateways by which it is best reached.
    pub(crate) gateways: Vec<Nid>,
}

impl Default for Policy {
    fn default() -> Self {
        let (priority, net_priority) = (PRIORITY_LOWEST, PRIORITY_LOWEST);
        Self { priority, net_priority, nids: Vec::new(), gateways: Vec::new() }
    }
}

/// How many NIDs other nodes can make us remember; configured ones are not limited.
pub(crate) const PEER_NIS_MAX: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) primary: Nid,
    pub(crate) state: PeerState,
    pub(crate) nis: Vec<PeerNiId>,
    /// The sequence number of its latest ping info.
    pub(crate) sequence: u32,
    /// The sequence number of our ping info that it has acknowledged.
    pub(crate) pushed: u32,
    /// Bytes in its ping info, as far as we know.
    pub(crate) info_size: u32,
    /// How often in a row its ping info could not be used.
    pub(crate) bad_infos: u32,
    /// The ping and the push under way.
    pub(crate) ping: Option<MdId>,
    pub(crate) push: Option<MdId>,
    /// Our NID and its NID that carried the latest ping reply.
    pub(crate) pair: Option<(Nid, Nid)>,
    /// Messages that wait until it is discovered, in order.
    pub(crate) parked: VecDeque<MessageId>,
    pub(crate) queries: Vec<QueryId>,
}

/// The peer table. What it holds is boxed, so that a free place is small.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    nids: BTreeMap<Nid, PeerNiId>,
    nis: Slots<Box<PeerNi>>,
    peers: Slots<Box<Peer>>,
    ni_names: Names,
    peer_names: Names,
    changes: VecDeque<Change>,
}

/// A change of the peer NIs that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// There is another, with this NID.
    Added(PeerNiId, Nid),
    /// One is deleted. It exists until [`Peers::forget`] is called.
    Retired(PeerNiId),
}

impl Peers {
    pub(crate) fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id.0).map(|peer| &**peer)
    }

    pub(crate) fn peer_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(id.0).map(|peer| &mut **peer)
    }

    pub(crate) fn ni(&self, id: PeerNiId) -> Option<&PeerNi> {
        self.nis.get(id.0).map(|ni| &**ni)
    }

    pub(crate) fn ni_mut(&mut self, id: PeerNiId) -> Option<&mut PeerNi> {
        self.nis.get_mut(id.0).map(|ni| &mut **ni)
    }

    pub(crate) fn find(&self, nid: Nid) -> Option<PeerNiId> {
        self.nids.get(&nid).copied()
    }

    pub(crate) fn find_mut(&mut self, nid: Nid) -> Option<&mut PeerNi> {
        self.ni_mut(self.find(nid)?)
    }

    /// Returns the peer that `nid` belongs to.
    pub(crate) fn owner(&self, nid: Nid) -> Option<PeerId> {
        Some(self.ni(self.find(nid)?)?.peer)
    }

    /// Returns the NID by which applications know the owner of `nid`.
    pub(crate) fn primary(&self, nid: Nid) -> Nid {
        self.owner(nid).and_then(|peer| self.peer(peer)).map_or(nid, |peer| peer.primary)
    }

    /// Returns whether both NIDs belong to one known node.
    pub(crate) fn same_peer(&self, a: Nid, b: Nid) -> bool {
        let owner = self.owner(a);
        owner.is_some() && owner == self.owner(b)
    }

    /// Returns whether strangers have filled the table.
    pub(crate) fn is_full(&self) -> bool {
        self.nis.len() >= PEER_NIS_MAX
    }

    /// Makes a peer of one NID that nobody owns yet.
    pub(crate) fn create(&mut self, nid: Nid) -> PeerId {
        let id = PeerId(self.peer_names.make());
        self.peers.insert(id.0, Box::new(Peer::new(nid)));
        self.add_nid(id, nid);
        id
    }

    /// Gives `peer` a NID, taking it from whom it belonged to.
    pub(crate) fn add_nid(&mut self, peer: PeerId, nid: Nid) {
        if let Some(ni) = self.find(nid) {
            return self.move_ni(ni, peer);
        }
        let id = PeerNiId(self.ni_names.make());
        self.nids.insert(nid, id);
        self.nis.insert(id.0, Box::new(PeerNi::new(nid, peer)));
        self.peer_mut(peer).expect("the peer exists").nis.push(id);
        self.changes.push_back(Change::Added(id, nid));
    }

    /// Moves a NID to another peer. An owner that is left without NIDs stays: the caller knows
    /// what becomes of its messages.
    fn move_ni(&mut self, id: PeerNiId, to: PeerId) {
        let Some(ni) = self.ni_mut(id) else { return };
        let from = std::mem::replace(&mut ni.peer, to);
        if from != to {
            if let Some(old) = self.peer_mut(from) {
                old.nis.retain(|other| *other != id);
            }
            self.peer_mut(to).expect("the peer exists").nis.push(id);
        }
    }

    /// Takes a NID from its peer. Messages that hold its credits keep it alive, out of sight.
    pub(crate) fn remove_nid(&mut self, nid: Nid) {
        let Some(id) = self.nids.remove(&nid) else { return };
        let ni = self.ni_mut(id).expect("an index names what exists");
        ni.retired = true;
        let peer = ni.peer;
        if let Some(peer) = self.peer_mut(peer) {
            peer.nis.retain(|other| *other != id);
        }
        self.changes.push_back(Change::Retired(id));
    }

    /// Returns what has changed since the last call, one after the other.
    pub(crate) fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Returns whether a peer NI is deleted.
    pub(crate) fn is_retired(&self, id: PeerNiId) -> bool {
        self.ni(id).is_some_and(|ni| ni.retired)
    }

    /// Forgets a deleted peer NI, once no message refers to it.
    pub(crate) fn forget(&mut self, id: PeerNiId) {
        assert!(self.is_retired(id), "only what is deleted is forgotten");
        self.nis.remove(id.0);
        self.ni_names.release(id.0);
    }

    /// Deletes a peer with its NIDs and returns what it was.
    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        for nid in self.nids_of(id) {
            self.remove_nid(nid);
        }
        let gone = self.peers.remove(id.0)?;
        self.peer_names.release(id.0);
        Some(*gone)
    }

    /// Returns the NIDs of a peer, the primary first if it is one of them.
    pub(crate) fn nids_of(&self, id: PeerId) -> Vec<Nid> {
        let Some(peer) = self.peer(id) else { return Vec::new() };
        let nis = peer.nis.iter().filter_map(|ni| self.ni(*ni));
        let mut nids: Vec<Nid> = nis.map(|ni| ni.nid).collect();
        if let Some(index) = nids.iter().position(|nid| *nid == peer.primary) {
            nids[..=index].rotate_right(1);
        }
        nids
    }

    /// Returns the peer NIs on a network.
    pub(crate) fn on_net(&self, net: Net) -> impl Iterator<Item = PeerNiId> {
        let on_net = self.nids.iter().filter(move |(nid, _)| nid.net() == net);
        on_net.map(|(_, id)| *id)
    }

    /// A network is no longer local: its NIDs go, but for those of peers that we still reach.
    pub(crate) fn net_removed(&mut self, net: Net, local: &[Net]) {
        let gone: Vec<Nid> = self.nids.keys().copied().filter(|nid| nid.net() == net).collect();
        for nid in gone {
            let owner = self.owner(nid).expect("an indexed NID has an owner");
            let reachable = self.nids_of(owner).iter().any(|other| local.contains(&other.net()));
            self.remove_nid(nid);
            if reachable {
                self.add_nid(owner, nid);
            }
        }
    }

    /// Returns the peers that have no NID left.
    pub(crate) fn orphans(&self) -> Vec<PeerId> {
        let is_orphan = |id: &PeerId| self.peer(*id).is_some_and(|peer| peer.nis.is_empty());
        self.ids().filter(is_orphan).collect()
    }

    /// Returns the peers in the order in which they became known.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PeerId> + use<> {
        self.peers.names().into_iter().map(PeerId)
    }

    /// Returns every peer NI that exists, deleted ones with messages under way included.
    pub(crate) fn all_nis(&self) -> impl Iterator<Item = (PeerNiId, &PeerNi)> {
        self.nis.names().into_iter().filter_map(|id| Some((PeerNiId(id), self.ni(PeerNiId(id))?)))
    }

    /// Checks that the three tables agree.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (id, ni) in self.nis.iter() {
            let id = PeerNiId(id);
            let listed = self.peer(ni.peer).is_some_and(|peer| peer.nis.contains(&id));
            if listed == ni.retired || (self.find(ni.nid) == Some(id)) == ni.retired {
                return Err(format!("{:?} is half deleted", ni.nid));
            }
        }
        match self.nids.len() == self.nis.iter().filter(|(_, ni)| !ni.retired).count() {
            true => Ok(()),
            false => Err("the index of NIDs names what does not exist".into()),
        }
    }
}

impl PeerNi {
    /// Returns whether it may be chosen like any other, for all that its node tells.
    pub(crate) fn is_up(&self) -> bool {
        !self.told_down && self.status == NiStatus::UP
    }

    fn new(nid: Nid, peer: PeerId) -> Self {
        Self {
            nid,
            peer,
            stamp: 0,
            preferred: None,
            status: NiStatus::UP,
            told_down: false,
            lost: false,
            policy: Policy::default(),
            retired: false,
            traffic: views::Traffic::default(),
        }
    }
}

impl Peer {
    fn new(primary: Nid) -> Self {
        Self {
            primary,
            state: PeerState::default(),
            nis: Vec::new(),
            sequence: 0,
            pushed: 0,
            info_size: 0,
            bad_infos: 0,
            ping: None,
            push: None,
            pair: None,
            parked: VecDeque::new(),
            queries: Vec::new(),
        }
    }
}
