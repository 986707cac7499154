//! The cache, with a target that is played RPC by RPC.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;

use super::*;

mod refusals;

const MIB: u64 = 1 << 20;
const TERMS: Terms =
    Terms { chunk: 4096, tax: 24 << 10, extent: 64 * MIB, rpc_size: 4 * MIB, object_max: u64::MAX };
const OBJECT: Object =
    Object { target: Target::Ost(0), fid: Fid { seq: 0x2_4000_0400, oid: 1, version: 0 } };
const LOCK: LockKey = LockKey(1);

struct Rig {
    cache: Cache,
    now: Time,
    file: FileId,
    open: OpenId,
    rpcs: VecDeque<Rpc>,
    done: Vec<(OpId, Result<(), Errno>)>,
    written: Vec<(OpId, Result<u64, Errno>)>,
    ready: Vec<(OpId, Vec<Bytes>)>,
    fills: Vec<OpId>,
    shrinks: Vec<u64>,
}

impl Rig {
    /// A file of one object, whose target has granted so much.
    fn new(size: u64, granted: u64, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { memory: 64 * MIB, ..Settings::default() };
        change(&mut settings);
        let mut cache = Cache::new(settings);
        cache.handle_connected(Time(0), OBJECT.target, TERMS, granted);
        let file = cache.add_file(Layout::plain(MIB, vec![OBJECT]), size);
        cache.handle_lock(OBJECT, LOCK, 0..u64::MAX, true);
        let open = cache.open(file);
        let (done, ready, fills, shrinks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (rpcs, written) = (VecDeque::new(), Vec::new());
        Self { cache, now: Time(1), file, open, rpcs, done, written, ready, fills, shrinks }
    }

    fn drain(&mut self) {
        while let Some(output) = self.cache.poll_output() {
            match output {
                Output::Rpc(rpc) => self.rpcs.push_back(*rpc),
                Output::Fill { op, .. } => self.fills.push(op),
                Output::Ready { op, bytes } => self.ready.push((op, bytes)),
                Output::Written { op, result } => {
                    self.done.push((op, result.map(drop)));
                    self.written.push((op, result));
                }
                Output::Done { op, result } => self.done.push((op, result)),
                Output::Shrink { bytes, .. } => self.shrinks.push(bytes),
                Output::Allocate { .. } | Output::Release { .. } => {}
            }
        }
    }

    /// Begins a write, and fills it as far as there is room.
    fn write(&mut self, range: Range<u64>) -> OpId {
        self.write_to(range, Stability::Cached)
    }

    fn write_to(&mut self, range: Range<u64>, stability: Stability) -> OpId {
        let op = self.cache.handle_write(self.now, self.open, range, stability).unwrap();
        self.fill();
        op
    }

    /// Returns how many bytes of a write are written, if it has ended.
    fn len(&self, op: OpId) -> Option<Result<u64, Errno>> {
        self.written.iter().find(|(other, _)| *other == op).map(|(_, result)| *result)
    }

    fn fill(&mut self) {
        self.drain();
        while let Some(op) = self.fills.pop() {
            self.cache.handle_filled(self.now, op);
            self.drain();
        }
    }

    fn read(&mut self, range: Range<u64>) -> OpId {
        let op = self.cache.handle_read(self.now, self.open, range);
        self.drain();
        op
    }

    fn flush(&mut self) -> OpId {
        let op = self.cache.handle_flush(self.now, self.open, 0..u64::MAX);
        self.drain();
        op
    }

    /// Removes and returns the next RPC that was sent.
    fn rpc(&mut self) -> Rpc {
        self.rpcs.pop_front().expect("an RPC was sent")
    }

    fn reply(&mut self, rpc: &Rpc, result: Result<u64, Errno>) {
        let reply = Reply { result, granted: 0, keeps_data: false };
        self.cache.handle_done(self.now, rpc.id, reply);
        self.fill();
    }

    /// Returns the end of an operation, if it has one.
    fn end(&self, op: OpId) -> Option<Result<(), Errno>> {
        self.done.iter().find(|(other, _)| *other == op).map(|(_, result)| *result)
    }

    fn is_ready(&self, op: OpId) -> bool {
        self.ready.iter().any(|(other, _)| *other == op)
    }
}

#[test]
fn a_failed_write_is_reported_once_to_each_open_file() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    let other = rig.cache.open(rig.file);
    let op = rig.write(0..4096);
    assert_eq!((rig.end(op), rig.rpcs.len()), (Some(Ok(())), 0), "it is cached");
    let flush = rig.flush();
    let rpc = rig.rpc();
    assert!(rpc.flags.from_grant && rpc.grant.used == 4096 + TERMS.tax);
    rig.reply(&rpc, Err(Errno::ENOSPC));
    assert_eq!(rig.end(flush), Some(Err(Errno::ENOSPC)));
    let again = rig.flush();
    assert_eq!(rig.end(again), Some(Ok(())));
    let late = rig.cache.open(rig.file);
    for (open, expected) in [(other, Err(Errno::ENOSPC)), (late, Ok(()))] {
        let op = rig.cache.handle_flush(rig.now, open, 0..1);
        rig.drain();
        assert_eq!(rig.end(op), Some(expected));
    }
    rig.read(0..4096);
    assert_eq!(rig.rpc().direction, Direction::Read, "the target says what there is");
}

