//! What the core and its owner exchange.

use std::sync::Arc;

use fulmar_base::{BufferId, ConnId, Errno, Payload, Sink};
use fulmar_lnd::{RxId, SendRequest, Verdict};
use fulmar_lnet_wire::{Nid, Pid, ProcessId};

use crate::notice::Notice;
use crate::routing::RoutingConfig;

/// A user of LNet, with match entries, descriptors and a queue of events of its own. Never used
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// How a service uses LNet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// What it sends to a NID of this node, or expects from one, does not leave the node: the NID
    /// stands for `0@lo`. Both LNet selftest and RPC address themselves so.
    pub own_nids_are_loopback: bool,
}

/// A match entry; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeId(pub u64);

/// A memory descriptor; the object cookie of its wire handle. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MdId(pub u64);

/// A copy between two buffers of this node, for a message to `0@lo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyId(pub u64);

/// A ping or a discovery that an administrator requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// An event whose handler must return before its message goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventDone(pub u64);

/// Settings of the whole node. Spec: lnet-behaviour §13.5, lnet-admin §10.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our process: [`Pid::LUSTRE`].
    pub pid: Pid,
    /// Distinguishes this start of the node from earlier ones: nanoseconds of wall clock.
    pub interface_cookie: u64,
    /// What `lnetctl global` shows and `lnetctl set` changes.
    pub globals: Globals,
    /// How it uses routers, and how it is one.
    pub routing: RoutingConfig,
}

/// What `lnetctl global show` prints, in that order. Defaults are those of a 2.17 node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Globals {
    pub numa_range: u32,
    pub max_interfaces: u32,
    pub discovery: bool,
    /// Whether a message that a router brings is dropped if no route leads back by that router; a
    /// kernel node has this off.
    pub drop_asym_route: bool,
    pub retry_count: u32,
    /// Seconds.
    pub transaction_timeout: u32,
    pub health_sensitivity: u32,
    pub recovery_interval: u32,
    pub router_sensitivity: u32,
    pub response_tracking: u32,
    /// Seconds; 0 for ever.
    pub recovery_limit: u32,
    /// Seconds.
    pub max_recovery_ping_interval: u32,
}

impl Default for Globals {
    fn default() -> Self {
        Self {
            numa_range: 0,
            max_interfaces: 4096,
            discovery: true,
            drop_asym_route: true,
            retry_count: 2,
            transaction_timeout: 150,
            health_sensitivity: 100,
            recovery_interval: 1,
            router_sensitivity: 100,
            response_tracking: 3,
            recovery_limit: 0,
            max_recovery_ping_interval: 900,
        }
    }
}

impl Globals {
    /// Returns the LND timeout in seconds that the other values imply.
    pub fn lnd_timeout(&self) -> u32 {
        (self.transaction_timeout.saturating_sub(1) / (self.retry_count + 1)).max(1)
    }
}

/// Where a match entry goes in its portal's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MePosition {
    /// At the head.
    Before,
    /// At the tail.
    After,
}

/// A match entry: which messages its memory descriptor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Me {
    /// Who may send: either part may be ANY.
    pub match_id: ProcessId,
    /// The bits that the message must carry,
    pub match_bits: u64,
    /// except where these are set.
    pub ignore_bits: u64,
    /// Whether the entry goes when its descriptor goes.
    pub unlink: bool,
    /// Where in the list.
    pub position: MePosition,
}

/// What a memory descriptor allows: a set of bits, as in lnet-behaviour §3.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MdOptions(pub u32);

impl MdOptions {
    /// Accepts PUT.
    pub const OP_PUT: Self = Self(0x0001);
    /// Accepts GET.
    pub const OP_GET: Self = Self(0x0002);
    /// The initiator's offset counts, not the running one.
    pub const MANAGE_REMOTE: Self = Self(0x0004);
    /// What is too long is shortened, not dropped.
    pub const TRUNCATE: Self = Self(0x0010);
    /// PUTs are never acknowledged.
    pub const ACK_DISABLE: Self = Self(0x0020);
    /// `max_size` bytes at most in one operation; exhausted when less than that is left.
    pub const MAX_SIZE: Self = Self(0x0080);
    /// The response is always tracked.
    pub const TRACK_RESPONSE: Self = Self(0x0400);
    /// The response is never tracked.
    pub const NO_TRACK_RESPONSE: Self = Self(0x0800);

    /// Returns whether every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A memory descriptor: the memory of operations, and how many they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md {
    /// The buffer.
    pub buffer: BufferId,
    /// Where the descriptor's memory begins in it.
    pub offset: u64,
    /// Its length in bytes; at most 1 MiB for a descriptor that is bound.
    pub len: u64,
    /// How many operations; `None` for any number.
    pub threshold: Option<u32>,
    /// What is allowed.
    pub options: MdOptions,
    /// With [`MdOptions::MAX_SIZE`].
    pub max_size: u32,
    /// Whether it is unlinked when it is exhausted.
    pub auto_unlink: bool,
    /// Returned in each event.
    pub user: u64,
}

/// Where the bytes of a descriptor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In the memory that [`Md::buffer`] names.
    Buffer,
    /// A few bytes to send, as many as the descriptor is long.
    Bytes(Arc<[u8]>),
    /// Room for a few bytes, which come with the event of each operation.
    Inline,
}

/// Stores a descriptor's bytes at a portal of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Whether an acknowledgement is requested.
    pub ack: bool,
    /// Our NID, if it must be this one.
    pub source: Option<Nid>,
    /// The other node.
    pub target: ProcessId,
    /// Its portal.
    pub portal: u32,
    /// What its match entry must match.
    pub match_bits: u64,
    /// Where in its descriptor, if that is managed remotely.
    pub offset: u32,
    /// 64 bits for its event.
    pub header_data: u64,
}

