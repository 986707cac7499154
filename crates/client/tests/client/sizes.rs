//! The sizes of files of all kinds of layouts: those of their objects, and which these get.

use fulmar_base::{Errno, Rng};
use fulmar_client::{
    AccessTimes, Allocate, Caller, Change, File, FileSystem, OpenOptions, Seek, SetTime, Stability,
    blocking,
};
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::{
    Component, CompositeHeader, CompositeMd, LovHeader, LovMd, Pattern,
};

use crate::data::{bytes, patient};
use crate::rig::Rig;

const ROOT: Caller = Caller::ROOT;
/// The size of a small stripe, and of a first component.
const PART: u64 = 64 << 10;

/// One stripe or data on the MDT up to 64 KiB, then two small stripes, up to an end.
fn two_parts(first: Pattern, end: u64) -> Vec<u8> {
    let of = |pattern, stripe_count| {
        let wanted = LovMd::wanted(PART as u32, stripe_count);
        LovMd { header: LovHeader { pattern, ..wanted.header }, ..wanted }
    };
    let part = |start, end, layout| (Component { start, end, ..Component::default() }, layout);
    let count = u16::from(first != Pattern::MDT);
    let parts = vec![part(0, PART, of(first, count)), part(PART, end, of(Pattern::RAID0, 2))];
    CompositeMd::new(CompositeHeader::new(0), parts).to_bytes()
}

