//! Targets that a node serves from their directories.

use std::time::{Duration, Instant};

use super::lab::{Lab, fulmar, ran};

#[test]
fn a_management_service_is_made_served_and_examined() {
    let lab = Lab::new("targets");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let (status, out, err) = run("mkfs --mgs mgs");
    assert_eq!((status, out.as_str(), err.as_str()), (0, "mgs: made MGS\n", ""));
    let (status, _, err) = run("mkfs --mgs mgs");
    assert_eq!(status, 1);
    assert!(err.contains("a store is there. Choose an empty directory"), "{err}");
    let networks = "tcp(127.0.0.51)";
    let node = lab.node_with(51, &["--networks", networks, "--target", "mgs"]);
    let (status, _, err) = run("fsck mgs");
    assert_eq!(status, 1);
    assert!(err.contains("is in use by process"), "{err}");
    // A client finds it, and learns that it has no such file system.
    let port = lab.port;
    let (status, _, err) = run(&format!("lfs df 127.0.0.51@tcp:/lv --port {port}"));
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("has no file system \"lv\""), "{err}");
    assert_eq!(node.terminate().0, Some(0));
    let (status, out, _) = run("fsck mgs");
    assert_eq!((status, out.as_str()), (0, "mgs: MGS, 0 keys, 0 objects of 0 B\nno damage\n"));
}

#[test]
fn a_directory_that_is_no_target_is_explained() {
    let lab = Lab::new("no-target");
    let refused = |dirs: &[&str]| {
        let mut args = vec!["--networks", "tcp(127.0.0.52)"];
        args.extend(dirs.iter().flat_map(|dir| ["--target", dir]));
        let (status, _, err) = lab.refused(&args);
        assert_eq!(status, 1, "{err}");
        err
    };
    std::fs::create_dir(lab.path("empty")).unwrap();
    for dir in ["empty", "missing"] {
        let err = refused(&[dir]);
        assert!(err.contains("cannot serve the targets: "), "{err}");
        assert!(err.contains(&format!("{dir} is not a store")), "{err}");
    }
    for name in ["one", "two"] {
        let (status, ..) = ran(fulmar(&lab.path("")).args(["mkfs", "--mgs", name]));
        assert_eq!(status, 0);
    }
    let err = refused(&["one", "two"]);
    assert!(err.contains("two is that of a second MGS: a node has one"), "{err}");
    for (words, part) in [
        ("mkfs one", "--mgs"),
        ("mkfs --ost --fsname lv --index 1 one", "--mgsnode"),
        ("mkfs --ost --fsname toolongname --index 1 --mgsnode 10.0.0.1@tcp one", "toolongname"),
        ("mkfs --ost --fsname lv --index 65520 --mgsnode 10.0.0.1@tcp one", "65520"),
        ("mkfs --ost --fsname lv --index 1 --mgsnode 10.0.0.300@tcp one", "is not a NID"),
        ("mkfs --mgs --index 1 one", "--fsname"),
        ("mkfs --mgs --mdt one", "--fsname"),
        ("mkfs --mdt --fsname lv one", "--mgsnode"),
        ("mkfs --mdt --ost --fsname lv --index 0 --mgsnode 10.0.0.1@tcp one", "--ost"),
    ] {
        let (status, _, err) = ran(fulmar(&lab.path("")).args(words.split_whitespace()));
        assert_eq!(status, 2, "{words}: {err}");
        assert!(err.contains(part), "{words}: {err}");
    }
}

#[test]
fn a_file_system_is_started_again_with_more_osts() {
    let lab = Lab::new("up");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let df = format!("lfs df 127.0.0.53@tcp:/lustre --port {}", lab.port);
    for osts in ["1", "2"] {
        let node = lab.up(53, &["fs", "--osts", osts, "--networks", "tcp(127.0.0.53)"]);
        let count = || run(&df).1.lines().filter(|line| line.contains("lustre-OST")).count();
        let begun = Instant::now();
        while count().to_string() != osts {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", run(&df));
        }
        assert_eq!(node.terminate().0, Some(0));
    }
    let (status, out, err) = run("fsck fs");
    assert_eq!((status, out.matches("no damage").count(), err.as_str()), (0, 4, ""), "{out}");
    let (status, out, _) = run("up fs --check --networks tcp(127.0.0.53)");
    assert_eq!((status, out.as_str()), (0, ""));
    let (status, _, err) = run("up new --fsname toolongname --networks tcp(127.0.0.53)");
    assert_eq!(status, 1);
    assert!(err.contains("toolongname"), "{err}");
}
