//! What the kernel keeps of names and attributes is what the servers have.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::XattrFlags;

use crate::rig::{Rig, TIMEOUT};

const ACL: &str = "system.posix_acl_access";

/// The number, the mode, the links, the length and the owners. The times are left out, which another client may get to
/// know only when a file is closed.
type Seen = (u64, u32, u64, u64, u32, u32);

/// Returns what `stat` shows of a path; `None` if there is nothing.
fn seen(path: &Path) -> Option<Seen> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.mode(), found.nlink(), found.size(), found.uid(), found.gid()))
}

fn list(path: &Path) -> Vec<u8> {
    let mut value = [0; 256];
    let len = rustix::fs::getxattr(path, ACL, &mut value[..]).unwrap_or(0);
    value[..len].to_vec()
}

/// Lets the kernel keep what it can of a tree.
fn look_at(top: &Path) {
    for _ in 0..2 {
        for path in tree(top) {
            seen(&path);
            list(&path);
        }
        for name in ["none", "d/none"] {
            seen(&top.join(name));
        }
    }
}

/// Returns what a mount shows of a tree.
fn shown(top: &Path) -> Vec<(PathBuf, Option<Seen>, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = tree(top);
    for name in ["none", "d/none", "file", "d/one", "d/two", "d/below/deep", "e/below/deep"] {
        paths.push(top.join(name));
    }
    let of = |path: PathBuf| {
        let relative = path.strip_prefix(top).unwrap().to_owned();
        (relative, seen(&path), list(&path))
    };
    paths.sort();
    paths.dedup();
    paths.into_iter().map(of).collect()
}

fn tree(top: &Path) -> Vec<PathBuf> {
    let mut all = vec![top.to_owned()];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            all.extend(fs::read_dir(&path).unwrap().map(|one| one.unwrap().path()));
        }
        next += 1;
    }
    all
}

