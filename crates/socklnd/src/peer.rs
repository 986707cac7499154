//! One peer of one local interface: its connections, their choice for messages, and the schedule of
//! dialling.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use fulmar_base::{ConnId, Time};
use fulmar_lnd::{NiConfig, PathState, SendRequest};
use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader, Hello, Version};
use fulmar_lnet_wire::{Nid, Pid, ProcessId};

use crate::Config;
use crate::zero_copy::ZeroCopy;

/// Identifies a peer: connections belong to a pair of NIDs, not to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerKey {
    /// The local NID.
    pub(crate) ni: Nid,
    /// The remote process.
    pub(crate) peer: ProcessId,
}

impl PeerKey {
    /// Returns the smallest and the largest key of the NID of this one.
    pub(crate) fn all_processes(&self) -> RangeInclusive<Self> {
        let of = |pid| Self { peer: ProcessId { pid, ..self.peer }, ..*self };
        of(Pid(0))..=of(Pid(u32::MAX))
    }

    /// Returns the smallest key of `ni`.
    pub(crate) fn first_of(ni: Nid) -> Self {
        let nid = Nid::small(fulmar_lnet_wire::Net(0), 0);
        Self { ni, peer: ProcessId { nid, pid: Pid(0) } }
    }

    /// Returns the addresses of a connection to dial. A process with an invented PID can only
    /// connect by itself.
    pub(crate) fn dial_addrs(&self, port: u16) -> Option<(IpAddr, SocketAddr)> {
        let (local, remote) = (self.ni.ip()?, self.peer.nid.ip()?);
        let reachable =
            local.is_ipv4() == remote.is_ipv4() && self.peer.pid.0 & Pid::USER_FLAG == 0;
        reachable.then(|| (local, SocketAddr::new(remote, port)))
    }

    pub(crate) fn can_be_dialled(&self) -> bool {
        self.dial_addrs(0).is_some()
    }
}

/// State of a peer.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The open connections, including retired ones.
    pub(crate) links: Vec<Link>,
    /// Data of the last hello; removed with the last connection.
    pub(crate) known: Option<PeerInstance>,
    pub(crate) dialler: Dialler,
    /// Messages that wait for a connection. The credits of LNet bound them.
    pub(crate) queue: VecDeque<QueuedMessage>,
    /// Messages that the peer has to acknowledge.
    pub(crate) zero_copy: ZeroCopy,
    /// How many connections for sending bulk are opened in addition to those of the interface.
    pub(crate) more_out: u32,
    /// The shortest time that a connection took to open, of those dialled since there was none.
    pub(crate) dialled_in: Duration,
    /// A time at which the peer was in use, if it has protected connections.
    pub(crate) used: Option<Time>,
    /// The last reported state of the path to the peer.
    pub(crate) reported: Option<PathState>,
}

/// An open connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) conn: ConnId,
    pub(crate) kind: ConnKind,
    /// Whether the remote address is that of the NID of the peer, so that the connection counts for
    /// the set that this node would open. Spec: lnet-wire §5.3.
    pub(crate) in_set: bool,
    /// Since when it takes no new messages.
    pub(crate) retired: Option<Time>,
}

/// The part of a hello that applies to the whole peer. Spec: lnet-wire §4.6, §5.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerInstance {
    pub(crate) version: Version,
    pub(crate) incarnation: u64,
}

impl PeerInstance {
    pub(crate) fn from_hello(hello: &Hello) -> Self {
        Self { version: hello.version, incarnation: hello.source_incarnation }
    }
}

/// A message that waits for a connection.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) since: Time,
    pub(crate) request: SendRequest,
}

/// When to dial the peer.
#[derive(Debug, Default)]
pub(crate) struct Dialler {
    pub(crate) state: DialState,
    /// Whether this node dials the peer, and so completes the set of its connections.
    pub(crate) begun: bool,
    /// Deadline for all connections that are opened one after the other.
    pub(crate) deadline: Time,
    /// How often this round was restarted without delay.
    instant_retries: u32,
    /// Number of consecutive NONE answers of the peer, and when the first one came.
    refusals: u32,
    pub(crate) refused_since: Option<Time>,
    /// The delay after the last failure.
    interval: Duration,
    /// Until then the peer is dialled every few seconds, even without messages.
    urgent_until: Time,
    /// There were connections when the local link went down: dial the peer when it is up again.
    pub(crate) returning: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum DialState {
    #[default]
    Idle,
    Trying(Attempt),
    /// The peer requested another attempt, or its path is expected to recover: messages wait.
    Postponed,
    /// The peer cannot be reached: messages fail.
    BackedOff,
}

/// The connection that is being opened, at most one at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) since: Time,
    pub(crate) conn: ConnId,
    pub(crate) kind: ConnKind,
    pub(crate) version: Version,
}

