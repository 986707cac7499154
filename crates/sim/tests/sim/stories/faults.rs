//! Scenarios with fault rules that drop or delay messages.

use std::time::Duration;

use fulmar_lnet::{FaultEffect, FaultKind, FaultRule, MessageTypes};
use fulmar_lnet_wire::NidMatch;
use fulmar_sim::options::Rails;
use fulmar_sim::{Cluster, HostId};

use super::common::{cluster, cluster_of, end, faulty, nis, pass, put_acked, until};

const A: HostId = HostId(0);
const B: HostId = HostId(1);

/// Returns a rule for one application PUT in each window of `rate`.
fn puts(rate: u32, effect: FaultEffect) -> FaultRule {
    let any = NidMatch::Any;
    FaultRule {
        source: any,
        target: any,
        local: any,
        // Portal 0 is that of discovery.
        portals: !1,
        types: MessageTypes::PUT,
        rate,
        interval: 0,
        effect,
    }
}

fn add(cluster: &mut Cluster, host: HostId, rule: FaultRule) {
    cluster.world.admin(host, |admin| admin.fault_add(rule)).unwrap().unwrap();
}

/// Removes all rules of a kind.
fn del(cluster: &mut Cluster, host: HostId, kind: FaultKind) {
    let any = NidMatch::Any;
    let removed = cluster.world.admin(host, |admin| admin.fault_del(kind, any, any));
    assert_eq!(removed, Some(1));
}

#[test]
fn a_rule_drops_one_of_every_window() {
    let mut cluster = cluster_of(&faulty(Rails::even(2, &[0])));
    put_acked(&mut cluster, (A, B), 1);
    let effect = FaultEffect::Drop { failures: 0, random: false, all: false };
    add(&mut cluster, B, puts(3, effect));
    let shown = |cluster: &Cluster| {
        let shown = cluster.world.node(B).unwrap().lnet().faults();
        (shown[0].examined, shown[0].hits.put, shown[0].hits.total())
    };
    let puts: Vec<usize> =
        (0..12).map(|_| cluster.put((A, B), Some(4096)).expect("the node is up")).collect();
    until(&mut cluster, "all have arrived", |cluster| shown(cluster).0 == 12);
    assert_eq!(shown(&cluster), (12, 4, 4));
    pass(&mut cluster, 1);
    let seen = |put: &usize| &cluster.ledger.operations[*put].seen;
    assert_eq!(puts.iter().filter(|put| seen(put).served == 1).count(), 8);
    assert!(puts.iter().all(|put| seen(put).send_ok), "their sender does not notice");
    del(&mut cluster, B, FaultKind::Drop);
    end(cluster);
}

#[test]
fn a_rule_delays_until_it_is_deleted() {
    for host in [A, B] {
        let mut cluster = cluster(Rails::even(2, &[0]));
        put_acked(&mut cluster, (A, B), 1);
        pass(&mut cluster, 1);
        add(&mut cluster, host, puts(1, FaultEffect::Delay { latency: 3 }));
        let free = |cluster: &Cluster| {
            let peer = cluster.world.node(A).unwrap().lnet().peers()[0].nis[0].credits;
            (nis(cluster, A)[0].credits, peer)
        };
        let before = free(&cluster);
        let started = cluster.world.now();
        let put = cluster.put((A, B), Some(4096)).expect("the node is up");
        pass(&mut cluster, 1);
        if host == A {
            assert_eq!(free(&cluster), (before.0 - 1, before.1 - 1), "it holds its credits");
        }
        let arrived = until(&mut cluster, "it has arrived", |cluster| {
            cluster.ledger.operations[put].seen.served == 1
        });
        assert!(arrived.since(started) >= Duration::from_secs(3), "{:?}", arrived.since(started));
        let put = cluster.put((A, B), Some(4096)).expect("the node is up");
        pass(&mut cluster, 1);
        assert_eq!(cluster.ledger.operations[put].seen.served, 0);
        del(&mut cluster, host, FaultKind::Delay);
        pass(&mut cluster, 1);
        assert_eq!(cluster.ledger.operations[put].seen.served, 1, "it was delivered at once");
        assert_eq!(free(&cluster), before);
        end(cluster);
    }
}
