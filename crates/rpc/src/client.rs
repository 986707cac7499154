//! The client side of RPC as a service of LNet: imports, and the descriptors of their messages.
//!
//! For each transmission it posts match entries for the bulk data and for the reply, only for the node
//! of the target, and then the PUT of the request. Early replies and the reply arrive in the same
//! memory, at offsets that the sender chooses. Spec: ptlrpc-ldlm-mgs §1.1, §7.3.

mod bulk;

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Errno, Table, Time, Timers};
use fulmar_lnet::{
    Bound, Event, EventKind, Md, MdId, MdOptions, Me, MePosition, Memory, Op, Put, Service,
    ServiceConfig, ServiceOutput,
};
use fulmar_lustre_wire::message::Message;

use bulk::Transfer;

use crate::XidSource;
use crate::import::{
    Arrival, Import, Output, Request, RequestId, State, Target, Transmission, TransmissionId,
};
use crate::outputs::Outputs;

/// An import of a client. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(pub u64);

/// What the host of a client must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A request has ended: see [`Output::Done`].
    Done {
        /// The import that it was for.
        import: ImportId,
        /// Which.
        request: RequestId,
        /// The reply, or why there is none.
        result: Result<Box<Message<'static>>, Errno>,
        /// The bytes of bulk data that were moved.
        moved: u64,
        /// Whether the memory of its bulk data is still used: [`Notice::Released`] follows.
        keeps_data: bool,
    },
    /// The memory of the bulk data of a request is free: see [`Output::Released`].
    Released {
        /// The import that it was for.
        import: ImportId,
        /// Which.
        request: RequestId,
    },
    /// An open was executed again: see [`Output::Replayed`].
    Replayed {
        /// The import.
        import: ImportId,
        /// The open.
        request: RequestId,
        /// The reply.
        reply: Box<Message<'static>>,
    },
    /// The state of an import has changed.
    State {
        /// Which import.
        import: ImportId,
        /// Its state.
        state: State,
    },
}

/// The imports of one node.
#[derive(Debug)]
pub struct Client {
    xids: XidSource,
    imports: BTreeMap<ImportId, Import>,
    next_import: u64,
    /// When each import has something to do.
    deadlines: Timers<ImportId>,
    /// What LNet still uses.
    posted: Table<Descriptor>,
    /// The memory for replies, by the transmissions that they are expected to.
    replies: BTreeMap<(ImportId, TransmissionId), u64>,
    /// The bulk data that LNet uses.
    transfers: BTreeMap<(ImportId, TransmissionId), Transfer>,
    outputs: Outputs<Notice>,
}

/// A descriptor of a transmission, until LNet has unlinked it.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    import: ImportId,
    transmission: TransmissionId,
    part: Part,
    /// Known after the post.
    md: Option<MdId>,
    /// Whether it is not needed any more.
    is_withdrawn: bool,
}

/// The descriptors of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Reply,
    Request,
    Bulk,
}

impl Client {
    /// Options of the service for LNet.
    pub const CONFIG: ServiceConfig = ServiceConfig { own_nids_are_loopback: true };

    /// Returns a client without imports. All clients of a node have the same `xids`.
    pub fn new(xids: XidSource) -> Self {
        Self {
            xids,
            imports: BTreeMap::new(),
            next_import: 0,
            deadlines: Timers::default(),
            posted: Table::default(),
            replies: BTreeMap::new(),
            transfers: BTreeMap::new(),
            outputs: Outputs::new(),
        }
    }

    /// Adds an import, and connects it.
    ///
    /// # Panics
    /// If the target has no NID.
    pub fn connect(&mut self, now: Time, target: Target) -> ImportId {
        let id = ImportId(self.next_import);
        self.next_import += 1;
        self.imports.insert(id, Import::new(target));
        self.with(id, |import, xids| import.connect(now, xids));
        id
    }

    /// Sends a request; [`Notice::Done`] follows. `None` if there is no such import.
    pub fn request(&mut self, now: Time, id: ImportId, request: Request) -> Option<RequestId> {
        self.with(id, |import, xids| import.request(now, xids, request))
    }

    /// See [`Import::withdraw`].
    pub fn withdraw_request(&mut self, now: Time, id: ImportId, request: RequestId) -> bool {
        let withdrawn = self.with(id, |import, xids| import.withdraw(now, xids, request));
        withdrawn.unwrap_or(false)
    }

    /// Ends the connection of an import; [`State::Closed`] follows, unless it is closed already.
    pub fn disconnect(&mut self, now: Time, id: ImportId) {
        self.with(id, |import, xids| import.disconnect(now, xids));
    }

