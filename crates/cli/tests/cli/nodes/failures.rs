//! Directories of targets that cannot be used, and disks that fail.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::lab::{Lab, Node, Ran, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);

fn run(lab: &Lab, words: &str) -> Ran {
    ran(fulmar(&lab.path("")).args(words.split_whitespace()))
}

fn ok(lab: &Lab, words: &str) {
    let done = run(lab, words);
    assert_eq!(done.0, 0, "{words}: {done:?}");
}

/// Damages the store in a directory.
fn damage(lab: &Lab, name: &str) {
    let keys = OpenOptions::new().write(true).open(lab.path(name).join("keys")).unwrap();
    keys.set_len(1000).unwrap();
}

#[test]
fn a_bad_directory_does_not_keep_other_targets_from_being_served() {
    let lab = Lab::new("bad");
    let nid = "127.0.0.59@tcp";
    ok(&lab, "mkfs --mgs --mdt --fsname lv mdt");
    for (index, name) in [(0, "good"), (1, "version"), (2, "damaged"), (3, "used"), (0, "again")] {
        ok(&lab, &format!("mkfs --ost --fsname lv --index {index} --mgsnode {nid} {name}"));
    }
    let header = lab.path("version").join("store");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("version 1", "version 7")).unwrap();
    damage(&lab, "damaged");
    let used = File::open(lab.path("used").join("lock")).unwrap();
    used.lock().unwrap();
    fs::create_dir(lab.path("foreign")).unwrap();
    fs::write(lab.path("foreign").join("thesis.tex"), "").unwrap();

    let bad = [
        ("version", "format version 7, this program knows 1"),
        ("damaged", "damaged is damaged: "),
        ("used", "used is in use by process"),
        ("again", "it is that of a second lv-OST0000"),
        ("foreign", "foreign is not a store: it has no file named store"),
        ("missing", "missing is not a store: there is no such directory"),
    ];
    let mut args = vec!["--networks", "tcp(127.0.0.59)", "--target", "mdt", "--target", "good"];
    args.extend(bad.iter().flat_map(|(name, _)| ["--target", *name]));
    let node = lab.node_with(59, &args);
    let (status, out, err) = node.run("lctl dl");
    assert_eq!(status, 0, "{err}");
    let (_, health, _) = node.run("lctl get_param -n health_check");
    assert!(health.ends_with("NOT HEALTHY\n"), "{health}");
    assert_eq!(node.terminate().0, Some(0));
    let log = fs::read_to_string(lab.path("59.log")).unwrap();
    for (place, name) in ["mgs MGS", "mdt lv-MDT0000", "obdfilter lv-OST0000"].iter().enumerate() {
        assert!(out.contains(&format!("  {place} UP {name} ")), "{out}");
    }
    for (name, why) in bad {
        assert!(out.contains(&format!(" -- - {name} - 0\n")), "{out}");
        for text in [&log, &err] {
            let line = text.lines().find(|line| line.contains(name) && line.contains(why));
            assert!(line.is_some(), "{name}: {text}");
        }
        let (status, out, err) = run(&lab, &format!("fsck {name}"));
        if name != "again" {
            assert_eq!(status, 1, "{name}: {out}");
            assert!(err.contains(why), "{err}");
        }
    }
    assert!(log.contains("3 of 9 targets are served: not version, damaged, "), "{log}");
}

#[test]
fn a_file_system_is_served_without_its_damaged_ost_and_a_lost_one_is_not_made_again() {
    let lab = Lab::new("damaged-ost");
    let up = ["fs", "--osts", "2", "--networks", "tcp(127.0.0.60)"];
    assert_eq!(lab.up(60, &up).terminate().0, Some(0));
    damage(&lab, "fs/ost1");
    let node = lab.up(60, &up);
    let (_, out, err) = node.run("lctl dl");
    assert!(out.contains("  2 UP obdfilter lustre-OST0000 "), "{out}");
    assert!(out.contains("  3 -- - fs/ost1 - 0\n"), "{out}");
    assert!(
        err.contains("lctl dl: fs/ost1 is not served: the store in fs/ost1 is damaged"),
        "{err}"
    );
    assert_eq!(node.terminate().0, Some(0));
    let (status, out, err) = run(&lab, "fsck fs");
    assert_eq!((status, out.matches("no damage").count()), (1, 3), "{out}");
    assert!(err.contains("the store in fs/ost1 is damaged"), "{err}");
    fs::rename(lab.path("fs/ost0"), lab.path("away")).unwrap();
    let (status, _, err) = run(&lab, "up fs --networks tcp(127.0.0.60)");
    assert_eq!(status, 1);
    assert!(err.contains("fs/ost0 is missing, but other targets of fs are there"), "{err}");
}

