//! Every invariant of lnet-behaviour §17, and its checks.

/// A check of one invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its number in lnet-behaviour §17.
    pub number: u8,
    /// The file, relative to the directory of checks or tests, without extension.
    pub file: &'static str,
    /// The function that checks it: all the time, at the end of every run, or in a test.
    pub check: &'static str,
}

/// Returns a check of an invariant.
pub const fn guard(number: u8, file: &'static str, check: &'static str) -> Guard {
    Guard { number, file, check }
}

/// Returns an error if an invariant has no check, or a check is not in its file. `files` are names
/// and texts.
pub fn unguarded(guards: &[Guard], files: &[(&str, &str)]) -> Option<String> {
    let is_guarded = |number: &u8| guards.iter().any(|guard| guard.number == *number);
    if let Some(number) = (1..=INVARIANTS).find(|number| !is_guarded(number)) {
        return Some(format!("invariant {number} has no check"));
    }
    let stands = |guard: &&Guard| {
        let text = files.iter().find(|(name, _)| *name == guard.file);
        text.is_some_and(|(_, text)| text.contains(&format!("fn {}(", guard.check)))
    };
    guards.iter().find(|guard| !stands(guard)).map(|missing| format!("{missing:?} does not exist"))
}

/// Number of invariants in lnet-behaviour §17.
const INVARIANTS: u8 = 36;

/// The checks of all invariants.
pub const GUARDS: [Guard; 48] = [
    guard(1, "check/credits", "idle"),
    guard(1, "check/routers", "idle"),
    guard(2, "check/credits", "settled_node"),
    guard(2, "check/routers", "buffers_are_within_their_pools"),
    guard(3, "check/credits", "idle"),
    guard(4, "check/credits", "observe"),
    guard(
        4,
        "tests/sim/scenarios",
        "a_lazy_portal_without_buffers_stalls_its_senders_and_nothing_is_lost",
    ),
    guard(5, "tests/sim/stories/rails", "queued_messages_leave_in_order"),
    guard(6, "tests/sim/swarm", "a_few_seeds_cover_every_fault_and_every_failure"),
    guard(7, "check/operations", "initiator"),
    guard(8, "check/operations", "descriptor"),
    guard(8, "check/operations", "finished"),
    guard(9, "check/operations", "initiator"),
    guard(10, "check/operations", "put_served"),
    guard(10, "check/calm", "finished"),
    guard(11, "check/calm", "finished"),
    guard(12, "check/operations", "descriptor"),
    guard(13, "check/operations", "put_served"),
    guard(14, "check/operations", "initiator"),
    guard(15, "check/operations", "initiator"),
    guard(16, "check/operations", "put_served"),
    guard(17, "check/order", "received"),
    guard(18, "check/operations", "put_served"),
    guard(19, "check/routers", "forwarded_unchanged"),
    guard(19, "check/data", "arrived"),
    guard(20, "check/routers", "buffers_are_within_their_pools"),
    guard(20, "tests/sim/stories/routers", "every_length_passes_a_router_in_a_buffer_of_its_class"),
    guard(
        21,
        "tests/sim/stories/routers",
        "a_message_that_waits_for_a_large_buffer_blocks_no_others",
    ),
    guard(22, "check/routers", "responses_take_the_reverse_route"),
    guard(23, "check/routers", "closed_routers_are_not_used"),
    guard(23, "tests/sim/stories/routers", "a_route_is_down_while_its_router_does_not_forward"),
    guard(23, "tests/sim/stories/routers", "a_route_is_down_until_its_crashed_router_answers"),
    guard(23, "tests/sim/stories/routers", "a_route_is_down_while_the_routers_remote_interface_is"),
    guard(24, "tests/sim/stories/routers", "priority_precedes_hops_and_hops_precede_round_robin"),
    guard(25, "tests/sim/stories/rails", "a_message_for_another_node_closes_its_connection"),
    guard(26, "check/discovery", "wrote"),
    guard(27, "check/rails", "a_change_has_a_new_sequence"),
    guard(27, "check/rails", "peers_know_all_interfaces"),
    guard(28, "tests/sim/stories/rails", "invalid_ping_info_is_rejected"),
    guard(29, "tests/sim/stories/rails", "idle_interfaces_take_turns"),
    guard(30, "tests/sim/stories/rails", "a_refused_message_is_resent_on_the_other_rail"),
    guard(
        31,
        "tests/sim/stories/rails",
        "a_peer_with_one_nid_keeps_its_health_and_gets_no_resends",
    ),
    guard(32, "check/rails", "health_is_bounded"),
    guard(33, "check/rails", "given_pairs_are_kept"),
    guard(33, "check/rails", "one_source_for_peers_without_multi_rail"),
    guard(
        34,
        "tests/sim/stories/rails",
        "a_peer_without_discovery_sees_one_source_until_it_is_multi_rail",
    ),
    guard(35, "tests/sim/stories/faults", "a_rule_drops_one_of_every_window"),
    guard(36, "tests/sim/stories/faults", "a_rule_delays_until_it_is_deleted"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 13] = [
        ("check/calm", include_str!("calm.rs")),
        ("check/credits", include_str!("credits.rs")),
        ("check/data", include_str!("data.rs")),
        ("check/discovery", include_str!("discovery.rs")),
        ("check/operations", include_str!("operations.rs")),
        ("check/order", include_str!("order.rs")),
        ("check/rails", include_str!("rails.rs")),
        ("check/routers", include_str!("routers.rs")),
        ("tests/sim/stories/faults", include_str!("../../tests/sim/stories/faults.rs")),
        ("tests/sim/stories/rails", include_str!("../../tests/sim/stories/rails.rs")),
        ("tests/sim/stories/routers", include_str!("../../tests/sim/stories/routers.rs")),
        ("tests/sim/scenarios", include_str!("../../tests/sim/scenarios.rs")),
        ("tests/sim/swarm", include_str!("../../tests/sim/swarm.rs")),
    ];

    #[test]
    fn every_invariant_has_a_check_that_exists() {
        assert_eq!(unguarded(&GUARDS, &FILES), None);
        assert!(unguarded(&GUARDS[1..], &FILES[1..]).is_some(), "a file is missing");
        assert!(unguarded(&GUARDS[..40], &FILES).is_some_and(|why| why.contains("has no check")));
    }
}