/// Fetches bytes from a portal of another node into a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Our NID, if it must be this one.
    pub source: Option<Nid>,
    /// The other node.
    pub target: ProcessId,
    /// Its portal.
    pub portal: u32,
    /// What its match entry must match.
    pub match_bits: u64,
    /// Where in its descriptor, if that is managed remotely.
    pub offset: u32,
}

/// One operation of a batch. See [`Lnet::post`](crate::Lnet::post).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Attach a match entry to a portal, with its descriptor.
    Attach {
        /// Which portal.
        portal: u32,
        /// The match entry.
        me: Me,
        /// Its descriptor.
        md: Md,
        /// The bytes of the descriptor.
        memory: Memory,
    },
    /// Store bytes at another node.
    Put {
        /// The descriptor whose bytes are stored.
        from: Bound,
        /// Where.
        put: Put,
    },
    /// Fetch bytes from another node.
    Get {
        /// The descriptor that the bytes go to.
        into: Bound,
        /// From where.
        get: Get,
    },
    /// Unlink a descriptor.
    Unlink(MdId),
}

/// The descriptor of a PUT or a GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// One that is made for it.
    New(Md, Memory),
    /// One that was made before, and is not exhausted.
    Again(MdId),
}

/// What happened to a memory descriptor. Spec: lnet-behaviour §4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Another node fetched from it: the REPLY has been sent.
    Get = 1,
    /// Another node stored into it.
    Put = 2,
    /// The data that it requested has come.
    Reply = 3,
    /// The other node has accepted the data.
    Ack = 4,
    /// The LND has finished with the request.
    Send = 5,
    /// It was unlinked while nothing was under way.
    Unlink = 6,
}

/// One event of a memory descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// How it ended.
    pub status: Result<(), Errno>,
    /// The descriptor.
    pub md: MdId,
    /// [`Md::user`].
    pub user: u64,
    /// The process that the header addresses.
    pub target: ProcessId,
    /// Who began: the primary NID of the peer.
    pub initiator: ProcessId,
    /// Who began: the NID in the header.
    pub source: ProcessId,
    /// The previous hop.
    pub sender: Nid,
    /// The portal.
    pub portal: u32,
    /// The message's match bits.
    pub match_bits: u64,
    /// How many bytes were requested.
    pub rlength: u32,
    /// How many bytes were moved.
    pub mlength: u32,
    /// Where in the descriptor.
    pub offset: u64,
    /// The PUT's.
    pub header_data: u64,
    /// This was the last event of the descriptor.
    pub unlinked: bool,
    /// If set, call [`handle_event_done`](crate::Lnet::handle_event_done) when the handler has
    /// returned: the acknowledgement goes out then.
    pub done: Option<EventDone>,
}

impl Event {
    /// Returns the UNLINK event of a descriptor, which belongs to no message. `user` is [`Md::user`].
    pub fn unlinked(md: MdId, user: u64) -> Self {
        Self {
            kind: EventKind::Unlink,
            status: Ok(()),
            md,
            user,
            target: ProcessId::ANY,
            initiator: ProcessId::ANY,
            source: ProcessId::ANY,
            sender: Nid::ANY,
            portal: 0,
            match_bits: 0,
            rlength: 0,
            mlength: 0,
            offset: 0,
            header_data: 0,
            unlinked: true,
            done: None,
        }
    }
}

/// What a node answered to a ping, or what is known of it after discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingReply {
    /// The primary NID by which this node knows the peer.
    pub primary: Nid,
    /// Whether this node knows it as multi-rail.
    pub multi_rail: bool,
    /// The process that answered.
    pub pid: Pid,
    /// Its NIDs, without `0@lo`.
    pub nids: Vec<Nid>,
}

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Hand to the LND of `ni`.
    Send(SendRequest),
    /// For the LND of `ni`: it has no credit left, so messages that do not move are to be reported to
    /// [`handle_waiting`](crate::Lnet::handle_waiting).
    ReportWaiting {
        /// Our NID.
        ni: Nid,
    },
    /// For the LND of `ni`: what becomes of the message that was received.
    Verdict {
        /// Our NID by which it came.
        ni: Nid,
        /// The connection on which it came.
        conn: ConnId,
        /// Which message.
        rx: RxId,
        /// What.
        verdict: Verdict,
    },
    /// Copy bytes within this node; then [`handle_copied`](crate::Lnet::handle_copied).
    Copy {
        /// Names the copy.
        copy: CopyId,
        /// From there: never [`Payload::Inline`].
        from: Payload,
        /// To there: never [`Sink::Inline`].
        to: Sink,
    },
    /// For the service that made the descriptor.
    Event {
        /// Whose queue of events it goes to.
        service: ServiceId,
        /// What happened.
        event: Event,
        /// What came, if the memory of the descriptor is [`Memory::Inline`].
        bytes: Vec<u8>,
    },
    /// A ping that [`ping`](crate::Lnet::ping) began has ended.
    Pinged {
        /// Which.
        query: QueryId,
        /// How.
        result: Result<PingReply, Errno>,
    },
    /// A discovery that [`discover`](crate::Lnet::discover) began has ended.
    Discovered {
        /// Which.
        query: QueryId,
        /// How.
        result: Result<PingReply, Errno>,
    },
    /// Make a router buffer of so many bytes. Whatever it holds may stay in it.
    Allocate {
        /// Its name, which only the machine uses.
        buffer: BufferId,
        /// Its length.
        len: u32,
    },
    /// Free a router buffer: no message uses it.
    Release {
        /// Which.
        buffer: BufferId,
    },
    /// Something for the log.
    Notice(Notice),
}
