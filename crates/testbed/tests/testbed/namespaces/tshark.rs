//! The traffic of two nodes, as decoded by Wireshark and by Fulmar.

use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_lnet_wire::header::{Body, HeaderForm};
use fulmar_trace::lnet::{Item, Kind, parse};
use fulmar_trace::{Capture, Connection, Conversation, Direction, Start};
use fulmar_wire::Order;

use super::cable::{Cable, INTERFACE, IPV4, Program, not_run};

/// Counts of handshakes, frames and messages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    requests: usize,
    hellos: usize,
    acks: usize,
    puts: usize,
    gets: usize,
    replies: usize,
    noops: usize,
}

/// Three connections; a ping, a discovery, the features; both pushes, three PUTs; two GETs.
const EXPECTED: Counts =
    Counts { requests: 3, hellos: 6, acks: 5, puts: 5, gets: 5, replies: 5, noops: 0 };

#[test]
fn wireshark_and_fulmar_decode_the_same_conversation() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return not_run("tshark is needed: scripts/need.sh tshark");
    }
    let Some(cable) = Cable::new() else { return };
    let file = record(&cable);
    let path = file.0.as_path();
    // Expert items of any other kind are on PUTs of kernel nodes too: tshark does not know the
    // payload of the portal.
    let broken = "lnet && (_ws.malformed.expert || _ws.malformed.dissector_bug \
                  || _ws.malformed.reassembly || lnet.msg_type > 4 \
                  || (lnet.ksm_type && lnet.ksm_type != 0xc0 && lnet.ksm_type != 0xc1))";
    assert_eq!(tshark(path, broken, "frame.number"), "", "frames that Wireshark cannot read");
    assert_eq!(counts_of_tshark(path), EXPECTED);
    let bytes = std::fs::read(path).unwrap();
    let capture = Capture::read(&bytes).unwrap();
    let conversation = Conversation::of(&capture);
    let mut counts = Counts::default();
    for connection in &conversation.connections {
        check(connection, &mut counts);
    }
    assert_eq!((conversation.connections.len(), counts), (3, EXPECTED));
}

/// Makes two nodes communicate and returns the capture.
fn record(cable: &Cable) -> TemporaryFile {
    let name = format!("conversation-{}.pcapng", std::process::id());
    let file = TemporaryFile(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    let server = cable.serve(1, IPV4[1]);
    let mut command = cable.command(1, "dumpcap");
    command.args(["-q", "-s", "0", "-B", "64", "-f", "tcp port 988", "-i", INTERFACE, "-w"]);
    let mut capture = Program::start(command.arg(&file.0)).unwrap();
    capture.wait_for("File: ").unwrap();
    let text = cable.run(0, &["converse", IPV4[0], IPV4[1]]);
    assert!(text.contains("pushed") && !text.contains("WRONG"), "{text}");
    let served = server.finish().unwrap();
    assert!(served.contains("stored 1048576 right") && !served.contains("WRONG"), "{served}");
    // The kernel passes captured packets to dumpcap in batches.
    std::thread::sleep(std::time::Duration::from_millis(500));
    capture.signal("INT").unwrap();
    let text = capture.finish().unwrap();
    assert!(text.contains("dropped on interface") && text.contains("/0 ("), "{text}");
    file
}

/// A file that is removed on drop.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the output of tshark for the packets that `filter` selects.
fn tshark(file: &Path, filter: &str, field: &str) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-d", "tcp.port==988,lnet", "-Y", filter]);
    // On a busy machine segments overtake each other; tshark reorders them only with this option.
    command.args(["-o", "tcp.reassemble_out_of_order:TRUE"]);
    let output = command.args(["-T", "fields", "-e", field]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{filter}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn counts_of_tshark(file: &Path) -> Counts {
    let types = tshark(file, "lnet", "lnet.msg_type");
    let of = |number: &str| types.split([',', '\n']).filter(|text| *text == number).count();
    let frames = tshark(file, "lnet", "lnet.ksm_type");
    let noops = frames.split([',', '\n']).filter(|text| text.ends_with("c0")).count();
    // Wireshark does not decode handshakes; their magic numbers are found nevertheless.
    let handshake = |filter: &str| tshark(file, filter, "frame.number").lines().count();
    Counts {
        requests: handshake("tcp.len >= 16 && tcp.payload[0:4] == 00:71:ce:ac"),
        hellos: handshake("tcp.len <= 72 && tcp.payload contains 63:69:72:45"),
        acks: of("0"),
        puts: of("1"),
        gets: of("2"),
        replies: of("3"),
        noops,
    }
}

/// Counts the items of a connection, and encodes them again.
fn check(connection: &Connection<'_>, counts: &mut Counts) {
    assert_eq!(connection.start, Start::Handshake);
    for direction in [Direction::FromActive, Direction::FromPassive] {
        assert!(!connection.has_gap(direction), "every packet was captured");
    }
    assert!(connection.active.port() <= 1023, "{} is privileged", connection.active);
    assert!(!connection.ends.is_empty(), "the connection was closed");
    let mut said = 0;
    for item in &parse(connection) {
        said += item.bytes.len() + count(item, counts);
        assert_eq!(encode(item), item.bytes, "{item:?}");
    }
    let captured: usize = connection.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    assert_eq!(said, captured, "every byte belongs to an item");
}

/// Counts an item and returns the length of its payload.
fn count(item: &Item, counts: &mut Counts) -> usize {
    let counter = match &item.kind {
        Kind::ConnRequest(_) => &mut counts.requests,
        Kind::Hello(_) => &mut counts.hellos,
        Kind::Frame { lnet: None, .. } => &mut counts.noops,
        Kind::Frame { lnet: Some((header, _)), .. } => match header.body {
            Body::Ack { .. } => &mut counts.acks,
            Body::Put { .. } => &mut counts.puts,
            Body::Get { .. } => &mut counts.gets,
            Body::Reply { .. } => &mut counts.replies,
        },
        Kind::Incomplete | Kind::Malformed(_) => panic!("{item:?}"),
    };
    *counter += 1;
    match &item.kind {
        Kind::Frame { lnet: Some((_, payload)), .. } => payload.len(),
        _ => 0,
    }
}

fn encode(item: &Item) -> Vec<u8> {
    let mut bytes = Vec::new();
    match &item.kind {
        Kind::ConnRequest(request) => request.encode(&mut bytes),
        Kind::Hello(hello) => hello.encode(Order::Little, &mut bytes),
        Kind::Frame { header, lnet } => {
            header.encode(Order::Little, &mut bytes);
            if let Some((lnet, _)) = lnet {
                lnet.encode(HeaderForm::Small, &mut bytes);
            }
        }
        Kind::Incomplete | Kind::Malformed(_) => panic!("{item:?}"),
    }
    bytes
}