/// The decision on an incoming connection. Spec: lnet-wire §4.6 step 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallJudgement {
    Accept,
    /// This node is dialling the peer, and its NID is the higher.
    LostRace,
    /// The peer has changed since its other connections were opened.
    Stale,
    /// There are enough connections of this kind.
    Duplicate,
}

/// The result of the answer to a dialled connection. Spec: lnet-wire §4.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerJudgement {
    Agreed,
    WrongPeer,
    Stale,
    Refused,
    OtherVersion,
    WrongKind,
}

impl Peer {
    /// Decides on an incoming connection. With the processes of its NID there are `others` of its
    /// kind.
    pub(crate) fn judge_call(
        &self,
        key: &PeerKey,
        from: IpAddr,
        others: usize,
        hello: &Hello,
    ) -> CallJudgement {
        let racing = matches!(self.dialler.state, DialState::Trying(_));
        if racing && key.peer.nid.ip() == Some(from) && key.peer.nid < key.ni {
            CallJudgement::LostRace
        } else if !self.links.is_empty() && self.known != Some(PeerInstance::from_hello(hello)) {
            CallJudgement::Stale
        } else if others >= CONNS_PER_KIND_MAX {
            CallJudgement::Duplicate
        } else {
            CallJudgement::Accept
        }
    }

    /// Evaluates the answer to `attempt`.
    pub(crate) fn judge_answer(
        &self,
        key: &PeerKey,
        attempt: &Attempt,
        hello: &Hello,
    ) -> AnswerJudgement {
        if hello.source != key.peer {
            AnswerJudgement::WrongPeer
        } else if hello.kind != ConnKind::NONE && hello.kind.mirror() != Some(attempt.kind) {
            AnswerJudgement::WrongKind
        } else if !self.links.is_empty() && self.known != Some(PeerInstance::from_hello(hello)) {
            AnswerJudgement::Stale
        } else if hello.kind == ConnKind::NONE && hello.version != attempt.version {
            AnswerJudgement::OtherVersion
        } else if hello.kind == ConnKind::NONE {
            AnswerJudgement::Refused
        } else {
            AnswerJudgement::Agreed
        }
    }

    /// Returns how many connections of each bulk kind an interface opens to this peer: more over a long
    /// path, where one fills slowly and the system's windows limit it. It is known before there is traffic.
    pub(crate) fn usual_conns(&self, ni: Option<&NiConfig>) -> u32 {
        let Some(ni) = ni else { return 1 };
        let far = if self.dialled_in >= FAR { FAR_CONNS.min(ni.conns_max) } else { 0 };
        ni.conns_per_peer.max(far).max(1)
    }

    /// Records how long it took to connect: a round trip, and what this node was late.
    pub(crate) fn connected_in(&mut self, time: Duration) {
        let is_first = self.links.is_empty();
        self.dialled_in = if is_first { time } else { time.min(self.dialled_in) };
    }

    /// Returns the next missing connection of the set, if any. Spec: lnet-wire §5.2.
    pub(crate) fn missing(&self, conns_per_peer: u32) -> Option<ConnKind> {
        let wanted_in = conns_per_peer as usize;
        let wanted_out = wanted_in + self.more_out as usize;
        let have =
            |kind| self.count(|link| link.in_set && link.retired.is_none() && link.kind == kind);
        let (bulk_in, bulk_out) = (have(ConnKind::BULK_IN), have(ConnKind::BULK_OUT));
        let tired = self.dialler.refusals >= REFUSALS_MAX && bulk_in > 0 && bulk_out > 0;
        if have(ConnKind::CONTROL) == 0 {
            Some(ConnKind::CONTROL)
        } else if tired || (bulk_in >= wanted_in && bulk_out >= wanted_out) {
            None
        } else if bulk_in < wanted_in && (bulk_in <= bulk_out || bulk_out >= wanted_out) {
            Some(ConnKind::BULK_IN)
        } else {
            Some(ConnKind::BULK_OUT)
        }
    }

    /// Returns the connections that serve a message of `size` bytes best. Spec: lnet-wire §6.6.
    pub(crate) fn candidates(&self, large: bool) -> impl Iterator<Item = ConnId> {
        let version = self.known.map_or(Version::V3, |known| known.version);
        let rank = move |kind| rank(kind, version, large);
        let best = self.active().filter_map(|link| rank(link.kind)).min();
        let served = move |link: &&Link| best.is_some() && rank(link.kind) == best;
        self.active().filter(served).map(|link| link.conn)
    }

    /// Returns the connection for a keepalive: one on which the peer cannot send its own, else any
    /// that carries messages.
    pub(crate) fn keepalive_conn(&self) -> Option<ConnId> {
        let of = |kind| self.active().find(|link| link.kind == kind).map(|link| link.conn);
        of(ConnKind::BULK_IN).or_else(|| of(ConnKind::CONTROL))
    }