fn layouts() -> [(&'static str, Vec<u8>); 4] {
    [
        ("striped", LovMd::wanted(PART as u32, 2).to_bytes()),
        ("composite", two_parts(Pattern::RAID0, u64::MAX)),
        ("on the MDT", two_parts(Pattern::MDT, u64::MAX)),
        ("with an end", two_parts(Pattern::RAID0, 16 * PART)),
    ]
}

fn create(fs: &FileSystem, name: &str, layout: Vec<u8>) -> File {
    let options = OpenOptions { read: true, layout: Some(layout), ..OpenOptions::create(0o644) };
    blocking::wait(fs.open(&ROOT, fs.root(), name.as_bytes(), options)).unwrap()
}

fn size(fs: &FileSystem, file: &File) -> u64 {
    blocking::wait(fs.getattr(&ROOT, file.fid())).unwrap().size
}

#[test]
fn a_file_of_any_layout_that_was_cut_has_its_new_size() {
    let rig = Rig::start("cuts", 2);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    for (name, layout) in layouts() {
        let file = create(&fs, name, layout);
        for to in [0, 4, PART - 1, PART, PART + 1, 3 * PART, 16 * PART] {
            blocking::wait(file.write(0, vec![7; 10 * PART as usize])).unwrap();
            blocking::wait(file.set_len(to)).unwrap();
            assert_eq!((size(&fs, &file), size(&other, &file)), (to, to), "{name}");
            // Data that are behind the end go with a cut that others have made.
            blocking::wait(file.write(10 * PART, *b"more")).unwrap();
            blocking::wait(file.set_len(0)).unwrap();
            blocking::wait(file.write_to(None, *b"new")).unwrap();
            assert_eq!((size(&fs, &file), size(&other, &file)), (3, 3), "{name}");
        }
    }
}

#[test]
fn a_write_beyond_what_a_target_can_keep_is_refused_and_takes_nothing_along() {
    let rig = Rig::start("largest", 1);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    let file = create(&fs, "file", LovMd::wanted(PART as u32, 1).to_bytes());
    blocking::wait(file.write(0, *b"before")).unwrap();
    // An object of an OST has at most 16 TiB less a page.
    let end = (16 << 40) - 4096;
    for (at, len) in [(end, 1), (end - 1, 2), (1 << 60, 1)] {
        assert_eq!(blocking::wait(file.write(at, vec![7; len])).unwrap_err(), Errno::EFBIG);
    }
    blocking::wait(file.sync(false)).unwrap();
    assert_eq!(size(&other, &file), 6);
    blocking::wait(file.write(end - 1, *b"l")).unwrap();
    assert_eq!(size(&fs, &file), end);
    assert_eq!(blocking::wait(file.write_to(None, *b"x")).unwrap_err(), Errno::EFBIG);
    // Not every disk has files of that size.
    blocking::wait(file.set_len(6)).unwrap();
    assert_eq!(blocking::wait(file.read(0, 10)).unwrap(), b"before");
}

/// Returns the holes and the data of a file by turns, from its start: where each begins.
fn borders(file: &File) -> Vec<u64> {
    let (mut at, mut found, mut what) = (0, Vec::new(), Seek::Data);
    loop {
        match blocking::wait(file.seek(at, what)) {
            Ok(next) => at = next,
            Err(errno) => {
                assert_eq!(errno, Errno::ENXIO);
                return found;
            }
        }
        found.push(at);
        what = if what == Seek::Data { Seek::Hole } else { Seek::Data };
    }
}

#[test]
fn holes_are_found_where_objects_end() {
    let rig = Rig::start("holes", 2);
    let fs = rig.mount();
    for (name, layout) in layouts() {
        let file = create(&fs, name, layout);
        let write = |part: u64| {
            blocking::wait(file.write(part * PART, vec![7; PART as usize])).unwrap();
        };
        // The object of the other stripe has nothing.
        write(1);
        assert_eq!(borders(&file), [PART, 2 * PART], "{name}");
        assert_eq!(blocking::wait(file.seek(0, Seek::Hole)), Ok(0), "{name}");
        // The end of a stripe, of an object or of a component is no hole.
        write(0);
        write(2);
        assert_eq!(borders(&file), [0, 3 * PART], "{name}");
        write(5);
        assert_eq!(borders(&file), [0, 3 * PART, 5 * PART, 6 * PART], "{name}");
        blocking::wait(file.set_len(9 * PART)).unwrap();
        assert_eq!(borders(&file), [0, 3 * PART, 5 * PART, 6 * PART], "{name}");
        assert_eq!(blocking::wait(file.seek(9 * PART - 1, Seek::Hole)), Ok(9 * PART - 1));
    }
}

#[test]
fn two_clients_see_one_size_whatever_the_layout() {
    let rig = Rig::start("layouts", 2);
    let mounts = [rig.mount(), rig.mount()];
    for (seed, (name, layout)) in layouts().into_iter().enumerate() {
        drop(create(&mounts[0], name, layout));
        let both = OpenOptions { read: true, write: true, ..OpenOptions::default() };
        let open = |fs: &FileSystem| {
            blocking::wait(fs.open(&ROOT, fs.root(), name.as_bytes(), both.clone())).unwrap()
        };
        let files = [open(&mounts[0]), open(&mounts[1])];
        let (mut rng, mut image) = (Rng::new(seed as u64), Vec::new());
        for step in 0..200 {
            let file = &files[rng.below(2) as usize];
            let (at, len) = (rng.below(8 * PART), rng.between(1, 50_000));
            let end = (at + len) as usize;
            match rng.below(6) {
                0 => {
                    image.resize(at as usize, 0);
                    blocking::wait(file.set_len(at)).unwrap();
                }
                1 => {
                    let until = end.min(image.len());
                    if let Some(hole) = image.get_mut(at as usize..until) {
                        hole.fill(0);
                    }
                    blocking::wait(file.allocate(at, len, Allocate::PunchHole)).unwrap();
                }
                2 => {
                    // It stays below the end of its layout.
                    let data = bytes((len as usize).min(16 * PART as usize - image.len()), step);
                    image.extend_from_slice(&data);
                    blocking::wait(file.write_to(None, data)).unwrap();
                }
                3 => {
                    let found = blocking::wait(file.read(0, 16 * PART)).unwrap();
                    assert!(found == image, "{name}, step {step}");
                }
                _ => {
                    let data = bytes(len as usize, step);
                    image.resize(image.len().max(end), 0);
                    image[at as usize..end].copy_from_slice(&data);
                    blocking::wait(file.write(at, data)).unwrap();
                }
            }
            let sizes = [size(&mounts[0], file), size(&mounts[1], file)];
            assert_eq!(sizes, [image.len() as u64; 2], "{name}, step {step}");
        }
    }
}

#[test]
fn a_file_without_objects_that_is_made_longer_is_read_as_zeros() {
    let rig = Rig::start("longer", 2);
    let (fs, other) = (rig.mount(), rig.mount());
    let options = OpenOptions { create: Some(0o644), ..OpenOptions::read() };
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", options)).unwrap();
    let longer = Change { size: Some(5000), ..Change::default() };
    blocking::wait(fs.setattr(&ROOT, file.fid(), longer)).unwrap();
    assert_eq!(blocking::wait(file.read(0, 9000)).unwrap(), [0; 5000]);
    let same = blocking::wait(other.open_file(&ROOT, file.fid(), OpenOptions::read())).unwrap();
    assert_eq!(blocking::wait(same.read(0, 9000)).unwrap(), [0; 5000]);
}

#[test]
fn a_cut_at_the_end_of_the_part_on_the_mdt_is_the_size() {
    let rig = Rig::start("border", 2);
    let (fs, other) = (rig.mount(), rig.mount());
    let file = create(&fs, "file", two_parts(Pattern::MDT, u64::MAX));
    blocking::wait(file.set_len(PART)).unwrap();
    assert_eq!((size(&fs, &file), size(&other, &file)), (PART, PART));
}

#[test]
fn the_size_on_the_mdt_stays_known_when_only_the_attributes_are_read_again() {
    let rig = Rig::start("again", 2);
    let (writer, fs) = (rig.mount(), rig.mount());
    let file = create(&writer, "file", two_parts(Pattern::MDT, u64::MAX));
    blocking::wait(writer.link(&ROOT, file.fid(), writer.root(), b"other")).unwrap();
    blocking::wait(file.set_len(6035)).unwrap();
    drop((file, writer));
    let options = OpenOptions { write: true, ..OpenOptions::read() };
    let file = blocking::wait(fs.open(&ROOT, fs.root(), b"file", options)).unwrap();
    // The lock on the attributes ends with the other name, that on the data does not.
    blocking::wait(fs.unlink(&ROOT, fs.root(), b"other")).unwrap();
    assert_eq!(size(&fs, &file), 6035);
}

#[test]
fn times_in_the_past_are_told_by_all_clients_whatever_the_layout() {
    let rig = Rig::start("past", 2);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    for (name, layout) in layouts() {
        let file = create(&fs, name, layout);
        blocking::wait(file.write(0, *b"some")).unwrap();
        blocking::wait(file.set_len(3)).unwrap();
        let [atime, mtime] = [-300_000_000, 1000].map(|time| Some(SetTime::At(time)));
        let past = Change { atime, mtime, ..Change::default() };
        blocking::wait(other.setattr(&ROOT, file.fid(), past)).unwrap();
        for client in [&fs, &other] {
            let found = blocking::wait(client.getattr(&ROOT, file.fid())).unwrap();
            assert_eq!((found.atime, found.mtime), (-300_000_000, 1000), "{name}");
        }
        // A write that is on disk when it ends tells its own time.
        blocking::wait(file.write_some(Some(0), *b"disk", Stability::File)).unwrap();
        let found = blocking::wait(other.getattr(&ROOT, file.fid())).unwrap();
        assert!(found.mtime > 1000, "{name}");
        // A new object has no time of a read.
        blocking::wait(file.set_len(PART + 1)).unwrap();
        let found = blocking::wait(other.getattr(&ROOT, file.fid())).unwrap();
        assert_eq!(found.atime, -300_000_000, "{name}");
    }
}

#[test]
fn a_time_in_the_future_is_set_back_for_all_clients_whatever_the_layout() {
    const LATER: i64 = 4_000_000_000;
    let rig = Rig::start("future", 2);
    let (fs, other) = (rig.mount_with(patient()), rig.mount());
    for (name, layout) in layouts() {
        let file = create(&fs, name, layout);
        let set = |client: &FileSystem, time| {
            let change = Change { mtime: Some(time), ..Change::default() };
            blocking::wait(client.setattr(&ROOT, file.fid(), change)).unwrap();
            [&fs, &other]
                .map(|client| blocking::wait(client.getattr(&ROOT, file.fid())).unwrap().mtime)
        };
        for (client, time) in [(&fs, LATER + 1), (&other, LATER), (&fs, LATER - 1)] {
            assert_eq!(set(client, SetTime::At(time)), [time; 2], "{name}");
        }
        let [own, others] = set(&other, SetTime::Now);
        assert!(own < LATER - 1 && own == others, "{name}: {own} {others}");
    }
}

#[test]
fn the_time_of_a_read_does_not_hide_one_that_another_client_sets_later() {
    const SET: i64 = 1_000_000_000;
    let rig = Rig::start("accessed", 2);
    let (setter, reader) = (rig.mount(), rig.mount());
    reader.set_access_times(AccessTimes::Always);
    for (name, layout) in layouts() {
        let file = create(&setter, name, layout);
        blocking::wait(file.write(0, *b"some")).unwrap();
        let set = || {
            let change = Change { atime: Some(SetTime::At(SET)), ..Change::default() };
            blocking::wait(setter.setattr(&ROOT, file.fid(), change)).unwrap();
        };
        set();
        // Who opens a file to write it gets no lock on its attributes.
        let options = OpenOptions { write: true, ..OpenOptions::read() };
        let open = || {
            blocking::wait(reader.open(&ROOT, reader.root(), name.as_bytes(), options.clone()))
                .unwrap()
        };
        let read = open();
        assert_eq!(blocking::wait(read.read(0, 4)).unwrap(), b"some");
        blocking::wait(read.close()).unwrap();
        set();
        let found = blocking::wait(open().attributes()).unwrap();
        assert_eq!(found.atime, SET, "{name}");
    }
}
