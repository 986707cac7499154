//! Disks that break under a target that is served: the target ends alone, its clients wait, and nothing is lost that was
//! acknowledged.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::lab::{Lab, Node, Ran, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);
const LEN: usize = 3 << 20;
/// The functions of the scripts. A file system is in a file of another one: what breaks the outer one takes the disk
/// from the inner one. An OST leaves half a gigabyte of its disk to others.
const TOOLS: &str = r#"set -e
layers() { "$1" image outer 2G; "$1" outer/image disk 1500M; }
attach() { mount -o loop,errors=remount-ro "$1" "$2"; }
# What is written there has ext4 do what it does after an error.
trigger() { echo "/sys/fs/ext4/$(basename "$(findmnt -n -o SOURCE "$PWD/$1")")/trigger_fs_error"; }
make() {
    mkdir "$2"
    truncate -s "$3" "$1"
    mkfs.ext4 -q -F -m 0 "$1"
    attach "$1" "$2"
    test -w "$(trigger "$2")"
}
"#;

/// How a disk breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Its file system becomes read-only.
    ReadOnly,
    /// Each write is an error.
    Errors,
}

/// A file system that can be broken, at `disk` in the directory of a lab, for those who see the mounts of a process.
/// It ends with this.
struct Disk<'a> {
    lab: &'a Lab,
    process: Child,
}

