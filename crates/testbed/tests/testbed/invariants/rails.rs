//! Nodes with several interfaces. Spec: lnet-behaviour §17, 27, 29, 33 and 34.

use fulmar_lnet::Globals;
use fulmar_net::NiOptions;

use super::common::{Member, Plan, World, until};

/// Returns how much more one interface has sent than another.
fn spread(before: &[u64], after: &[u64]) -> u64 {
    let counts: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

fn puts_received(member: &Member) -> Vec<u64> {
    member.nis().iter().map(|ni| ni.traffic.received.put).collect()
}

#[test]
fn idle_interfaces_take_turns() {
    let Some(world) = World::new(&[Plan::at(&[0, 0]), Plan::at(&[0, 0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 1);
    until("the pushes are over", || {
        [a, b].iter().all(|member| member.look(|lnet| lnet.is_idle().is_ok()))
    });
    let before = (a.puts_sent(), puts_received(b));
    for _ in 0..60 {
        a.put_well(b, 4096);
        until("A is idle", || a.look(|lnet| lnet.is_idle().is_ok()));
    }
    let after = (a.puts_sent(), puts_received(b));
    assert!(spread(&before.0, &after.0) <= 1, "{before:?} {after:?}");
    assert!(spread(&before.1, &after.1) <= 1, "{before:?} {after:?}");
    world.end();
}

#[test]
fn a_message_with_a_given_source_keeps_its_pair_of_nids() {
    let Some(world) = World::new(&[Plan::at(&[0, 0]), Plan::at(&[0, 0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 1);
    for (from, to) in [(1, 0), (0, 1), (0, 0), (1, 1)] {
        let before = (a.puts_sent()[from], puts_received(b)[to]);
        for _ in 0..5 {
            // The witness checks that exactly this pair is on the wire.
            a.put_well_to(b, b.nids[to], 4096, Some(a.nids[from]));
        }
        let after = (a.puts_sent()[from], puts_received(b)[to]);
        assert_eq!((after.0 - before.0, after.1 - before.1), (5, 5), "{from} to {to}");
    }
    world.end();
}

#[test]
fn a_peer_without_discovery_sees_one_nid_until_it_is_multi_rail() {
    let quiet = || {
        let mut plan = Plan::at(&[0, 0]).with(|o| o.config.lnet.globals.discovery = false);
        plan.terms.discovers = false;
        plan
    };
    let Some(world) = World::new(&[quiet(), quiet()]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    for _ in 0..6 {
        a.put_well(b, 1);
    }
    let sent = a.puts_sent();
    assert!(sent.contains(&0), "one interface has sent all: {sent:?}");
    for member in [a, b] {
        let on = Globals { discovery: true, ..Globals::default() };
        member.change(|admin| admin.set_globals(on));
    }
    a.resident.act(|node| node.admin().discover(b.nids[0], true)).unwrap();
    until("the pushes are over", || {
        [a, b].iter().all(|member| member.look(|lnet| lnet.is_idle().is_ok()))
    });
    let before = a.puts_sent();
    for _ in 0..6 {
        a.put_well(b, 1);
        until("A is idle", || a.look(|lnet| lnet.is_idle().is_ok()));
    }
    let after = a.puts_sent();
    assert!(spread(&before, &after) <= 1, "both take turns: {before:?} {after:?}");
    world.end();
}

#[test]
fn peers_are_notified_of_interface_changes() {
    let Some(world) = World::new(&[Plan::at(&[0]).troubled(), Plan::at(&[0, 1]).troubled()]) else {
        return;
    };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 1);
    let sequence = || b.look(|lnet| lnet.ping_info().sequence);
    until("A knows both", || a.known(b.nids[0]).len() == 2);
    let first = sequence();
    b.resident.act(|node| node.admin().remove_ni(b.nids[1])).unwrap();
    let second = sequence();
    assert!(second > first, "{first} to {second}");
    until("A is notified of the removal", || a.known(b.nids[0]) == [b.nids[0]]);
    let ni = NiOptions::at(b.nids[1].ip().unwrap());
    let ni = NiOptions { net: b.nids[1].net(), conns_per_peer: 1, ..ni };
    b.resident.act(|node| node.admin().add_ni(ni)).unwrap();
    let third = sequence();
    assert!(third > second, "{second} to {third}");
    until("A is notified of its return", || a.known(b.nids[0]).len() == 2);
    b.resident.host().set_link("eth1", false).unwrap();
    until("a link change increases the number", || sequence() > third);
    b.resident.host().set_link("eth1", true).unwrap();
    until("link up increases it too", || sequence() > third + 1);
    world.end();
}
