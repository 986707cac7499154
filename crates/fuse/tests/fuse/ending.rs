//! The end of mounts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::rig::Rig;

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
