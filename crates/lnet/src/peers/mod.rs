//! Peers: which NIDs belong to one node, and its discovery. Spec: lnet-behaviour §2.4, §2.5, §9.
//!
//! ```text
//! create, add_nid, remove_nid, configure   the table
//! queue, park, step -> Step                discovery: what a peer needs next
//! ping_ended, push_ended, push_received    what has come of it -> ping info
//! merge                                    what ping info changes
//! poll_output                              what follows from all of these
//! ```

mod ageing;
mod claims;
mod configure;
mod discovery;
mod merge;
mod pushes;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{Errno, MessageId, Time, Timers};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::ping::NiStatus;

use crate::api::{MdId, PingReply, QueryId};
use crate::notice::Notice;
use crate::slots::{Names, Slots};
use crate::views::{self, PRIORITY_LOWEST};

use ageing::Ageing;
use discovery::Discovery;
pub(crate) use discovery::Step;
pub(crate) use merge::Surroundings;

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
    nid: Nid,
    peer: PeerId,
    stamp: u64,
    /// When a message last came from it, or went to it.
    used: Option<Time>,
    /// A service has exchanged messages with it.
    served: bool,
    /// The router that has made it known.
    router: Option<PeerNiId>,
    /// Ping info that came from this NID itself names the primary NID of its peer.
    verified: bool,
    /// It is being pinged for that.
    pinged: bool,
    /// The node's NID by which a peer without multi-rail knows it.
    preferred: Option<Nid>,
    status: NiStatus,
    /// Its node has reported that it is down, and not used it for a request since.
    reported_down: bool,
    /// The LND finds no path to it, or nothing arrives there.
    lost: bool,
    policy: Policy,
    /// Deleted: it goes when its last message does.
    retired: bool,
    traffic: views::Traffic,
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

/// How many NIDs other nodes can make this one remember; those of the configuration are not limited.
pub(crate) const PEER_NIS_MAX: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Peer {
    primary: Nid,
    state: PeerState,
    nis: Vec<PeerNiId>,
    /// The NIDs in its latest ping info from its primary NID.
    listed: Vec<Nid>,
    /// The primary NID that its latest ping info names, if that is another than its own.
    claimed: Option<Nid>,
    /// How many unconfirmed claims it has made.
    claims: u32,
    /// The peers that claim the primary NID of this one, and wait for what it answers to a ping.
    claimants: Vec<PeerId>,
    /// It is known only from a claim.
    only_claimed: bool,
    /// The sequence number of its latest ping info.
    sequence: u32,
    /// The sequence number of our ping info that it has acknowledged.
    pushed: u32,
    /// Bytes in its ping info, as far as is known.
    info_size: u32,
    /// How often in a row its ping info could not be used.
    bad_infos: u32,
    /// Until when its pushes are used up, if one is used in each second.
    pushes_until: Time,
    /// The ping and the push under way.
    ping: Option<MdId>,
    push: Option<MdId>,
    /// Our NID and its NID that carried the latest ping reply.
    pair: Option<(Nid, Nid)>,
    /// Messages that wait until it is discovered, in order.
    parked: VecDeque<MessageId>,
    queries: Vec<QueryId>,
}

/// What waits for a NID: messages, in order, and queries.
#[derive(Debug, Default)]
struct UnverifiedQueue {
    messages: VecDeque<MessageId>,
    queries: Vec<QueryId>,
}

/// The peer table. What it holds is boxed, so that a free place is small.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    nids: BTreeMap<Nid, PeerNiId>,
    nis: Slots<Box<PeerNi>>,
    peers: Slots<Box<Peer>>,
    ni_names: Names,
    peer_names: Names,
    own: Own,
    discovery: Discovery,
    /// When peers are pinged whose pushes were not used.
    late_pushes: Timers<PeerId>,
    /// What waits until a NID has named its peer.
    unverified: BTreeMap<PeerNiId, UnverifiedQueue>,
    ageing: Ageing,
    outputs: VecDeque<Output>,
}

