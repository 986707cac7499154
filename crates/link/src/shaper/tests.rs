use super::*;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn shaper(words: &str) -> Shaper {
    let mut line = Line::new("1Gbit".parse().unwrap(), Duration::from_millis(10));
    line.change(words).unwrap();
    line.check().unwrap();
    Shaper::new(line, 7)
}

fn one(bytes: u32) -> Train {
    Train { count: 1, each: bytes, last: bytes }
}

/// Sends a packet and returns its runs.
fn enter(shaper: &mut Shaper, now: Time, train: Train) -> Vec<Run> {
    shaper.handle_packet(now, train);
    let runs: Vec<Run> = std::iter::from_fn(|| shaper.poll_output()).collect();
    let mut at = 0;
    for run in &runs {
        assert_eq!(run.segments.start, at, "runs cover the packet in order");
        at = run.segments.end;
    }
    assert_eq!(at, train.count);
    assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), train.bytes(&(0..train.count)));
    runs
}

fn arrival(runs: &[Run]) -> Time {
    match runs {
        [Run { fate: Fate::Arrives(time), .. }] => *time,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packet_on_an_idle_line_arrives_after_sending_and_delay() {
    let mut shaper = shaper("");
    // 1250 bytes at 1 Gbit/s are 10 µs.
    let runs = enter(&mut shaper, Time(5 * SECOND), one(1250));
    assert_eq!(arrival(&runs), Time(5 * SECOND + 10_000 + 10 * MS));
    let runs = enter(&mut shaper, Time(6 * SECOND), one(1250));
    assert_eq!(arrival(&runs), Time(6 * SECOND + 10_000 + 10 * MS));
}

#[test]
fn packets_that_enter_at_once_leave_at_the_rate() {
    let mut shaper = shaper("");
    let arrivals: Vec<Time> =
        (0..100).map(|_| arrival(&enter(&mut shaper, Time(0), one(1250)))).collect();
    for (n, time) in arrivals.iter().enumerate() {
        assert_eq!(time.0, (n as u64 + 1) * 10_000 + 10 * MS);
    }
}

#[test]
fn the_rate_is_exact_after_hours() {
    // 3 Gbit/s: 1538 bytes take 4101.33 ns; the fractions add up.
    let mut shaper = shaper("rate 3Gbit");
    let mut last = Time(0);
    for _ in 0..3_000_000 {
        last = arrival(&enter(&mut shaper, last - Duration::from_millis(11), one(1538)));
    }
    assert_eq!(last.0 - 10 * MS, 3_000_000 * 1538 * 8 / 3);
}

#[test]
fn a_full_queue_drops_single_segments() {
    let mut shaper = shaper("queue 100000B");
    let train = Train { count: 7, each: 9038, last: 1000 };
    assert_eq!(enter(&mut shaper, Time(0), train).len(), 1);
    let runs = enter(&mut shaper, Time(0), train);
    // 55,228 bytes wait already: four more segments fit, and the short last one does not.
    assert_eq!(runs[0].segments, 0..4);
    assert_eq!((runs[1].segments.clone(), runs[1].fate), (4..7, Fate::Overflowed));
    assert_eq!(shaper.waiting(), 55_228 + 4 * 9038);
    // The line drains 125 bytes in a microsecond.
    assert_eq!(shaper.busy_until(), Time(731_040));
    let later = Time(800_000);
    assert_eq!(enter(&mut shaper, later, train).len(), 1);
    assert_eq!(shaper.waiting(), 55_228);
}

#[test]
fn a_queue_in_time_has_the_bytes_of_that_time() {
    let mut shaper = shaper("queue 5ms");
    let mut taken = 0;
    while arrives(&enter(&mut shaper, Time(0), one(1250))) {
        taken += 1;
    }
    assert_eq!(taken, 500);
}

fn arrives(runs: &[Run]) -> bool {
    matches!(runs, [Run { fate: Fate::Arrives(_), .. }])
}

#[test]
fn segments_are_lost_at_the_given_rate_and_use_the_line() {
    let mut shaper = shaper("rate 100Gbit loss 1%");
    let train = Train { count: 40, each: 1538, last: 700 };
    let (mut lost, mut now) = (0, Time(0));
    for _ in 0..10_000 {
        for run in enter(&mut shaper, now, train) {
            if run.fate == Fate::Lost {
                lost += run.segments.len();
            }
        }
        now = shaper.busy_until();
    }
    assert!((3_700..4_300).contains(&lost), "{lost} of 400,000");
    let bits = 10_000 * train.bytes(&(0..40)) * 8;
    assert_eq!(now.0, bits / 100);
}

#[test]
fn everything_or_nothing_can_be_lost() {
    let mut all = shaper("loss 100%");
    assert_eq!(enter(&mut all, Time(0), one(100))[0].fate, Fate::Lost);
    let mut none = shaper("loss 0%");
    assert!((0..10_000).all(|n| arrives(&enter(&mut none, Time(n * MS), one(100)))));
}

#[test]
fn jitter_spreads_arrivals_and_keeps_their_order() {
    let mut shaper = shaper("jitter 2ms");
    let (mut earliest, mut latest, mut before) = (u64::MAX, 0, Time(0));
    for n in 0..10_000 {
        let now = Time(n * 3 * MS);
        let time = arrival(&enter(&mut shaper, now, one(125)));
        assert!(time >= before, "order is kept");
        before = time;
        let way = time.since(now).as_nanos() as u64 - 1_000;
        (earliest, latest) = (earliest.min(way), latest.max(way));
    }
    assert!((8 * MS..8 * MS + 100_000).contains(&earliest), "{earliest}");
    assert!((12 * MS - 100_000..=12 * MS).contains(&latest), "{latest}");
}

#[test]
fn a_delayed_segment_is_overtaken_and_delays_no_other() {
    let mut shaper = shaper("reorder 10% reorder-by 1ms");
    let (mut late, mut before) = (0, Time(0));
    for n in 0..10_000 {
        let now = Time(n * 100_000);
        match enter(&mut shaper, now, one(125))[0].fate {
            Fate::Late(time) => {
                late += 1;
                assert_eq!(time, now + Duration::from_nanos(1_000 + 11 * MS));
            }
            Fate::Arrives(time) => {
                assert_eq!(time, now + Duration::from_nanos(1_000 + 10 * MS));
                assert!(time > before);
                before = time;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((850..1_150).contains(&late), "{late}");
}

#[test]
fn a_slow_line_delivers_a_long_packet_in_pieces() {
    let mut shaper = shaper("rate 100Mbit");
    // 1538 bytes take 123 µs, so that eight of them are a piece.
    let train = Train { count: 43, each: 1538, last: 1538 };
    let runs = enter(&mut shaper, Time(0), train);
    assert_eq!(runs.len(), 6);
    assert!(runs[..5].iter().all(|run| run.segments.len() == 8));
    assert_eq!(runs[0].fate, Fate::Arrives(Time(8 * 123_040 + 10 * MS)));
}

#[test]
fn equal_seeds_have_equal_results() {
    let fates = || {
        let mut shaper = shaper("loss 3% reorder 3% jitter 1ms");
        (0..1000).flat_map(|n| enter(&mut shaper, Time(n), one(99))).collect::<Vec<_>>()
    };
    assert_eq!(fates(), fates());
}
