//! Locks of files, and when they end.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Command;

use rustix::fs::FlockOperation;

use crate::rig::Rig;

/// Locks a file through an open one 50 times, each time through another one, just after the one before was closed.
const OF_OPEN_FILES: &str = r#"
    my $before;
    for my $round (1 .. 50) {
        open(my $file, "+<", $ARGV[0]) or die "round $round: $!";
        close($before) if $before;
        # F_OFD_SETLK of F_WRLCK on all bytes.
        my $lock = pack("s! s! x![q] q q i x![q]", 1, 0, 0, 0, 0);
        fcntl($file, 37, $lock) or die "round $round: $!";
        $before = $file;
    }
"#;

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn locks_of_an_open_file_end_with_it() {
    let Some(mut rig) = Rig::start("ofd") else { return };
    let (one, two) = (rig.mount("").join("file"), rig.mount("").join("file"));
    fs::write(&one, "").unwrap();
    for path in [&one, &two] {
        // The second one would wait for ever if the last lock of the first had stayed.
        let locked = Command::new("flock").arg(path).arg("true").status().unwrap();
        assert!(locked.success());
        let ran = Command::new("perl").args(["-e", OF_OPEN_FILES]).arg(path).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        // It ends soon after the close.
        let wait = File::open(path).unwrap();
        rustix::fs::flock(&wait, FlockOperation::LockExclusive).unwrap();
    }
    rig.stop();
}

#[test]
fn a_file_that_was_closed_is_locked_again_at_once() {
    let Some(mut rig) = Rig::start("again") else { return };
    let path = rig.mount("").join("file");
    fs::write(&path, "").unwrap();
    for round in 0..300 {
        let file = open(&path);
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(locked, Ok(()), "round {round}");
        let second = file.try_clone().unwrap();
        drop(file);
        drop(second);
    }
    // One that is still open has its lock, also if its owner has the number of one that was closed.
    let files: Vec<File> = (0..4).map(|_| open(&path)).collect();
    for file in files {
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        drop(file.try_clone().unwrap());
        let other = open(&path);
        let refused = rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared);
        assert_eq!(refused.unwrap_err().raw_os_error(), 11);
    }
    rig.stop();
}
