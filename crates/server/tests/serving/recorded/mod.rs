//! Our servers in the place of the recorded ones: what kernel clients have sent to kernel servers, in its
//! order. Each reply and each callback must be as it was, but for what [`known`] says.

mod batch;
pub(crate) mod clients;
mod compare;
mod handles;
mod known;
pub(crate) mod machine;
mod memory;
mod player;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use fulmar_trace::lnet::{self, Item};
use fulmar_trace::rpc::Calls;

use compare::Difference;
use known::{KNOWN, KnownDifference};
use player::Player;

pub(crate) fn items(name: &str) -> Vec<Item> {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Plays recordings that follow each other.
fn play(names: &[&str], osts: (u16, bool)) -> Vec<Difference> {
    let mount = items("mount");
    let mount = Calls::of(&mount);
    let items: Vec<Item> = names.iter().flat_map(|name| items(name)).collect();
    let calls = Calls::of(&items);
    Player::new(&calls.rpcs, &mount.rpcs, osts).play()
}

/// What is not as it was in each conversation, which is played once.
static FOUND: LazyLock<Vec<(&str, Vec<Difference>)>> = LazyLock::new(|| {
    vec![
        ("mount", play(&["mount"], (2, false))),
        ("meta and data", play(&["meta", "data"], (2, false))),
        ("contend", play(&["contend"], (2, false))),
        ("ost-join", play(&["ost-join"], (2, true))),
    ]
});

/// Requires that everything has a reason.
fn check(conversation: &str) {
    let (_, found) = FOUND.iter().find(|(name, _)| *name == conversation).unwrap();
    let mut counts: BTreeMap<(&str, &str), (usize, &Difference)> = BTreeMap::new();
    for one in found.iter().filter(|one| one.reason().is_none()) {
        let entry = counts.entry((&one.operation, &one.field)).or_insert((0, one));
        entry.0 += 1;
    }
    let shown = |(count, one): &(usize, &Difference)| format!("{count} times {one}\n");
    let wrong: String = counts.values().map(shown).collect();
    assert!(wrong.is_empty(), "{conversation}:\n{wrong}");
}

#[test]
fn a_kernel_client_mounts_a_file_system_of_ours() {
    check("mount");
}

#[test]
fn a_kernel_client_changes_files_and_writes_data_on_our_servers() {
    check("meta and data");
}

#[test]
fn two_kernel_clients_contend_for_files_of_our_servers() {
    check("contend");
}

#[test]
fn a_kernel_ost_joins_a_file_system_of_ours_and_a_kernel_mdt_uses_our_ost() {
    check("ost-join");
}

#[test]
fn every_known_difference_is_seen() {
    let found = FOUND.iter().flat_map(|(_, found)| found);
    let used: BTreeSet<usize> = found.filter_map(Difference::reason).collect();
    for (place, known) in KNOWN.iter().enumerate() {
        let KnownDifference { operation, field, reason, .. } = known;
        assert!(used.contains(&place), "{operation} {field} is not different: {reason}");
    }
}
