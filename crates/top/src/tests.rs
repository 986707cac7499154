//! The machine as a whole: samples in, views out.

use proptest::prelude::*;

use crate::record::{Header, Round};
use crate::*;

fn sample(seconds: u64) -> Sample {
    let interface = Interface {
        nid: "10.0.0.1@tcp".into(),
        device: "eth0".into(),
        is_up: true,
        health: 1000,
        credits: 250,
        credits_max: 256,
        sent: seconds * 100,
        received: seconds * 50,
        round_trips: Latency { samples: seconds * 10, sum_nsec: seconds * 10 * 50_000_000 },
        ..Interface::default()
    };
    Sample {
        at_ms: seconds * 1000,
        name: "10.0.0.1@tcp".into(),
        totals: Totals {
            sent: seconds * 100,
            received: seconds * 50,
            sent_bytes: seconds << 20,
            ..Totals::default()
        },
        interfaces: vec![interface],
        ..Sample::default()
    }
}

fn answer(sample: Sample) -> Answer {
    Answer::Sample(Box::new(sample))
}

fn model(samples: impl IntoIterator<Item = Sample>) -> Model {
    let mut model = Model::new(["a.sock".to_owned()]);
    samples.into_iter().for_each(|sample| model.handle_answer(0, answer(sample)));
    model
}

/// Returns a figure as it is now.
fn figure(model: &Model, quantity: Quantity) -> Option<String> {
    let node = &model.view().nodes[0];
    node.figures.iter().find(|one| one.name == quantity.name()).map(|one| one.now.clone())
}

#[test]
fn rates_are_those_between_two_samples() {
    let model = model([sample(10), sample(12)]);
    assert_eq!(figure(&model, Quantity::Sent).as_deref(), Some("1 MiB/s"));
    assert_eq!(figure(&model, Quantity::Messages).as_deref(), Some("150/s"));
    assert_eq!(figure(&model, Quantity::RoundTrip).as_deref(), Some("50 ms"));
    assert_eq!(figure(&model, Quantity::Operations), None, "it has no targets");
    let view = model.view();
    let row = &view.nodes[0].tables[0].rows[0];
    assert_eq!(
        row.cells,
        ["10.0.0.1@tcp", "eth0", "up", "1000", "250 of 256", "0", "100", "50", "0", "0", "50 ms"]
    );
    assert_eq!((row.mark, &view.nodes[0].troubles[..]), (Mark::Plain, &[][..]));
}

#[test]
fn the_first_sample_and_that_of_a_restarted_node_have_no_rates() {
    let first = model([sample(10)]);
    assert_eq!(figure(&first, Quantity::Sent), None);
    assert_eq!(figure(&first, Quantity::Waiting).as_deref(), Some("0"));
    let restarted = model([sample(10), sample(12), Sample { at_ms: 14_000, ..sample(1) }]);
    assert_eq!(figure(&restarted, Quantity::Sent).as_deref(), Some("-"));
    let again = model([sample(10), sample(12), sample(12)]);
    assert_eq!(figure(&again, Quantity::Sent).as_deref(), Some("1 MiB/s"), "the same sample");
}

#[test]
fn what_is_wrong_is_said_first() {
    let mut now = sample(12);
    now.interfaces[0].credits = -3;
    now.totals.dropped = 8;
    let peer = Peer { nid: "10.0.0.9@tcp".into(), health: 0, ..Peer::default() };
    now.peers.push(peer);
    let error = Some("no such directory".into());
    now.targets.push(Target { name: "lv-OST0000".into(), error, ..Target::default() });
    let model = model([sample(10), now]);
    let node = &model.view().nodes[0];
    let texts: Vec<&str> = node.troubles.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "peer 10.0.0.9@tcp has health 0: nothing arrives there",
            "target lv-OST0000 is not served: no such directory",
            "3 messages waiting for a credit of interface 10.0.0.1@tcp",
            "messages are dropped: 4/s",
        ]
    );
    assert!(node.text().contains("\n!! peer 10.0.0.9@tcp"), "{}", node.text());
}

