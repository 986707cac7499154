//! Tests of the histogram.

use fulmar_wire::{Reader, Writer};

use super::*;

fn histogram(durations: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::default();
    durations.into_iter().for_each(|ns| histogram.record(ns));
    histogram
}

/// Returns the bucket in which a duration is counted.
fn bucket(ns: u64) -> usize {
    histogram([ns]).slice(0).first as usize
}

fn assert_near(got: Option<u64>, expected: u64) {
    let got = got.unwrap();
    let error = got.abs_diff(expected) as f64 / expected as f64;
    assert!(error < 0.07, "{got} is not near {expected}");
}

#[test]
fn buckets_have_no_gaps() {
    let mut last = bucket(0);
    assert_eq!((last, Histogram::BUCKETS), (0, 208));
    let mut edges = Vec::new();
    for exponent in 10..36 {
        for eighth in 8..16 {
            edges.push(eighth << (exponent - 3));
        }
    }
    for edge in edges {
        assert_eq!(bucket(edge - 1), last, "{edge} starts a bucket");
        assert_eq!(bucket(edge), if edge == 1024 { 0 } else { last + 1 });
        last = bucket(edge);
    }
    assert_eq!(last, Histogram::BUCKETS - 1);
}

#[test]
fn the_shortest_and_the_longest_have_a_bucket() {
    for ns in [0, 1, 1023, 1024, 1151] {
        assert_eq!(bucket(ns), 0, "{ns}");
    }
    assert_eq!(bucket(1152), 1);
    assert_eq!(bucket((15 << 32) - 1), Histogram::BUCKETS - 2);
    for ns in [15 << 32, (1 << 36) - 1, 1 << 36, u64::MAX] {
        assert_eq!(bucket(ns), Histogram::BUCKETS - 1, "{ns}");
    }
}

#[test]
fn one_duration_is_every_quantile() {
    for ns in [1024, 1100, 5_000, 123_456, 7_777_777, 64_000_000_000] {
        for share in [0.0, 0.001, 0.5, 0.99, 1.0] {
            assert_near(histogram([ns]).quantile(share), ns);
        }
    }
}

#[test]
fn quantiles_are_nearly_exact() {
    let even = histogram((0..100_000).map(|n| 10_000 + n * 100));
    let uneven = histogram((0..10_000_u64).map(|n| 2_000 + n * n * 10));
    for share in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
        assert_near(even.quantile(share), 10_000 + (100_000.0 * share) as u64 * 100);
        let n = (10_000.0 * share) as u64;
        assert_near(uneven.quantile(share), 2_000 + n * n * 10);
    }
    let two = histogram([20_000; 99].into_iter().chain([5_000_000]));
    assert_near(two.quantile(0.5), 20_000);
    assert_near(two.quantile(0.99), 20_000);
    assert_near(two.quantile(0.995), 5_000_000);
}

#[test]
fn an_empty_histogram_has_no_quantile() {
    let empty = Histogram::default();
    assert_eq!((empty.count(), empty.quantile(0.5)), (0, None));
    assert_eq!(empty.slice(0).first as usize, Histogram::BUCKETS);
}

#[test]
fn a_histogram_is_transferred_in_slices() {
    let original = histogram((0..2_000_u64).map(|n| (n * n * n * 37) % (1 << 37)));
    let (mut copy, mut slices, mut next) = (Histogram::default(), 0, 0);
    while next < Histogram::BUCKETS {
        let slice = original.slice(next);
        copy.merge_slice(&slice);
        next = slice.first as usize + Slice::LEN;
        slices += 1;
    }
    assert_eq!(copy, original);
    assert!(slices <= Histogram::BUCKETS.div_ceil(Slice::LEN) + 1, "{slices} slices");
    // Two distant buckets need two slices, not all slices.
    let sparse = histogram([2_000, 9_000_000_000]);
    let first = sparse.slice(0);
    let second = sparse.slice(first.first as usize + Slice::LEN);
    assert_eq!((first.counts.iter().sum::<u32>(), second.counts[0]), (1, 1));
    assert_eq!(sparse.slice(second.first as usize + 1).first as usize, Histogram::BUCKETS);
    assert_eq!(sparse.slice(usize::MAX).first as usize, Histogram::BUCKETS);
}

#[test]
fn a_slice_beyond_the_end_is_ignored() {
    let last = Histogram::BUCKETS as u32 - 1;
    let mut histogram = Histogram::default();
    for (first, count) in [(last, 1), (last + 1, 1), (u32::MAX, 1)] {
        histogram.merge_slice(&Slice { first, counts: [7; Slice::LEN] });
        assert_eq!(histogram.count(), count * 7);
    }
}

#[test]
fn merging_adds_and_does_not_overflow() {
    let mut sum = histogram([2_000, 3_000]);
    sum.merge(&histogram([3_000, 4_000, u64::MAX]));
    assert_eq!(sum, histogram([2_000, 3_000, 3_000, 4_000, u64::MAX]));
    let full = Slice { first: 0, counts: [u32::MAX; Slice::LEN] };
    sum.merge_slice(&full);
    sum.merge_slice(&full);
    let before = sum.count();
    sum.record(0);
    sum.merge(&sum.clone());
    assert!(sum.count() >= before);
}

#[test]
fn the_measured_reply_fits_the_message() {
    let measured = MeasureReply {
        status: 0,
        session: SessionId::INVALID,
        rpcs: 1,
        bytes: 2,
        min_ns: 3,
        max_ns: 4,
        usage: Usage::default(),
        slice: histogram([5]).slice(0),
    };
    let mut bytes = Vec::new();
    measured.write(&mut Writer::new(&mut bytes, Order::Little));
    assert!(HEADER_LEN + bytes.len() <= LEN, "{} bytes", bytes.len());
    assert_eq!(MeasureReply::read(&mut Reader::new(&bytes, Order::Little)), Ok(measured));
}
