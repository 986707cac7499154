//! The RPCs of LNet selftest between kernel nodes. Spec: lnet-selftest §22.

mod counts;
mod rules;
mod stat;

use std::collections::BTreeMap;
use std::net::IpAddr;

use fulmar_base::Time;
use fulmar_lnet_wire::header::{self, Handle, Header};
use fulmar_lnet_wire::selftest::{self, Body, Message, Service};
use fulmar_wire::Order;

use crate::traces::{Frame, Link};

/// The traces with selftest.
const NAMES: [&str; 5] = ["selftest", "router", "multirail", "selftest-remote", "checksum"];

/// A hop: sender and receiver.
type Hop = (IpAddr, IpAddr);

/// One RPC on one hop.
struct Rpc<'a> {
    service: Service,
    request: CapturedMessage<'a>,
    reply: CapturedMessage<'a>,
    bulk: Option<Bulk<'a>>,
}

/// A request or a reply.
#[derive(Clone)]
struct CapturedMessage<'a> {
    frame: Frame<'a>,
    header: &'a Header,
    body: Body,
}

/// The bulk of an RPC.
struct Bulk<'a> {
    /// The server's PUT or GET.
    asked: (Frame<'a>, &'a Header),
    /// The message with the data: the PUT, or the REPLY to the GET.
    moved: (Frame<'a>, &'a Header),
    data: &'a [u8],
}

impl Bulk<'_> {
    fn is_get(&self) -> bool {
        matches!(self.asked.1.body, header::Body::Get { .. })
    }
}

fn reverse((from, to): Hop) -> Hop {
    (to, from)
}

/// Returns every LNet message of a trace in the order of time.
fn messages(links: &[Link]) -> Vec<(Frame<'_>, &Header, &[u8])> {
    let frames = links.iter().flat_map(Link::frames);
    let lnet = frames.filter_map(|frame| frame.lnet.map(|(header, data)| (frame, header, data)));
    let mut messages: Vec<_> = lnet.collect();
    messages.sort_by_key(|(frame, ..)| frame.time);
    messages
}

/// Decodes a message, and requires that it encodes to the same bytes.
fn decode(bytes: &[u8]) -> Body {
    let decoded = Message::decode(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:02x?}"));
    let (message, order) = decoded;
    assert_eq!(message.to_bytes(), bytes, "{message:?}");
    assert_eq!(
        (message.version, message.features, order),
        (selftest::VERSION, selftest::FEATURES, Order::Little)
    );
    message.body
}

/// The state of an RPC while the trace is read.
struct Partial<'a> {
    service: Service,
    request: CapturedMessage<'a>,
    reply: Option<CapturedMessage<'a>>,
    asked: Option<(Frame<'a>, &'a Header)>,
    moved: Option<(Frame<'a>, &'a Header, &'a [u8])>,
}

/// Assembles the RPCs of a trace. Requires that every message at the portals of selftest belongs to
/// one, and that all are complete.
fn rpcs(links: &[Link]) -> Vec<Rpc<'_>> {
    let mut partial: Vec<Partial<'_>> = Vec::new();
    let mut replies: BTreeMap<(Hop, u64), usize> = BTreeMap::new();
    let mut bulks: BTreeMap<(Hop, u64), usize> = BTreeMap::new();
    let mut gets: BTreeMap<(Hop, Handle), usize> = BTreeMap::new();
    for (frame, header, data) in messages(links) {
        let hop = frame.hop();
        match header.body {
            header::Body::Put { portal, match_bits, .. }
                if [selftest::REQUEST_PORTAL, selftest::FRAMEWORK_PORTAL].contains(&portal) =>
            {
                let (service, body) = (Service(match_bits), decode(data));
                assert_eq!(service.portal(), portal);
                let (reply_id, bulk_id) = ids(&body);
                assert_eq!(replies.insert((reverse(hop), reply_id), partial.len()), None);
                if let Some(bulk_id) = bulk_id {
                    assert_eq!(bulks.insert((reverse(hop), bulk_id), partial.len()), None);
                }
                let request = CapturedMessage { frame, header, body };
                partial.push(Partial { service, request, reply: None, asked: None, moved: None });
            }
            header::Body::Put { portal: selftest::BULK_PORTAL, match_bits, .. } => {
                if let Some(rpc) = replies.remove(&(hop, match_bits)) {
                    partial[rpc].reply =
                        Some(CapturedMessage { frame, header, body: decode(data) });
                } else {
                    let rpc = bulks.remove(&(hop, match_bits));
                    let rpc = &mut partial[rpc.expect("an RPC requested the bulk")];
                    (rpc.asked, rpc.moved) = (Some((frame, header)), Some((frame, header, data)));
                }
            }
            header::Body::Get { portal: selftest::BULK_PORTAL, match_bits, reply, .. } => {
                let rpc = bulks.remove(&(hop, match_bits)).expect("the memory is posted");
                partial[rpc].asked = Some((frame, header));
                gets.insert((reverse(hop), reply), rpc);
            }
            header::Body::Reply { handle } => {
                let Some(rpc) = gets.remove(&(hop, handle)) else { continue };
                partial[rpc].moved = Some((frame, header, data));
            }
            _ => {}
        }
    }
    assert!(replies.is_empty() && bulks.is_empty() && gets.is_empty(), "all have ended");
    partial.into_iter().map(Partial::end).collect()
}

impl<'a> Partial<'a> {
    fn end(self) -> Rpc<'a> {
        let bulk = self.asked.map(|asked| {
            let (frame, header, data) = self.moved.expect("a GET has a REPLY");
            Bulk { asked, moved: (frame, header), data }
        });
        let reply = self.reply.expect("every request has a reply");
        Rpc { service: self.service, request: self.request, reply, bulk }
    }
}

/// Returns the reply id of a request, and its bulk id if it has bulk.
fn ids(request: &Body) -> (u64, Option<u64>) {
    match request {
        Body::MakeSession(request) => (request.reply_id, None),
        Body::RemoveSession(request) => (request.reply_id, None),
        Body::Batch(request) => (request.reply_id, None),
        Body::Stat(request) => (request.reply_id, None),
        Body::Test(request) => (request.reply_id, request.is_client.then_some(request.bulk_id)),
        Body::Brw(request) => (request.reply_id, Some(request.bulk_id)),
        Body::Ping(request) => (request.reply_id, None),
        other => panic!("not in the traces: {other:?}"),
    }
}

/// Returns the last byte of an address: the number of the node.
fn node(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    }
}

fn millis(from: Time, to: Time) -> u128 {
    to.since(from).as_millis()
}
