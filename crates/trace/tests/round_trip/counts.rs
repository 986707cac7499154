//! Every request, hello, frame, header and ping info of kernel nodes decodes, encodes to the same
//! bytes, and is counted. Spec: lnet-wire §17.2.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_lnet_wire::header::{Body, Handle, Header, HeaderForm};
use fulmar_lnet_wire::ping::PingInfo;
use fulmar_lnet_wire::socklnd::{FrameHeader, FrameKind};
use fulmar_trace::Start;
use fulmar_trace::lnet::{Item, Kind};
use fulmar_wire::Order;

use crate::traces::{Link, NAMES, load};

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// With handshake, older with data, older without data.
    connections: [usize; 3],
    bytes: usize,
    requests: usize,
    hellos: usize,
    puts: usize,
    puts_wanting_ack: usize,
    acks: usize,
    gets: usize,
    replies: usize,
    with_cookie: usize,
    acknowledging_noops: usize,
    keepalives: usize,
    put_portals: BTreeMap<u32, usize>,
    get_portals: BTreeMap<u32, usize>,
}

impl Counts {
    fn of(links: &[Link]) -> Self {
        let mut this = Self::default();
        for link in links {
            match (link.start, link.bytes) {
                (Start::Handshake, _) => this.connections[0] += 1,
                (Start::Earlier, 0) => this.connections[2] += 1,
                (Start::Earlier, _) => this.connections[1] += 1,
                (Start::Attempt, _) => {}
            }
            this.bytes += link.bytes;
            link.items.iter().for_each(|item| this.count(&item.kind));
        }
        this
    }

    fn count(&mut self, kind: &Kind) {
        match kind {
            Kind::ConnRequest(_) => self.requests += 1,
            Kind::Hello(_) => self.hellos += 1,
            Kind::Frame { header, lnet: None } if *header == FrameHeader::acknowledge(1) => {
                self.keepalives += 1;
            }
            Kind::Frame { lnet: None, .. } => self.acknowledging_noops += 1,
            Kind::Frame { header, lnet: Some((lnet, _)) } => {
                self.with_cookie += usize::from(header.cookies[0] != 0);
                self.count_message(lnet);
            }
            Kind::Incomplete | Kind::Malformed(_) => panic!("{kind:?}"),
        }
    }

    fn count_message(&mut self, header: &Header) {
        match header.body {
            Body::Ack { .. } => self.acks += 1,
            Body::Put { ack, portal, .. } => {
                self.puts += 1;
                self.puts_wanting_ack += usize::from(ack != Handle::NONE);
                *self.put_portals.entry(portal).or_default() += 1;
            }
            Body::Get { portal, .. } => {
                self.gets += 1;
                *self.get_portals.entry(portal).or_default() += 1;
            }
            Body::Reply { .. } => self.replies += 1,
        }
    }
}

/// A row of the first table and the row of the second, in their order.
#[rustfmt::skip]
const EXPECTED: [(&str, [usize; 14], &str, &str); 14] = [
    ("ping", [3, 0, 0, 1_584, 3, 6, 2, 2, 2, 3, 3, 0, 0, 0], "0×2", "0×3"),
    ("selftest", [0, 3, 0, 2_677_616, 0, 0, 88, 0, 0, 10, 10, 10, 10, 0],
        "50×30, 51×10, 52×48", "52×10"),
    ("router", [7, 1, 0, 5_269_640, 7, 14, 82, 8, 8, 24, 24, 20, 19, 0],
        "0×8, 10×1, 12×1, 50×20, 51×14, 52×38", "0×8, 52×16"),
    ("multirail", [12, 1, 0, 2_635_056, 12, 24, 40, 2, 2, 9, 9, 10, 10, 0],
        "0×2, 10×1, 12×1, 50×10, 51×7, 52×19", "0×1, 52×8"),
    ("mount", [0, 3, 0, 64_732, 0, 0, 62, 2, 2, 0, 0, 0, 0, 1],
        "4×4, 10×9, 12×7, 14×1, 17×3, 18×3, 23×2, 25×14, 26×14, 28×4, 33×1", ""),
    ("meta", [0, 3, 2, 1_102_160, 0, 0, 1_479, 332, 332, 4, 4, 2, 2, 0],
        "4×172, 6×1, 10×552, 12×377, 13×3, 14×7, 15×5, 16×5, 17×7, 18×7, 23×170, 24×9, 28×162, \
         29×1, 30×1", "14×4"),
    ("data", [0, 3, 0, 9_623_000, 0, 0, 1_065, 32, 32, 11, 11, 19, 19, 0],
        "4×53, 6×27, 7×2, 8×8, 10×136, 12×103, 13×2, 14×1, 15×169, 16×169, 17×170, 18×170, 23×31, \
         28×24", "8×11"),
    ("contend", [0, 6, 2, 177_792, 0, 0, 264, 8, 8, 1, 1, 0, 0, 1],
        "4×20, 6×8, 10×61, 12×45, 13×1, 14×2, 15×28, 16×28, 17×22, 18×22, 23×13, 28×12, 30×2",
        "8×1"),
    ("recovery", [0, 6, 3, 657_064, 0, 0, 715, 73, 73, 3, 3, 3, 3, 1],
        "4×120, 6×23, 10×202, 12×162, 14×2, 15×4, 16×4, 17×3, 18×3, 23×38, 24×8, 25×30, 26×30, \
         28×81, 30×1, 33×4", "14×3"),
    ("ost-join", [6, 4, 5, 454_668, 6, 12, 180, 9, 9, 4, 4, 1, 1, 2],
        "0×4, 4×19, 6×2, 7×6, 10×24, 12×19, 15×5, 16×5, 17×8, 18×8, 23×3, 25×31, 26×31, 28×10, \
         29×1, 31×1, 32×1, 33×2", "0×3, 8×1"),
    ("ipv6", [3, 0, 0, 1_748, 3, 6, 2, 2, 2, 2, 2, 0, 0, 0], "0×2", "0×2"),
    ("checksum", [3, 0, 0, 2_368_112, 3, 6, 30, 2, 2, 5, 5, 6, 4, 0],
        "0×2, 50×6, 51×7, 52×15", "0×1, 52×4"),
    ("selftest-remote", [9, 0, 0, 746_504, 9, 18, 2_519, 6, 6, 13, 13, 3, 3, 0],
        "0×6, 50×1230, 51×25, 52×1258", "0×3, 52×10"),
    ("mount-fresh", [3, 0, 0, 107_980, 3, 6, 148, 4, 4, 1, 1, 0, 0, 0],
        "0×2, 4×13, 10×30, 12×28, 14×1, 17×3, 18×3, 23×2, 25×26, 26×26, 28×13, 33×1", "0×1"),
];