#[test]
fn what_is_written_back_without_a_caller_leaves_its_error_to_those_who_have_the_file_open() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    let op = rig.cache.handle_write_back(rig.now, rig.file, 0..u64::MAX);
    rig.drain();
    let rpc = rig.rpc();
    rig.reply(&rpc, Err(Errno::EDQUOT));
    assert_eq!(rig.end(op), Some(Ok(())));
    assert_eq!(rig.cache.take_error(rig.open), Err(Errno::EDQUOT));
    assert_eq!(rig.cache.take_error(rig.open), Ok(()));
}

#[test]
fn without_grant_a_write_waits_for_its_target_and_gets_the_error() {
    let mut rig = Rig::new(0, 0, |_| {});
    let op = rig.write(0..4096);
    let rpc = rig.rpc();
    assert!(!rpc.flags.from_grant && rpc.grant.used == 0);
    // The next one waits for what this reply grants.
    let next = rig.write(8192..9000);
    assert_eq!((rig.end(op), rig.end(next), rig.rpcs.len()), (None, None, 0));
    let reply = Reply { result: Err(Errno::ENOSPC), granted: MIB, keeps_data: false };
    rig.cache.handle_done(rig.now, rpc.id, reply);
    rig.fill();
    assert_eq!((rig.end(op), rig.end(next)), (Some(Err(Errno::ENOSPC)), Some(Ok(()))));
    let flush = rig.flush();
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.end(flush), Some(Ok(())), "the error was reported");
}

#[test]
fn writers_wait_in_order_and_what_is_dirty_is_written_for_them() {
    let mut rig = Rig::new(0, 16 * MIB, |settings| settings.dirty_max = Some(8192));
    let ops: Vec<_> = (0..4).map(|n| rig.write(n * 8192..(n + 1) * 8192)).collect();
    let ends = |rig: &Rig| ops.iter().filter(|op| rig.end(**op).is_some()).count();
    for done in 1..4 {
        assert_eq!((ends(&rig), rig.rpcs.len()), (done, 1));
        assert_eq!(rig.done.last().unwrap().0, ops[done - 1]);
        let rpc = rig.rpc();
        rig.reply(&rpc, Ok(0));
    }
    assert_eq!((ends(&rig), rig.cache.gauges().waiting), (4, 0));
}

#[test]
fn a_page_that_is_written_again_is_sent_again_after_the_first() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    let first = rig.flush();
    let sent = rig.rpc();
    rig.write(0..10);
    let second = rig.flush();
    assert!(rig.rpcs.is_empty(), "two writes of a page are never under way");
    rig.reply(&sent, Ok(0));
    assert_eq!((rig.end(first), rig.end(second)), (Some(Ok(())), None));
    let again = rig.rpc();
    assert_eq!(again.ranges, std::slice::from_ref(&(0..10)));
    assert_ne!(again.memory[0].buffer, sent.memory[0].buffer);
    rig.reply(&again, Ok(0));
    assert_eq!(rig.end(second), Some(Ok(())));
}

#[test]
fn a_flush_does_not_wait_for_what_is_written_later() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    let flush = rig.flush();
    rig.write(4096..8192);
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    assert_eq!((rig.end(flush), rig.rpcs.len()), (Some(Ok(())), 0));
    assert_eq!(rig.cache.gauges().dirty, 4096);
}

