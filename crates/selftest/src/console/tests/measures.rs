//! Measurements of Fulmar nodes.

use fulmar_lnet_wire::selftest::{Histogram, MessageType};

use super::rig::Rig;
use crate::console::{Command, Measures, NodeAnswer, Reply, Target};

#[test]
fn a_histogram_is_collected_in_several_replies() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    let mut histogram = Histogram::default();
    let durations = [1, 900, 40_000, 41_000, 5_000_000, 70_000_000_000, u64::MAX];
    durations.into_iter().for_each(|ns| histogram.record(ns));
    rig.node(1).measured = Some(histogram.clone());
    rig.log.clear();
    let nodes = measure(&mut rig);
    let reported = nodes[0].result.clone().unwrap();
    assert!(reported.reported);
    assert_eq!((reported.rpcs, reported.min_ns, reported.max_ns), (7, 1, 2));
    assert_eq!(reported.buckets.len(), Histogram::BUCKETS, "the last has two");
    let whole: Vec<u32> = (0..Histogram::BUCKETS).map(|n| bucket(&histogram, n)).collect();
    assert_eq!(reported.buckets, whole);
    assert!(rig.sent(MessageType::QUERY_STAT).len() <= 1 + durations.len());
    rig.finish();
}

#[test]
fn empty_buckets_at_the_end_are_left_out() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).measured = Some(Histogram::default());
    let mut histogram = Histogram::default();
    histogram.record(2000);
    rig.node(2).measured = Some(histogram);
    let nodes = measure(&mut rig);
    assert_eq!(nodes[0].result.clone().unwrap().buckets, []);
    let buckets = nodes[1].result.clone().unwrap().buckets;
    assert_eq!((buckets.iter().sum::<u32>(), buckets.last()), (1, Some(&1)));
    rig.finish();
}

#[test]
fn a_kernel_node_reports_no_measurements() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    let nodes = measure(&mut rig);
    assert!(nodes.iter().all(|node| node.result == Ok(Measures::default())));
    rig.finish();
}

fn measure(rig: &mut Rig) -> Vec<NodeAnswer<Measures>> {
    match rig.run(Command::Measure { target: Target::Session, timeout: 5 }) {
        Ok(Reply::Measures(nodes)) => nodes,
        other => panic!("{other:?}"),
    }
}

fn bucket(histogram: &Histogram, number: usize) -> u32 {
    let slice = histogram.slice(number);
    if slice.first as usize == number { slice.counts[0] } else { 0 }
}
