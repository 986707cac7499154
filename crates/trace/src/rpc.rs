//! Remote procedure calls from LNet messages: requests with their replies and bulk data.
//!
//! A message at a portal of a Lustre service is a request. Its match bits, and later those in its
//! body, name its replies and its data. Spec: ptlrpc-ldlm-mgs §3.2.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::header::{self, Handle, Header};
use fulmar_lustre_wire::message::{HeaderFlags, Kind, Message, MessageFlags};
use fulmar_lustre_wire::portal;
use fulmar_wire::DecodeError;

use crate::lnet;

/// A request, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc<'a> {
    /// The sender of the request.
    pub client: Nid,
    /// The receiver of the request. In a callback it is a client of the file system.
    pub server: Nid,
    /// The portal of the request.
    pub portal: u32,
    /// The identifier of the request: its match bits.
    pub xid: u64,
    /// The request.
    pub request: Packet<'a>,
    /// Later transmissions of the request.
    pub resends: Vec<Packet<'a>>,
    /// Replies that only announce that the reply will be late.
    pub early: Vec<Packet<'a>>,
    /// The replies: one to each transmission that arrived.
    pub replies: Vec<Packet<'a>>,
    /// The parts of the bulk data, in the order of their transfer.
    pub bulk: Vec<Part<'a>>,
}

/// A message in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The time of its last byte.
    pub time: Time,
    /// The offset in the memory of the receiver.
    pub offset: u32,
    /// Whether the sender wants to know that it arrived.
    pub wants_ack: bool,
    /// The message, encoded.
    pub bytes: &'a [u8],
    /// The message. A reply has the format of its request.
    pub message: Message<'a>,
}

/// A part of bulk data: at most 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The time of its last byte.
    pub time: Time,
    /// Whether the server sent it.
    pub from_server: bool,
    /// The match bits.
    pub match_bits: u64,
    /// The data.
    pub bytes: &'a [u8],
}

/// A message at a portal of Lustre that is not a part of any [`Rpc`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray<'a> {
    /// The time of its last byte.
    pub time: Time,
    /// Its header.
    pub header: &'a Header,
    /// Its payload.
    pub bytes: &'a [u8],
    /// Why it is not decoded; `None` if its request was not captured.
    pub error: Option<DecodeError>,
}

/// The remote procedure calls of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls<'a> {
    /// In the order of their requests.
    pub rpcs: Vec<Rpc<'a>>,
    /// Other messages at portals of Lustre, in their order.
    pub strays: Vec<Stray<'a>>,
    /// The calls by client and match bits: of the request, of the reply, and of the first part of the
    /// data, which may be those of a later transmission.
    by_bits: BTreeMap<(Nid, u64), usize>,
    /// The GETs whose data have not arrived: their server, call and match bits.
    gets: BTreeMap<(Nid, u64, u64), (usize, u64)>,
}

/// Match bits of the parts of one transfer differ in these bits. Spec: ptlrpc-ldlm-mgs §3.1.
const PART_BITS: u64 = 127;

impl<'a> Calls<'a> {
    /// Finds the calls in the messages of all connections.
    pub fn of(items: impl IntoIterator<Item = &'a lnet::Item>) -> Self {
        let mut items: Vec<&lnet::Item> = items.into_iter().collect();
        items.sort_by_key(|item| item.time);
        let mut this = Self::default();
        for item in items {
            if let lnet::Kind::Frame { lnet: Some((header, payload)), .. } = &item.kind {
                this.handle_message(item.time, header, payload);
            }
        }
        this
    }

    fn handle_message(&mut self, time: Time, header: &'a Header, bytes: &'a [u8]) {
        match header.body {
            header::Body::Put { portal, match_bits, ack, offset, .. } => {
                let wants_ack = ack != Handle::NONE;
                if portal::is_bulk(portal) {
                    let call = self.find(header.target, match_bits);
                    match call.and_then(|call| self.rpcs.get_mut(call)) {
                        Some(rpc) if rpc.bulk.iter().all(|part| part.match_bits != match_bits) => {
                            rpc.bulk.push(Part { time, from_server: true, match_bits, bytes });
                        }
                        Some(_) => {}
                        None => self.strays.push(Stray { time, header, bytes, error: None }),
                    }
                } else if portal::reply_to(portal).is_some() || portal::is_reply(portal) {
                    match Message::decode(bytes) {
                        Ok(message) => {
                            let packet = Packet { time, offset, wants_ack, bytes, message };
                            self.handle_packet(header, portal, match_bits, packet);
                        }
                        Err(error) => {
                            self.strays.push(Stray { time, header, bytes, error: Some(error) });
                        }
                    }
                }
            }
            header::Body::Get { portal, match_bits, reply, .. } if portal::is_bulk(portal) => {
                if let Some(call) = self.find(header.target, match_bits) {
                    let key = (header.source, reply.interface, reply.object);
                    self.gets.insert(key, (call, match_bits));
                }
            }
            header::Body::Reply { handle } => {
                let key = (header.target, handle.interface, handle.object);
                if let Some((call, match_bits)) = self.gets.remove(&key) {
                    let part = Part { time, from_server: false, match_bits, bytes };
                    self.rpcs[call].bulk.push(part);
                }
            }
            header::Body::Get { .. } | header::Body::Ack { .. } => {}
        }
    }