#[test]
fn a_lock_goes_when_its_data_are_written_or_at_once_with_discard() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    assert_eq!(rig.cache.written_end(OBJECT), 4096);
    let cancel = rig.cache.handle_cancel(rig.now, OBJECT, LOCK, false);
    rig.drain();
    let rpc = rig.rpc();
    assert!(rpc.flags.urgent && rig.end(cancel).is_none());
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.end(cancel), Some(Ok(())));
    assert_eq!((rig.cache.gauges().speculation, rig.cache.written_end(OBJECT)), (0, 0));
    rig.cache.handle_lock(OBJECT, LOCK, 0..u64::MAX, true);
    rig.write(0..4096);
    let cancel = rig.cache.handle_cancel(rig.now, OBJECT, LOCK, true);
    rig.drain();
    assert_eq!((rig.end(cancel), rig.rpcs.len()), (Some(Ok(())), 0));
    assert_eq!(rig.cache.gauges(), Gauges::default());
}

#[test]
fn what_was_written_is_known_as_far_as_locks_reach() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.cache.handle_lock(OBJECT, LockKey(2), 0..8192, false);
    rig.write(0..3 * 4096);
    rig.cache.handle_cancel(rig.now, OBJECT, LOCK, false);
    rig.drain();
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    // Somebody else may have cut it behind that.
    assert_eq!(rig.cache.written_end(OBJECT), 8192);
    rig.cache.handle_evicted(rig.now, OBJECT.target);
    assert_eq!(rig.cache.written_end(OBJECT), 0);
}

#[test]
fn what_becomes_a_hole_is_written_before_it_is_dropped() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    rig.flush();
    rig.write(8192..12288);
    let punch = rig.cache.handle_punch(rig.now, rig.file, 2048..10_000);
    rig.drain();
    let (first, second) = (rig.rpc(), rig.rpc());
    assert_eq!(second.ranges, std::slice::from_ref(&(8192..12288)), "the file ends there");
    rig.reply(&first, Ok(0));
    assert_eq!((rig.end(punch), rig.cache.gauges().dirty), (None, 4096));
    rig.reply(&second, Ok(0));
    assert_eq!((rig.end(punch), rig.cache.size(rig.file)), (Some(Ok(())), 12288));
    assert_eq!(rig.cache.written_end(OBJECT), 12288);
    let op = rig.read(0..2048);
    assert!(rig.is_ready(op));
    rig.read(2048..4096);
    assert_eq!(rig.rpc().direction, Direction::Read);
    // Where nothing is dirty, nothing is waited for.
    rig.write(0..2048);
    let punch = rig.cache.handle_punch(rig.now, rig.file, 4096..8192);
    rig.drain();
    assert_eq!((rig.end(punch), rig.cache.gauges().dirty), (Some(Ok(())), 2048));
}

#[test]
fn a_write_that_is_refused_does_not_make_the_file_longer() {
    let mut rig = Rig::new(0, 0, |_| {});
    let op = rig.write(4096..3 * MIB);
    let rpc = rig.rpc();
    assert_eq!((rig.cache.size(rig.file), rig.cache.written_end(OBJECT)), (0, 0));
    rig.reply(&rpc, Err(Errno::ENOSPC));
    // Nothing of what is behind it is attempted.
    assert_eq!((rig.len(op), rig.rpcs.len()), (Some(Err(Errno::ENOSPC)), 0));
    assert_eq!((rig.cache.size(rig.file), rig.cache.written_end(OBJECT)), (0, 0));
    let op = rig.write(0..10);
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.len(op), Some(Ok(10)));
    assert_eq!((rig.cache.size(rig.file), rig.cache.written_end(OBJECT)), (10, 10));
}

#[test]
fn what_was_accepted_and_is_refused_later_does_not_stay_a_part_of_the_object() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    rig.flush();
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    rig.write(20_000..30_000);
    rig.flush();
    let rpc = rig.rpc();
    rig.write(10_000..10_010);
    rig.reply(&rpc, Err(Errno::EDQUOT));
    assert_eq!(rig.cache.written_end(OBJECT), 10_010, "this is accepted");
    rig.flush();
    let rpc = rig.rpc();
    rig.reply(&rpc, Err(Errno::EDQUOT));
    assert_eq!(rig.cache.written_end(OBJECT), 4096);
}