/// What is known of this node that decides about pushes and merges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// Discovery is switched on.
    pub(crate) discovers: bool,
    /// The sequence number of our ping info.
    pub(crate) sequence: u32,
    /// How many NIDs one peer may have.
    pub(crate) max_nids: usize,
}

/// What follows from an input, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// There is another peer NI, with this NID.
    Added(PeerNiId, Nid),
    /// A peer NI is deleted. It exists until [`Peers::forget`] is called.
    Retired(PeerNiId),
    /// A peer has turned out to be another.
    Moved {
        from: PeerId,
        into: PeerId,
    },
    /// This NID is to be pinged: it has not named its peer.
    Verify(PeerNiId),
    /// This peer is to be pinged: others have claimed something of it.
    Ask(PeerId),
    /// A NID of this peer is a peer of its own now.
    Separated(PeerId),
    /// A peer is deleted.
    Removed(PeerId),
    /// The discovery of a peer can go on: [`Peers::step`].
    Advance(PeerId),
    /// A message needs a path.
    Launch(MessageId),
    /// A message has waited in vain.
    Fail(MessageId, Errno),
    /// A query has ended.
    Answer(QueryId, Result<PingReply, Errno>),
    /// Nothing waits for this descriptor any more.
    Unlink(MdId),
    /// A peer could not be discovered.
    Failed(PeerId, Errno),
    Notice(Notice),
}

impl PeerNi {
    pub(crate) fn nid(&self) -> Nid {
        self.nid
    }

    /// Returns the peer that it belongs to.
    pub(crate) fn peer(&self) -> PeerId {
        self.peer
    }

    /// Returns when it was last chosen; lower is longer ago.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns the node's NID by which a peer without multi-rail knows it.
    pub(crate) fn preferred(&self) -> Option<Nid> {
        self.preferred
    }

    /// Returns whether something has come from it since it last was found dead.
    pub(crate) fn is_alive(&self) -> bool {
        self.status == NiStatus::UP
    }

    /// Returns whether it is known that nothing arrives there.
    pub(crate) fn is_broken(&self) -> bool {
        self.lost || self.reported_down
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn traffic(&self) -> &views::Traffic {
        &self.traffic
    }

    /// Returns whether it may be chosen like any other, as far as its node reports.
    pub(crate) fn is_up(&self) -> bool {
        !self.reported_down && self.status == NiStatus::UP
    }

    fn new(nid: Nid, peer: PeerId) -> Self {
        Self {
            nid,
            peer,
            stamp: 0,
            used: None,
            served: false,
            router: None,
            verified: false,
            pinged: false,
            preferred: None,
            status: NiStatus::UP,
            reported_down: false,
            lost: false,
            policy: Policy::default(),
            retired: false,
            traffic: views::Traffic::default(),
        }
    }
}

impl Peer {
    pub(crate) fn primary(&self) -> Nid {
        self.primary
    }

    pub(crate) fn nis(&self) -> &[PeerNiId] {
        &self.nis
    }

    pub(crate) fn state(&self) -> PeerState {
        self.state
    }

    pub(crate) fn has(&self, state: PeerState) -> bool {
        self.state.has(state)
    }

    /// Returns our NID and its NID that carried the latest ping reply.
    pub(crate) fn pair(&self) -> Option<(Nid, Nid)> {
        self.pair
    }

    /// Returns the sequence number of our ping info that it has acknowledged.
    pub(crate) fn pushed(&self) -> u32 {
        self.pushed
    }

    fn new(primary: Nid) -> Self {
        Self {
            primary,
            state: PeerState::default(),
            nis: Vec::new(),
            listed: Vec::new(),
            claimed: None,
            claims: 0,
            claimants: Vec::new(),
            only_claimed: false,
            sequence: 0,
            pushed: 0,
            info_size: 0,
            bad_infos: 0,
            pushes_until: Time::ZERO,
            ping: None,
            push: None,
            pair: None,
            parked: VecDeque::new(),
            queries: Vec::new(),
        }
    }
}