/// A change, by one mount.
type Change = (&'static str, fn(&Path));

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// Each kind of change, one after the other.
const CHANGES: [Change; 24] = [
    ("a new file", |top| write(&top.join("none"), "new")),
    ("a removal", |top| fs::remove_file(top.join("none")).unwrap()),
    ("a longer file", |top| write(&top.join("file"), "much longer")),
    ("an append", |top| {
        let mut file = OpenOptions::new().append(true).open(top.join("file")).unwrap();
        file.write_all(b" and more").unwrap();
    }),
    ("a write in the middle", |top| {
        let file = OpenOptions::new().write(true).open(top.join("file")).unwrap();
        file.write_all_at(b"far", 100_000).unwrap();
    }),
    ("a cut", |top| {
        OpenOptions::new().write(true).open(top.join("file")).unwrap().set_len(7).unwrap();
    }),
    ("a mode", |top| {
        fs::set_permissions(top.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    }),
    ("a mode of a directory", |top| {
        fs::set_permissions(top.join("d"), fs::Permissions::from_mode(0o711)).unwrap();
    }),
    ("an owner", |top| std::os::unix::fs::chown(top.join("d/one"), Some(7), Some(8)).unwrap()),
    ("a time", |top| {
        let past = fs::FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1000));
        OpenOptions::new().write(true).open(top.join("file")).unwrap().set_times(past).unwrap();
        assert_eq!(fs::metadata(top.join("file")).unwrap().mtime(), 1000);
    }),
    ("a list", |top| {
        // The owner may read and write, user 5 may read, and others nothing.
        let entries =
            [(1, 6, u32::MAX), (2, 4, 5), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
        let entry = |(tag, rights, id): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let value = [2u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat();
        rustix::fs::setxattr(top.join("file"), ACL, &value, XattrFlags::empty()).unwrap();
    }),
    ("a name", |top| fs::hard_link(top.join("file"), top.join("d/two")).unwrap()),
    ("one name fewer", |top| fs::remove_file(top.join("d/two")).unwrap()),
    ("a directory", |top| fs::create_dir(top.join("d/none")).unwrap()),
    ("no directory", |top| fs::remove_dir(top.join("d/none")).unwrap()),
    ("another name", |top| fs::rename(top.join("file"), top.join("d/none")).unwrap()),
    ("the old name", |top| fs::rename(top.join("d/none"), top.join("file")).unwrap()),
    ("another file", |top| {
        write(&top.join("new"), "another");
        fs::rename(top.join("new"), top.join("d/one")).unwrap();
    }),
    ("another directory above", |top| fs::rename(top.join("d"), top.join("e")).unwrap()),
    ("the old one", |top| fs::rename(top.join("e"), top.join("d")).unwrap()),
    ("a directory elsewhere", |top| fs::rename(top.join("d/below"), top.join("none")).unwrap()),
    ("and back", |top| fs::rename(top.join("none"), top.join("d/below")).unwrap()),
    ("a link instead", |top| {
        fs::remove_file(top.join("file")).unwrap();
        symlink("d/one", top.join("file")).unwrap();
    }),
    ("a file instead", |top| {
        fs::remove_file(top.join("file")).unwrap();
        write(&top.join("file"), "a file");
    }),
];

#[test]
fn what_one_mount_changes_the_other_sees_although_the_kernel_keeps_it() {
    let Some(mut rig) = Rig::start("kept") else { return };
    let mounts = [rig.mount(""), rig.mount("lookupcache=none"), rig.mount("")];
    fs::create_dir_all(mounts[0].join("d/below")).unwrap();
    for (name, text) in [("file", "text"), ("d/one", "one"), ("d/below/deep", "deep")] {
        write(&mounts[0].join(name), text);
    }
    for changes in 0..mounts.len() {
        for (what, change) in CHANGES {
            mounts.iter().for_each(|mount| look_at(mount));
            change(&mounts[changes]);
            let all = mounts.each_ref().map(|mount| shown(mount));
            for (place, one) in all.iter().enumerate() {
                assert_eq!(one, &all[changes], "{what} by {changes}, seen by {place}");
            }
        }
    }
    rig.stop();
}

#[test]
fn an_open_file_shows_what_another_mount_has_changed() {
    let Some(mut rig) = Rig::start("open") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    write(&one.join("file"), "text");
    let (ours, theirs) = (
        File::open(two.join("file")).unwrap(),
        File::options().write(true).open(one.join("file")).unwrap(),
    );
    for round in 1..20 {
        // Who reads has the locks then, and the kernel the attributes.
        ours.read_at(&mut [0; 10], 0).unwrap();
        for _ in 0..2 {
            ours.metadata().unwrap();
        }
        theirs.write_all_at(b"more", round * 1000).unwrap();
        assert_eq!(ours.metadata().unwrap().len(), round * 1000 + 4);
        theirs.set_len(round).unwrap();
        assert_eq!(ours.metadata().unwrap().len(), round);
        fs::set_permissions(one.join("file"), fs::Permissions::from_mode(0o600 + round as u32))
            .unwrap();
        assert_eq!(ours.metadata().unwrap().mode() & 0o777, 0o600 + round as u32);
    }
    fs::remove_file(one.join("file")).unwrap();
    assert_eq!(ours.metadata().unwrap().nlink(), 0);
    rig.stop();
}

#[test]
fn a_mount_sees_its_own_changes() {
    let Some(mut rig) = Rig::start("own") else { return };
    let top = rig.mount("");
    fs::create_dir_all(top.join("d")).unwrap();
    let path = top.join("d/file");
    write(&path, "text");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let links = || fs::metadata(top.join("d")).unwrap().nlink();
    for round in 1..10u64 {
        look_at(&top);
        file.write_all_at(b"more", round * 5000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), round * 5000 + 4);
        assert_eq!(file.metadata().unwrap().len(), round * 5000 + 4);
        file.set_len(round).unwrap();
        assert_eq!(
            (fs::metadata(&path).unwrap().len(), file.metadata().unwrap().len()),
            (round, round)
        );
        fs::create_dir(top.join("d/below")).unwrap();
        assert_eq!(links(), 3);
        fs::remove_dir(top.join("d/below")).unwrap();
        assert_eq!(links(), 2);
        fs::hard_link(&path, top.join("other")).unwrap();
        assert_eq!(
            (fs::metadata(&path).unwrap().nlink(), file.metadata().unwrap().nlink()),
            (2, 2)
        );
        fs::rename(top.join("other"), top.join("d/other")).unwrap();
        assert!(!top.join("other").exists() && top.join("d/other").exists());
        fs::remove_file(top.join("d/other")).unwrap();
        assert!(!top.join("d/other").exists());
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
    }
    // The directory is changed when something in it is.
    let past = fs::FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1000));
    File::open(top.join("d")).unwrap().set_times(past).unwrap();
    assert_eq!(fs::metadata(top.join("d")).unwrap().mtime(), 1000);
    write(&top.join("d/new"), "");
    assert!(fs::metadata(top.join("d")).unwrap().mtime() > 1000);
    rig.stop();
}