    fn handle_packet(&mut self, header: &'a Header, portal: u32, bits: u64, packet: Packet<'a>) {
        if packet.message.body.kind == Kind::REQUEST {
            return self.handle_request(header, portal, bits, packet);
        }
        match self.by_bits.get(&(header.target, bits)).copied() {
            Some(call) => self.rpcs[call].handle_reply(packet),
            None => {
                let Packet { time, bytes, .. } = packet;
                self.strays.push(Stray { time, header, bytes, error: None });
            }
        }
    }

    fn handle_request(&mut self, header: &Header, portal: u32, xid: u64, packet: Packet<'a>) {
        let (client, server) = (header.source, header.target);
        let body = &packet.message.body;
        let (bits, is_resent) = (body.match_bits, body.flags.has(MessageFlags::RESENT));
        let known = self.by_bits.get(&(client, xid)).copied();
        let known = known.filter(|&call| self.rpcs[call].is_same(server, xid, &packet));
        let call = match known {
            Some(call) if is_resent => {
                let rpc = &mut self.rpcs[call];
                if rpc.resends.iter().all(|other| other.bytes != packet.bytes) {
                    rpc.resends.push(packet);
                }
                call
            }
            // The same message on another hop, or at another interface.
            Some(call) if self.rpcs[call].request.bytes == packet.bytes => call,
            _ => {
                self.rpcs.push(Rpc::new(client, server, portal, xid, packet));
                self.rpcs.len() - 1
            }
        };
        for bits in [xid, bits, bits & !PART_BITS].into_iter().filter(|&bits| bits != 0) {
            self.by_bits.insert((client, bits), call);
        }
    }

    /// Returns the call of a part of bulk data.
    fn find(&self, client: Nid, match_bits: u64) -> Option<usize> {
        self.by_bits.get(&(client, match_bits & !PART_BITS)).copied()
    }
}

impl<'a> Rpc<'a> {
    fn new(client: Nid, server: Nid, portal: u32, xid: u64, request: Packet<'a>) -> Self {
        let [resends, early, replies] = [const { Vec::new() }; 3];
        Self { client, server, portal, xid, request, resends, early, replies, bulk: Vec::new() }
    }

    /// Returns whether `packet` may be another transmission of the request.
    fn is_same(&self, server: Nid, xid: u64, packet: &Packet<'_>) -> bool {
        let opcode = self.request.message.body.opcode;
        (self.server, self.xid, opcode) == (server, xid, packet.message.body.opcode)
    }

    fn handle_reply(&mut self, packet: Packet<'a>) {
        let message = packet.message.answering(self.request.message.format());
        let packet = Packet { message, ..packet };
        let has_early = self.request.message.head.flags.has(HeaderFlags::AT_SUPPORT);
        let is_early = has_early && packet.offset == 0 && packet.message.has_early_checksum();
        let replies = if is_early { &mut self.early } else { &mut self.replies };
        // A capture of several interfaces may contain it twice.
        if replies.iter().all(|other| other.bytes != packet.bytes) {
            replies.push(packet);
        }
    }

    /// Returns the last reply.
    pub fn reply(&self) -> Option<&Packet<'a>> {
        self.replies.last()
    }

    /// Returns the time from the last transmission before the reply to the reply.
    pub fn latency(&self) -> Option<std::time::Duration> {
        let reply = self.reply()?.time;
        let sent = self.resends.iter().rev().map(|packet| packet.time).find(|&time| time <= reply);
        Some(reply.since(sent.unwrap_or(self.request.time)))
    }

    /// Returns the length of the bulk data in bytes.
    pub fn bulk_len(&self) -> u64 {
        self.bulk.iter().map(|part| part.bytes.len() as u64).sum()
    }
}
