//! A node under attack. All bounds here hold on a machine of any speed; `make bench ONLY=hostile`
//! measures the service.

use std::time::Duration;

use fulmar_testbed::hostile::{self, ATTACKS, Attack, Mix, Setup};
use fulmar_testbed::lab::Lab;

/// How long each mix attacks.
const EACH: Duration = Duration::from_secs(2);
const SEED: u64 = 1;

fn survives(setups: &[Setup]) {
    let only = |attack: &Attack| setups.contains(&attack.setup);
    for mix in Mix::of_all(SEED, only) {
        let Some(lab) = Lab::or_not_run() else { return };
        hostile::mix(&lab, &mix, EACH).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn a_node_survives_hostile_peers() {
    survives(&[Setup::Plain]);
}

#[test]
fn a_node_survives_what_its_configuration_allows_hostile_peers() {
    survives(&[Setup::Gateway, Setup::Allowed, Setup::FewDescriptors, Setup::Ipv6]);
}

#[test]
fn a_router_survives_hostile_peers() {
    survives(&[Setup::Router]);
}

#[test]
fn targets_survive_hostile_clients() {
    survives(&[Setup::Targets]);
}

#[test]
fn every_attack_is_in_a_mix() {
    let mixes = Mix::of_all(SEED, |_| true);
    for attack in ATTACKS {
        let of = mixes.iter().filter(|mix| mix.attacks.iter().any(|a| a.name == attack.name));
        assert_eq!(of.count(), 1, "{}", attack.name);
    }
}