#[test]
fn what_is_listed_again_is_not_asked_for_again() {
    let Some(mut rig) = Rig::start("again") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir(one.join("many")).unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("file{number}")).collect();
    names.iter().for_each(|name| write(&one.join("many").join(name), "text"));
    let list = || {
        let listed = Command::new("ls").arg("-l").arg(two.join("many")).output().unwrap();
        assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 101);
    };
    if !rig.keeps_names(1) {
        let line = "\nNOT RUN: names that the kernel keeps: it is older than Linux 6.16";
        return writeln!(std::io::stderr(), "{line}").unwrap();
    }
    // They are not written any more: the locks are those of readers.
    names.iter().for_each(|name| drop(fs::read(two.join("many").join(name)).unwrap()));
    list();
    let first = rig.asked(1);
    list();
    let second = rig.asked(1);
    // The directory itself may be asked for.
    let new = [
        second.names - first.names,
        second.attributes - first.attributes,
        second.lists - first.lists,
    ];
    assert!(new.iter().all(|count| *count <= 2), "{first:?} {second:?}");
    // One that was changed is asked for, and the path to it.
    write(&one.join("many/file50"), "longer text");
    list();
    let third = rig.asked(1);
    assert!(third.attributes - second.attributes <= 5, "{second:?} {third:?}");
    rig.stop();
}

#[test]
fn what_is_mounted_below_stays_if_names_are_not_kept() {
    let Some(mut rig) = Rig::start("below") else { return };
    let (one, two) = (rig.mount("lookupcache=none"), rig.mount(""));
    fs::create_dir_all(one.join("a/b")).unwrap();
    let below = one.join("a/b");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &below, "tmpfs", flags, None).unwrap();
    write(&below.join("inside"), "");
    for mode in [0o700, 0o711, 0o755] {
        assert!(seen(&below.join("inside")).is_some());
        fs::set_permissions(two.join("a"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(fs::metadata(one.join("a")).unwrap().mode() & 0o777, mode);
    }
    assert!(seen(&below.join("inside")).is_some());
    rustix::mount::unmount(&below, rustix::mount::UnmountFlags::empty()).unwrap();
    rig.stop();
}

#[test]
fn what_is_mounted_below_stays_and_names_are_never_old() {
    let Some(mut rig) = Rig::start("below-names") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir_all(one.join("a/b")).unwrap();
    fs::create_dir(one.join("d")).unwrap();
    write(&one.join("a/file"), "text");
    look_at(&one);
    let below = one.join("a/b");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &below, "tmpfs", flags, None).unwrap();
    let inside = below.join("inside");
    write(&inside, "");
    // What was kept before is as it is now,
    fs::rename(two.join("a/file"), two.join("a/other")).unwrap();
    assert!(seen(&one.join("a/file")).is_none() && seen(&one.join("a/other")).is_some());
    for name in ["none", "d/none"] {
        write(&two.join(name), "");
        assert!(seen(&one.join(name)).is_some(), "{name}");
    }
    // and no change of names by this mount or another one takes away what is mounted below.
    for round in 0..10 {
        fs::create_dir(one.join("o")).unwrap();
        write(&one.join("o/a"), "");
        fs::rename(one.join("o/a"), one.join("o/b")).unwrap();
        fs::remove_dir_all(one.join("o")).unwrap();
        let mode = fs::Permissions::from_mode(0o700 + round);
        fs::set_permissions(two.join("a"), mode).unwrap();
        look_at(&one.join("a"));
        assert!(seen(&inside).is_some());
        fs::rename(two.join("a/other"), two.join("a/file")).unwrap();
        fs::rename(two.join("a/file"), two.join("a/other")).unwrap();
        assert!(seen(&one.join("a/file")).is_none() && seen(&one.join("a/other")).is_some());
    }
    assert!(seen(&inside).is_some());
    rustix::mount::unmount(&below, rustix::mount::UnmountFlags::empty()).unwrap();
    // Then names are kept again.
    if rig.keeps_names(0) {
        let begun = std::time::Instant::now();
        while kept_looks(&rig, &one) > 0 {
            assert!(begun.elapsed() < TIMEOUT, "names are not kept again");
        }
    }
    rig.stop();
}

