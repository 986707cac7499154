//! Targets that a node serves from their directories.

use std::time::{Duration, Instant};

use super::lab::{Lab, Node, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);

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
    // Several are explained one by one.
    let err = refused(&["empty", "missing"]);
    assert!(err.contains("\n  empty is not a store: it has no file named store"), "{err}");
    assert!(err.contains("\n  missing is not a store: there is no such directory"), "{err}");
    let node =
        lab.node_with(52, &["--networks", "tcp(127.0.0.52)", "--target", "one", "--target", "two"]);
    let (status, out, err) = node.run("lctl dl");
    assert_eq!((status, out.as_str()), (0, "  0 UP mgs MGS MGS 0\n  1 -- - two - 0\n"), "{err}");
    assert!(err.contains("it is that of a second MGS, and a node has one"), "{err}");
    drop(node);
    for (words, part) in [
        ("mkfs one", "--mgs"),
        ("mkfs --ost --fsname lv --index 1 one", "--mgsnode"),
        ("mkfs --ost --fsname toolongname --index 1 --mgsnode 10.0.0.1@tcp one", "toolongname"),
        ("mkfs --ost --fsname lv --index 65520 --mgsnode 10.0.0.1@tcp one", "65520"),
        ("mkfs --ost --fsname lv --index 1 --mgsnode 10.0.0.300@tcp one", "is not a NID"),
        ("mkfs --mgs --index 1 one", "--fsname"),
        ("mkfs --mgs --mdt one", "--fsname"),
        ("mkfs --mdt --fsname lv one", "--mgsnode"),
        ("mkfs --ost --fsname lv --index 1 --mgsnode 10.0.0.1@tcp --network x? one", "--network"),
        (
            "mkfs --ost --fsname lv --index 1 --mgsnode 10.0.0.1@tcp --failnode x one",
            "\"x\" is not a node",
        ),
        (
            "mkfs --mdt --mgs --fsname lv --failnode 10.0.0.2@tcp --servicenode 10.0.0.1@tcp one",
            "--servicenode",
        ),
        ("mkfs --mgs --network tcp1 one", "--fsname"),
        ("mkfs --mdt --ost --fsname lv --index 0 --mgsnode 10.0.0.1@tcp one", "--ost"),
    ] {
        let (status, _, err) = ran(fulmar(&lab.path("")).args(words.split_whitespace()));
        assert_eq!(status, 2, "{words}: {err}");
        assert!(err.contains(part), "{words}: {err}");
    }
}

#[test]
fn an_administrator_changes_the_configuration_for_good() {
    let lab = Lab::new("administrator");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let nid = "127.0.0.58@tcp";
    assert_eq!(run("mkfs --mgs --mdt --fsname lv mdt").0, 0);
    let made = run(&format!("mkfs --ost --fsname lv --index 1 --mgsnode {nid} ost"));
    assert_eq!(made.0, 0, "{made:?}");
    let args = ["--networks", "tcp(127.0.0.58)", "--target", "mdt", "--target", "ost"];
    let node = lab.node_with(58, &args);
    let ok = |node: &Node, words: &str| {
        let (status, out, err) = node.run(&format!("lctl {words}"));
        assert_eq!((status, err.as_str()), (0, ""), "{words}");
        out
    };
    let refused = |node: &Node, words: &str, errno: i32, part: &str| {
        let (status, _, err) = node.run(&format!("lctl {words}"));
        assert_eq!(status, errno, "{words}: {err}");
        assert!(err.contains(part), "{words}: {err}");
    };
    // The targets register by themselves.
    let begun = Instant::now();
    while node.run("lctl conf_param lv-OST0001.osc.max_dirty_mb=64").0 != 0 {
        assert!(begun.elapsed() < TIMEOUT, "the OST does not register");
        std::thread::sleep(Duration::from_millis(100));
    }
    ok(&node, "conf_param lv.sys.timeout=40");
    ok(&node, "set_param -P osc.*.max_dirty_mb=64 llite.*.max_read_ahead_mb=32");
    ok(&node, "set_param -P -d llite.*.max_read_ahead_mb");
    refused(&node, "set_param -P -d llite.*.max_read_ahead_mb", 2, "cannot delete");
    refused(&node, "conf_param lv.sys.nonsense=40", 22, "cannot set lv.sys.nonsense=40");
    refused(&node, "conf_param other.sys.timeout=40", 22, "cannot set");
    assert_eq!(ok(&node, "pool_new lv.flash"), "Pool lv.flash created\n");
    let added = ok(&node, "pool_add lv.flash OST[1]");
    assert_eq!(added, "OST lv-OST0001_UUID added to pool lv.flash\n");
    refused(&node, "pool_new lv.flash", 17, "pool lv.flash already exists");
    refused(&node, "pool_add lv.flash OST0001", 17, "lv-OST0001_UUID is already in pool lv.flash");
    refused(&node, "pool_add lv.flash OST0002", 19, "lv-OST0002_UUID is not part of the 'lv' fs.");
    refused(&node, "pool_add lv.slow OST0001", 123, "pool lv.slow not found");
    refused(&node, "pool_destroy lv.flash", 39, "not empty");
    refused(&node, "pool_new lv", 22, "is not FSNAME.POOL");
    refused(&node, "pool_add lv.flash MDT0000", 22, "Wrong format for OST list");
    assert_eq!(node.terminate().0, Some(0));

    let node = lab.node_with(58, &args);
    assert_eq!(ok(&node, "pool_list lv"), "Pools from lv:\nlv.flash\n");
    assert_eq!(ok(&node, "pool_list lv.flash"), "Pool: lv.flash\nlv-OST0001_UUID\n");
    refused(&node, "pool_list lv.slow", 2, "pool lv.slow not found");
    let removed = ok(&node, "pool_remove lv.flash lv-OST0001");
    assert_eq!(removed, "OST lv-OST0001_UUID removed from pool lv.flash\n");
    assert_eq!(ok(&node, "pool_destroy lv.flash"), "Pool lv.flash destroyed\n");
    ok(&node, "conf_param -d lv.sys.timeout");
    assert_eq!(node.terminate().0, Some(0));
}