    /// Returns an import.
    pub fn import(&self, id: ImportId) -> Option<&Import> {
        self.imports.get(&id)
    }

    /// See [`Import::clear_stats`].
    pub fn clear_stats(&mut self, id: ImportId) {
        self.with(id, |import, _| import.clear_stats());
    }

    /// See [`Import::release`].
    pub fn release(&mut self, id: ImportId, open: RequestId, close: u64) {
        self.with(id, |import, _| import.release(open, close));
    }

    /// See [`Import::message_mut`].
    pub fn message_mut(
        &mut self,
        id: ImportId,
        request: RequestId,
    ) -> Option<&mut Message<'static>> {
        self.imports.get_mut(&id)?.message_mut(request)
    }

    /// See [`Import::continue_replay`].
    pub fn continue_replay(&mut self, now: Time, id: ImportId, open: RequestId) {
        self.with(id, |import, xids| import.continue_replay(now, xids, open));
    }

    /// See [`Import::locks_replayed`].
    pub fn locks_replayed(&mut self, now: Time, id: ImportId) {
        self.with(id, |import, xids| import.locks_replayed(now, xids));
    }

    /// Says how much of a target's grant the owner holds, in bytes.
    pub fn hold_grant(&mut self, id: ImportId, bytes: u32) {
        self.with(id, |import, _| import.hold_grant(bytes));
    }

    /// See [`Import::set_in_use`].
    pub fn set_in_use(&mut self, now: Time, id: ImportId, is_in_use: bool) {
        self.with(id, |import, _| import.set_in_use(now, is_in_use));
    }

    /// See [`Import::reconnect`].
    pub fn reconnect(&mut self, now: Time, id: ImportId) {
        self.with(id, |import, xids| import.reconnect(now, xids));
    }

    /// See [`Import::target_restarted`].
    pub fn target_restarted(&mut self, now: Time, id: ImportId, instance: u32) {
        self.with(id, |import, xids| import.target_restarted(now, xids, instance));
    }

    /// Removes an import that is closed and all whose requests have ended, and returns whether it was.
    pub fn remove(&mut self, id: ImportId) -> bool {
        let is_over =
            |import: &Import| matches!(import.state(), State::Closed(_)) && import.is_released();
        self.imports.get(&id).is_some_and(is_over) && self.imports.remove(&id).is_some()
    }

    /// Returns the next notice for the host. A machine that contains the client handles all of them
    /// before it passes on the posts.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.outputs.pop_request()
    }

    /// Calls an import, and turns its outputs into those of the service.
    fn with<R>(
        &mut self,
        id: ImportId,
        call: impl FnOnce(&mut Import, &mut XidSource) -> R,
    ) -> Option<R> {
        let import = self.imports.get_mut(&id)?;
        let result = call(import, &mut self.xids);
        while let Some(output) = self.imports.get_mut(&id).and_then(Import::poll_output) {
            match output {
                Output::Transmit(transmission) => self.transmit(id, transmission),
                Output::Withdraw(transmission) => self.withdraw(id, transmission),
                Output::Done { request, result, moved, keeps_data } => {
                    let done = Notice::Done { import: id, request, result, moved, keeps_data };
                    self.outputs.push_back(ServiceOutput::Host(done));
                }
                Output::Released { request } => {
                    let released = Notice::Released { import: id, request };
                    self.outputs.push_back(ServiceOutput::Host(released));
                }
                Output::Replayed { request, reply } => {
                    let replayed = Notice::Replayed { import: id, request, reply };
                    self.outputs.push_back(ServiceOutput::Host(replayed));
                }
                Output::State(state) => {
                    let changed = Notice::State { import: id, state };
                    self.outputs.push_back(ServiceOutput::Host(changed));
                }
            }
        }
        self.set_deadline(id);
        Some(result)
    }

    /// Notes when an import has something to do.
    fn set_deadline(&mut self, id: ImportId) {
        let next = self.imports.get(&id).and_then(Import::poll_timeout);
        match next {
            // An import that is woken early only says when to wake it again. That costs less than to
            // move the deadline with each reply.
            Some(at) if self.deadlines.get(id).is_some_and(|set| set <= at) => {}
            Some(at) => self.deadlines.set(id, at),
            None => self.deadlines.clear(id),
        }
    }

    fn transmit(&mut self, import: ImportId, transmission: Transmission) {
        let id = transmission.id;
        if let Some(bulk) = &transmission.bulk {
            self.post_bulk((import, id), transmission.to, bulk);
        }
        let posted =
            |part| Descriptor { import, transmission: id, part, md: None, is_withdrawn: false };
        let reply = self.posted.insert(posted(Part::Reply));
        let request = self.posted.insert(posted(Part::Request));
        self.replies.insert((import, id), reply);
        let posts = posts(transmission, reply, request);
        self.outputs.extend(posts.map(ServiceOutput::Post));
    }

    /// Unlinks the memory for the reply to a transmission, and for its bulk data.
    fn withdraw(&mut self, import: ImportId, transmission: TransmissionId) {
        self.withdraw_bulk(import, transmission);
        let Some(reply) = self.replies.remove(&(import, transmission)) else { return };
        let Some(posted) = self.posted.get_mut(reply) else { return };
        posted.is_withdrawn = true;
        if let Some(md) = posted.md {
            self.outputs.push_back(ServiceOutput::Post(Op::Unlink(md)));
        }
    }
}

