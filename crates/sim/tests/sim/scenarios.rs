//! Scenarios on simple networks, whose expected values are easy to calculate.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_sim::options::{Network, Tcp};
use fulmar_sim::{Cluster, HostId, Log, Options};

const A: HostId = HostId(0);
const B: HostId = HostId(1);
const MIB: u64 = 1 << 20;

fn cluster(options: &Options) -> Cluster {
    Cluster::new(options, Log::new(200))
}

/// Runs until a condition holds, and returns the time.
fn until(cluster: &mut Cluster, what: &str, holds: impl Fn(&Cluster) -> bool) -> Time {
    let verdict = cluster.run_while(what, Duration::from_secs(600), |cluster| !holds(cluster));
    if let Err(violation) = verdict {
        let log: Vec<&str> = cluster.world.log().lines().collect();
        panic!("{}\n{violation}", log.join("\n"));
    }
    cluster.world.now()
}

#[test]
fn two_nodes_discover_each_other() {
    let mut cluster = cluster(&Options::plain(2));
    let nid = cluster.world.nid(B);
    let query = cluster.world.admin(A, |admin| admin.discover(nid, true)).unwrap();
    until(&mut cluster, "the discovery ends", |c| c.workload.answer(A, query).is_some());
    let reply = cluster.workload.answer(A, query).unwrap().as_ref().unwrap();
    assert_eq!((reply.primary, reply.nids.as_slice()), (nid, [nid].as_slice()));
    assert!(reply.multi_rail);
    // B learns the same by its own ping or by A's push.
    until(&mut cluster, "B knows A", |c| {
        c.world.node(B).unwrap().lnet().peers().iter().any(|peer| peer.multi_rail)
    });
}

#[test]
fn two_nodes_that_dial_each_other_at_once_end_with_one_set_of_connections() {
    let mut cluster = cluster(&Options::plain(2));
    let puts = [cluster.put((A, B), Some(1)).unwrap(), cluster.put((B, A), Some(1)).unwrap()];
    until(&mut cluster, "both PUTs are acknowledged", |c| {
        puts.iter().all(|put| c.ledger.operations[*put].seen.response_ok)
    });
    let later = cluster.world.now() + Duration::from_secs(20);
    cluster.run_until(later).unwrap();
    for host in [A, B] {
        let conns = cluster.world.node(host).unwrap().socklnd().conns();
        assert_eq!(conns.len(), 3, "{host}: one of each kind: {conns:?}");
    }
}

#[test]
fn a_node_that_restarts_is_known_by_its_new_incarnation() {
    let options = Options { faults: faulty(), ..Options::plain(2) };
    let mut cluster = cluster(&options);
    let put = cluster.put((A, B), Some(4096)).unwrap();
    until(&mut cluster, "the first PUT ends", |c| c.ledger.operations[put].seen.response_ok);
    cluster.crash(B, false).unwrap();
    let lost = cluster.put((A, B), Some(4096)).unwrap();
    until(&mut cluster, "the PUT to the crashed node fails", |c| {
        c.ledger.operations[lost].seen.sends == 1
    });
    cluster.restart(B);
    reaches_in_the_end(&mut cluster, A, B);
}

/// A still has connections to B's old incarnation when the new one connects.
#[test]
fn a_node_that_reconnects_after_a_power_failure_is_recognised_as_restarted() {
    let options = Options { faults: faulty(), ..Options::plain(2) };
    let mut cluster = cluster(&options);
    let put = cluster.put((A, B), Some(4096)).unwrap();
    until(&mut cluster, "the first PUT ends", |c| c.ledger.operations[put].seen.response_ok);
    cluster.crash(B, true).unwrap();
    cluster.restart(B);
    reaches_in_the_end(&mut cluster, B, A);
    let noticed = cluster.world.log().lines().any(|line| line.contains("has restarted"));
    assert!(noticed, "A notices that B has restarted");
}

