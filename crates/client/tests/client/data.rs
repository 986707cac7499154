//! The cache of data: what is where, and how many requests that needs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fulmar_base::{Errno, Rng};
use fulmar_client::{
    Allocate, Caller, Change, DataSettings, FileSystem, MountOptions, OpenOptions, blocking,
};
use fulmar_lustre_wire::Opcode;

use crate::rig::Rig;

const MIB: usize = 1 << 20;

/// Nothing is written by its age.
pub(crate) fn patient() -> MountOptions {
    let age_max = Duration::from_secs(3600);
    MountOptions {
        data: DataSettings { age_max, ..DataSettings::default() },
        ..MountOptions::default()
    }
}

fn both() -> OpenOptions {
    OpenOptions { read: true, ..OpenOptions::create(0o644) }
}

fn count(fs: &FileSystem, opcode: Opcode) -> u64 {
    fs.requests().get(&opcode).copied().unwrap_or(0)
}

pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn what_is_dirty_is_written_soon_after_the_file_is_closed() {
    let rig = Rig::start("closed", 1);
    let age_max = Duration::from_secs(40);
    let data = DataSettings { age_max, ..DataSettings::default() };
    let fs = rig.mount_with(MountOptions { data, ..MountOptions::default() });
    let lv = blocking::FileSystem::of(fs.clone());
    let (open, closed) = (lv.open("open", both()).unwrap(), lv.open("closed", both()).unwrap());
    let begun = Instant::now();
    open.write(0, *b"text").unwrap();
    closed.write(0, *b"text").unwrap();
    closed.close().unwrap();
    assert_eq!(count(&fs, Opcode::OST_WRITE), 0, "it is only here");
    while count(&fs, Opcode::OST_WRITE) == 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    // The other one is as old, and is not written.
    assert!(begun.elapsed() < age_max, "it was written by its age");
    assert_eq!(count(&fs, Opcode::OST_WRITE), 1);
    open.close().unwrap();
    lv.unmount();
}

#[test]
fn what_is_flushed_is_at_the_servers() {
    let rig = Rig::start("flushed", 1);
    let fs = rig.mount_with(patient());
    let lv = blocking::FileSystem::of(fs.clone());
    let file = lv.open("file", both()).unwrap();
    let flush = || blocking::wait(file.inner().flush()).unwrap();
    flush();
    assert_eq!(count(&fs, Opcode::OST_WRITE), 0);
    file.write(0, *b"text").unwrap();
    flush();
    flush();
    assert_eq!(count(&fs, Opcode::OST_WRITE), 1);
    assert_eq!(count(&fs, Opcode::OST_SYNC), 0, "who wants it on disk has to say so");
    file.close().unwrap();
    lv.unmount();
}

#[test]
fn what_is_dirty_is_written_when_another_client_wants_it() {
    let rig = Rig::start("dirty", 1);
    let (one, two) = (rig.mount_with(patient()), rig.mount_with(patient()));
    let (first, second) = (one.clone(), two.clone());
    let (one, two) = (blocking::FileSystem::of(one), blocking::FileSystem::of(two));
    let file = one.open("file", both()).unwrap();
    file.write(0, bytes(300_000, 1)).unwrap();
    file.write(299_990, bytes(20, 2)).unwrap();
    assert_eq!(one.attributes("file").unwrap().size, 300_010);
    assert_eq!(count(&first, Opcode::OST_WRITE), 0, "it is only here");
    // The size is asked of the client that has it.
    assert_eq!(two.attributes("file").unwrap().size, 300_010);
    let other = two.open("file", both()).unwrap();
    let seen = other.read(0, MIB as u64).unwrap();
    assert!(seen[..299_990] == bytes(300_000, 1)[..299_990] && seen[299_990..] == bytes(20, 2));
    assert_eq!(count(&first, Opcode::OST_WRITE), 1, "it is written as one");
    // Another lock, and what was cached is read again.
    other.write(5, *b"others").unwrap();
    assert_eq!(file.read(5, 6).unwrap(), b"others");
    assert_eq!(count(&second, Opcode::OST_WRITE), 1);
    file.close().unwrap();
    other.close().unwrap();
    one.unmount();
    two.unmount();
}