#[test]
fn a_write_that_is_to_be_on_disk_is_sent_at_once_and_ends_with_it() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    let op = rig.write_to(4096..8192, Stability::Data);
    assert_eq!((rig.cache.written_end(OBJECT), rig.cache.unwritten(OBJECT)), (4096, 8192));
    let (older, rpc) = (rig.rpc(), rig.rpc());
    assert_eq!((older.ranges[0].clone(), older.flags.sync), (0..4096, false));
    assert_eq!(rpc.ranges, std::slice::from_ref(&(4096..8192)));
    assert!(rpc.flags.sync && rpc.flags.from_grant);
    rig.reply(&older, Ok(0));
    assert_eq!((rig.len(op), rig.cache.unwritten(OBJECT)), (None, 4096));
    rig.reply(&rpc, Ok(0));
    assert_eq!((rig.len(op), rig.cache.unwritten(OBJECT)), (Some(Ok(4096)), 0));
    assert_eq!((rig.cache.size(rig.file), rig.cache.written_end(OBJECT)), (8192, 8192));
    // What it replaces goes along.
    rig.write(0..4096);
    let op = rig.write_to(100..200, Stability::File);
    let rpc = rig.rpc();
    assert_eq!((rpc.ranges[0].clone(), rpc.flags.sync), (0..4096, true));
    rig.reply(&rpc, Err(Errno::EIO));
    assert_eq!(rig.len(op), Some(Err(Errno::EIO)));
}

#[test]
fn a_cut_leaves_nothing_of_the_objects_of_parts_behind_it() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    let behind = Object { target: Target::Ost(1), ..OBJECT };
    rig.cache.set_layout(rig.file, Layout::two(MIB, [OBJECT, behind]));
    rig.cache.handle_connected(rig.now, behind.target, TERMS, 16 * MIB);
    rig.cache.handle_lock(behind, LockKey(2), 0..u64::MAX, true);
    rig.write(0..2 * MIB);
    assert_eq!(rig.cache.written_end(behind), 2 * MIB);
    rig.cache.handle_truncate(rig.now, rig.file, 4);
    rig.drain();
    assert_eq!((rig.cache.written_end(OBJECT), rig.cache.written_end(behind)), (4, 4));
}

#[test]
fn what_is_being_written_when_a_file_is_cut_does_not_make_it_longer() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..3 * 4096);
    rig.flush();
    let rpc = rig.rpc();
    let cut = rig.cache.handle_truncate(rig.now, rig.file, 5000);
    rig.drain();
    assert_eq!(rig.end(cut), None, "the write is under way");
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.end(cut), Some(Ok(())));
    assert_eq!((rig.cache.size(rig.file), rig.cache.written_end(OBJECT)), (5000, 5000));
    // What is written after that does.
    rig.write(5000..6000);
    assert_eq!(rig.cache.written_end(OBJECT), 6000);
}

#[test]
fn what_another_lock_for_writing_covers_stays_dirty() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.cache.handle_lock(OBJECT, LockKey(2), 0..u64::MAX, false);
    rig.write(0..4096);
    let cancel = rig.cache.handle_cancel(rig.now, OBJECT, LockKey(2), true);
    rig.drain();
    assert_eq!((rig.end(cancel), rig.rpcs.len()), (Some(Ok(())), 0));
    assert_eq!(rig.cache.gauges().dirty, 4096);
}

#[test]
fn what_another_lock_covers_stays() {
    let mut rig = Rig::new(8192, 0, |_| {});
    rig.cache.handle_lock(OBJECT, LockKey(2), 0..4096, true);
    let op = rig.read(0..8192);
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(8192));
    rig.cache.handle_read_end(rig.now, op);
    rig.cache.handle_cancel(rig.now, OBJECT, LOCK, false);
    let op = rig.read(0..4096);
    assert!(rig.is_ready(op));
    rig.read(4096..8192);
    assert_eq!(rig.rpc().ranges, std::slice::from_ref(&(4096..8192)));
}