impl<'a> Disk<'a> {
    /// `None`, with a NOT RUN line, where that is not possible.
    fn new(lab: &'a Lab) -> Option<Self> {
        let mut command = Command::new("unshare");
        let make = format!("{TOOLS} layers make; echo made; exec cat");
        command.args(["--mount", "sh", "-c", &make]);
        command.current_dir(lab.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let errors = fs::File::create(lab.path("disk.log")).unwrap();
        let mut process = command.stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "made\n" {
            return Some(Self { lab, process });
        }
        process.wait().unwrap();
        let why = fs::read_to_string(lab.path("disk.log")).unwrap();
        let _ = writeln!(
            std::io::stderr(),
            "\nNOT RUN: disks that break: they need root, ext4 and loop devices: {why:?}"
        );
        None
    }

    fn within(&self, program: &Path) -> Command {
        self.lab.within(self.process.id(), program)
    }

    fn sh(&self, words: &str) {
        let done = ran(self.within(Path::new("sh")).args(["-c", &format!("{TOOLS} {words}")]));
        assert_eq!(done.0, 0, "{words}: {done:?}");
    }

    fn fulmar(&self, words: &str) -> Ran {
        let own = fulmar(&self.lab.path(""));
        ran(self.within(own.get_program().as_ref()).args(words.split_whitespace()))
    }

    fn break_by(&self, fault: Fault) {
        let at = if fault == Fault::ReadOnly { "disk" } else { "outer" };
        self.sh(&format!("echo 1 > \"$(trigger {at})\""));
    }

    /// Mounts it again. It has no user.
    fn mend(&self) {
        self.sh("umount disk; umount outer; layers attach");
    }

    fn serve(&self) -> Node {
        let args = ["--networks", "tcp(127.0.0.63)", "--target", "mdt", "--target", "disk/ost"];
        self.lab.node_within(63, self.process.id(), &args)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a command that copies a file of its own into the file system, or back.
fn copy(lab: &Lab, name: &str, back: bool) -> Command {
    let local = lab.path(name);
    let remote = format!("127.0.0.63@tcp:/lv/{name}");
    let copied = format!("{name}.back");
    if !back {
        fs::write(local, data(name)).unwrap();
    }
    let [from, to] = if back { [remote.as_str(), &copied] } else { [name, remote.as_str()] };
    let mut command = fulmar(&lab.path(""));
    command.args(["cp", from, to, "--port", &lab.port.to_string()]);
    command.args(["--interface", "127.0.0.64"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn data(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(LEN).collect()
}

/// Requires that a file is there as it was copied.
fn is_there(lab: &Lab, name: &str) {
    let done = ran(&mut copy(lab, name, true));
    assert_eq!(done.0, 0, "{done:?}");
    assert!(fs::read(lab.path(&format!("{name}.back"))).unwrap() == data(name), "{name}");
}

/// Returns the log of the node since its start.
fn log_of(lab: &Lab) -> String {
    fs::read_to_string(lab.path("63.log")).unwrap()
}

/// Waits for what is found at some time.
fn wait_for<T>(lab: &Lab, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match find() {
            Some(found) => return found,
            None => assert!(begun.elapsed() < TIMEOUT, "no {what}:\n{}", log_of(lab)),
        }
        sleep(Duration::from_millis(50));
    }
}

/// Waits until the OST is not served any more, and returns why.
fn ended(lab: &Lab, node: &Node) -> String {
    wait_for(lab, "end of the OST", || {
        let (_, out, err) = node.run("lctl dl");
        assert!(out.contains(" UP mdt lv-MDT0000 "), "{out}{err}");
        err.lines().find(|line| line.contains("disk/ost")).map(str::to_owned)
    })
}

#[test]
fn an_ost_whose_disk_breaks_ends_alone_and_loses_nothing_that_was_acknowledged() {
    let lab = Lab::new("broken");
    let Some(disk) = Disk::new(&lab) else { return };
    let done = ran(fulmar(&lab.path("")).args(["mkfs", "--mgs", "--mdt", "--fsname", "lv", "mdt"]));
    assert_eq!(done.0, 0, "{done:?}");
    let done = disk.fulmar("mkfs --ost --fsname lv --index 0 --mgsnode 127.0.0.63@tcp disk/ost");
    assert_eq!(done.0, 0, "{done:?}");
    let mut node = disk.serve();
    // The OST has not registered yet.
    wait_for(&lab, "first file", || (ran(&mut copy(&lab, "first", false)).0 == 0).then_some(()));
    for (fault, what) in
        [(Fault::ReadOnly, "Read-only file system"), (Fault::Errors, "Input/output error")]
    {
        let [kept, late] = ["kept", "late"].map(|name| format!("{name}-{fault:?}"));
        let done = ran(&mut copy(&lab, &kept, false));
        assert_eq!(done.0, 0, "{done:?}");
        // That the client has left is not on disk yet, and the OST would wait for it.
        assert_eq!(node.terminate().0, Some(0));
        node = disk.serve();
        wait_for(&lab, "objects", || {
            log_of(&lab).contains("lv-OST0000 has objects for new files").then_some(())
        });
        disk.break_by(fault);
        let mut copying = copy(&lab, &late, false).spawn().unwrap();
        // The MDT goes on: it creates the file.
        let port = lab.port;
        let words = format!("lfs path2fid 127.0.0.63@tcp:/lv/{late} --port {port}");
        let words = format!("{words} --interface 127.0.0.65");
        let path2fid = || ran(fulmar(&lab.path("")).args(words.split_whitespace()));
        wait_for(&lab, "late file", || (path2fid().0 == 0).then_some(()));
        let why = ended(&lab, &node);
        assert!(why.contains("has ended, since it failed to") && why.contains(what), "{why}");
        assert!(why.contains("Check the disk, then open the store again"), "{why}");
        let (_, health, _) = node.run("lctl get_param -n health_check");
        assert!(health.contains("device lv-OST0000 reported unhealthy"), "{health}");
        assert_eq!(node.terminate().0, Some(0));
        let log = log_of(&lab);
        let line = log.lines().find(|line| line.contains("lv-OST0000 is not served any more"));
        assert!(line.is_some_and(|line| line.contains(what)), "{log}");
        assert!(copying.try_wait().unwrap().is_none(), "who writes waits");
        disk.mend();
        node = disk.serve();
        let done = copying.wait_with_output().unwrap();
        assert!(done.status.success(), "{done:?}");
        for name in ["first", &kept, &late] {
            is_there(&lab, name);
        }
    }
    assert_eq!(node.terminate().0, Some(0));
    let (status, out, err) = disk.fulmar("fsck disk/ost");
    assert!(status == 0 && out.contains("no damage"), "{out}{err}");
}