/// While a file is cut, its writer is asked for its size: what it says then must not count afterwards.
#[test]
fn a_file_that_was_cut_has_its_new_size_for_others() {
    let rig = Rig::start("cut", 1);
    let (writes, looks) = (rig.mount_with(patient()), rig.mount());
    let options = OpenOptions::create(0o644);
    let top = writes.root();
    let file = blocking::wait(writes.open(&Caller::ROOT, top, b"file", options)).unwrap();
    let fid = file.fid();
    let is_over = AtomicBool::new(false);
    let size = || blocking::wait(looks.getattr(&Caller::ROOT, fid)).unwrap().size;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                size();
            }
        });
        let mut wrong = None;
        for round in 0..300 {
            blocking::wait(file.write(0, vec![1; 1000])).unwrap();
            let change = Change { size: Some(0), ..Change::default() };
            blocking::wait(writes.setattr(&Caller::ROOT, fid, change)).unwrap();
            blocking::wait(file.write(0, vec![2; 5])).unwrap();
            wrong = wrong.or(Some((round, size())).filter(|found| found.1 != 5));
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}

#[test]
fn sequential_transfers_need_as_many_requests_as_their_size_says() {
    let rig = Rig::start("requests", 1);
    let (one, two) = (rig.mount(), rig.mount());
    let (first, second) = (one.clone(), two.clone());
    let (one, two) = (blocking::FileSystem::of(one), blocking::FileSystem::of(two));
    let file = one.open("file", both()).unwrap();
    let part = bytes(MIB, 3);
    for at in 0..64 {
        file.write(at * MIB as u64, part.clone()).unwrap();
    }
    file.sync().unwrap();
    // An OST of the test has transfers of 4 MiB.
    let writes = count(&first, Opcode::OST_WRITE);
    assert!((16..=20).contains(&writes), "{writes} writes");
    for at in 0..64 {
        assert!(file.read(at * MIB as u64, MIB as u64).unwrap() == part);
    }
    assert_eq!(count(&first, Opcode::OST_READ), 0, "all of it is cached");
    let other = two.open("file", OpenOptions::read()).unwrap();
    for at in 0..64 {
        assert!(other.read(at * MIB as u64, MIB as u64).unwrap() == part);
    }
    let reads = count(&second, Opcode::OST_READ);
    assert!((16..=24).contains(&reads), "{reads} reads");
    assert_eq!(other.read(0, 70 << 20).unwrap().len(), 64 * MIB);
    assert_eq!(count(&second, Opcode::OST_READ), reads, "all of it is cached");
    let locks = count(&second, Opcode::LDLM_ENQUEUE);
    assert!(locks <= 8, "{locks} locks");
}

#[test]
fn small_writes_are_few_requests_and_are_at_the_server_after_the_end_of_the_mount() {
    let rig = Rig::start("small", 1);
    let one = rig.mount_with(patient());
    let first = one.clone();
    let one = blocking::FileSystem::of(one);
    let file = one.open("file", both()).unwrap();
    let whole = bytes(400_000, 4);
    for (at, part) in whole.chunks(1000).enumerate() {
        file.write(at as u64 * 1000, part.to_vec()).unwrap();
    }
    file.close().unwrap();
    assert_eq!(count(&first, Opcode::OST_WRITE), 0, "a close writes nothing");
    drop(first);
    one.unmount();
    let two = blocking::FileSystem::of(rig.mount());
    assert!(two.open("file", OpenOptions::read()).unwrap().read(0, 1 << 20).unwrap() == whole);
}

#[test]
fn what_is_dirty_survives_a_restart_of_the_servers() {
    let mut rig = Rig::start("unsaved", 1);
    let one = blocking::FileSystem::of(rig.mount_with(patient()));
    let file = one.open("file", both()).unwrap();
    let whole = bytes(9 * MIB, 5);
    // Some of it fills transfers and is sent, the rest is not.
    file.write(0, whole.clone()).unwrap();
    rig.restart();
    file.write(9 << 20, *b"more").unwrap();
    file.sync().unwrap();
    let two = blocking::FileSystem::of(rig.mount());
    let seen = two.open("file", OpenOptions::read()).unwrap().read(0, 20 << 20).unwrap();
    assert!(seen.len() == 9 * MIB + 4 && seen[..9 * MIB] == whole && seen[9 * MIB..] == *b"more");
}