/// A node may wait before it dials again, so this tries more than once.
fn reaches_in_the_end(cluster: &mut Cluster, from: HostId, to: HostId) {
    for _try in 0..20 {
        let put = cluster.put((from, to), Some(4096)).unwrap();
        until(cluster, "a PUT ends", |c| c.ledger.operations[put].seen.is_over());
        if cluster.ledger.operations[put].seen.response_ok {
            return;
        }
        let later = cluster.world.now() + Duration::from_secs(5);
        cluster.run_until(later).unwrap();
    }
    panic!("{from} never reaches {to}");
}

#[test]
fn a_lazy_portal_without_buffers_stalls_its_senders_and_nothing_is_lost() {
    let mut options = Options { lateness: Duration::from_secs(40), ..Options::plain(2) };
    options.network.tcp = Tcp::default().with_buffers(32);
    options.seed = 3;
    let mut cluster = cluster(&options);
    let known = cluster.put((A, B), Some(0)).unwrap();
    until(&mut cluster, "A knows B", |c| c.ledger.operations[known].seen.response_ok);
    let first = cluster.ledger.operations.len();
    for _ in 0..20 {
        cluster.workload.request(&mut cluster.world, &mut cluster.ledger, A, B);
    }
    let soon = cluster.world.now() + Duration::from_secs(1);
    cluster.run_until(soon).unwrap();
    let served = |cluster: &Cluster| {
        cluster.ledger.operations[first..].iter().filter(|op| op.seen.served > 0).count()
    };
    assert_eq!(served(&cluster), 0, "no buffer is posted yet");
    let peers = cluster.world.node(A).unwrap().lnet().peers();
    let (credits, min) = (peers[0].nis[0].credits, peers[0].nis[0].credits_min);
    assert_eq!(min, 8 - 20, "eight went to the LND and twelve had to wait");
    // On each of two connections one header was read; all else is blocked.
    assert!((min..=min + 2).contains(&credits), "{credits} credits");
    until(&mut cluster, "all requests are served", |c| served(c) == 20);
}

/// Sends messages of 1 MiB as fast as possible, and returns MiB per second in the steady state.
fn throughput(options: &Options, messages: usize) -> f64 {
    let mut cluster = cluster(options);
    for _ in 0..messages {
        cluster.put((A, B), Some(MIB as u32)).unwrap();
    }
    let (first, last) = (messages / 10, messages - 1);
    let served = |n: usize| move |c: &Cluster| c.ledger.operations[n].seen.served == 1;
    let started = until(&mut cluster, "a tenth has arrived", served(first));
    let ended = until(&mut cluster, "all has arrived", served(last));
    (last - first) as f64 / ended.since(started).as_secs_f64()
}

/// 100 Gbit/s and 50 ms one way. Without `slow_start` the initial window is unlimited.
fn long_link(window: u64, peer_credits: u32, slow_start: bool) -> Options {
    let mut options = Options { peer_credits, ..Options::plain(2) };
    options.network = Network::even(100_000, Duration::from_millis(50));
    let tcp = Tcp { mtu: 9000, ..Tcp::default().with_buffers(window) };
    let initial_window = if slow_start { 10 } else { u32::MAX };
    options.network.tcp = Tcp { initial_window, ..tcp };
    options
}

/// A credit is held until the socket has taken the message, not for a round trip: otherwise eight
/// credits of 1 MiB would carry only 80 MiB/s. Spec: lnet-behaviour §6.5, §15.2.
#[test]
fn eight_credits_fill_a_link_of_100_gbits_and_50_ms() {
    let rate = throughput(&long_link(4 << 30, 8, false), 2000);
    let link = 100e9 / 8.0 / MIB as f64 * 8948.0 / 9038.0;
    assert!((0.99..=1.005).contains(&(rate / link)), "{rate:.0} of {link:.0} MiB/s");
}

#[test]
fn small_socket_buffers_limit_the_rate_to_a_window_per_round_trip() {
    let rate = throughput(&long_link(16 * MIB, 8, false), 400);
    let bound = 16.0 / 0.100;
    assert!((0.97..=1.03).contains(&(rate / bound)), "{rate:.1} of {bound:.1} MiB/s");
}

fn faulty() -> fulmar_sim::options::Faults {
    fulmar_sim::options::Faults { crashes: 1, ..Default::default() }
}
