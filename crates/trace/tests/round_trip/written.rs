//! Written captures, as this crate and tshark read them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_base::Time;
use fulmar_trace::lnet::{Kind, parse};
use fulmar_trace::{Capture, CaptureWriter, Connection, Conversation, Direction, End, Start};

use crate::traces::{NAMES, file};

/// Writes the connections of a capture again, all packets in the order of time.
fn rewrite(conversation: &Conversation<'_>) -> Vec<u8> {
    enum What<'a> {
        Open,
        Bytes(Direction, &'a [u8]),
        End(End),
    }
    let mut events = Vec::new();
    for (index, connection) in conversation.connections.iter().enumerate() {
        events.push((connection.opened, index, What::Open));
        for chunk in &connection.chunks {
            events.push((chunk.time, index, What::Bytes(chunk.direction, chunk.bytes)));
        }
        events.extend(connection.ends.iter().map(|end| (end.time, index, What::End(*end))));
    }
    events.sort_by_key(|(time, ..)| *time);
    let mut writer = CaptureWriter::new();
    let mut flows = vec![None; conversation.connections.len()];
    for (time, index, what) in events {
        let connection = &conversation.connections[index];
        match (what, flows[index]) {
            (What::Open, _) if connection.start == Start::Attempt => {
                writer.refuse(time, connection.active, connection.passive);
            }
            (What::Open, _) => {
                flows[index] = Some(writer.open(time, connection.active, connection.passive));
            }
            (What::Bytes(direction, bytes), Some(flow)) => {
                writer.send(time, flow, direction, bytes);
            }
            (What::End(end), Some(flow)) if end.reset => writer.reset(time, flow, end.direction),
            (What::End(end), Some(flow)) => writer.close(time, flow, end.direction),
            (_, None) => {}
        }
    }
    writer.take_bytes()
}

#[test]
fn written_captures_can_be_read() {
    for name in NAMES {
        let original = file(name);
        let original = Conversation::of(&Capture::read(&original).unwrap());
        let written = rewrite(&original);
        let again = Conversation::of(&Capture::read(&written).unwrap());
        assert_eq!(again.connections.len(), original.connections.len(), "{name}");
        for (again, original) in again.connections.iter().zip(&original.connections) {
            assert_eq!((again.active, again.passive), (original.active, original.passive));
            assert_eq!(again.opened, original.opened, "{name}");
            // A failure of assert_eq would print megabytes.
            assert!(joined(again) == joined(original), "{name}: the bytes differ");
            if original.start != Start::Earlier {
                assert_eq!(again.start, original.start, "{name}");
                assert!(parse(again) == parse(original), "{name}: the items differ");
            }
        }
    }
}

/// Returns the bytes of a connection, with those of the same direction and time as one piece: the
/// writer splits at its own length.
fn joined(connection: &Connection<'_>) -> Vec<(Time, Direction, Vec<u8>)> {
    let mut pieces: Vec<(Time, Direction, Vec<u8>)> = Vec::new();
    for chunk in &connection.chunks {
        match pieces.last_mut() {
            Some((time, direction, bytes))
                if (*time, *direction) == (chunk.time, chunk.direction) =>
            {
                bytes.extend_from_slice(chunk.bytes);
            }
            _ => pieces.push((chunk.time, chunk.direction, chunk.bytes.to_vec())),
        }
    }
    pieces
}

#[test]
fn tshark_finds_the_same_messages_in_written_captures() {
    if let Err(error) = Command::new("tshark").arg("--version").output() {
        // The test harness would hide the output of eprintln.
        let said = writeln!(
            std::io::stderr(),
            "\nNOT RUN: tshark does not run ({error}): install it to check written captures"
        );
        return said.expect("standard error is open");
    }
    for name in ["ping", "router", "ost-join", "ipv6", "checksum", "mount-fresh"] {
        let original = file(name);
        let original = Conversation::of(&Capture::read(&original).unwrap());
        let path = temporary(&format!("{name}.pcapng"), &rewrite(&original));
        let bad = "ip.checksum.status == 0 || tcp.checksum.status == 0 \
            || (tcp.analysis.flags && !tcp.analysis.reused_ports)";
        assert_eq!(tshark(&path, &["-Y", bad]), "", "{name}");
        if name == "ipv6" {
            continue; // Its LNet dissector does not support headers of 96 bytes.
        }
        let fields = ["-e", "lnet.msg_type", "-e", "lnet.payload_length"];
        let lines = tshark(&path, &[["-Y", "lnet", "-T", "fields"].as_slice(), &fields].concat());
        let mut found: Vec<(u32, u32)> = lines.lines().flat_map(messages_of_line).collect();
        found.sort_unstable();
        let mut expected: Vec<(u32, u32)> =
            original.connections.iter().flat_map(messages_of_connection).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
}

/// Returns the type and the payload length of each message that ends in a packet:
/// `1,2<tab>160,0`.
fn messages_of_line(line: &str) -> Vec<(u32, u32)> {
    let (types, lens) = line.split_once('\t').unwrap();
    let numbers = |list: &str| -> Vec<u32> {
        let items = list.split(',').filter(|item| !item.is_empty());
        items.map(|item| item.parse().unwrap()).collect()
    };
    numbers(types).into_iter().zip(numbers(lens)).collect()
}

fn messages_of_connection(connection: &Connection<'_>) -> Vec<(u32, u32)> {
    let message = |kind| match kind {
        Kind::Frame { lnet: Some((header, _)), .. } => {
            Some((header.body.message_type().0, header.payload_len))
        }
        _ => None,
    };
    parse(connection).into_iter().filter_map(|item| message(item.kind)).collect()
}

fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    path
}

fn tshark(path: &Path, arguments: &[&str]) -> String {
    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"];
    let output =
        Command::new("tshark").arg("-r").arg(path).args(checks).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
