//! Directories that are listed with the attributes of their files.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::XattrFlags;

use crate::rig::{Rig, TIMEOUT, parameters};

const FILES: usize = 600;
const DEFAULT_LIST: &str = "system.posix_acl_default";

fn name(number: usize) -> String {
    format!("file{number}")
}

/// Makes a directory with files that are not written any more, and returns it in each mount.
fn many(mounts: &[PathBuf]) -> Vec<PathBuf> {
    let all: Vec<PathBuf> = mounts.iter().map(|mount| mount.join("many")).collect();
    fs::create_dir(&all[0]).unwrap();
    for number in 0..FILES {
        fs::write(all[0].join(name(number)), "text").unwrap();
    }
    // The locks are those of who reads then.
    (0..FILES).for_each(|number| drop(fs::read(all[1].join(name(number))).unwrap()));
    all
}

fn list(directory: &Path) -> usize {
    let listed = Command::new("ls").arg("-l").arg(directory).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count() - 1
}

/// Returns the names that `read_dir` has, which must have the numbers and types that `stat` says.
fn names(directory: &Path) -> BTreeSet<String> {
    let checked = |item: fs::DirEntry| {
        let found = item.metadata().unwrap();
        assert_eq!((item.ino(), item.file_type().unwrap()), (found.ino(), found.file_type()));
        item.file_name().into_string().unwrap()
    };
    let mut all = BTreeSet::new();
    for item in fs::read_dir(directory).unwrap() {
        assert!(all.insert(checked(item.unwrap())), "a name comes twice");
    }
    all
}

fn keeps_names(rig: &Rig) -> bool {
    let keeps = rig.keeps_names(0);
    if !keeps {
        let line = "\nNOT RUN: names that the kernel keeps: it is older than Linux 6.16";
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    keeps
}

#[test]
fn who_lists_attributes_looks_up_few_names() {
    let Some(mut rig) = Rig::start("listing") else { return };
    let mounts = [rig.mount(""), rig.mount(""), rig.mount("")];
    if !keeps_names(&rig) {
        return;
    }
    let all = many(&mounts);
    let before = rig.asked(2);
    assert_eq!(list(&all[2]), FILES);
    let looked_up = rig.asked(2).names - before.names;
    assert!(looked_up < FILES as u64 / 8, "{looked_up} names");
    let expected: BTreeSet<String> = (0..FILES).map(name).collect();
    all.iter().for_each(|one| assert_eq!(names(one), expected));
    rig.stop();
}

#[test]
fn who_lists_names_only_looks_up_none() {
    let Some(mut rig) = Rig::start("names-only") else { return };
    let mounts = [rig.mount(""), rig.mount(""), rig.mount("")];
    let all = many(&mounts);
    fs::metadata(&all[2]).unwrap();
    let (before, known) = (rig.asked(2), rig.known(2));
    assert_eq!(fs::read_dir(&all[2]).unwrap().count(), FILES);
    assert_eq!(rig.asked(2).names, before.names);
    // The kernel gives back what it was told the names of.
    until("it gives them back", || rig.known(2) <= known);
    rig.stop();
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Has the kernel forget the unused files of a mount, and those of no other: other tests count what it asks.
fn forget_unused(mount: &Path) {
    let remount = Command::new("mount").args(["-i", "-o", "remount"]).arg(mount).status().unwrap();
    assert!(remount.success(), "mount -o remount {}", mount.display());
}

#[test]
fn what_is_listed_is_forgotten_when_the_kernel_forgets_it() {
    let Some(mut rig) = Rig::start("forgotten") else { return };
    let mounts = [rig.mount(""), rig.mount(""), rig.mount("")];
    let all = many(&mounts);
    for _ in 0..3 {
        list(&all[2]);
        // What it does not know any more is told anew, and what it knows is told again.
        fs::rename(all[1].join(name(0)), all[1].join("other")).unwrap();
        list(&all[2]);
        fs::rename(all[1].join("other"), all[1].join(name(0))).unwrap();
    }
    until("the kernel forgets the files", || {
        forget_unused(&mounts[2]);
        rig.known(2) < 10
    });
    assert_eq!(list(&all[2]), FILES);
    rig.stop();
}

#[test]
fn a_name_that_is_listed_while_it_goes_is_gone() {
    let Some(mut rig) = Rig::start("going") else { return };
    let mounts = [rig.mount(""), rig.mount(""), rig.mount("")];
    let all = many(&mounts);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    list(&all[2]);
                }
            });
        }
        let renames = scope.spawn(|| {
            for round in 0..200 {
                let (old, new) = (name(round), format!("new{round}"));
                fs::rename(all[1].join(&old), all[1].join(&new)).unwrap();
                assert!(fs::metadata(all[2].join(&old)).is_err(), "{old} is gone");
                assert_eq!(fs::metadata(all[2].join(&new)).unwrap().len(), 4);
            }
        });
        let renamed = renames.join();
        is_over.store(true, Ordering::Relaxed);
        renamed.unwrap();
    });
    assert_eq!(names(&all[2]), names(&all[1]));
    rig.stop();
}

