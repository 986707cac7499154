//! What one program gets of a line of 10 Gb/s and 50.5 ms, with default settings.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_data::stripes::Layout;
use fulmar_data::{Gauges, OpId, OpenId, Settings};

use crate::host::{End, Host};
use crate::image::Image;
use crate::world::{Line, MIB, World, object};

const GIB: u64 = 1 << 30;
const STALL_MAX: Duration = Duration::from_micros(3 * 50_500);

struct Run {
    rate: f64,
    /// The longest time of an operation.
    longest: Duration,
    world: World,
}

fn start(line: Line, layout: Layout, size: u64) -> (World, OpenId) {
    let mut world = World::new(line, 1, vec![Host::new(Settings::default())]);
    for (object, _) in layout.objects(0..size) {
        world.fill(object, size, u64::from(object.fid.oid));
    }
    let cache = &mut world.hosts[0].cache;
    let file = cache.add_file(layout.clone(), size);
    for (number, (object, _)) in layout.objects(0..u64::MAX).into_iter().enumerate() {
        cache.handle_lock(object, fulmar_data::LockKey(number as u64), 0..u64::MAX, true);
    }
    let open = cache.open(file);
    (world, open)
}

/// Reads a file to its end, `depth` reads of `len` bytes at a time, which the order may disturb.
fn read(
    line: Line,
    layout: &Layout,
    size: u64,
    len: u64,
    depth: usize,
    (disorder, seed): (u64, u64),
) -> Run {
    let (mut world, open) = start(line, layout.clone(), size);
    let mut rng = Rng::new(seed);
    let mut todo: VecDeque<u64> = (0..size / len).collect();
    let (mut under_way, mut longest) = (Vec::new(), Duration::ZERO);
    while !todo.is_empty() || !under_way.is_empty() {
        while under_way.len() < depth && !todo.is_empty() {
            let which = rng.below(disorder + 1).min(todo.len() as u64 - 1);
            let at = todo.remove(which as usize).unwrap() * len;
            let now = world.now;
            let op = world.hosts[0].cache.handle_read(now, open, at..at + len);
            under_way.push((op, at, now));
            world.drain(0);
        }
        let is_done = |world: &World, op| world.hosts[0].ends.contains_key(op);
        while !under_way.iter().any(|(op, ..)| is_done(&world, op)) {
            assert!(world.step(Time::MAX), "something happens");
        }
        let now = world.now;
        let mut rest = Vec::new();
        for (op, at, since) in under_way {
            let Some(end) = world.hosts[0].ends.remove(&op) else {
                rest.push((op, at, since));
                continue;
            };
            longest = longest.max(now.since(since));
            let mut expected = Image::default();
            for piece in layout.pieces(at..at + len) {
                let fulmar_data::stripes::Place::Object { object, at: from } = piece.place else {
                    panic!("the file has objects")
                };
                let to = from + (piece.file.end - piece.file.start);
                expected.copy(
                    piece.file.start - at,
                    &world.content(object, from..to),
                    0..to - from,
                );
            }
            assert!(end == End::Read(expected, len), "{at}: the bytes are those of the file");
        }
        under_way = rest;
    }
    Run { rate: size as f64 / world.now.since(Time::ZERO).as_secs_f64(), longest, world }
}

/// Writes a file in order, `len` bytes at a time, and flushes it.
fn write(line: Line, layout: &Layout, size: u64, len: u64) -> Run {
    let (mut world, open) = start(line, layout.clone(), 0);
    let mut longest = Duration::ZERO;
    let wait = |world: &mut World, op| {
        let since = world.now;
        while !world.hosts[0].ends.contains_key(&op) {
            assert!(world.step(Time::MAX), "something happens");
        }
        assert_eq!(world.hosts[0].ends.remove(&op), Some(End::Done(Ok(()))));
        world.now.since(since)
    };
    for at in (0..size).step_by(len as usize) {
        let now = world.now;
        let op = world.hosts[0].write(now, open, at..at + len, 5);
        world.drain(0);
        longest = longest.max(wait(&mut world, op));
    }
    let now = world.now;
    let op = world.hosts[0].cache.handle_flush(now, open, 0..u64::MAX);
    wait(&mut world, op);
    let rate = size as f64 / world.now.since(Time::ZERO).as_secs_f64();
    Run { rate, longest, world }
}

/// Ends everything, and checks that nothing is left and that the memory was bounded.
fn finish(run: Run) {
    let mut world = run.world;
    let end = world.now + Duration::from_secs(30);
    while world.step(end) {}
    let host = &mut world.hosts[0];
    let memory = Settings::default().memory;
    assert!(host.peak <= memory, "{} bytes are too many", host.peak);
    assert_eq!(host.cache.memory_peak(), host.peak);
    let gauges = host.cache.gauges();
    assert_eq!(gauges, Gauges { speculation: gauges.speculation, ..Gauges::default() });
}

fn is_full(run: &Run) -> bool {
    println!(
        "{:.1} % of the line, longest {:?}, {:?} RPCs",
        run.rate / 12_500_000.0,
        run.longest,
        run.world.rpcs
    );
    run.rate > 0.9 * 1_250_000_000.0
}

#[test]
fn one_sequential_reader_fills_a_long_line() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let run = read(Line::OCEAN, &layout, 8 * GIB, MIB, 1, (0, 1));
    assert!(is_full(&run) && run.longest < STALL_MAX);
    assert_eq!(run.world.moved[0], 8 * GIB, "nothing is read twice");
    finish(run);
}

