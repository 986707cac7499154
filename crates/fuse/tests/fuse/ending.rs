//! The end of mounts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::layout::LovMd;
use fulmar_wire::Order;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::process::{Pid, Signal};

use crate::rig::{Rig, TIMEOUT};

/// Makes a file with data on the second OST. The MDT may have no objects of it yet.
fn make_on_the_second(path: &Path) {
    let mut wanted = LovMd::wanted(1 << 20, 1);
    wanted.header.generation = 1;
    let mode = Mode::from_raw_mode(0o644);
    let begun = Instant::now();
    let is_there = || {
        rustix::fs::mknodat(CWD, path, FileType::RegularFile, mode, 0).unwrap();
        rustix::fs::setxattr(path, "lustre.lov", &wanted.to_bytes(), XattrFlags::empty()).is_ok()
            && ost_of(path) == Some(1)
    };
    while !is_there() {
        assert!(begun.elapsed() < TIMEOUT, "the MDT has no objects of the second OST");
        fs::remove_file(path).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(path, "data").unwrap();
    fs::File::open(path).unwrap().sync_all().unwrap();
}

/// Returns on which OST a file is.
fn ost_of(path: &Path) -> Option<u32> {
    let mut bytes = [0; 256];
    let len = rustix::fs::getxattr(path, "lustre.lov", &mut bytes[..]).unwrap();
    let layout = LovMd::decode(&bytes[..len], Order::Little).unwrap();
    layout.objects.first().map(|object| object.ost)
}

/// Waits until a process has ended, and returns the signal that has ended it.
fn ended(process: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status.signal();
        }
        assert!(begun.elapsed() < TIMEOUT, "it has not ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Begins a program whose last argument is a path.
fn begin(words: &str, path: &Path) -> Child {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Checks that a program waits, and that a signal ends it.
fn check_is_ended(words: &str, path: &Path, signal: Signal) {
    let mut process = begin(words, path);
    std::thread::sleep(Duration::from_millis(300));
    if process.try_wait().unwrap().is_some() {
        panic!("{words} does not wait: {:?}", process.wait_with_output());
    }
    rustix::process::kill_process(Pid::from_child(&process), signal).unwrap();
    assert_eq!(ended(&mut process), Some(signal.as_raw()), "{words}");
}

#[test]
fn a_program_that_waits_for_an_ost_can_be_killed() {
    let Some(mut rig) = Rig::start("killed") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir(one.join("sub")).unwrap();
    make_on_the_second(&one.join("sub/file"));
    rig.restart_without_an_ost();
    assert_eq!(ended(&mut begin("df", &two)), None);
    // The other mount has nothing of it in its cache.
    let (file, directory) = (two.join("sub/file"), two.join("sub"));
    check_is_ended("cat", &file, Signal::TERM);
    check_is_ended("stat", &file, Signal::KILL);
    check_is_ended("ls -l", &directory, Signal::TERM);
    check_is_ended("truncate -s 0", &file, Signal::KILL);
    check_is_ended("fallocate -l 100000", &file, Signal::TERM);
    rig.serve();
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    rig.stop();
}

#[test]
fn a_program_that_waits_for_an_mdt_can_be_killed() {
    let Some(mut rig) = Rig::start("names") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    fs::create_dir(one.join("sub")).unwrap();
    fs::write(one.join("sub/file"), "data").unwrap();
    rig.stop_serving();
    let (file, directory) = (two.join("sub/file"), two.join("sub"));
    check_is_ended("stat", &file, Signal::TERM);
    check_is_ended("ls", &directory, Signal::KILL);
    check_is_ended("mkdir", &two.join("new"), Signal::TERM);
    check_is_ended("rm", &file, Signal::KILL);
    check_is_ended("chmod 700", &directory, Signal::TERM);
    rig.serve();
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    assert!(!two.join("new").exists());
    rig.stop();
}

#[test]
fn a_mount_that_another_namespace_has_ends_for_all() {
    let Some(mut rig) = Rig::start("namespaces") else { return };
    let (one, two) = (rig.mount(""), rig.mount(""));
    // It has the mounts until its input ends, and says when.
    let script = "echo begun; read line; cat \"$1\"";
    let mut other = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(one.join("file"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    fs::write(one.join("file"), "written").unwrap();
    rig.unmount(0);
    assert!(!one.join("file").exists());
    assert_eq!(fs::read_to_string(two.join("file")).unwrap(), "written");
    drop(other.stdin.take());
    let ended = other.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && error.contains("not connected"), "{error}");
    rig.stop();
}