fn ask_for_list(path: &Path) {
    let mut value = [0; 256];
    let _ = rustix::fs::getxattr(path, DEFAULT_LIST, &mut value[..]);
}

#[test]
fn names_that_were_read_early_are_not_shown_after_a_change() {
    let Some(mut rig) = Rig::start("early") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir(one.join("d")).unwrap();
    // Who asks for the default list of a directory most likely lists it next.
    ask_for_list(&one.join("d"));
    let value = [0; 4];
    rustix::fs::setxattr(two.join("d"), "user.x", &value, XattrFlags::empty()).unwrap();
    fs::write(two.join("d/file"), "text").unwrap();
    fs::metadata(one.join("d")).unwrap();
    assert_eq!(names(&one.join("d")), BTreeSet::from(["file".to_owned()]));
    rig.stop();
}

#[test]
fn names_that_were_read_early_are_not_shown_after_an_own_change() {
    let Some(mut rig) = Rig::start("early-own") else { return };
    let top = rig.mount("").join("d");
    fs::create_dir(&top).unwrap();
    ask_for_list(&top);
    // Everybody may do everything.
    let entry = |tag: u16| [&tag.to_le_bytes()[..], &7u16.to_le_bytes(), &[0xff; 4]].concat();
    let value = [2u32.to_le_bytes().to_vec(), [1, 4, 32].map(entry).concat()].concat();
    rustix::fs::setxattr(&top, DEFAULT_LIST, &value, XattrFlags::empty()).unwrap();
    fs::write(top.join("file"), "text").unwrap();
    rustix::fs::removexattr(&top, DEFAULT_LIST).unwrap();
    assert_eq!(names(&top), BTreeSet::from(["file".to_owned()]));
    rig.stop();
}

/// Returns the names of a directory with the positions after them, from a position on.
fn names_from(directory: &fs::File, from: u64) -> Vec<(Vec<u8>, u64)> {
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(from)).unwrap();
    let mut room = [std::mem::MaybeUninit::uninit(); 32 << 10];
    let mut entries = rustix::fs::RawDir::new(directory, &mut room);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        names.push((entry.file_name().to_bytes().to_vec(), entry.next_entry_cookie()));
    }
    names
}

/// Returns how often a mount has asked for names.
fn reads(top: &Path) -> u64 {
    let all = parameters(top, "/stats").join("\n");
    let lines = all.lines().filter(|line| line.starts_with("mds_readpage"));
    lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn a_directory_is_read_from_any_position() {
    let Some(mut rig) = Rig::start("positions") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir(one.join("d")).unwrap();
    (0..500).for_each(|number| fs::write(one.join("d").join(name(number)), "").unwrap());
    // A lock protects the names then.
    fs::metadata(two.join("d")).unwrap();
    let directory = fs::File::open(two.join("d")).unwrap();
    let all = names_from(&directory, 0);
    assert_eq!(all.len(), 502);
    let before = reads(&two);
    assert!(before > 0);
    for place in (0..501).step_by(10) {
        assert!(names_from(&directory, all[place].1) == all[place + 1..], "from {place}");
    }
    assert!(names_from(&directory, 0) == all);
    assert_eq!(reads(&two), before);
    fs::write(one.join("d/new"), "").unwrap();
    assert!(names_from(&directory, 0).iter().any(|(name, _)| name == b"new"));
    rig.stop();
}