#[test]
fn after_an_eviction_what_was_not_written_is_lost_and_reported() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    rig.cache.handle_evicted(rig.now, OBJECT.target);
    rig.cache.handle_connected(rig.now, OBJECT.target, TERMS, MIB);
    let flush = rig.flush();
    assert_eq!((rig.end(flush), rig.rpcs.len()), (Some(Err(Errno::EIO)), 0));
}

#[test]
fn after_an_eviction_what_was_not_on_disk_is_reported_too() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.write(0..4096);
    let flush = rig.flush();
    let rpc = rig.rpc();
    let reply = Reply { result: Ok(4096), granted: 0, keeps_data: true };
    rig.cache.handle_done(rig.now, rpc.id, reply);
    rig.drain();
    assert_eq!(rig.end(flush), Some(Ok(())));
    rig.cache.handle_evicted(rig.now, OBJECT.target);
    rig.cache.handle_released(rig.now, rpc.id);
    assert_eq!(rig.cache.take_error(rig.open), Err(Errno::EIO));
    assert_eq!(rig.cache.take_error(rig.open), Ok(()));
}

#[test]
fn a_read_that_fails_is_reported_and_one_that_was_ahead_is_repeated() {
    let mut rig = Rig::new(8192, 0, |_| {});
    // The whole file is read ahead of the first read.
    let op = rig.read(0..4096);
    let ahead = rig.rpc();
    assert_eq!(ahead.ranges, std::slice::from_ref(&(0..8192)));
    rig.reply(&ahead, Err(Errno::EIO));
    let demand = rig.rpc();
    assert_eq!((rig.end(op), demand.ranges[0].clone()), (None, 0..4096));
    rig.reply(&demand, Err(Errno::EIO));
    assert_eq!(rig.end(op), Some(Err(Errno::EIO)));
    assert_eq!(rig.cache.gauges(), Gauges::default());
}

#[test]
fn a_reader_overtakes_what_is_read_ahead_and_locks_end_that() {
    let mut rig = Rig::new(400 * MIB, 0, |settings| settings.rpcs_in_flight = Some(1));
    rig.cache.handle_cancel(rig.now, OBJECT, LOCK, false);
    rig.cache.handle_lock(OBJECT, LOCK, 0..6 * MIB, true);
    rig.read(0..MIB);
    rig.read(MIB..2 * MIB);
    // The first and, as more than that, what the second is a part of; the rest of what is ahead waits.
    let sent: Vec<_> = rig.rpcs.iter().map(|rpc| rpc.ranges[0].clone()).collect();
    assert_eq!(sent, [0..MIB, MIB..4 * MIB]);
    rig.read(100 * MIB..101 * MIB);
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(MIB));
    let rpc = rig.rpcs.pop_back().unwrap();
    assert_eq!(rpc.ranges, std::slice::from_ref(&(100 * MIB..101 * MIB)));
    rig.reply(&rpc, Ok(MIB));
    while let Some(rpc) = rig.rpcs.pop_front() {
        assert!(rpc.ranges[0].end <= 6 * MIB, "no lock covers {:?}", rpc.ranges);
        rig.reply(&rpc, Ok(4 * MIB));
    }
}

#[test]
fn dirty_data_are_written_when_they_are_old_and_idle_grant_goes_back() {
    let mut rig = Rig::new(0, 300 * MIB, |_| {});
    rig.write(0..4096);
    rig.now = rig.now + Duration::from_secs(5);
    assert_eq!(rig.cache.poll_timeout(), Some(rig.now));
    rig.cache.handle_timeout(rig.now);
    rig.drain();
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    rig.now = rig.cache.poll_timeout().unwrap();
    rig.cache.handle_timeout(rig.now);
    rig.now = rig.cache.poll_timeout().unwrap();
    rig.cache.handle_timeout(rig.now);
    rig.drain();
    assert_eq!(rig.shrinks, [264 * MIB - 4096 - TERMS.tax], "what 9 RPCs need is kept");
}

#[test]
fn settings_apply_to_what_is_under_way() {
    let mut rig = Rig::new(400 * MIB, 0, |settings| settings.rpcs_in_flight = Some(1));
    for n in 0..4 {
        rig.read(n * 9 * MIB..(n * 9 + 1) * MIB);
    }
    // One more than the window is sent for those who wait.
    assert_eq!(rig.rpcs.len(), 2);
    let settings = Settings { rpcs_in_flight: Some(9), dirty_max: Some(7), ..Settings::default() };
    rig.cache.configure(rig.now, settings);
    rig.drain();
    let view = rig.cache.target(OBJECT.target).unwrap();
    assert_eq!((view.dirty_max, view.reads.window, view.reads.in_flight > 4), (7, 9, true));
}