fn portals(text: &str) -> BTreeMap<u32, usize> {
    let pair = |item: &str| {
        let (portal, count) = item.split_once('×').unwrap();
        (portal.parse().unwrap(), count.parse().unwrap())
    };
    text.split(", ").filter(|item| !item.is_empty()).map(pair).collect()
}

#[test]
fn every_trace_has_the_counts_of_the_specification() {
    for (name, counts, puts, gets) in EXPECTED {
        let [handshake, older, silent, bytes, requests, hellos, rest @ ..] = counts;
        let [puts_count, wanting, acks, gets_count, replies, cookies, noops, keepalives] = rest;
        let expected = Counts {
            connections: [handshake, older, silent],
            bytes,
            requests,
            hellos,
            puts: puts_count,
            puts_wanting_ack: wanting,
            acks,
            gets: gets_count,
            replies,
            with_cookie: cookies,
            acknowledging_noops: noops,
            keepalives,
            put_portals: portals(puts),
            get_portals: portals(gets),
        };
        assert_eq!(Counts::of(&load(name)), expected, "{name}");
    }
    assert_eq!(EXPECTED.map(|row| row.0), NAMES);
}

#[test]
fn every_item_encodes_to_its_bytes() {
    for name in NAMES {
        for link in load(name) {
            let mut total = 0;
            for item in &link.items {
                let (bytes, payload) = encode(item, form(&link));
                assert_eq!(bytes, item.bytes, "{name} at {}: {:?}", item.time, item.kind);
                total += bytes.len() + payload;
            }
            assert_eq!(total, link.bytes, "{name}: every byte belongs to an item");
        }
    }
}

fn form(link: &Link) -> HeaderForm {
    if link.active.is_ipv6() { HeaderForm::Large } else { HeaderForm::Small }
}

/// Returns the bytes of an item without payload, and the length of the payload.
fn encode(item: &Item, form: HeaderForm) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut len = 0;
    match &item.kind {
        Kind::ConnRequest(request) => request.encode(&mut bytes),
        Kind::Hello(hello) => hello.encode(Order::Little, &mut bytes),
        Kind::Frame { header, lnet } => {
            header.encode(Order::Little, &mut bytes);
            assert_eq!(header.kind == FrameKind::LNET, lnet.is_some());
            if let Some((lnet, payload)) = lnet {
                lnet.encode(form, &mut bytes);
                assert_eq!(lnet.payload_len as usize, payload.len());
                len = payload.len();
            }
        }
        Kind::Incomplete | Kind::Malformed(_) => panic!("{item:?}"),
    }
    (bytes, len)
}

#[test]
fn every_ping_info_encodes_to_its_bytes() {
    let mut infos = 0;
    for name in NAMES {
        let links = load(name);
        let messages = || links.iter().flat_map(Link::frames).filter_map(|frame| frame.lnet);
        let pings: BTreeSet<Handle> = messages()
            .filter_map(|(header, _)| match header.body {
                Body::Get { reply, portal: 0, .. } => Some(reply),
                _ => None,
            })
            .collect();
        for (header, payload) in messages() {
            match header.body {
                Body::Put { portal: 0, .. } => {}
                Body::Reply { handle } if pings.contains(&handle) => {}
                _ => continue,
            }
            let decoded = PingInfo::decode(payload)
                .unwrap_or_else(|error| panic!("{name}: {error}: {payload:02x?}"));
            let mut again = Vec::new();
            decoded.info.encode(decoded.order, &mut again);
            assert_eq!(again, payload, "{name}: {decoded:?}");
            assert_eq!(decoded.size as usize, payload.len(), "{name}: {decoded:?}");
            infos += 1;
        }
    }
    // The portal-0 PUTs and the answers to the portal-0 GETs of the table.
    let of_portal_0 = |text: &str| portals(text).get(&0).copied().unwrap_or_default();
    let expected: usize =
        EXPECTED.iter().map(|(_, _, puts, gets)| of_portal_0(puts) + of_portal_0(gets)).sum();
    assert_eq!(infos, expected);
}