/// Returns how many names the kernel asks for if it asked for all shortly before.
fn kept_looks(rig: &Rig, top: &Path) -> u64 {
    let look = || (seen(&top.join("a/other")), seen(&top.join("d")));
    look();
    let before = rig.asked(0).names;
    look();
    rig.asked(0).names - before
}

/// A random number of what is below a limit.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

/// Makes, moves, changes and removes a few names in two directories, as do others at the same time. Each operation may
/// fail, since another one was faster.
fn disturb(top: &Path, seed: u64, rounds: usize) {
    let mut state = seed;
    let mut path = || {
        let name = format!("{}/name{}", ["a", "b"][random(&mut state, 2)], random(&mut state, 4));
        (top.join(name), random(&mut state, 10), random(&mut state, 1000))
    };
    for _ in 0..rounds {
        let ((one, what, number), (other, _, _)) = (path(), path());
        let _ = match what {
            0 | 1 => fs::write(&one, vec![b'x'; number]),
            2 => fs::rename(&one, &other),
            3 => fs::remove_file(&one),
            4 => fs::create_dir(&one),
            5 => fs::remove_dir(&one),
            6 => fs::hard_link(&one, &other),
            7 => {
                fs::set_permissions(&one, fs::Permissions::from_mode(0o700 | number as u32 & 0o77))
            }
            8 => fs::read_dir(one.parent().unwrap())
                .map(|items| items.flatten().for_each(|item| drop(item.metadata()))),
            _ => fs::metadata(&one).map(drop),
        };
    }
}

#[test]
fn two_mounts_that_disturb_each_other_go_on() {
    let Some(mut rig) = Rig::start("disturb") else { return };
    let mounts = [rig.mount(""), rig.mount("")];
    for name in ["a", "b"] {
        fs::create_dir(mounts[0].join(name)).unwrap();
    }
    let (sender, done) = channel();
    for seed in 0..6 {
        let (top, sender) = (mounts[seed % 2].clone(), sender.clone());
        std::thread::spawn(move || {
            disturb(&top, seed as u64 + 1, 250);
            sender.send(()).unwrap();
        });
    }
    for _ in 0..6 {
        done.recv_timeout(TIMEOUT * 2).expect("an operation waits for itself");
    }
    let shown = mounts.each_ref().map(|mount| shown(mount));
    assert_eq!(shown[0], shown[1]);
    let names: BTreeSet<PathBuf> = tree(&mounts[0]).into_iter().collect();
    assert!(names.len() >= 3);
    rig.stop();
}
