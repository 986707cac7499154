//! Two mounts of one file system.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FlockOperation;

use crate::rig::Rig;

#[test]
fn what_one_mount_does_the_other_sees_at_once() {
    let Some(mut rig) = Rig::start("two") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    for round in 0..20u8 {
        let data = vec![round; 5000 + usize::from(round)];
        fs::write(one.join("file"), &data).unwrap();
        assert_eq!(fs::metadata(two.join("file")).unwrap().len(), data.len() as u64);
        assert!(fs::read(two.join("file")).unwrap() == data);
    }
    // Names that were looked up come and go.
    assert!(!two.join("name").exists());
    fs::rename(one.join("file"), one.join("name")).unwrap();
    assert!(two.join("name").exists() && !two.join("file").exists());
    let open = File::open(two.join("name")).unwrap();
    fs::remove_file(one.join("name")).unwrap();
    let mut byte = [0];
    open.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!((byte, open.metadata().unwrap().len()), ([19], 5019));
    assert!(!two.join("name").exists());
    rig.stop();
}

#[test]
fn appends_of_two_mounts_do_not_overwrite_each_other() {
    let Some(mut rig) = Rig::start("append") else { return };
    let paths = [rig.mount("").join("log"), rig.mount("").join("log")];
    fs::write(&paths[0], "").unwrap();
    let append = |place: usize| {
        let path = paths[place].clone();
        move || {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            for line in 0..50 {
                file.write_all(format!("{place} {line:03}\n").as_bytes()).unwrap();
            }
        }
    };
    let other = std::thread::spawn(append(1));
    append(0)();
    other.join().unwrap();
    let text = fs::read_to_string(&paths[0]).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 100, "{text}");
    rig.stop();
}