#[test]
fn a_node_that_stops_answering_keeps_what_it_said() {
    let mut model = model([sample(10), sample(12)]);
    model.handle_answer(0, Answer::Error("no node answers\u{1b}[2J at a.sock".into()));
    let view = model.view();
    let node = &view.nodes[0];
    assert_eq!(
        (node.state, node.tables.len(), node.at.as_str()),
        (State::Silent, 1, "00:00:12 UTC")
    );
    assert_eq!(node.troubles[0], (Mark::Bad, "no node answers?[2J at a.sock".into()));
    assert_eq!(view.overview.rows[0].cells[..3], ["10.0.0.1@tcp", "no answer", "-"]);
    model.handle_answer(0, answer(sample(14)));
    assert_eq!(model.view().nodes[0].state, State::Up);
}

#[test]
fn targets_and_mounts_have_rates_of_their_own() {
    let counter = |name: &str, samples, sum| Counter { name: name.into(), samples, sum };
    let with = |seconds: u64| {
        let target = Target {
            name: "lv-OST0000".into(),
            kind: "obdfilter".into(),
            counters: vec![
                counter("read_bytes", seconds, seconds << 20),
                counter("read", seconds * 5, seconds * 5 * 300),
            ],
            size_kib: 1000,
            free_kib: 20,
            clients: 3,
            in_hand: 2,
            queued: 1,
            locks: Some(9),
            locks_granted: Some(7),
            ..Target::default()
        };
        let connection = Connection {
            mount: "lv-ff12".into(),
            device: "lv-OST0000".into(),
            state: "FULL".into(),
            in_flight: 3,
            counters: vec![counter("req_waittime", seconds * 4, seconds * 4 * 51_000)],
            ..Connection::default()
        };
        Sample { targets: vec![target], connections: vec![connection], ..sample(seconds) }
    };
    let model = model([with(10), with(12)]);
    for (quantity, text) in [
        (Quantity::TargetsRead, "1 MiB/s"),
        (Quantity::Operations, "5/s"),
        (Quantity::RpcsInFlight, "3"),
        (Quantity::RpcTime, "51 ms"),
        (Quantity::Locks, "9"),
    ] {
        assert_eq!(figure(&model, quantity).as_deref(), Some(text), "{quantity:?}");
    }
    let view = model.view();
    let table = |title: &str| view.nodes[0].tables.iter().find(|table| table.title == title);
    let operations = table("Operations").unwrap();
    assert_eq!(operations.rows[0].cells, ["lv-OST0000", "read", "5", "300 µs"]);
    assert_eq!(operations.rows[1].cells, ["lv-OST0000", "read_bytes", "1", "1 MiB"]);
    let targets = table("Targets").unwrap();
    assert_eq!(targets.rows[0].mark, Mark::Warn, "2 % are free");
    assert_eq!(
        targets.rows[0].cells[3..8],
        ["3", "2", "1", "7", "2"],
        "clients, RPCs, queued, locks"
    );
    assert_eq!(table("Mounts").unwrap().rows[0].cells[4..7], ["3", "4", "51 ms"]);
}

#[test]
fn what_a_node_says_is_bounded() {
    let peer = |number: u64| Peer {
        nid: format!("peer {number}\n").repeat(100),
        health: if number == 5000 { 7 } else { 1000 },
        sent: u64::MAX - number,
        credits: i64::MIN,
        ..Peer::default()
    };
    let full = Sample {
        name: "\u{1b}]0;title\u{7}".repeat(1000),
        peers: (0..10_000).map(peer).collect(),
        peers_known: u64::MAX,
        targets: vec![
            Target { counters: vec![Counter::default(); 1000], ..Target::default() };
            1000
        ],
        ..sample(10)
    };
    let sample = full.clone().bound();
    assert_eq!((sample.peers.len(), sample.targets.len()), (128, 512));
    assert_eq!(sample.targets[0].counters.len(), 64);
    assert!(sample.name.chars().count() <= 160 && !sample.name.contains('\u{1b}'));
    let text = model([sample, Sample { at_ms: 11_000, ..full }]).view().text();
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("128 of 18,446,744,073,709,551,615 NIDs"), "{text}");
    let many = Model::new((0..1000).map(|number| number.to_string()));
    assert_eq!(many.view().nodes.len(), NODES_MAX);
}

