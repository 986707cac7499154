//! Functions shared by the scenarios.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet::views;
use fulmar_lnet_wire::Nid;
use fulmar_sim::options::Rails;
use fulmar_sim::{Cluster, HostId, Log, Options, Port};

pub(crate) fn port(host: HostId, index: u8) -> Port {
    Port { host, index }
}

/// Returns a cluster without random operations or faults, in which everything must succeed.
pub(crate) fn cluster(rails: Rails) -> Cluster {
    cluster_of(&Options::plain_on(rails))
}

pub(crate) fn cluster_of(options: &Options) -> Cluster {
    Cluster::new(options, Log::new(400))
}

/// Returns options that allow failures.
pub(crate) fn faulty(rails: Rails) -> Options {
    let mut options = Options::plain_on(rails);
    // A pause of no duration disables the checkers for runs without faults.
    options.faults.pauses = 1;
    options.faults.longest = Duration::from_nanos(1);
    options
}

/// Runs until a condition holds, and returns the time.
pub(crate) fn until(cluster: &mut Cluster, what: &str, holds: impl Fn(&Cluster) -> bool) -> Time {
    let verdict = cluster.run_while(what, Duration::from_secs(600), |cluster| !holds(cluster));
    explain(cluster, verdict);
    cluster.world.now()
}

/// Runs for this number of seconds.
pub(crate) fn pass(cluster: &mut Cluster, seconds: u64) {
    let end = cluster.world.now() + Duration::from_secs(seconds);
    let verdict = cluster.run_until(end);
    explain(cluster, verdict);
}

/// Ends the scenario like every run: all faults end, all nodes reach each other and become idle.
pub(crate) fn end(mut cluster: Cluster) {
    let verdict = cluster.finish();
    explain(&cluster, verdict);
}

fn explain(cluster: &Cluster, verdict: fulmar_sim::check::Verdict) {
    if let Err(violation) = verdict {
        let log: Vec<&str> = cluster.world.log().lines().collect();
        panic!("{}\n{violation}", log.join("\n"));
    }
}

/// Sends a PUT to the primary NID of a node, and requires its ACK.
pub(crate) fn put_acked(cluster: &mut Cluster, pair: (HostId, HostId), len: u32) {
    let nid = cluster.world.nid(pair.1);
    put_acked_to(cluster, pair, len, (None, nid));
}

pub(crate) fn put_acked_to(
    cluster: &mut Cluster,
    pair: (HostId, HostId),
    len: u32,
    nids: (Option<Nid>, Nid),
) {
    let put = cluster.put_to(pair, len, nids).expect("the node is up");
    until(cluster, "a PUT ends", |c| c.ledger.operations[put].seen.is_over());
    let seen = &cluster.ledger.operations[put].seen;
    assert!(seen.response_ok, "a PUT of {len} bytes from {} to {}: {seen:?}", pair.0, pair.1);
}

/// Returns the interfaces of a node, without `0@lo`.
pub(crate) fn nis(cluster: &Cluster, host: HostId) -> Vec<views::Ni> {
    let all = cluster.world.node(host).expect("the node is up").lnet().nis();
    all.into_iter().filter(|ni| !ni.nid.is_loopback()).collect()
}

/// Returns the NIDs by which one node knows another.
pub(crate) fn known(cluster: &Cluster, host: HostId, primary: Nid) -> Vec<Nid> {
    let peers = cluster.world.node(host).expect("the node is up").lnet().peers();
    let found = peers.into_iter().find(|peer| peer.primary == primary);
    found.map_or(Vec::new(), |peer| peer.nis.iter().map(|ni| ni.nid).collect())
}

pub(crate) fn log_has(cluster: &Cluster, text: &str) -> bool {
    cluster.world.log().lines().any(|line| line.contains(text))
}