#[test]
fn a_reader_loses_few_round_trips_until_the_line_is_full() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let run = read(Line::OCEAN, &layout, GIB, MIB, 1, (0, 1));
    // The line holds 63 MB, and nothing is known of it before.
    let lost = (GIB as f64 / run.rate - GIB as f64 / 1_250_000_000.0) / 0.0505;
    assert!(lost < 5.0, "{lost:.1} round trips");
    finish(run);
}

#[test]
fn stripes_over_four_targets_fill_it_too() {
    let layout = Layout::plain(MIB, (0..4).map(object).collect());
    let run = read(Line::OCEAN, &layout, 8 * GIB, MIB, 1, (0, 1));
    assert!(is_full(&run) && run.longest < STALL_MAX);
    finish(run);
    let run = write(Line::OCEAN, &layout, 8 * GIB, MIB);
    assert!(is_full(&run) && run.longest < STALL_MAX);
    finish(run);
}

#[test]
fn disorder_of_requests_costs_less_than_a_twentieth() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let ordered = read(Line::OCEAN, &layout, 4 * GIB, MIB / 8, 16, (0, 1));
    assert!(is_full(&ordered));
    for seed in 1..4 {
        let disordered = read(Line::OCEAN, &layout, 4 * GIB, MIB / 8, 16, (15, seed));
        is_full(&disordered);
        assert!(disordered.rate > 0.95 * ordered.rate);
        assert!(disordered.longest < STALL_MAX);
        finish(disordered);
    }
}

#[test]
fn one_sequential_writer_fills_a_long_line() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let run = write(Line::OCEAN, &layout, 8 * GIB, MIB);
    assert!(is_full(&run) && run.longest < STALL_MAX);
    assert_eq!(run.world.moved[1], 8 * GIB, "nothing is written twice");
    finish(run);
}

#[test]
fn a_target_that_syncs_every_five_seconds_is_asked_to_sync_before_memory_runs_out() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let line = Line { commit: Some(Duration::from_secs(5)), ..Line::OCEAN };
    let run = write(line, &layout, 8 * GIB, MIB);
    assert!(is_full(&run) && run.longest < 2 * STALL_MAX);
    finish(run);
}

#[test]
fn random_readers_get_what_they_want_and_no_more() {
    let layout = Layout::plain(MIB, (0..4).map(object).collect());
    let (mut world, open) = start(Line::OCEAN, layout, 64 * GIB);
    let mut rng = Rng::new(3);
    for _ in 0..500 {
        let at = rng.below(64 * GIB) & !4095;
        world.hosts[0].cache.handle_read(world.now, open, at..at + 4096);
        world.drain(0);
    }
    while world.hosts[0].ends.len() < 500 {
        assert!(world.step(Time::MAX), "something happens");
    }
    assert_eq!((world.rpcs[0], world.moved[0]), (500, 500 * 4096));
}

/// Many programs read and write more than fits into the memory.
#[test]
fn little_memory_is_shared_and_everybody_goes_on() {
    let settings = Settings { memory: Settings::MEMORY_MIN, ..Settings::default() };
    let mut world = World::new(Line::OCEAN, 1, vec![Host::new(settings)]);
    let objects: Vec<_> = (0..4).map(object).collect();
    for object in &objects {
        world.fill(*object, GIB, 1);
    }
    let layout = Layout::plain(MIB, objects.clone());
    let cache = &mut world.hosts[0].cache;
    let file = cache.add_file(layout, GIB);
    for object in objects {
        cache.handle_lock(object, fulmar_data::LockKey(1), 0..u64::MAX, true);
    }
    let opens: Vec<_> = (0..40).map(|_| cache.open(file)).collect();
    let mut under_way: Vec<(usize, OpId, Time)> = Vec::new();
    let mut done = [0_u64; 40];
    while done.iter().any(|&count| count < 16) {
        for (number, open) in opens.iter().enumerate() {
            if under_way.iter().any(|(other, ..)| *other == number) {
                continue;
            }
            let now = world.now;
            let host = &mut world.hosts[0];
            let at = (number as u64 * 25 + done[number] % 24) * MIB;
            let op = match number % 4 {
                0 => host.write(now, *open, at..at + MIB, 9),
                _ => host.cache.handle_read(now, *open, at..at + MIB),
            };
            under_way.push((number, op, now));
            world.drain(0);
        }
        assert!(world.step(Time::MAX), "somebody goes on");
        let ends = &mut world.hosts[0].ends;
        under_way.retain(|(number, op, _)| {
            let is_done = ends.remove(op).is_some();
            done[*number] += u64::from(is_done);
            !is_done
        });
        let now = world.now;
        let waits = under_way.iter().map(|(.., since)| now.since(*since)).max();
        assert!(waits.unwrap_or_default() < Duration::from_secs(2), "no client starves");
    }
    while world.step(Time::MAX) && world.now < Time::from_secs(1000) {}
    let host = &world.hosts[0];
    assert!(host.peak <= Settings::MEMORY_MIN && host.peak > Settings::MEMORY_MIN / 2);
    assert_eq!(host.cache.gauges().waiting, 0);
}

#[test]
fn small_writes_become_large_rpcs() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let run = write(Line::OCEAN, &layout, 256 * MIB, 12_288);
    assert!(run.world.rpcs[1] <= 70, "{} RPCs", run.world.rpcs[1]);
    finish(run);
}

#[test]
fn a_small_file_is_read_by_one_rpc() {
    let layout = Layout::plain(MIB, vec![object(0)]);
    let run = read(Line::OCEAN, &layout, 3 * MIB, MIB / 8, 1, (0, 1));
    assert_eq!(run.world.rpcs, [1, 0]);
    assert!(run.longest < 2 * Line::OCEAN.round_trip);
    finish(run);
}