#[test]
fn a_lock_of_one_mount_holds_on_the_other() {
    let Some(mut rig) = Rig::start("locks") else { return };
    let (one, two) = (rig.mount("").join("file"), rig.mount("").join("file"));
    fs::write(&one, "").unwrap();
    let open = |path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (first, second) = (open(&one), open(&two));
    rustix::fs::flock(&first, FlockOperation::LockExclusive).unwrap();
    let refused = rustix::fs::flock(&second, FlockOperation::NonBlockingLockShared).unwrap_err();
    assert_eq!(refused.raw_os_error(), 11);
    let waiting = std::thread::spawn(move || {
        rustix::fs::flock(&second, FlockOperation::LockExclusive).unwrap();
        second
    });
    drop(first);
    let second = waiting.join().unwrap();
    let third = open(&one);
    let range = rustix::fs::fcntl_lock(&third, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(range.unwrap_err().raw_os_error(), 11);
    drop(second);
    // The close of the other mount is told to the server after `close` has returned.
    rustix::fs::fcntl_lock(&third, FlockOperation::LockExclusive).unwrap();
    rig.stop();
}

#[test]
fn who_waits_for_a_lock_can_be_interrupted() {
    let Some(mut rig) = Rig::start("interrupt") else { return };
    let (one, two) = (rig.mount("").join("file"), rig.mount("").join("file"));
    fs::write(&one, "").unwrap();
    let open = |path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let first = open(&one);
    rustix::fs::flock(&first, FlockOperation::LockExclusive).unwrap();
    let mut waiting = Command::new("flock").arg(&two).arg("true").spawn().unwrap();
    until_it_waits(&waiting);
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(waiting.wait().unwrap().signal(), Some(15));
    // It waits no more: the lock is not its own when the first one is gone.
    drop(first);
    let third = open(&one);
    rustix::fs::flock(&third, FlockOperation::LockExclusive).unwrap();
    rig.stop();
}

#[test]
fn an_unmount_ends_what_waits() {
    let Some(mut rig) = Rig::start("force") else { return };
    let (one, two) = (rig.mount("").join("file"), rig.mount("").join("file"));
    fs::write(&two, "").unwrap();
    let held = File::open(&two).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut waiting = Command::new("flock").arg(&one).arg("true").spawn().unwrap();
    until_it_waits(&waiting);
    // The mount of who waits ends first.
    rig.stop();
    assert!(!waiting.wait().unwrap().success());
}

/// Waits until a process waits for its mount.
fn until_it_waits(process: &Child) {
    let wchan = format!("/proc/{}/wchan", process.id());
    while !fs::read_to_string(&wchan).unwrap().contains("request_wait") {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_that_is_replaced_meanwhile_can_be_opened() {
    let Some(mut rig) = Rig::start("replaced") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::write(one.join("file"), "text").unwrap();
    // The kernel looks a name up again once, so it is replaced once at a time.
    for _ in 0..50 {
        fs::write(one.join("new"), "text").unwrap();
        let (from, to) = (one.join("new"), one.join("file"));
        let replacing = std::thread::spawn(move || fs::rename(from, to).unwrap());
        assert_eq!(fs::read_to_string(two.join("file")).unwrap(), "text");
        replacing.join().unwrap();
    }
    rig.stop();
}

#[test]
fn a_directory_in_which_files_are_made_changes_for_who_makes_them() {
    let Some(mut rig) = Rig::start("made") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir(one.join("d")).unwrap();
    for round in 0..50 {
        // The mount looks the directory up again after each file, and others change it meanwhile.
        let name = format!("file{round}");
        fs::write(one.join("d").join(&name), "text").unwrap();
        fs::rename(two.join("d"), two.join("e")).unwrap();
        assert!(!one.join("d").exists(), "it has another name");
        assert_eq!(fs::read_to_string(one.join("e").join(&name)).unwrap(), "text");
        fs::write(one.join("e").join("other"), "text").unwrap();
        fs::set_permissions(two.join("e"), Permissions::from_mode(0o700 + round % 8)).unwrap();
        assert_eq!(fs::metadata(one.join("e")).unwrap().mode(), 0o40_700 + round % 8);
        fs::remove_file(two.join("e").join("other")).unwrap();
        assert!(!one.join("e").join("other").exists());
        fs::rename(one.join("e"), one.join("d")).unwrap();
        let names = fs::read_dir(two.join("d")).unwrap().count();
        assert_eq!(names, round as usize + 1);
    }
    rig.stop();
}

#[test]
fn a_time_is_seen_before_and_after_the_data_are_written() {
    let Some(mut rig) = Rig::start("times") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    for (round, sync) in [(1u64, false), (2, true), (3, false)] {
        let name = format!("file{round}");
        let mut file = File::create(one.join(&name)).unwrap();
        file.write_all(b"text").unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(round * 1000);
        file.set_modified(time).unwrap();
        if sync {
            file.sync_all().unwrap();
        }
        let seen = |mount: &Path| fs::metadata(mount.join(&name)).unwrap().modified().unwrap();
        assert_eq!((seen(&one), seen(&two)), (time, time));
        assert_eq!(fs::read(two.join(&name)).unwrap(), b"text");
        assert_eq!((seen(&one), seen(&two)), (time, time));
        file.write_all(b"more").unwrap();
        assert!(seen(&two) > time + Duration::from_secs(1_000_000), "a later write has its own");
    }
    rig.stop();
}

#[test]
fn a_mount_can_be_read_only_and_locks_local() {
    let Some(mut rig) = Rig::start("options") else { return };
    let (writable, fixed) = (rig.mount("localflock"), rig.mount("ro,noatime,nosuid,nouser_xattr"));
    fs::write(writable.join("file"), "text").unwrap();
    assert_eq!(fs::read_to_string(fixed.join("file")).unwrap(), "text");
    let refused = fs::write(fixed.join("file"), "").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(fixed.to_str().unwrap())).unwrap();
    let fields: Vec<&str> = line.split(' ').collect();
    assert!(fields[0].ends_with("@tcp:/lv") && fields[2] == "fuse.fulmar", "{line}");
    assert!(fields[3].starts_with("ro,nosuid,noatime"), "{line}");
    let without = File::open(rig.mount("noflock").join("file")).unwrap();
    let refused = rustix::fs::flock(&without, FlockOperation::LockShared).unwrap_err();
    assert_eq!(refused.raw_os_error(), 38);
    let mut value = [0; 4];
    let unknown = rustix::fs::getxattr(fixed.join("file"), "user.any", &mut value).unwrap_err();
    assert_eq!(unknown.raw_os_error(), 95);
    rig.stop();
}
