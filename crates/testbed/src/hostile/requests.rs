//! Lustre's requests: valid in form, whatever they claim. An attacker that sends them is a client.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use fulmar_lnet_wire::socklnd::{ConnKind, FrameHeader};
use fulmar_lnet_wire::{Body, Nid, RESERVED_PORTAL};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CANCEL, CLIENT_UUID, CONNECT_DATA, CONNECTION, ENQUEUE_EXTENT, Format, LOCK_REPLY,
    LOCK_REQUEST, OST_CONNECT, TARGET_UUID,
};
use fulmar_lustre_wire::ldlm::{Extent, LockMode, LockRequest, LockType, ResourceId};
use fulmar_lustre_wire::message::{ConnectOpFlags, HeaderFlags, Message};
use fulmar_lustre_wire::{Handle, Uuid, portal};

use super::attacker::{Attacker, answer};
use super::forge;
use super::line::Line;

/// The UUID of the OST of the attacked node.
pub(super) const OST: &str = "lv-OST0000_UUID";
/// The UUID of a client that is served beside the attack.
pub(super) const HONEST: &str = "honest-10.1.0.3";
/// The object whose lock an honest client and attackers want.
pub(super) const CONTESTED: u64 = 1;
/// How long a reply is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The difference of two XIDs.
const XID_STEP: u64 = 128;

/// A client on a connection of its own.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) line: Line,
    target: Nid,
    pub(super) export: Handle,
    pub(super) xid: u64,
    /// Replies, callbacks and bulk data: the match bits and the payload.
    inbox: VecDeque<(u64, Vec<u8>)>,
    /// Requests for bulk data: what they expect, and their length.
    pub(super) gets: VecDeque<(fulmar_lnet_wire::Handle, u32)>,
}

/// The first request of a client.
pub(super) fn connect(client: &str) -> Message<'static> {
    let uuid = |text: &str| Uuid::new(text).expect("it is short");
    let flags = ConnectFlags::VERSION
        | ConnectFlags::AT
        | ConnectFlags::FULL20
        | ConnectFlags::FID
        | ConnectFlags::BRW_SIZE
        | ConnectFlags::BULK_MBITS
        | ConnectFlags::FLAGS2;
    let flags2 = ConnectFlags2::REP_MBITS;
    let data = ConnectData { flags, flags2, brw_size: 4 << 20, ..ConnectData::default() };
    let mut message = Message::request(&OST_CONNECT)
        .with(&TARGET_UUID, &uuid(OST))
        .with(&CLIENT_UUID, &uuid(client))
        .with(&CONNECTION, &Handle(77))
        .with(&CONNECT_DATA, &data);
    message.body.connect_flags = ConnectOpFlags::INITIAL;
    of_client(message, Handle::NONE)
}