/// A file system in memory, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None`, with a NOT RUN line, if that is not allowed.
    fn new(at: PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1g", "tmpfs"]).arg(&at);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(at)),
            failed => {
                let why = failed.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
                let _ = writeln!(std::io::stderr(), "\nNOT RUN: a full disk needs root: {why:?}");
                None
            }
        }
    }

    fn remount(&self, mode: &str) {
        let options = format!("remount,{mode}");
        let mut mount = Command::new("mount");
        assert!(mount.args(["-o", &options]).arg(&self.0).status().unwrap().success(), "{mode}");
    }

    /// Makes it as small as possible: there is no room.
    fn shrink(&self) {
        let sync = Command::new("df").args(["--output=used", "-k"]).arg(&self.0).output().unwrap();
        let text = String::from_utf8(sync.stdout).unwrap();
        let used: u64 = text.lines().last().unwrap().trim().parse().unwrap();
        self.remount(&format!("size={used}k"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Copies a file of a size into the file system, or that back and compares it.
fn copy(lab: &Lab, name: &str, size: usize, back: bool) -> Ran {
    let local = lab.path(name);
    fs::write(&local, vec![size as u8 | 1; size]).unwrap();
    let remote = format!("127.0.0.61@tcp:/lv/{name}");
    let port = lab.port;
    if !back {
        return run(lab, &format!("cp {name} {remote} --port {port} --interface 127.0.0.62"));
    }
    let done = run(lab, &format!("cp {remote} {name}.back --port {port} --interface 127.0.0.62"));
    assert_eq!(done.0, 0, "{done:?}");
    assert!(fs::read(lab.path(&format!("{name}.back"))).unwrap() == fs::read(local).unwrap());
    done
}

fn start(lab: &Lab) -> Node {
    let args = ["--networks", "tcp(127.0.0.61)", "--target", "mdt", "--target", "disk/ost"];
    lab.node_with(61, &args)
}

#[test]
fn an_ost_on_a_full_or_read_only_disk_loses_nothing_and_goes_on() {
    let lab = Lab::new("full");
    let Some(disk) = Disk::new(lab.path("disk")) else { return };
    ok(&lab, "mkfs --mgs --mdt --fsname lv mdt");
    ok(&lab, "mkfs --ost --fsname lv --index 0 --mgsnode 127.0.0.61@tcp disk/ost");
    let node = start(&lab);
    let begun = Instant::now();
    loop {
        let done = copy(&lab, "a", 3 << 20, false);
        if done.0 == 0 {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{done:?}");
    }
    disk.shrink();
    let (status, _, err) = copy(&lab, "b", 20 << 20, false);
    assert_eq!(status, 1);
    assert!(err.contains("No space left on device"), "{err}");
    copy(&lab, "a", 3 << 20, true);
    assert_eq!(node.terminate().0, Some(0));
    let (status, out, err) = run(&lab, "fsck disk/ost");
    assert!(status == 0 && out.contains("lv-OST0000") && out.contains("no damage"), "{out}{err}");

    // It starts on the full disk, and goes on when there is room.
    let node = start(&lab);
    copy(&lab, "a", 3 << 20, true);
    disk.remount("size=1g");
    let done = copy(&lab, "b", 20 << 20, false);
    assert_eq!(done.0, 0, "{done:?}");
    assert_eq!(node.terminate().0, Some(0));

    disk.remount("ro");
    let why = "disk/ost is read-only. Mount its file system writable";
    let (status, _, err) = run(&lab, "fsck disk/ost");
    assert!(status == 1 && err.contains(why), "{err}");
    let node = start(&lab);
    let (_, out, err) = node.run("lctl dl");
    assert!(out.contains(" UP mdt lv-MDT0000 ") && out.contains(" -- - disk/ost - 0\n"), "{out}");
    assert!(err.contains(why), "{err}");
    assert_eq!(node.terminate().0, Some(0));
    disk.remount("rw");
    let node = start(&lab);
    copy(&lab, "a", 3 << 20, true);
    copy(&lab, "b", 20 << 20, true);
    assert_eq!(node.terminate().0, Some(0));
}