#[test]
fn a_recording_has_what_was_seen() {
    let header = Header::new(vec!["a.sock".into(), "b:9988".into()]);
    assert_eq!(Header::parse(&header.line()).unwrap(), header);
    let answers = vec![Some(answer(sample(10))), Some(Answer::Error("no answer".into())), None];
    let round = Round { at_ms: 10_500, answers };
    assert_eq!(Round::parse(&round.line()).unwrap(), round);
    for (line, why) in [
        ("{\"fulmar_top\":2,\"nodes\":[]}", "it is of version 2"),
        ("hello", "the first line is not that of a recording"),
    ] {
        let error = Header::parse(line).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
    assert!(Round::parse("{\"at_ms\":1,\"answers\":[{\"sam").is_err());
}

#[test]
fn samples_of_other_releases_are_read() {
    let read: Sample = serde_json::from_str("{\"name\":\"a\",\"new\":1,\"peers\":[{}]}").unwrap();
    assert_eq!((read.name.as_str(), read.peers.len()), ("a", 1));
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let number = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let credits = prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()];
    (prop::collection::vec(number, 8), prop::collection::vec(credits, 4), "\\PC{0,8}").prop_map(
        |(n, credits, text)| {
            let round_trips = Latency { samples: n[0], sum_nsec: n[1] };
            let counter = |name: &str| Counter { name: name.into(), samples: n[2], sum: n[3] };
            let counters = ["read_bytes", "read", "req_waittime"].map(counter).to_vec();
            let target = Target {
                name: text.clone(),
                counters: counters.clone(),
                size_kib: n[4],
                free_kib: n[5],
                files: n[6],
                in_hand: n[4],
                queued: n[5],
                locks: Some(n[7]),
                ..Target::default()
            };
            let connection = Connection {
                device: text.clone(),
                in_flight: n[4],
                counters,
                locks: Some(n[7]),
                ..Connection::default()
            };
            let interface = Interface {
                nid: text.clone(),
                credits: credits[0],
                sent: n[5],
                round_trips: round_trips.clone(),
                ..Interface::default()
            };
            let peer = Peer {
                nid: text.clone(),
                health: n[6],
                credits: credits[1],
                queued_bytes: n[1],
                received: n[0],
                sent: n[2],
                round_trips,
                ..Peer::default()
            };
            let pool = Pool {
                name: text.clone(),
                buffers: credits[2],
                free: credits[3],
                ..Pool::default()
            };
            Sample {
                at_ms: n[6],
                name: text.clone(),
                totals: Totals { sent: n[0] / 2, dropped: n[1], failed: n[2], ..Totals::default() },
                routing: Some(text),
                interfaces: vec![interface.clone(), interface],
                peers: vec![peer.clone(), peer],
                pools: vec![pool],
                targets: vec![target.clone(), target],
                connections: vec![connection.clone(), connection],
                peers_known: n[3],
                ..Sample::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn no_answers_panic(samples in prop::collection::vec(any_sample(), 1..4)) {
        let model = model(samples);
        let _ = model.view().text();
    }

    #[test]
    fn no_texts_of_parameters_panic(text in "(import:|state: |[a-z_]{1,8} +[0-9]{1,22} samples|[\\[\\]0-9 \n:]|\\PC){0,30}") {
        for name in ["osc/a-osc-b/import", "osc/a-osc-b/stats", "ldlm/namespaces/a/lock_count", "mdt/a/md_stats", "osc/-/stats"] {
            let parts: Vec<String> = name.split('/').map(str::to_owned).collect();
            let parameters = [(parts, text.clone())];
            let _ = parameters::connections(&parameters);
            parameters::describe(&mut [Target { name: "a".into(), ..Target::default() }], &parameters);
        }
    }
}
