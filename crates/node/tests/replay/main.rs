//! Recorded conversations of real nodes, with our machine in the place of either.

mod player;
mod recording;

use fulmar_lnet_wire::Nid;
use player::Player;
use recording::Recording;

fn nids(texts: &[&str]) -> Vec<Nid> {
    texts.iter().map(|text| text.parse().expect("a NID")).collect()
}

/// Plays `file` once in the place of each node, and requires `messages` of each.
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
