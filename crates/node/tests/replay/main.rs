//! Replays recorded conversations of real nodes, with the machine in place of either node.

mod buffers;
mod names;
mod outputs;
mod player;
mod recording;
mod scripts;
mod selftest;

use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::LnetCounters;
use player::Player;
use recording::Recording;
use selftest::{Start, Upper};

fn nids(texts: &[&str]) -> Vec<Nid> {
    texts.iter().map(|text| text.parse().expect("a NID")).collect()
}

/// Replays `file` once in place of each node, and requires `messages` of each.
fn play(file: &str, places: [(&[&str], usize); 2], late: bool) {
    let recording = Recording::read(file);
    for (place, messages) in places {
        println!("{file}, in the place of {place:?}");
        let mut player = Player::new(&recording, &nids(place), late);
        player.play();
        assert_eq!(player.answered, messages, "messages sent in the place of {place:?}");
    }
}

#[test]
fn ping() {
    play("ping.pcapng.gz", [(&["10.99.0.1@tcp"], 5), (&["10.99.0.3@tcp"], 5)], false);
}

#[test]
fn ipv6() {
    play("ipv6.pcapng.gz", [(&["fd00:99::3@tcp"], 4), (&["fd00:99::4@tcp"], 4)], true);
}

#[test]
fn checksum() {
    play("checksum.pcapng.gz", [(&["10.99.0.3@tcp"], 20), (&["10.99.0.4@tcp"], 22)], false);
}

#[test]
fn multirail() {
    let three: &[&str] = &["10.99.0.3@tcp", "10.99.1.3@tcp"];
    let four: &[&str] = &["10.99.0.4@tcp", "10.99.1.4@tcp"];
    play("multirail.pcapng.gz", [(three, 28), (four, 30)], false);
}

/// Replays trace router once, and requires `messages` of the machine.
fn play_router(begin: impl FnOnce(&Recording) -> Player<'_>, messages: usize) {
    let recording = Recording::read("router.pcapng.gz");
    let mut player = begin(&recording);
    player.play();
    assert_eq!(player.answered, messages);
}

#[test]
fn router_from_the_first_network() {
    let (behind, gateway) = (nids(&["10.99.1.3@tcp1"])[0].net(), nids(&["10.99.0.4@tcp"])[0]);
    let ours = nids(&["10.99.0.1@tcp"]);
    play_router(|recording| Player::new(recording, &ours, false).with_route(behind, gateway), 33);
}

#[test]
fn router_from_the_second_network() {
    let (behind, gateway) = (nids(&["10.99.0.1@tcp"])[0].net(), nids(&["10.99.1.4@tcp1"])[0]);
    let ours = nids(&["10.99.1.3@tcp1"]);
    play_router(|recording| Player::new(recording, &ours, false).with_route(behind, gateway), 35);
}

#[test]
fn router_between_them() {
    let ours = nids(&["10.99.0.4@tcp", "10.99.1.4@tcp1"]);
    play_router(|recording| Player::router(recording, &ours), 68);
}

/// Replays a recording once in place of one node, with the selftest on the machine.
fn play_selftest(recording: &Recording, place: &str, start: Start, messages: usize) {
    let mut player = Player::with_selftest(recording, &nids(&[place]), Upper::new(start));
    player.play();
    assert_eq!(player.answered, messages, "messages sent in the place of {place}");
}

/// Replays trace selftest, whose nodes had known each other before.
fn play_older(place: &str, start: Start, messages: usize) {
    let recording = Recording::read_older("selftest.pcapng.gz", nids(&[place])[0]);
    play_selftest(&recording, place, start, messages);
}

#[test]
fn selftest_as_console_and_client() {
    let earlier = LnetCounters::default();
    let start = Start { base: 0x5719, earlier, script: scripts::selftest() };
    play_older("10.99.0.1@tcp", start, 51);
}

#[test]
fn selftest_as_server() {
    // Pings and pushes, except for the one ping that is replayed too.
    let earlier = LnetCounters {
        send_count: 5 - 1,
        recv_count: 5 - 1,
        send_length: 4 * 48,
        recv_length: 48 - 48,
        ..LnetCounters::default()
    };
    play_older("10.99.0.3@tcp", Start { base: 1, earlier, script: vec![] }, 59);
}

/// Replays trace selftest-remote, whose nodes had just started.
fn play_remote(place: &str, base: u16, script: scripts::Script, messages: usize) {
    let mut recording = Recording::read("selftest-remote.pcapng.gz");
    recording.delay_stops();
    let earlier = LnetCounters::default();
    play_selftest(&recording, place, Start { base, earlier, script }, messages);
}

#[test]
fn selftest_as_console() {
    play_remote("10.99.0.1@tcp", 0x6807, scripts::selftest_remote(), 35);
}

#[test]
fn selftest_as_client() {
    play_remote("10.99.0.3@tcp", 0x680d, vec![], 1262);
}

#[test]
fn selftest_as_server_of_another() {
    play_remote("10.99.0.4@tcp", 1, vec![], 1254);
}
