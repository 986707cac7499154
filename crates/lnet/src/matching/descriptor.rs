//! Memory descriptors: what operations may touch, how many of them, and for how long.
//! Spec: lnet-behaviour §3.3.

use fulmar_base::{BufferId, Errno, Payload, Sink, Span, Table, Time};
use fulmar_lnet_wire::{Body, MTU, Nid};

use crate::api::{Md, MdId, MdOptions, MeId, Memory, QueryId, ServiceId};
use crate::health::Target;
use crate::ni::NiId;
use crate::peers::{PeerId, PeerNiId};
use crate::routing::RouteId;

use super::responses::Responses;

/// Where the events of a descriptor go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The service that made it, by [`Output::Event`](crate::Output::Event).
    Service(ServiceId),
    /// A ping that an administrator requested.
    Query(QueryId),
    /// The ping by which a peer is discovered.
    Ping(PeerId),
    /// A push of our own ping info, as it was at that sequence number.
    Push(PeerId, u32),
    /// A recovery ping.
    Probe(Target),
    /// A ping of a NID that has not named its peer.
    Verification(PeerNiId),
}

/// What was requested with a descriptor, so that only the node that was asked can answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The NID that the latest request went to, or `None` if they went to several peers.
    pub(crate) target: Option<Nid>,
    /// Whether an ACK, and whether a REPLY, may come.
    pub(crate) put: bool,
    pub(crate) get: bool,
    /// The path and the time of the latest, for the latency statistics.
    pub(crate) ni: NiId,
    pub(crate) peer_ni: PeerNiId,
    pub(crate) route: Option<RouteId>,
    pub(crate) at: Time,
}

#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) md: Md,
    /// The match entry that it hangs on. Gone once it is exhausted or unlinked.
    pub(super) me: Option<MeId>,
    /// Made for a match entry: no response can be for it.
    pub(super) passive: bool,
    pub(super) owner: Owner,
    pub(super) memory: Memory,
    /// How many operations are left.
    pub(super) threshold: Option<u32>,
    /// Where the next operation goes that does not say.
    pub(super) offset: u64,
    /// How many operations are under way.
    pub(super) refs: u32,
    /// Unlinked: nothing new finds it; it lives until the last operation is over.
    pub(super) zombie: bool,
    /// Unlinked on purpose while operations were under way.
    pub(super) aborted: bool,
    pub(super) request: Option<Request>,
    /// How many tracked responses are missing.
    pub(super) awaited: u32,
    /// When the response must have come, if one is awaited.
    deadline: Option<Time>,
}

impl Owner {
    /// Returns whether this is a service, which gets every event.
    pub(crate) fn is_service(self) -> bool {
        matches!(self, Self::Service(_))
    }
}

impl Descriptor {
    fn new(md: Md, me: Option<MeId>, owner: Owner, memory: Memory) -> Self {
        Self {
            md,
            me,
            passive: me.is_some(),
            owner,
            memory,
            threshold: md.threshold,
            offset: 0,
            refs: 0,
            zombie: false,
            aborted: false,
            request: None,
            awaited: 0,
            deadline: None,
        }
    }

    /// Returns whether no further operation may begin.
    pub(super) fn is_exhausted(&self) -> bool {
        let full = self.md.options.has(MdOptions::MAX_SIZE)
            && self.offset.saturating_add(self.md.max_size.into()) > self.md.len;
        self.threshold == Some(0) || full
    }

    /// Returns whether it is removed as soon as nothing is under way.
    pub(super) fn is_finished(&self) -> bool {
        self.zombie || (self.md.auto_unlink && self.is_exhausted())
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self) {
        if let Some(left) = &mut self.threshold {
            assert!(*left > 0, "an exhausted descriptor takes no operation");
            *left -= 1;
        }
        self.refs += 1;
    }

    /// Returns `len` bytes at `offset` as something to send.
    pub(super) fn payload(&self, offset: u64, len: u32) -> Payload {
        match &self.memory {
            _ if len == 0 => Payload::Empty,
            Memory::Bytes(bytes) if len as usize == bytes.len() => Payload::Inline(bytes.clone()),
            Memory::Bytes(bytes) => {
                Payload::Inline(bytes[offset as usize..][..len as usize].into())
            }
            Memory::Buffer => Payload::Span(self.span(offset, len)),
            Memory::Inline => unreachable!("nothing is sent from room for bytes"),
        }
    }

    /// Returns `len` bytes at `offset` as somewhere to receive.
    pub(super) fn sink(&self, offset: u64, len: u32) -> Sink {
        match &self.memory {
            _ if len == 0 => Sink::Discard { len },
            Memory::Inline => Sink::Inline { len },
            Memory::Buffer => Sink::Span(self.span(offset, len)),
            Memory::Bytes(_) => unreachable!("nothing is received into bytes to send"),
        }
    }