/// Returns a request as a client with this export sends it.
pub(super) fn of_client(mut message: Message<'static>, export: Handle) -> Message<'static> {
    message.head.flags = HeaderFlags::AT_SUPPORT;
    message.head.reply_room = 1024;
    message.body.handle = export;
    message.body.connection_count = 1;
    message.body.timeout = 20;
    message
}

/// Asks for the lock of a whole object.
pub(super) fn enqueue(object: u64) -> LockRequest {
    let mut lock = LockRequest::default();
    lock.lock.resource.kind = LockType::EXTENT;
    lock.lock.resource.id = ResourceId { name: [object, 0, 0, 0] };
    lock.lock.requested = LockMode::PW;
    lock.lock.policy = Extent { start: 0, end: Extent::EOF, gid: 0 }.into();
    lock.handles = vec![Handle(object | 1 << 40), Handle::NONE];
    lock
}

impl Peer {
    /// Opens a connection as an identity, without a request.
    pub(super) fn dial(attacker: &mut Attacker, identity: u64) -> io::Result<Self> {
        let line = attacker.open(identity, ConnKind::CONTROL)?;
        let (inbox, gets) = Default::default();
        let (target, xid) = (attacker.target, 1 << 20);
        Ok(Self { line, target, export: Handle::NONE, xid, inbox, gets })
    }

    /// Connects to the OST as a new client; fails without an export in time.
    pub(super) fn connect(attacker: &mut Attacker, identity: u64) -> io::Result<Self> {
        let mut peer = Self::dial(attacker, identity)?;
        let client = format!("hostile-{identity}-{:x}", attacker.rng.u64());
        let reply = peer.ask(attacker, portal::OST_REQUEST, connect(&client));
        let reply = reply.filter(|reply| reply.body.status.errno().is_none());
        peer.export = reply.ok_or(io::ErrorKind::TimedOut)?.body.handle;
        Ok(peer)
    }

    /// Returns a request of this client.
    pub(super) fn request(&self, format: &'static Format) -> Message<'static> {
        of_client(Message::request(format), self.export)
    }

    /// Queues the bytes of a request, and returns its XID.
    pub(super) fn send_bytes(&mut self, portal: u32, bytes: &[u8]) -> u64 {
        self.xid += XID_STEP;
        let put = forge::put(self.line.nid, self.target, portal, self.xid, false);
        self.line.send(&put, bytes);
        self.xid
    }

    /// Queues the first half of a request.
    pub(super) fn send_half(&mut self, portal: u32, bytes: &[u8]) {
        let put = forge::put(self.line.nid, self.target, portal, self.xid, false);
        let bytes = self.line.encoded(FrameHeader::lnet(), &put, bytes);
        self.line.queue(&bytes[..bytes.len() / 2]);
    }

    /// Queues a request, which has its XID as the match bits of the reply.
    pub(super) fn send(&mut self, portal: u32, mut message: Message<'static>) -> u64 {
        message.body.match_bits = self.xid + XID_STEP;
        self.send_bytes(portal, &message.to_bytes())
    }

    /// Sends a request, and waits for its reply.
    pub(super) fn ask(
        &mut self,
        attacker: &mut Attacker,
        portal: u32,
        message: Message<'static>,
    ) -> Option<Message<'static>> {
        let format = message.format();
        let xid = self.send(portal, message);
        attacker.tally.sent += 1;
        let begun = Instant::now();
        while attacker.goes_on() && begun.elapsed() < TIMEOUT && !self.line.is_closed() {
            self.turn(attacker);
            while let Some((bits, bytes)) = self.inbox.pop_front() {
                // An early reply is smaller than a reply, and no end of the request.
                let reply = Message::decode(&bytes).ok().map(|reply| reply.into_owned());
                if let Some(reply) = reply.filter(|_| bits == xid) {
                    return Some(reply.answering(format));
                }
            }
        }
        None
    }

    /// Acquires the lock of a whole object, at once or later; returns its handle.
    pub(super) fn lock(&mut self, attacker: &mut Attacker, object: u64) -> Option<Handle> {
        let reply = self.ask(attacker, portal::OST_REQUEST, self.enqueue(object))?;
        reply.get(&LOCK_REPLY).ok().flatten().map(|reply| reply.handle)
    }

    /// Returns a request for the lock of a whole object.
    pub(super) fn enqueue(&self, object: u64) -> Message<'static> {
        self.request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, &enqueue(object))
    }

    /// Returns the request that gives up a lock.
    pub(super) fn cancel(&self, lock: Handle) -> Message<'static> {
        let lock =
            LockRequest { count: 1, handles: vec![lock, Handle::NONE], ..Default::default() };
        self.request(&CANCEL).with(&LOCK_REQUEST, &lock)
    }

    /// Writes and reads what is possible now. Answers pings and pushes, and nothing else.
    pub(super) fn turn(&mut self, attacker: &mut Attacker) {
        let moved = self.line.flush(1 << 18) + self.line.read(1 << 16);
        let info = |nid| forge::info(&[nid], 2);
        while let Some((header, payload)) = self.line.next() {
            attacker.tally.received += 1;
            match header.body {
                Body::Get { portal: RESERVED_PORTAL, .. }
                | Body::Put { portal: RESERVED_PORTAL, .. } => {
                    answer(&mut self.line, &header, &info);
                }
                Body::Put { match_bits, .. } if self.inbox.len() < INBOX_MAX => {
                    self.inbox.push_back((match_bits, payload));
                }
                Body::Get { portal: portal::OST_BULK, reply, sink_len, .. } => {
                    self.gets.push_back((reply, sink_len));
                }
                _ => {}
            }
        }
        if moved == 0 {
            attacker.rest();
        }
    }

    /// Writes all that is queued, and reads.
    pub(super) fn drain(&mut self, attacker: &mut Attacker) {
        while attacker.goes_on() && !self.line.is_closed() && !self.line.is_drained() {
            self.turn(attacker);
        }
        self.turn(attacker);
        self.inbox.clear();
    }

    /// Answers a request for bulk data with so many bytes.
    pub(super) fn reply(&mut self, handle: fulmar_lnet_wire::Handle, len: usize) {
        let header = forge::header(self.line.nid, self.target, Body::Reply { handle });
        self.line.send(&header, &vec![7; len]);
    }
}

/// What an attacker keeps of messages that it does not look at.
const INBOX_MAX: usize = 1000;