impl Service for Client {
    type Request = Notice;

    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>) {
        let Some(&posted) = self.posted.get(event.user) else { return };
        if event.unlinked {
            self.posted.remove(event.user);
        }
        if posted.part == Part::Bulk {
            return self.handle_bulk_event(now, posted, event);
        }
        let (import, id) = (posted.import, posted.transmission);
        match (posted.part, event.kind, event.status) {
            _ if posted.is_withdrawn => {}
            (Part::Reply, EventKind::Put, Ok(())) => {
                let (offset, sent_len) = (event.offset, event.rlength as usize);
                let arrival = Arrival { offset, sent_len, bytes: &bytes };
                self.with(import, |import, xids| import.handle_reply(now, xids, id, arrival));
            }
            (Part::Request, EventKind::Send, Err(errno)) => {
                self.with(import, |import, xids| import.handle_failure(now, xids, id, errno));
            }
            // The descriptor is gone without a reply.
            (Part::Reply, EventKind::Unlink, _) => {
                let errno = Errno::ECANCELED;
                self.with(import, |import, xids| import.handle_failure(now, xids, id, errno));
            }
            // A reply that did not arrive whole is sent again, or is late.
            _ => {}
        }
    }

    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        let Some(posted) = self.posted.get_mut(user) else { return };
        match result {
            Ok(md) => {
                posted.md = Some(md);
                if posted.is_withdrawn && posted.part != Part::Request {
                    self.outputs.push_back(ServiceOutput::Post(Op::Unlink(md)));
                }
            }
            Err(errno) => {
                let posted = *posted;
                self.posted.remove(user);
                let (import, id) = (posted.import, posted.transmission);
                self.with(import, |import, xids| import.handle_failure(now, xids, id, errno));
                if posted.part == Part::Bulk {
                    self.end_part(now, posted, user);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.deadlines.pop_due(now) {
            self.with(id, |import, xids| import.handle_timeout(now, xids));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    fn poll_output(&mut self) -> Option<ServiceOutput<Notice>> {
        self.outputs.pop_front()
    }
}

/// Returns the posts of a transmission: memory for its replies, only for the node of the target, and the
/// request. `reply` and `request` are [`Md::user`] of both.
pub(crate) fn posts(transmission: Transmission, reply: u64, request: u64) -> [Op; 2] {
    let Transmission { to, portal, xid, reply_portal, reply_bits, room, bytes, .. } = transmission;
    let (match_id, position) = (to, MePosition::After);
    let me = Me { match_id, match_bits: reply_bits, ignore_bits: 0, unlink: true, position };
    let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE).with(MdOptions::TRUNCATE);
    // The memory is used up by the reply, but not by an early one before it.
    let options = options.with(MdOptions::MAX_SIZE);
    let max_size = (room.len - room.early) as u32;
    let md = Md { options, threshold: None, max_size, ..descriptor(room.len, reply) };
    let put = Put {
        ack: false,
        source: None,
        target: to,
        portal,
        match_bits: xid.0,
        offset: 0,
        header_data: 0,
    };
    let from = Bound::New(descriptor(bytes.len(), request), Memory::Bytes(bytes.into()));
    [Op::Attach { portal: reply_portal, me, md, memory: Memory::Inline }, Op::Put { from, put }]
}

/// Returns a descriptor for one operation.
fn descriptor(len: usize, user: u64) -> Md {
    Md {
        buffer: BufferId(0),
        offset: 0,
        len: len as u64,
        threshold: Some(1),
        options: MdOptions::default(),
        max_size: 0,
        auto_unlink: true,
        user,
    }
}

#[cfg(test)]
mod tests;