    /// Returns how much of a REPLY of `len` bytes is taken.
    pub(super) fn room_for_reply(&self, len: u32) -> Result<u32, &'static str> {
        if u64::from(len) <= self.md.len || self.md.options.has(MdOptions::TRUNCATE) {
            Ok(self.md.len.min(len.into()) as u32)
        } else {
            Err("it is longer than what it is for")
        }
    }

    fn span(&self, offset: u64, len: u32) -> Span {
        assert!(offset + u64::from(len) <= self.md.len, "an operation stays in its descriptor");
        Span { buffer: self.md.buffer, offset: self.md.offset + offset, len }
    }

    /// Notes where a request of `body` went, and to which peer.
    pub(super) fn note_request(
        &mut self,
        body: &Body,
        mut new: Request,
        same_peer: impl FnOnce(Nid, Nid) -> bool,
    ) {
        new.put = matches!(body, Body::Put { .. });
        new.get = matches!(body, Body::Get { .. });
        if let Some(old) = &self.request {
            new.put |= old.put;
            new.get |= old.get;
            new.target = match (old.target, new.target) {
                (Some(old), Some(new)) if old != new && !same_peer(old, new) => None,
                (None, _) => None,
                (_, new) => new,
            };
        }
        self.request = Some(new);
    }
}

/// All descriptors. Handles are never used twice.
#[derive(Debug, Default)]
pub(super) struct Mds {
    table: Table<Descriptor>,
    responses: Responses,
}

/// The low bits of a kernel's cookies name the kind of object; so do ours, for those who read
/// traces.
const COOKIE_STEP: u64 = 4;

/// Returns where the descriptor of a name is, if it may be one.
fn number(id: MdId) -> u64 {
    match id.0 % COOKIE_STEP {
        1 => id.0 / COOKIE_STEP,
        _ => u64::MAX,
    }
}

impl Mds {
    pub(super) fn add(&mut self, md: Md, me: Option<MeId>, owner: Owner, memory: Memory) -> MdId {
        let number = self.table.insert(Descriptor::new(md, me, owner, memory));
        MdId(number * COOKIE_STEP + 1)
    }

    /// Makes a descriptor of the machine's own for one request and its response.
    pub(super) fn add_own(&mut self, owner: Owner, memory: Memory, len: u32) -> MdId {
        let md = Md {
            buffer: BufferId(0),
            offset: 0,
            len: len.into(),
            threshold: Some(2),
            options: MdOptions::TRUNCATE.with(MdOptions::TRACK_RESPONSE),
            max_size: 0,
            auto_unlink: true,
            user: 0,
        };
        self.add(md, None, owner, memory)
    }

    /// Returns a descriptor that operations refer to, unlinked or not.
    pub(super) fn get(&self, id: MdId) -> Option<&Descriptor> {
        self.table.get(number(id))
    }

    pub(super) fn get_mut(&mut self, id: MdId) -> Option<&mut Descriptor> {
        self.table.get_mut(number(id))
    }

    /// Returns a descriptor that a new operation may find.
    pub(super) fn find(&self, id: MdId) -> Option<&Descriptor> {
        self.table.get(number(id)).filter(|found| !found.zombie)
    }

    pub(super) fn remove(&mut self, id: MdId) {
        if self.table.remove(number(id)).is_some_and(|gone| gone.deadline.is_some()) {
            self.responses.remove(id);
            self.prune();
        }
    }

    /// Sets the deadline of the response that a descriptor awaits, in place of the one it had.
    pub(super) fn expect_response(&mut self, id: MdId, at: Time) {
        let Some(found) = self.table.get_mut(number(id)) else { return };
        let old = found.deadline.replace(at);
        self.responses.add(id, at, old.is_some());
        self.prune();
    }

    /// Ends the waiting for the response to a descriptor.
    pub(super) fn forget_response(&mut self, id: MdId) {
        let Some(found) = self.table.get_mut(number(id)) else { return };
        if found.deadline.take().is_some() {
            self.responses.remove(id);
            self.prune();
        }
    }

    /// Returns how many descriptors await a response.
    pub(super) fn awaited(&self) -> usize {
        self.responses.len()
    }

    /// Returns the earliest deadline of a response.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.responses.next()
    }

    /// Returns the first descriptor whose response is late. It awaits none from now on.
    pub(super) fn pop_late(&mut self, now: Time) -> Option<MdId> {
        let id = self.responses.pop_due(now)?;
        let found = self.table.get_mut(number(id)).expect("what awaits a response exists");
        found.deadline = None;
        self.prune();
        Some(id)
    }

    fn prune(&mut self) {
        let Self { table, responses } = self;
        responses.prune(|id| table.get(number(id)).and_then(|found| found.deadline));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MdId, &Descriptor)> {
        self.table.iter().map(|(number, found)| (MdId(number * COOKIE_STEP + 1), found))
    }
}

/// Checks a descriptor as a service gave it.
pub(super) fn check(md: &Md, memory: &Memory, passive: bool) -> Result<(), Errno> {
    let answers = md.options.has(MdOptions::OP_PUT) || md.options.has(MdOptions::OP_GET);
    let too_long = !passive && md.len > MTU.into();
    let bad_size = md.options.has(MdOptions::MAX_SIZE) && u64::from(md.max_size) > md.len;
    let mismatch = match memory {
        Memory::Buffer => false,
        Memory::Bytes(bytes) => {
            bytes.len() as u64 != md.len || md.offset != 0 || md.options.has(MdOptions::OP_PUT)
        }
        Memory::Inline => {
            md.len > MTU.into() || md.offset != 0 || md.options.has(MdOptions::OP_GET)
        }
    };
    let wraps = md.offset.checked_add(md.len).is_none();
    if answers != passive || too_long || bad_size || mismatch || wraps {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
