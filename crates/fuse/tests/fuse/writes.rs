//! Sizes, space and durability of what is written.

use std::fs::{self, File, OpenOptions};
use std::io::{IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fulmar_lustre_wire::layout::{
    Component, CompositeHeader, CompositeMd, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::{Content, Opcode};
use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use rustix::io::ReadWriteFlags;

use crate::rig::{Rig, TIMEOUT};

fn create(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Makes a directory whose files have a first part that is like `pattern`, and a second one.
fn directory(mount: &Path, name: &str, pattern: Pattern) -> PathBuf {
    let part = |start, end, pattern, count| {
        let wanted = LovMd::wanted(64 << 10, count);
        let layout = LovMd { header: LovHeader { pattern, ..wanted.header }, ..wanted };
        (Component { start, end, ..Component::default() }, layout)
    };
    let first = part(0, 64 << 10, pattern, u16::from(pattern != Pattern::MDT));
    let second = part(64 << 10, u64::MAX, Pattern::RAID0, 1);
    let layout = CompositeMd::new(CompositeHeader::new(0), vec![first, second]).to_bytes();
    let path = mount.join(name);
    fs::create_dir(&path).unwrap();
    rustix::fs::setxattr(&path, "lustre.lov", &layout, XattrFlags::empty()).unwrap();
    path
}

#[test]
fn a_file_with_several_parts_is_as_long_as_it_was_cut() {
    let Some(mut rig) = Rig::start("parts") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    for (name, pattern) in [("plain", Pattern::RAID0), ("mdt", Pattern::MDT)] {
        let path = directory(&one, name, pattern).join("file");
        let other = two.join(name).join("file");
        fs::write(&path, vec![0; 2_000_000]).unwrap();
        fs::write(&path, "new\n").unwrap();
        assert_eq!((size(&path), size(&other)), (4, 4), "{name}");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"new\nmore", "{name}");
        for to in [65_536, 300_000, 65_537, 3] {
            fs::write(&path, vec![1; 500_000]).unwrap();
            OpenOptions::new().write(true).open(&path).unwrap().set_len(to).unwrap();
            assert_eq!((size(&path), size(&other)), (to, to), "{name}");
        }
    }
    rig.stop();
}

#[test]
fn a_hole_at_the_end_leaves_the_file_its_length() {
    let Some(mut rig) = Rig::start("punched") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    let keeps = FallocateFlags::KEEP_SIZE;
    let ways = [
        ("hole", FallocateFlags::PUNCH_HOLE | keeps),
        ("zeros", FallocateFlags::ZERO_RANGE | keeps),
    ];
    for (name, how) in ways {
        let file = create(&one.join(name));
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.write_all_at(&[2; 4096], 100_000).unwrap();
        rustix::fs::fallocate(&file, how, 100_000, 4096).unwrap();
        assert_eq!(size(&one.join(name)), 104_096);
        // Another client has its locks, and the first one gives up what it knows.
        let times = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        existing(&two.join(name)).set_times(times).unwrap();
        assert_eq!(size(&two.join(name)), 104_096, "{name}");
        let found = fs::read(two.join(name)).unwrap();
        assert!(found[..4096] == [1; 4096] && found[4096..].iter().all(|byte| *byte == 0));
        // A range behind the end makes nothing longer.
        rustix::fs::fallocate(&file, how, 200_000, 10_000).unwrap();
        assert_eq!((size(&one.join(name)), size(&two.join(name))), (104_096, 104_096), "{name}");
    }
    rig.stop();
}

#[test]
fn an_allocation_that_is_refused_in_part_has_changed_the_size_for_the_kernel_too() {
    let Some(mut rig) = Rig::start("refused") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    let wanted = LovMd::wanted(64 << 10, 2).to_bytes();
    rustix::fs::setxattr(&one, "lustre.lov", &wanted, XattrFlags::empty()).unwrap();
    let file = create(&one.join("file"));
    rig.set("obdfilter.lv-OST0001.reserved_mb", "4294967295");
    assert_eq!(size(&one.join("file")), 0);
    let refused = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 128 << 10);
    assert_eq!(refused, Err(rustix::io::Errno::NOSPC));
    let sizes = [&one, &two].map(|mount| size(&mount.join("file")));
    assert!(sizes[0] == sizes[1] && sizes[0] > 0, "the other OST has done its part: {sizes:?}");
    rig.stop();
}

fn existing(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

#[test]
fn dirty_data_have_blocks() {
    let Some(mut rig) = Rig::start("blocks") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    let path = one.join("file");
    let mut file = create(&path);
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
    for done in 1..=3 {
        file.write_all(&[7; 100_000]).unwrap();
        assert!(blocks(&path) * 512 >= done * 100_000, "after {done} writes");
    }
    // When they are written, the space is what the server says, also if the kernel keeps attributes.
    file.sync_all().unwrap();
    let begun = Instant::now();
    while blocks(&path) != blocks(&two.join("file")) {
        assert!(begun.elapsed() < TIMEOUT, "{} blocks", blocks(&path));
        std::thread::sleep(Duration::from_millis(10));
    }
    // What is replaced needs nothing more.
    let before = blocks(&path);
    file.write_all_at(&[8; 300_000], 0).unwrap();
    assert!(blocks(&path) <= before.max(300_000_u64.div_ceil(4096) * 8), "{before} before");
    rig.stop();
}

#[test]
fn writes_that_are_to_be_on_disk_are_sent_before_they_end() {
    let Some(mut rig) = Rig::start("durable") else { return };
    let (plain, sync) = (rig.mount(""), rig.mount("sync"));
    let sent = |rig: &Rig, mount| {
        rig.file_system(mount).requests().get(&Opcode::OST_WRITE).copied().unwrap_or(0)
    };
    let open = |path: PathBuf, flags: OFlags| {
        OpenOptions::new()
            .write(true)
            .create(true)
            .custom_flags(flags.bits() as i32)
            .open(path)
            .unwrap()
    };
    let flags = [("sync", OFlags::SYNC), ("dsync", OFlags::DSYNC), ("direct", OFlags::DIRECT)];
    for (name, flags) in flags {
        let file = open(plain.join(name), flags);
        for number in 0..3 {
            let before = sent(&rig, 0);
            file.write_all_at(&[7; 4096], number * 4096).unwrap();
            assert!(sent(&rig, 0) > before, "{name}");
        }
    }
    let file = open(plain.join("each"), OFlags::empty());
    for how in [ReadWriteFlags::DSYNC, ReadWriteFlags::SYNC] {
        let before = sent(&rig, 0);
        rustix::io::pwritev2(&file, &[IoSlice::new(&[1; 100])], 0, how).unwrap();
        assert!(sent(&rig, 0) > before, "{how:?}");
    }
    let before = sent(&rig, 1);
    open(sync.join("mounted"), OFlags::empty()).write_all_at(&[7; 10], 5).unwrap();
    assert!(sent(&rig, 1) > before, "a mount with sync");
    rig.stop();
}

#[test]
fn the_time_of_a_file_is_that_of_its_last_write() {
    let Some(mut rig) = Rig::start("closed") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    let time = |path: &Path| fs::metadata(path).unwrap().mtime();
    for (name, pattern) in [("plain", Pattern::RAID0), ("mdt", Pattern::MDT)] {
        let path = directory(&one, name, pattern).join("file");
        let other = two.join(name).join("file");
        let mut file = create(&path);
        file.write_all(b"data").unwrap();
        let written = time(&path);
        std::thread::sleep(Duration::from_millis(2100));
        drop(file);
        drop(existing(&path));
        assert_eq!((time(&path), time(&other)), (written, written), "{name}");
        // Also if it is set to another one before the end.
        let mut file = existing(&path);
        file.write_all(b"more").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        file.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
        drop(file);
        assert_eq!((time(&path), time(&other)), (1_000_000, 1_000_000), "{name}");
        assert_eq!(fs::read(&other).unwrap(), b"more", "{name}");
        assert_eq!((time(&path), time(&other)), (1_000_000, 1_000_000), "{name}");
    }
    rig.stop();
}