    /// Returns the connections for new messages.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| link.retired.is_none())
    }

    /// Returns the retired connections.
    pub(crate) fn retired(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| link.retired.is_some())
    }

    /// Returns when connections were last retired, of those that still are.
    pub(crate) fn retired_at(&self) -> Option<Time> {
        self.links.iter().filter_map(|link| link.retired).max()
    }

    /// Returns the number of connections for new messages that carry sent bulk.
    pub(crate) fn bulk_out(&self) -> usize {
        self.active().filter(|link| link.kind == ConnKind::BULK_OUT).count()
    }

    /// Returns the number of connections of a kind.
    pub(crate) fn of_kind(&self, kind: ConnKind) -> usize {
        self.count(|link| link.kind == kind)
    }

    fn count(&self, counted: impl Fn(&Link) -> bool) -> usize {
        self.links.iter().filter(|&link| counted(link)).count()
    }
}

impl Dialler {
    /// Starts a round: all its connections must be open after `timeout`.
    pub(crate) fn begin_round(&mut self, now: Time, timeout: Duration) {
        self.deadline = now + timeout;
        self.instant_retries = 0;
    }

    /// Records that a connection was opened, by either side.
    pub(crate) fn succeeded(&mut self) {
        self.interval = Duration::ZERO;
        self.forget_refusals();
        self.calm_down();
    }

    /// Records a NONE answer of the peer.
    pub(crate) fn refused(&mut self, now: Time) {
        self.refusals = self.refusals.saturating_add(1);
        self.refused_since.get_or_insert(now);
    }

    /// The next refusal is the first of a new row.
    pub(crate) fn forget_refusals(&mut self) {
        (self.refusals, self.refused_since) = (0, None);
    }

    /// Starts to dial the peer every few seconds for a while.
    pub(crate) fn hurry(&mut self, now: Time) {
        self.interval = Duration::ZERO;
        self.urgent_until = now + URGENT;
    }

    /// Ends that: dials the peer like any other.
    pub(crate) fn calm_down(&mut self) {
        self.urgent_until = Time::ZERO;
        self.returning = false;
    }

    pub(crate) fn is_urgent(&self, now: Time) -> bool {
        now < self.urgent_until
    }

    /// Returns whether the peer may be dialled again at once; limited against endless loops.
    pub(crate) fn may_retry_at_once(&mut self) -> bool {
        self.instant_retries += 1;
        self.instant_retries <= INSTANT_RETRIES_MAX
    }

    /// Records that the peer was unreachable, and returns the delay before the next attempt.
    pub(crate) fn back_off(&mut self, config: &Config) -> Duration {
        let doubled = self.interval.saturating_mul(2);
        self.interval = doubled.max(config.reconnect_min).min(config.reconnect_max);
        self.state = DialState::BackedOff;
        self.interval
    }

    /// Returns whether the last attempt failed, which the next one must know.
    pub(crate) fn is_failing(&self) -> bool {
        !self.interval.is_zero()
    }

    pub(crate) fn forgive(&mut self) {
        self.interval = Duration::ZERO;
    }
}

/// Returns whether a message counts as large for the choice of its connection.
pub(crate) fn is_large(config: &Config, version: Version, payload_len: u32) -> bool {
    let head = FrameHeader::LEN + version.header_form().len();
    head as u64 + u64::from(payload_len) >= u64::from(config.min_bulk)
}

/// Preferred connections rank before possible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Preferred,
    Possible,
}

fn rank(kind: ConnKind, version: Version, large: bool) -> Option<Rank> {
    let old = version <= Version::V2;
    match kind {
        ConnKind::CONTROL if large => Some(Rank::Possible),
        ConnKind::CONTROL => Some(Rank::Preferred),
        ConnKind::BULK_OUT if large => Some(Rank::Preferred),
        ConnKind::BULK_OUT => Some(Rank::Possible),
        ConnKind::BULK_IN if old => Some(Rank::Possible),
        ConnKind::ANY if old => Some(Rank::Preferred),
        _ => None,
    }
}

/// A path whose connections take so long to open, a round trip, is a long one: a window of TCP carries less than
/// 1 Gbit/s over 50 ms by default.
const FAR: Duration = Duration::from_millis(10);
/// The connections of each bulk kind over a long path.
const FAR_CONNS: u32 = 4;
/// How long a path that worked is attempted every few seconds.
const URGENT: Duration = Duration::from_secs(60);
/// The largest number that a kernel can be configured to open. Spec: lnet-wire §5.2.
const CONNS_PER_KIND_MAX: usize = 127;
/// After this many consecutive refusals a set with one connection of each kind suffices.
const REFUSALS_MAX: u32 = 3;
/// A peer that has restarted or speaks another version is dialled again without delay, but only
/// this often.
const INSTANT_RETRIES_MAX: u32 = 3;