#[test]
fn what_is_lost_by_an_eviction_is_told_once_to_each_who_has_the_file_open() {
    let mut rig = Rig::start("lost", 1);
    // It is served once, so that it has registered.
    drop(rig.mount());
    rig.save_ost(0);
    let one = blocking::FileSystem::of(rig.mount_with(patient()));
    let (file, other) = (one.open("file", both()).unwrap(), one.open("file", both()).unwrap());
    file.write(0, bytes(10_000, 6)).unwrap();
    assert_eq!(other.read(0, 1).unwrap(), bytes(10_000, 6)[..1]);
    // The OST does not know this client any more.
    rig.restore_ost(0);
    assert_eq!(file.sync().unwrap_err(), Errno::EIO);
    assert_eq!(file.inner().written(), Ok(()));
    assert_eq!(other.close().unwrap_err(), Errno::EIO);
    file.close().unwrap();
}

#[test]
fn two_clients_change_a_file_at_random_and_see_one_file() {
    let rig = Rig::start("fsx", 2);
    let mounts = [rig.mount(), rig.mount()].map(blocking::FileSystem::of);
    let mut files: Vec<_> = mounts.iter().map(|fs| fs.open("file", both()).unwrap()).collect();
    let mut rng = Rng::new(0x0005_eed0);
    let mut image: Vec<u8> = Vec::new();
    for step in 0..600_u64 {
        let who = rng.below(2) as usize;
        let (fs, file) = (&mounts[who], &files[who]);
        let (at, len) = (rng.below(3 * MIB as u64), rng.between(1, 150_000));
        match rng.below(12) {
            0..=4 => {
                let data = bytes(len as usize, step);
                let end = (at + len) as usize;
                image.resize(image.len().max(end), 0);
                image[at as usize..end].copy_from_slice(&data);
                file.write(at, data).unwrap();
            }
            5..=7 => {
                let end = ((at + len) as usize).min(image.len());
                let expected = image.get(at as usize..end).unwrap_or_default();
                assert!(file.read(at, len).unwrap() == expected, "step {step}: {at} {len}");
            }
            8 => {
                image.resize(at as usize, 0);
                blocking::wait(file.inner().set_len(at)).unwrap();
            }
            9 => {
                let size = fs.attributes("file").unwrap().size;
                assert_eq!(size, image.len() as u64, "step {step}");
            }
            10 => {
                let end = ((at + len) as usize).min(image.len());
                if let Some(hole) = image.get_mut(at as usize..end) {
                    hole.fill(0);
                }
                blocking::wait(file.inner().allocate(at, len, Allocate::PunchHole)).unwrap();
            }
            _ => match rng.below(3) {
                0 => file.sync().unwrap(),
                _ => {
                    let new = fs.open("file", both()).unwrap();
                    std::mem::replace(&mut files[who], new).close().unwrap();
                }
            },
        }
    }
    for file in &files {
        assert!(file.read(0, 4 * MIB as u64).unwrap() == image);
    }
}

#[test]
fn a_cache_that_is_full_goes_on() {
    let rig = Rig::start("full", 1);
    let data = DataSettings { memory: DataSettings::MEMORY_MIN, ..DataSettings::default() };
    let options = MountOptions { data, ..MountOptions::default() };
    let one = blocking::FileSystem::of(rig.mount_with(options));
    let file = one.open("file", both()).unwrap();
    let part = bytes(8 * MIB, 7);
    for at in 0..16 {
        file.write(at * 8 * MIB as u64, part.clone()).unwrap();
    }
    for at in 0..16 {
        assert!(file.read(at * 8 * MIB as u64, 8 * MIB as u64).unwrap() == part);
    }
}
