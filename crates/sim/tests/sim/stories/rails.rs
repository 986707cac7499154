//! Scenarios with several interfaces per node.
use super::common::{
    cluster, end, known, log_has, nis, pass, port, put_acked, put_acked_to, until,
};
use fulmar_lnet::Globals;
use fulmar_lnet_wire::{Body, Handle, Header, Pid};
use fulmar_sim::options::{Rails, Tcp};
use fulmar_sim::{Cluster, HostId, Options, PingCorruption};

const A: HostId = HostId(0);
const B: HostId = HostId(1);
const C: HostId = HostId(2);

/// Returns the numbers of PUTs that each interface of a node has sent and received.
fn puts(cluster: &Cluster, host: HostId) -> (Vec<u64>, Vec<u64>) {
    let nis = nis(cluster, host);
    let sent = nis.iter().map(|ni| ni.traffic.sent.put).collect();
    (sent, nis.iter().map(|ni| ni.traffic.received.put).collect())
}

fn spread(before: &[u64], after: &[u64]) -> u64 {
    let counts: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

#[test]
fn idle_interfaces_take_turns() {
    for (own, theirs) in [(2, 2), (3, 2), (1, 3)] {
        let rails = Rails::new(vec![vec![0; own], vec![0; theirs]], &[]);
        let mut cluster = cluster(rails);
        put_acked(&mut cluster, (A, B), 1);
        pass(&mut cluster, 1);
        let before = (puts(&cluster, A).0, puts(&cluster, B).1);
        for _ in 0..60 {
            put_acked(&mut cluster, (A, B), 4096);
        }
        let after = (puts(&cluster, A).0, puts(&cluster, B).1);
        assert!(spread(&before.0, &after.0) <= 1, "{own} x {theirs}: {before:?} {after:?}");
        assert!(spread(&before.1, &after.1) <= 1, "{own} x {theirs}: {before:?} {after:?}");
        end(cluster);
    }
}

#[test]
fn a_given_source_and_target_are_used() {
    let mut cluster = cluster(Rails::even(2, &[0, 0]));
    let pair = (Some(cluster.world.nid_of(port(A, 1))), cluster.world.nid_of(port(B, 0)));
    put_acked_to(&mut cluster, (A, B), 1, pair);
    pass(&mut cluster, 1);
    let before = (puts(&cluster, A).0, puts(&cluster, B).1);
    for _ in 0..10 {
        put_acked_to(&mut cluster, (A, B), 4096, pair);
    }
    let after = (puts(&cluster, A).0, puts(&cluster, B).1);
    assert_eq!((after.0[0] - before.0[0], after.0[1] - before.0[1]), (0, 10));
    assert_eq!((after.1[0] - before.1[0], after.1[1] - before.1[1]), (10, 0));
    end(cluster);
}

#[test]
fn a_peer_without_discovery_sees_one_source_until_it_is_multi_rail() {
    let mut options = Options::plain_on(Rails::even(2, &[0, 0]));
    options.discovery = false;
    let mut cluster = super::common::cluster_of(&options);
    for _ in 0..6 {
        put_acked(&mut cluster, (A, B), 1);
    }
    let (sent, _) = puts(&cluster, A);
    assert!(sent.contains(&0), "one interface sends everything: {sent:?}");
    for host in [A, B] {
        let on = Globals { discovery: true, ..Globals::default() };
        cluster.world.admin(host, |admin| admin.set_globals(on)).unwrap().unwrap();
    }
    let nid = cluster.world.nid(B);
    let query = cluster.world.admin(A, |admin| admin.discover(nid, true)).unwrap();
    until(&mut cluster, "the discovery ends", |c| c.workload.answer(A, query).is_some());
    pass(&mut cluster, 1);
    let before = puts(&cluster, A).0;
    for _ in 0..6 {
        put_acked(&mut cluster, (A, B), 1);
    }
    assert_eq!(spread(&before, &puts(&cluster, A).0), 0, "now both interfaces take turns");
    end(cluster);
}

#[test]
fn peers_learn_of_added_and_removed_interfaces() {
    let mut cluster = super::common::cluster_of(&super::common::faulty(Rails::even(2, &[0, 0, 1])));
    put_acked(&mut cluster, (A, B), 1);
    pass(&mut cluster, 1);
    let all = cluster.world.nids(B);
    assert_eq!(known(&cluster, A, all[0]), all);
    cluster.world.remove_ni(port(B, 1));
    pass(&mut cluster, 2);
    assert_eq!(known(&cluster, A, all[0]), [all[0], all[2]]);
    cluster.world.add_ni(port(B, 1));
    pass(&mut cluster, 2);
    assert_eq!(known(&cluster, A, all[0]).len(), 3);
    end(cluster);
}

#[test]
fn invalid_ping_info_is_rejected() {
    for corruption in PingCorruption::ALL {
        let mut cluster =
            super::common::cluster_of(&super::common::faulty(Rails::even(2, &[0, 0])));
        cluster.world.corrupt_ping(B, corruption);
        let nid = cluster.world.nid(B);
        let query = cluster.world.admin(A, |admin| admin.discover(nid, true)).unwrap();
        until(&mut cluster, "A receives the corrupted reply", |c| log_has(c, "cannot use what"));
        assert!(known(&cluster, A, nid).len() < 2, "{corruption:?} is accepted");
        until(&mut cluster, "A pings again", |c| c.workload.answer(A, query).is_some());
        assert_eq!(known(&cluster, A, nid), cluster.world.nids(B), "{corruption:?}");
        end(cluster);
    }
}

#[test]
fn a_message_for_another_node_closes_its_connection() {
    let mut cluster = super::common::cluster_of(&super::common::faulty(Rails::even(3, &[0])));
    put_acked(&mut cluster, (A, B), 1);
    pass(&mut cluster, 1);
    let header = Header {
        target: cluster.world.nid(C),
        source: cluster.world.nid(A),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 0,
        body: Body::Ack { handle: Handle::NONE, match_bits: 0, accepted: 0 },
    };
    assert!(cluster.world.send_forged(A, B, &header, &[]), "they are connected");
    until(&mut cluster, "B reports a protocol error", |c| log_has(c, "broke the LNet protocol"));
    end(cluster);
}

#[test]
fn queued_messages_leave_in_order() {
    let mut options = Options { peer_credits: 2, ..Options::plain_on(Rails::even(2, &[0])) };
    options.network.tcp = Tcp::default().with_buffers(1000);
    let mut cluster = super::common::cluster_of(&options);
    put_acked(&mut cluster, (A, B), 1);
    cluster.world.pause(B, std::time::Duration::from_secs(5));
    let lens: Vec<u32> = (600..620).rev().collect();
    for len in &lens {
        cluster.put((A, B), Some(*len)).unwrap();
    }
    pass(&mut cluster, 1);
    let credits = cluster.world.node(A).unwrap().lnet().peers()[0].nis[0].credits;
    assert!((2 - 20..=2 - 18).contains(&credits), "{credits}: the window takes two at most");
    pass(&mut cluster, 20);
    let written = |line: &str| {
        let len = line.split_once("write 96 + ")?.1.strip_suffix(" PUT")?;
        len.parse().ok().filter(|len| (600..620).contains(len))
    };
    let left: Vec<u32> = cluster.world.log().lines().filter_map(written).collect();
    assert_eq!(left, lens);
    end(cluster);
}

#[test]
fn a_refused_message_is_resent_on_the_other_rail() {
    let mut options = super::common::faulty(Rails::even(2, &[0, 0]));
    options.seed = 2;
    let mut cluster = super::common::cluster_of(&options);
    put_acked(&mut cluster, (A, B), 1);
    pass(&mut cluster, 1);
    cluster.world.refuse_connections(port(B, 1), true);
    cluster.world.disconnect(A, B);
    for _ in 0..8 {
        put_acked(&mut cluster, (A, B), 1);
    }
    let resent = cluster.world.node(A).unwrap().lnet().stats().resend_count;
    assert!(resent >= 1, "some used the refusing rail first");
    let health = |cluster: &Cluster| {
        let peers = cluster.world.node(A).unwrap().lnet().peers();
        peers[0].nis.iter().map(|ni| ni.health.value).min().unwrap()
    };
    assert!(health(&cluster) < 1000);
    cluster.world.refuse_connections(port(B, 1), false);
    until(&mut cluster, "the rail recovers", |c| health(c) == 1000);
    end(cluster);
}

#[test]
fn a_link_that_is_known_to_be_down_causes_no_error() {
    let mut cluster = super::common::cluster_of(&super::common::faulty(Rails::even(2, &[0, 0])));
    put_acked(&mut cluster, (A, B), 1);
    cluster.world.cut_link(port(A, 1), true);
    for _ in 0..20 {
        put_acked(&mut cluster, (A, B), 1 << 20);
    }
    cluster.world.restore_link(port(A, 1));
    pass(&mut cluster, 5);
    let before = puts(&cluster, A).0;
    for _ in 0..20 {
        put_acked(&mut cluster, (A, B), 4096);
    }
    assert!(spread(&before, &puts(&cluster, A).0) <= 1, "both are used again");
    end(cluster);
}

#[test]
fn an_interface_is_disabled_and_enabled_without_an_error() {
    let mut cluster = cluster(Rails::even(2, &[0, 0]));
    put_acked(&mut cluster, (A, B), 1);
    let begin = |cluster: &mut Cluster| {
        for _ in 0..40 {
            let nid = cluster.world.nid(B);
            cluster.put_to((A, B), 1 << 20, (None, nid)).unwrap();
        }
    };
    begin(&mut cluster);
    cluster.world.switch_ni(port(A, 1), false);
    pass(&mut cluster, 1);
    let before = puts(&cluster, A).0;
    begin(&mut cluster);
    pass(&mut cluster, 1);
    assert_eq!(puts(&cluster, A).0[1], before[1], "it is not used");
    cluster.world.switch_ni(port(A, 1), true);
    begin(&mut cluster);
    pass(&mut cluster, 1);
    assert!(puts(&cluster, A).0[1] > before[1], "it is used again");
    end(cluster);
}

#[test]
fn without_sensitivity_health_never_changes() {
    let mut rails = Rails::even(2, &[0, 0]);
    rails.globals = Globals { health_sensitivity: 0, retry_count: 0, ..Globals::default() };
    let mut cluster = super::common::cluster_of(&super::common::faulty(rails));
    put_acked(&mut cluster, (A, B), 1);
    cluster.world.cut_link(port(B, 1), false);
    for _ in 0..10 {
        cluster.put((A, B), Some(4096)).unwrap();
    }
    pass(&mut cluster, 200);
    // The checkers have checked it all the time.
    assert!(nis(&cluster, A).iter().all(|ni| ni.health.value == 1000));
    end(cluster);
}

#[test]
fn a_peer_with_one_nid_keeps_its_health_and_gets_no_resends() {
    let mut cluster = super::common::cluster_of(&super::common::faulty(Rails::even(2, &[0])));
    put_acked(&mut cluster, (A, B), 1);
    // B has nothing more to send, so it does not connect.
    pass(&mut cluster, 1);
    cluster.world.refuse_connections(port(B, 0), true);
    cluster.world.disconnect(A, B);
    let put = cluster.put((A, B), Some(1)).unwrap();
    until(&mut cluster, "it fails", |c| c.ledger.operations[put].seen.sends == 1);
    let lnet = cluster.world.node(A).unwrap().lnet();
    assert!(!cluster.ledger.operations[put].seen.send_ok);
    assert_eq!(lnet.stats().resend_count, 0);
    assert_eq!(lnet.peers()[0].nis[0].health.value, 1000);
    cluster.world.refuse_connections(port(B, 0), false);
    end(cluster);
}
