//! Captures of runs can be read like other captures.

use std::collections::BTreeMap;

use fulmar_lnet_wire::header::MessageType;
use fulmar_sim::options::{Kind, Mix};
use fulmar_sim::{Options, capture, run};
use fulmar_trace::lnet::{Kind as ItemKind, parse};
use fulmar_trace::{Capture, Conversation};

/// Returns the number of messages of each type in a file; all must be valid.
fn messages(file: &[u8]) -> BTreeMap<MessageType, usize> {
    let capture = Capture::read(file).expect("it is a capture");
    let conversation = Conversation::of(&capture);
    let mut counts = BTreeMap::new();
    for item in conversation.connections.iter().flat_map(parse) {
        match item.kind {
            ItemKind::Malformed(error) => panic!("{}: {error}", item.time),
            ItemKind::Frame { lnet: Some((header, _)), .. } => {
                *counts.entry(header.body.message_type()).or_default() += 1;
            }
            _ => {}
        }
    }
    counts
}

#[test]
fn a_capture_has_every_message_of_a_run_without_faults() {
    let options = Options { operations: 50, mix: Mix::only(Kind::Put), ..Options::plain(3) };
    let outcome = run(&options, usize::MAX).unwrap();
    let written = |name| outcome.log.iter().filter(|line| line.ends_with(name)).count();
    let counts = messages(&capture(&options));
    for (kind, name) in [
        (MessageType::PUT, " PUT"),
        (MessageType::ACK, " ACK"),
        (MessageType::GET, " GET"),
        (MessageType::REPLY, " REPLY"),
    ] {
        assert_eq!(counts.get(&kind).copied().unwrap_or(0), written(name), "{name}");
    }
    assert!(counts[&MessageType::PUT] >= 50);
}

#[test]
fn captures_of_runs_with_faults_are_valid() {
    let draws = [Options::draw, Options::draw_rails, Options::draw_routed, Options::draw_selftest];
    for (draw, seeds) in draws.into_iter().zip([0..4, 10..12, 20..22, 30..32]) {
        for seed in seeds {
            let options = draw(seed);
            assert!(!messages(&capture(&options)).is_empty(), "{options}");
        }
    }
}
