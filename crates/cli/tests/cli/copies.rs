//! `fulmar cp`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::nodes::lab::{Lab, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_tree_is_copied_in_out_and_within() {
    let lab = Lab::new("copies");
    let servers =
        lab.up(80, &["fs", "--osts", "2", "--fsname", "lv", "--networks", "tcp(127.0.0.80)"]);
    let remote = "127.0.0.80@tcp:/lv";
    let port = lab.port;
    let run = |words: &str| {
        let all = format!("cp {words} --port {port} --interface 127.0.0.81");
        ran(fulmar(&lab.path("")).args(all.split(' ')))
    };
    fs::create_dir_all(lab.path("src/empty")).unwrap();
    std::os::unix::fs::symlink("nowhere", lab.path("src/link")).unwrap();
    for number in 0..20u8 {
        fs::write(lab.path(&format!("src/{number}")), vec![number; 40_000]).unwrap();
    }
    let begun = Instant::now();
    let first = loop {
        let (status, out, err) = run(&format!("-r --verify src {remote}/"));
        if status == 0 {
            break out;
        }
        assert!(begun.elapsed() < TIMEOUT, "{err}");
    };
    assert!(first.starts_with("20 files copied, 781 KiB in "), "{first}");
    let ok = |words: &str| {
        let (status, out, err) = run(words);
        assert_eq!((status, err.as_str()), (0, ""), "{words}: {out}");
        out
    };
    let again = ok(&format!("-r --resume src {remote}/src"));
    assert!(again.starts_with("0 files copied") && again.ends_with(", 20 files there already\n"));
    ok(&format!("-r --verify {remote}/src {remote}/other"));
    ok(&format!("-r {remote}/other out"));
    let same = |one: &Path, other: &Path| {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).args([one, other]).status().unwrap().success()
    };
    assert!(same(&lab.path("src"), &lab.path("out")));
    let time = |name: &str| fs::metadata(lab.path(name)).unwrap().modified().unwrap();
    assert!(time("src/7").duration_since(time("out/7")).unwrap() < Duration::from_secs(1));
    let (status, _, err) = run(&format!("src {remote}/x"));
    assert_eq!((status, err.as_str()), (1, "fulmar cp: src is a directory: copy it with -r\n"));
    assert_eq!(servers.terminate().0, Some(0));
}
