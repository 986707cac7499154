use std::net::SocketAddr;

use fulmar_lnet_wire::header::{Body, Handle};
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{Nid, Pid, ProcessId};
use proptest::prelude::*;

use super::*;
use crate::capture::Capture;
use crate::tcp::Conversation;
use crate::writer::CaptureWriter;

use Direction::{FromActive, FromPassive};

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn hello(version: Version, source: Nid, target: Nid, order: Order) -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello {
        version,
        source: ProcessId::lustre(source),
        target: ProcessId::lustre(target),
        source_incarnation: 1,
        target_incarnation: 0,
        kind: ConnKind::CONTROL,
        ips: vec![],
    }
    .encode(order, &mut bytes);
    bytes
}

fn put(form: HeaderForm, order: Order, source: Nid, target: Nid, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameHeader::lnet().encode(order, &mut bytes);
    let ack = Handle::NONE;
    Header {
        target,
        source,
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: payload.len() as u32,
        body: Body::Put { ack, match_bits: 1, header_data: 0, portal: 9, offset: 0 },
    }
    .encode(form, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn items(active: &str, passive: &str, said: &[(Direction, &[u8])]) -> Vec<Item> {
    let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
    let mut writer = CaptureWriter::new();
    let flow = writer.open(Time(0), addr(active), addr(passive));
    for (at, (direction, bytes)) in said.iter().enumerate() {
        writer.send(Time(at as u64), flow, *direction, bytes);
    }
    let file = writer.take_bytes();
    let capture = Capture::read(&file).unwrap();
    parse(&Conversation::of(&capture).connections[0])
}

fn kinds(items: &[Item]) -> Vec<&'static str> {
    let name = |item: &Item| match item.kind {
        Kind::ConnRequest(_) => "request",
        Kind::Hello(_) => "hello",
        Kind::Frame { lnet: None, .. } => "noop",
        Kind::Frame { lnet: Some(_), .. } => "message",
        Kind::Incomplete => "incomplete",
        Kind::Malformed(_) => "malformed",
    };
    items.iter().map(name).collect()
}

const A: &str = "10.0.0.1:1023";
const B: &str = "10.0.0.2:988";

#[test]
fn a_connection_is_decoded_for_any_segmentation() {
    let (a, b) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
    let mut active = Vec::new();
    ConnRequest { target: b }.encode(&mut active);
    active.extend(hello(Version::V3, a, b, Order::Little));
    let calls = active.len();
    active.extend(put(HeaderForm::Small, Order::Little, a, b, b"payload"));
    FrameHeader::acknowledge(1).encode(Order::Little, &mut active);
    let passive = hello(Version::V3, b, a, Order::Big);
    for chunk in [1, 7, 24, 1000] {
        let mut said: Vec<(Direction, &[u8])> = Vec::new();
        said.extend(active[..calls].chunks(chunk).map(|bytes| (FromActive, bytes)));
        said.extend(passive.chunks(chunk).map(|bytes| (FromPassive, bytes)));
        said.extend(active[calls..].chunks(chunk).map(|bytes| (FromActive, bytes)));
        let items = items(A, B, &said);
        assert_eq!(kinds(&items), ["request", "hello", "hello", "message", "noop"]);
        assert_eq!(items[1].bytes, active[16..72]);
        let Kind::Frame { lnet: Some((header, payload)), .. } = &items[3].kind else {
            unreachable!()
        };
        assert_eq!((header.source, payload.as_slice()), (a, b"payload".as_slice()));
        assert_eq!(items[3].bytes.len(), 96, "the bytes exclude the payload");
    }
}

#[test]
fn the_answer_decides_the_form_of_the_headers() {
    let (a, b) = (nid("fd00::1@tcp"), nid("fd00::2@tcp"));
    let mut active = Vec::new();
    ConnRequest { target: b }.encode(&mut active);
    active.extend(hello(Version::V4, a, b, Order::Big));
    let passive = hello(Version::V4, b, a, Order::Little);
    let message = put(HeaderForm::Large, Order::Big, a, b, b"x");
    let said = [(FromActive, active.as_slice()), (FromPassive, &passive), (FromActive, &message)];
    let items = items("[fd00::1]:1023", "[fd00::2]:988", &said);
    assert_eq!(kinds(&items), ["request", "hello", "hello", "message"]);

    let (a, b) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
    let mut active = Vec::new();
    ConnRequest { target: b }.encode(&mut active);
    active.extend(hello(Version::V4, a, b, Order::Little));
    let passive = hello(Version::V3, b, a, Order::Little);
    let message = put(HeaderForm::Small, Order::Little, a, b, b"x");
    let said = [(FromActive, active.as_slice()), (FromPassive, &passive), (FromActive, &message)];
    assert_eq!(kinds(&self::items(A, B, &said)), ["request", "hello", "hello", "message"]);
}

#[test]
fn invalid_bytes_end_only_their_direction() {
    let (a, b) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
    let passive = hello(Version::V3, b, a, Order::Little);
    let said = [
        (FromActive, b"GET / HTTP/1.1".as_slice()),
        (FromPassive, &passive),
        (FromActive, b"Host: nowhere"),
        (FromPassive, &[0xc0, 0, 0]),
    ];
    let items = items(A, B, &said);
    assert_eq!(kinds(&items), ["malformed", "hello", "incomplete"]);
    assert_eq!(items[0].kind, Kind::Malformed(DecodeError::Magic { got: 0x2054_4547 }));
    assert_eq!(items[2].bytes, [0xc0, 0, 0]);
}

#[test]
fn a_payload_that_is_too_long_is_refused_at_once() {
    let (a, b) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
    let mut passive = hello(Version::V3, b, a, Order::Little);
    let mut message = put(HeaderForm::Small, Order::Little, b, a, b"");
    message[24 + 28..24 + 32].copy_from_slice(&(1u32 << 20 | 1).to_le_bytes());
    passive.extend(message);
    let items = items(A, B, &[(FromPassive, &passive)]);
    assert_eq!(kinds(&items), ["hello", "malformed"]);
}

#[test]
fn version_1_is_recognised_and_not_decoded() {
    let (a, b) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
    let mut passive = hello(Version::V1, b, a, Order::Little);
    passive.extend([0; 72]);
    let items = items(A, B, &[(FromPassive, &passive)]);
    assert_eq!(items[1].kind, Kind::Malformed(DecodeError::Version { got: 1 }));
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(
        said in prop::collection::vec((any::<bool>(), prop::collection::vec(0..4u8, 0..40)), 0..9),
        hellos in any::<bool>(),
    ) {
        let (a, b) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
        let passive = hello(Version::V3, b, a, Order::Little);
        let mut all: Vec<(Direction, &[u8])> = Vec::new();
        if hellos {
            all.push((FromPassive, &passive));
        }
        let side = |active| if active { FromActive } else { FromPassive };
        all.extend(said.iter().map(|(active, bytes)| (side(*active), bytes.as_slice())));
        items(A, B, &all);
    }

    #[test]
    fn no_file_makes_the_reader_panic(at in 0..400usize, bytes in any::<[u8; 4]>()) {
        let mut writer = CaptureWriter::new();
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let flow = writer.open(Time(0), addr(A), addr(B));
        writer.send(Time(1), flow, FromActive, b"something");
        let mut file = writer.take_bytes();
        let at = at.min(file.len() - 4);
        file[at..at + 4].copy_from_slice(&bytes);
        if let Ok(capture) = Capture::read(&file) {
            for connection in &Conversation::of(&capture).connections {
                parse(connection);
            }
        }
    }
}
