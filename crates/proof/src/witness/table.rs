//! Every invariant of lnet-behaviour §17, and the checks that are named after it, over real sockets in
//! network namespaces.

use fulmar_sim::check::table::{Guard, guard};

/// Who guards what.
pub const GUARDS: [Guard; 63] = [
    guard(1, "node/check", "every_credit_is_back"),
    guard(1, "node/check", "every_buffer_is_back"),
    guard(2, "node/check", "credits_are_within_their_bounds"),
    guard(2, "witness/credits", "peer_agrees"),
    guard(3, "node/check", "no_message_is_left"),
    guard(4, "witness/credits", "no_more_than_there_are_credits"),
    guard(4, "invariants/credits", "as_many_as_credits_are_handed_over"),
    guard(5, "invariants/credits", "all_arrive_in_the_order_in_which_they_were_posted"),
    guard(6, "invariants/credits", "what_waits_for_too_long_ends_and_its_credit_goes_to_the_next"),
    guard(7, "witness/operations", "nothing_follows_the_last_event"),
    guard(7, "witness/operations", "no_event_without_an_operation"),
    guard(7, "witness/operations", "finished"),
    guard(8, "witness/operations", "thresholds_are_kept"),
    guard(8, "witness/operations", "finished"),
    guard(9, "invariants/peers", "an_acknowledgement_may_come_before_or_after_the_message_is_sent"),
    guard(10, "invariants/operations", "a_put_that_nobody_takes_is_sent_and_dropped"),
    guard(
        10,
        "invariants/operations",
        "an_acknowledgement_that_never_comes_is_given_up_and_costs_health",
    ),
    guard(11, "invariants/credits", "all_arrive_in_the_order_in_which_they_were_posted"),
    guard(12, "witness/operations", "thresholds_are_kept"),
    guard(12, "invariants/operations", "what_exceeds_a_threshold_never_lands"),
    guard(13, "witness/operations", "lengths_are_kept"),
    guard(13, "witness/arrivals", "events_tell_what_came"),
    guard(13, "invariants/operations", "what_is_too_long_is_cut_and_the_next_message_is_whole"),
    guard(14, "witness/arrivals", "acks_follow_their_handlers"),
    guard(14, "invariants/operations", "an_acknowledgement_goes_when_the_handler_has_returned"),
    guard(15, "witness/answers", "answers_were_asked_for"),
    guard(15, "invariants/peers", "an_answer_that_nobody_waits_for_has_no_effect"),
    guard(16, "witness/arrivals", "events_tell_what_came"),
    guard(16, "invariants/operations", "header_data_arrive_bit_by_bit"),
    guard(17, "witness/arrivals", "one_connection_keeps_its_order"),
    guard(17, "invariants/credits", "all_arrive_in_the_order_in_which_they_were_posted"),
    guard(18, "witness/arrivals", "nothing_comes_twice"),
    guard(19, "witness/transits", "forwarded_as_it_came"),
    guard(19, "invariants/routers", "every_length_passes_a_router_in_a_buffer_of_its_class"),
    guard(20, "node/check", "pools_are_within_their_bounds"),
    guard(20, "witness/credits", "pools_agree"),
    guard(20, "invariants/routers", "every_length_passes_a_router_in_a_buffer_of_its_class"),
    guard(21, "invariants/routers", "what_waits_for_the_one_large_buffer_is_in_nobody_elses_way"),
    guard(22, "witness/arrivals", "answers_go_back_as_requests_came"),
    guard(22, "invariants/routers", "an_answer_goes_back_by_the_router_of_its_request"),
    guard(23, "invariants/routers", "a_router_that_does_not_forward_is_not_used_until_it_does"),
    guard(23, "invariants/routers", "a_route_is_down_while_the_far_side_of_its_router_is"),
    guard(23, "invariants/routers", "a_route_whose_router_does_not_answer_is_down_until_it_does"),
    guard(
        24,
        "invariants/routers",
        "priority_beats_hops_and_those_beat_health_and_that_beats_turns",
    ),
    guard(25, "invariants/peers", "a_message_for_a_neighbour_closes_its_connection"),
    guard(26, "witness/discovery", "strangers_are_pinged_first"),
    guard(26, "invariants/peers", "a_stranger_is_pinged_first_and_nothing_is_sent_if_he_is_silent"),
    guard(27, "witness/discovery", "a_change_has_a_new_sequence"),
    guard(27, "witness/discovery", "pushes_are_acknowledged"),
    guard(27, "invariants/rails", "peers_are_told_which_interfaces_come_and_go"),
    guard(28, "invariants/peers", "who_lies_about_himself_is_not_believed"),
    guard(29, "invariants/rails", "idle_interfaces_take_turns"),
    guard(30, "invariants/faults", "what_was_dropped_here_goes_by_the_other_interface"),
    guard(31, "invariants/faults", "what_may_have_arrived_is_not_sent_again"),
    guard(31, "invariants/faults", "a_peer_with_one_nid_keeps_its_health_and_gets_nothing_twice"),
    guard(32, "node/check", "health_is_bounded"),
    guard(32, "invariants/faults", "without_sensitivity_health_never_changes"),
    guard(33, "witness/operations", "given_pairs_are_kept"),
    guard(33, "invariants/rails", "a_source_that_is_given_keeps_its_pair"),
    guard(33, "invariants/rails", "a_peer_without_discovery_sees_one_face_until_it_is_multi_rail"),
    guard(34, "invariants/rails", "a_peer_without_discovery_sees_one_face_until_it_is_multi_rail"),
    guard(35, "invariants/faults", "a_rule_drops_one_of_every_window"),
    guard(36, "invariants/faults", "a_rule_delays_and_what_it_delayed_goes_when_it_is_deleted"),
];

#[cfg(test)]
mod tests {
    use fulmar_sim::check::table::unguarded;

    use super::*;

    const FILES: [(&str, &str); 13] = [
        ("witness/answers", include_str!("answers.rs")),
        ("witness/arrivals", include_str!("arrivals.rs")),
        ("witness/credits", include_str!("credits.rs")),
        ("witness/discovery", include_str!("discovery.rs")),
        ("witness/operations", include_str!("operations.rs")),
        ("node/check", include_str!("../../../node/src/check.rs")),
        ("witness/transits", include_str!("transits.rs")),
        ("invariants/credits", include_str!("../../tests/invariants/credits.rs")),
        ("invariants/faults", include_str!("../../tests/invariants/faults.rs")),
        ("invariants/operations", include_str!("../../tests/invariants/operations.rs")),
        ("invariants/peers", include_str!("../../tests/invariants/peers.rs")),
        ("invariants/rails", include_str!("../../tests/invariants/rails.rs")),
        ("invariants/routers", include_str!("../../tests/invariants/routers.rs")),
    ];

    fn is_story(guard: &Guard) -> bool {
        guard.file.starts_with("invariants/")
    }

    #[test]
    fn every_invariant_has_a_guard_that_exists() {
        assert_eq!(unguarded(&GUARDS, &FILES), None);
        for Guard { number, file, check } in GUARDS.iter().filter(|guard| is_story(guard)) {
            let (_, text) = FILES.iter().find(|(name, _)| name == file).expect("it was found");
            // A story that is no test any more, and that no test calls, judges nothing.
            let called = text.matches(&format!("{check}(")).count() > 1;
            let is_test = text.contains(&format!("#[test]\nfn {check}("));
            assert!(is_test || called, "{number}: nobody calls {check} in {file}");
        }
    }
}
