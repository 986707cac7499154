//! Writes that a target refuses.

use super::*;

#[test]
fn a_write_of_which_something_is_accepted_is_a_short_one() {
    // Grant for one part.
    let mut rig = Rig::new(0, MIB + TERMS.tax, |_| {});
    let op = rig.write(0..2 * MIB + 10);
    // It is written for the one that waits.
    let first = rig.rpc();
    rig.reply(&first, Ok(0));
    let second = rig.rpc();
    assert_eq!((second.ranges[0].clone(), second.flags.from_grant), (MIB..2 * MIB, false));
    rig.reply(&second, Err(Errno::ENOSPC));
    assert_eq!(rig.len(op), Some(Ok(MIB)));
    assert_eq!((rig.cache.size(rig.file), rig.cache.written_end(OBJECT)), (MIB, MIB));
    assert_eq!(rig.cache.take_error(rig.open), Err(Errno::ENOSPC), "it is told by the next one");
}

#[test]
fn a_write_that_is_refused_ends_when_nothing_of_it_is_on_its_way() {
    let mut rig = Rig::new(0, MIB + TERMS.tax, |_| {});
    let own = Object { fid: Fid { oid: 2, ..OBJECT.fid }, ..OBJECT };
    let full = Object { target: Target::Ost(1), ..own };
    rig.cache.handle_connected(rig.now, full.target, TERMS, 0);
    let file = rig.cache.add_file(Layout::plain(MIB, vec![own, full]), 0);
    for (object, lock) in [(own, LockKey(2)), (full, LockKey(3))] {
        rig.cache.handle_lock(object, lock, 0..u64::MAX, true);
    }
    rig.open = rig.cache.open(file);
    let op = rig.write_to(0..2 * MIB, Stability::Data);
    let (first, second) = (rig.rpc(), rig.rpc());
    assert_eq!((first.object, second.object), (own, full));
    rig.reply(&second, Err(Errno::ENOSPC));
    assert_eq!(rig.len(op), None);
    rig.reply(&first, Ok(0));
    assert_eq!(rig.len(op), Some(Err(Errno::ENOSPC)));
}

/// The second one and the third one are sent together, as they wait for the same part of the object.
#[test]
fn two_writes_that_are_refused_together_are_both_told() {
    let mut rig = Rig::new(0, 16 * MIB, |_| {});
    let first = rig.write_to(0..4096, Stability::Data);
    let rpc = rig.rpc();
    let second = rig.write_to(0..4096, Stability::Data);
    let third = rig.write_to(0..2048, Stability::Data);
    assert!(rig.rpcs.is_empty());
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.len(first), Some(Ok(4096)));
    let both = rig.rpc();
    rig.reply(&both, Err(Errno::ENOSPC));
    assert_eq!(rig.len(second), Some(Err(Errno::ENOSPC)));
    assert_eq!(rig.len(third), Some(Err(Errno::ENOSPC)));
    let next = rig.write_to(0..4096, Stability::Data);
    let rpc = rig.rpc();
    rig.reply(&rpc, Ok(0));
    assert_eq!(rig.len(next), Some(Ok(4096)), "it is told once");
}
