use super::*;
use crate::capture::{LinkType, Packet};

const ACTIVE: &str = "10.0.0.1:1023";
const PASSIVE: &str = "10.0.0.2:988";
const SYN: u8 = Segment::SYN;
const ACK: u8 = Segment::ACK;
const FIN: u8 = Segment::FIN | ACK;
const RST: u8 = Segment::RST;

/// Segments as (source, target, flags, sequence, bytes), one nanosecond apart.
fn frames(segments: &[(&str, &str, u8, u32, &[u8])]) -> Vec<Vec<u8>> {
    let frame = |&(source, target, flags, sequence, payload): &(&str, &str, u8, u32, &[u8])| {
        let (source, target) = (source.parse().unwrap(), target.parse().unwrap());
        // Acknowledgement numbers are used only from a SYN-ACK.
        let acknowledged = if flags == SYN | ACK { 101 } else { 0 };
        let mut frame = Vec::new();
        Segment { source, target, sequence, acknowledged, flags, payload }.encode(&mut frame);
        frame
    };
    segments.iter().map(frame).collect()
}

fn conversation(frames: &[Vec<u8>]) -> Conversation<'_> {
    let packets = frames.iter().enumerate().map(|(at, bytes)| Packet {
        time: Time(at as u64),
        link: LinkType::ETHERNET,
        bytes,
    });
    Conversation::of(&Capture { packets: packets.collect(), truncated: false })
}

fn only<'a>(frames: &'a [Vec<u8>]) -> Connection<'a> {
    let mut connections = conversation(frames).connections;
    assert_eq!(connections.len(), 1, "{connections:?}");
    connections.remove(0)
}

fn text(connection: &Connection<'_>, direction: Direction) -> String {
    let chunks = connection.chunks.iter().filter(|chunk| chunk.direction == direction);
    let bytes = chunks.flat_map(|chunk| chunk.bytes).copied().collect();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_complete_connection() {
    let frames = frames(&[
        (ACTIVE, PASSIVE, SYN, 100, b""),
        (PASSIVE, ACTIVE, SYN | ACK, 500, b""),
        (ACTIVE, PASSIVE, ACK, 101, b"hello"),
        (PASSIVE, ACTIVE, ACK, 501, b"you"),
        (ACTIVE, PASSIVE, FIN, 106, b""),
        (PASSIVE, ACTIVE, RST, 504, b""),
    ]);
    let connection = only(&frames);
    assert_eq!((connection.start, connection.opened), (Start::Handshake, Time(0)));
    assert_eq!(connection.active, ACTIVE.parse().unwrap());
    assert_eq!(connection.sender(Direction::FromPassive), PASSIVE.parse().unwrap());
    let chunk = |time, direction, bytes| Chunk { time: Time(time), direction, bytes };
    let chunks = [
        chunk(2, Direction::FromActive, b"hello".as_slice()),
        chunk(3, Direction::FromPassive, b"you"),
    ];
    assert_eq!(connection.chunks, chunks);
    let end = |time, direction, reset| End { time: Time(time), direction, reset };
    let ends = [end(4, Direction::FromActive, false), end(5, Direction::FromPassive, true)];
    assert_eq!(connection.ends, ends);
}

#[test]
fn repeated_overlapping_and_reordered_segments_form_one_stream() {
    let frames = frames(&[
        (ACTIVE, PASSIVE, SYN, 100, b""),
        (ACTIVE, PASSIVE, SYN, 100, b""),
        (PASSIVE, ACTIVE, SYN | ACK, 500, b""),
        (PASSIVE, ACTIVE, SYN | ACK, 500, b""),
        (ACTIVE, PASSIVE, ACK, 104, b"def"),
        (ACTIVE, PASSIVE, ACK, 105, b"ef"),
        (ACTIVE, PASSIVE, ACK, 101, b"ab"),
        (ACTIVE, PASSIVE, ACK, 101, b"abc"),
        (ACTIVE, PASSIVE, ACK, 101, b"ab"),
        (ACTIVE, PASSIVE, ACK, 106, b"fgh"),
    ]);
    let connection = only(&frames);
    assert_eq!(text(&connection, Direction::FromActive), "abcdefgh");
    let times: Vec<u64> = connection.chunks.iter().map(|chunk| chunk.time.0).collect();
    assert_eq!(times, [6, 7, 7, 9], "bytes are complete when the gap before them is filled");
    assert!(!connection.has_gap(Direction::FromActive));
}

#[test]
fn bytes_after_a_gap_are_lost_and_reported() {
    let frames = frames(&[
        (ACTIVE, PASSIVE, ACK, 100, b"ab"),
        (ACTIVE, PASSIVE, ACK, 103, b"d"),
        (PASSIVE, ACTIVE, ACK, 1, b"x"),
    ]);
    let connection = only(&frames);
    assert_eq!(text(&connection, Direction::FromActive), "ab");
    assert!(connection.has_gap(Direction::FromActive));
    assert!(!connection.has_gap(Direction::FromPassive));
}

#[test]
fn sequence_numbers_wrap_around() {
    let frames = frames(&[
        (ACTIVE, PASSIVE, ACK, u32::MAX - 1, b"abcd"),
        (ACTIVE, PASSIVE, ACK, 4, b"gh"),
        (ACTIVE, PASSIVE, ACK, 2, b"ef"),
    ]);
    assert_eq!(text(&only(&frames), Direction::FromActive), "abcdefgh");
}

#[test]
fn an_older_connection_starts_with_the_first_captured_bytes() {
    let frames = frames(&[
        (PASSIVE, ACTIVE, ACK, 99, b""), // A keepalive of TCP.
        (PASSIVE, ACTIVE, ACK, 100, b"abc"),
        (PASSIVE, ACTIVE, ACK, 98, b"yzabc"),
        (PASSIVE, ACTIVE, ACK, 103, b"def"),
    ]);
    let connection = only(&frames);
    assert_eq!(connection.start, Start::Earlier);
    assert_eq!(connection.passive, PASSIVE.parse().unwrap(), "it has port 988");
    assert_eq!(text(&connection, Direction::FromPassive), "abcdef");
}

#[test]
fn a_refused_connection_is_an_attempt_and_the_next_is_separate() {
    let frames = frames(&[
        (ACTIVE, PASSIVE, SYN, 100, b""),
        (PASSIVE, ACTIVE, RST | ACK, 0, b""),
        (ACTIVE, PASSIVE, SYN, 700, b""),
        (PASSIVE, ACTIVE, SYN | ACK, 500, b""),
        (ACTIVE, PASSIVE, ACK, 701, b"new"),
    ]);
    let connections = conversation(&frames).connections;
    let starts: Vec<Start> = connections.iter().map(|connection| connection.start).collect();
    assert_eq!(starts, [Start::Attempt, Start::Handshake]);
    assert_eq!(connections[0].ends.len(), 1);
    // The SYN-ACK acknowledges 101, but the SYN itself was seen.
    assert_eq!(text(&connections[1], Direction::FromActive), "new");
}

#[test]
fn a_syn_ack_without_its_syn_shows_the_connecting_side() {
    let (high, other) = ("10.0.0.1:4000", "10.0.0.2:5000");
    let frames = frames(&[(other, high, SYN | ACK, 500, b""), (high, other, ACK, 101, b"abc")]);
    let connection = only(&frames);
    assert_eq!(connection.start, Start::Handshake);
    assert_eq!(connection.active, high.parse().unwrap());
    assert_eq!(text(&connection, Direction::FromActive), "abc");
}