#[test]
fn operations_that_wait_can_be_interrupted() {
    let mut rig = Rig::new(8192, 16 * MIB, |settings| settings.dirty_max = Some(4096));
    rig.write(0..4096);
    let (write, read) = (rig.write(4096..8192), rig.read(8191..8192));
    let flush = rig.flush();
    for op in [write, read, flush] {
        assert!(rig.end(op).is_none() && rig.cache.handle_interrupt(rig.now, op));
        rig.drain();
        assert_eq!(rig.end(op), Some(Err(Errno::EINTR)));
        assert!(!rig.cache.handle_interrupt(rig.now, op));
    }
    while let Some(rpc) = rig.rpcs.pop_front() {
        rig.reply(&rpc, Ok(0));
    }
    let gauges = rig.cache.gauges();
    assert_eq!(gauges, Gauges { speculation: gauges.speculation, ..Gauges::default() });
}

#[test]
fn a_file_without_objects_is_zeros_and_gets_them_before_a_write() {
    let mut rig = Rig::new(0, 0, |_| {});
    let file = rig.cache.add_file(Layout::none(), 10_000);
    let open = rig.cache.open(file);
    let op = rig.cache.handle_read(rig.now, open, 100..20_000);
    rig.drain();
    assert_eq!(rig.ready, [(op, vec![Bytes::Zeros(9900)])]);
    rig.cache.handle_read_end(rig.now, op);
    let error = rig.cache.handle_write(rig.now, open, 5..9, Stability::Cached).unwrap_err();
    assert_eq!(error, WriteError::NoObjects(5..9));
    let error = rig.cache.handle_write(rig.now, open, 5..u64::MAX, Stability::Cached).unwrap_err();
    assert_eq!(error, WriteError::TooLarge);
    let object = Object { target: Target::Ost(7), ..OBJECT };
    rig.cache.set_layout(file, Layout::plain(MIB, vec![object]));
    assert!(rig.cache.handle_write(rig.now, open, 5..9, Stability::Cached).is_ok());
}

#[test]
fn a_write_beyond_the_largest_object_is_refused_before_anything_of_it_is_cached() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    let other = Object { target: Target::Ost(1), ..OBJECT };
    rig.cache.set_layout(rig.file, Layout::plain(MIB, vec![OBJECT, other]));
    for (object, object_max) in [(OBJECT, 3 * MIB), (other, 2 * MIB)] {
        let terms = Terms { object_max, ..TERMS };
        rig.cache.handle_connected(rig.now, object.target, terms, 16 * MIB);
    }
    let mut write =
        |range| rig.cache.handle_write(rig.now, rig.open, range, Stability::Cached).map(drop);
    assert_eq!(write(4 * MIB - 1..4 * MIB), Ok(()), "the last of the second object");
    assert_eq!(write(4 * MIB..5 * MIB), Ok(()), "the last of the first object");
    assert_eq!(write(5 * MIB..5 * MIB + 1), Err(WriteError::TooLarge));
    assert_eq!(write(5 * MIB - 1..5 * MIB + 1), Err(WriteError::TooLarge));
    assert_eq!(write(6 * MIB..6 * MIB + 1), Err(WriteError::TooLarge));
    assert_eq!(rig.cache.size(rig.file), 0, "nothing is filled yet");
    rig.fill();
    assert_eq!(rig.cache.size(rig.file), 5 * MIB);
}

#[test]
fn over_quota_writes_are_synchronous_until_the_owner_has_room() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    rig.cache.set_synchronous(rig.file, true);
    let op = rig.write(0..4096);
    let rpc = rig.rpc();
    assert!(rig.end(op).is_none() && !rpc.flags.from_grant);
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.end(op), Some(Ok(())));
    rig.cache.set_synchronous(rig.file, false);
    let op = rig.write(0..4096);
    assert_eq!((rig.end(op), rig.rpcs.len()), (Some(Ok(())), 0));
    assert!(!rig.cache.forget_file(rig.file), "it has dirty data");
}