#[test]
fn a_node_without_a_management_service_says_so() {
    let lab = Lab::new("no-mgs");
    let node = lab.node(54);
    for words in
        ["conf_param lv.sys.timeout=40", "pool_new lv.a", "pool_add lv.a OST0000", "pool_list lv"]
    {
        let (status, _, err) = node.run(&format!("lctl {words}"));
        assert_eq!(status, 19, "{words}: {err}");
        assert!(err.contains("run the command on the node that serves the MGS"), "{err}");
    }
    let (status, _, err) = node.run("lctl set_param osc.*.max_dirty_mb=64");
    assert_eq!(status, 2);
    assert!(err.contains("param_path 'osc/*/max_dirty_mb': No such file or directory"), "{err}");
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

#[test]
fn clients_learn_where_a_target_may_be() {
    let lab = Lab::new("placement");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let nid = "127.0.0.55@tcp";
    for words in [
        "mkfs --mgs --mdt --fsname lv mdt".to_owned(),
        format!("mkfs --ost --fsname lv --index 0 --mgsnode {nid} --network tcp7 ost0"),
        format!(
            "mkfs --ost --fsname lv --index 1 --mgsnode {nid} --servicenode 127.0.0.56@tcp7 \
             --servicenode 127.0.0.57@tcp7,127.0.0.57@tcp ost1"
        ),
        format!("mkfs --ost --fsname lv --index 2 --mgsnode {nid} --failnode 127.0.0.57@tcp ost2"),
        format!("mkfs --ost --fsname lv --index 3 --mgsnode {nid} --network tcp9 ost3"),
    ] {
        let made = run(&words);
        assert_eq!(made.0, 0, "{made:?}");
    }
    let mut args = vec!["--networks", "tcp(127.0.0.55),tcp7(127.0.0.56)"];
    args.extend(["mdt", "ost0", "ost1", "ost2", "ost3"].iter().flat_map(|dir| ["--target", dir]));
    let node = lab.node_with(55, &args);
    let begun = Instant::now();
    let log = || std::fs::read_to_string(lab.path("55.log")).unwrap();
    let mut wanted: Vec<String> = (0..3).map(|n| format!("lv-OST000{n} has joined")).collect();
    wanted.push("lv-OST0003 has not joined its file system: the node has no NID".to_owned());
    while wanted.iter().any(|line| !log().contains(line)) {
        assert!(begun.elapsed() < TIMEOUT, "{}", log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(node.terminate().0, Some(0));
}

#[test]
fn a_node_serves_two_file_systems() {
    let lab = Lab::new("two");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let nid = "127.0.0.79@tcp";
    let mut args = vec!["--networks", "tcp(127.0.0.79)", "--target", "mgs"];
    assert_eq!(run("mkfs --mgs mgs").0, 0);
    for name in ["red", "blue"] {
        assert_eq!(run(&format!("mkfs --mdt --fsname {name} --mgsnode {nid} {name}-mdt")).0, 0);
        let ost = format!("mkfs --ost --fsname {name} --index 0 --mgsnode {nid} {name}-ost");
        assert_eq!(run(&ost).0, 0);
    }
    for target in ["red-mdt", "red-ost", "blue-mdt", "blue-ost"] {
        args.extend(["--target", target]);
    }
    let node = lab.node_with(79, &args);
    let port = lab.port;
    for name in ["red", "blue"] {
        let df = format!("lfs df {nid}:/{name} --port {port}");
        // The targets register by themselves.
        node.wait_for_success(&df);
        node.wait_for_output(&df, "OST:0");
        std::fs::write(lab.path(name), name).unwrap();
        let to = format!("cp {name} {nid}:/{name}/file --port {port}");
        let begun = Instant::now();
        while run(&to).0 != 0 {
            assert!(begun.elapsed() < TIMEOUT, "{:?}", run(&to));
        }
    }
    for name in ["red", "blue"] {
        let back = format!("cp {nid}:/{name}/file {name}-back --port {port}");
        let done = run(&back);
        assert_eq!(done.0, 0, "{done:?}");
        assert_eq!(std::fs::read_to_string(lab.path(&format!("{name}-back"))).unwrap(), name);
        let listed = run(&format!("lfs df {nid}:/{name} --port {port}")).1;
        let own = listed.lines().filter(|line| line.starts_with(&format!("{name}-"))).count();
        assert_eq!((own, listed.matches("_UUID").count()), (2, 2), "{listed}");
    }
    assert_eq!(node.terminate().0, Some(0));
}
