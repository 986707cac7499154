//! Targets that are started and stopped while their node runs and a client works.

use std::path::Path;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{Caller, ClientNode, MountOptions, OpenOptions, SessionOptions, blocking};
use fulmar_net::{NiOptions, Node as ClientsNode, Options, Runtime};
use fulmar_socklnd::AcceptMode;

use super::lab::{Lab, Node, fulmar, ran};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(60);
const NID: &str = "127.0.0.71@tcp";

/// A client of the file system `lv` in this process, at an address of its own.
struct Client {
    node: ClientsNode,
    mounted: blocking::FileSystem,
    _runtime: Runtime,
}

impl Client {
    fn mount(port: u16) -> Self {
        let runtime = Runtime::new(Some(1)).unwrap();
        let mut options = Options::default();
        options.config.socklnd.accept = AcceptMode::All;
        options.config.socklnd.accept_port = port;
        options.nis.push(NiOptions::at([127, 0, 0, 72].into()));
        let node = ClientsNode::start(&runtime, options).unwrap();
        let settings = SessionOptions { interface: None, port, timeout: TIMEOUT };
        let client = ClientNode::on(&node, &["127.0.0.72@tcp".parse().unwrap()], settings).unwrap();
        let address = format!("{NID}:/lv").parse().unwrap();
        let mounted = wait_for(|| blocking::wait(client.mount(&address, MountOptions::default())));
        Self { node, mounted: blocking::FileSystem::of(mounted), _runtime: runtime }
    }
}

/// Repeats something until it works.
fn wait_for<T, E: std::fmt::Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(begun.elapsed() < TIMEOUT, "{error}"),
        }
        sleep(Duration::from_millis(50));
    }
}

fn both() -> OpenOptions {
    OpenOptions { read: true, ..OpenOptions::create(0o644) }
}

/// Runs a command that the node refuses.
fn refused(node: &Node, words: &str) -> String {
    let (status, out, err) = node.run(words);
    assert_eq!((status, out.as_str()), (1, ""), "{words}: {err}");
    err
}

#[test]
fn targets_are_stopped_started_and_added_under_a_client() {
    let lab = Lab::new("live");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    let node =
        lab.up(71, &["fs", "--osts", "1", "--fsname", "lv", "--networks", "tcp(127.0.0.71)"]);
    let client = Client::mount(lab.port);
    let lv = &client.mounted;
    let file = wait_for(|| lv.open("file", both()));
    file.write(0, vec![1; 1 << 20]).unwrap();
    file.sync().unwrap();

    // An OST. Its directory is free, the others are served, and who writes waits for it.
    assert_eq!(node.output("target stop lv-OST0000"), "stopped lv-OST0000\n");
    let (status, out, err) = run("fsck fs/ost0");
    assert_eq!((status, out.contains("no damage")), (0, true), "{out}{err}");
    assert!(!node.output("lctl dl").contains("OST0000"));
    lv.mkdir("meanwhile", 0o755).unwrap();
    let writer = spawn(move || {
        file.write(1 << 20, vec![2; 1 << 20]).unwrap();
        file.sync().unwrap();
        file
    });
    assert_eq!(node.output("target start fs/ost0"), "started lv-OST0000\n");
    let file = writer.join().unwrap();
    assert_eq!(file.read((1 << 20) - 1, 2).unwrap(), [1, 2]);

    // A new one, which gets objects.
    let made = run(&format!("mkfs --ost --fsname lv --index 1 --mgsnode {NID} ost1"));
    assert_eq!(made.0, 0, "{made:?}");
    assert_eq!(node.output("target start ost1"), "started lv-OST0001\n");
    let new = wait_for(|| {
        let new = lv.open("new", both()).map_err(|errno| errno.to_string())?;
        let layout = blocking::wait(lv.inner().layout(&Caller::ROOT, new.inner().fid()));
        match layout.unwrap().components[0].objects[0].ost {
            1 => Ok(new),
            _ => Err(lv.unlink("new").err().map_or("not there yet".to_owned(), |e| e.to_string())),
        }
    });
    new.write(0, vec![3; 70_000]).unwrap();
    new.sync().unwrap();

    // The MDT, with open files. Data are served meanwhile.
    assert_eq!(node.output("target stop lv-MDT0000_UUID"), "stopped lv-MDT0000\n");
    new.write(70_000, vec![4; 10]).unwrap();
    new.sync().unwrap();
    assert_eq!(node.output("target start fs/mdt"), "started lv-MDT0000\n");
    lv.mkdir("meanwhile/after", 0o755).unwrap();
    assert_eq!(lv.attributes("new").unwrap().size, 70_010);
    new.close().unwrap();

    // Everything in a directory at once.
    assert_eq!(
        node.output("target stop fs"),
        "stopped lv-MDT0000\nstopped lv-OST0000\nstopped MGS\n"
    );
    assert_eq!(
        node.output("target start fs"),
        "started MGS\nstarted lv-MDT0000\nstarted lv-OST0000\n"
    );
    assert_eq!(file.read(0, 3 << 20).unwrap().len(), 2 << 20);
    file.close().unwrap();
    assert_eq!(lv.unlink("absent").unwrap_err(), Errno::ENOENT);
    lv.unlink("file").unwrap();
    client.mounted.unmount();
    client.node.stop();
    assert_eq!(node.terminate().0, Some(0));
    for directory in ["fs", "ost1"] {
        assert_eq!(run(&format!("fsck {directory}")).0, 0);
    }
}

#[test]
fn an_ost_moves_to_another_node_under_a_client() {
    let lab = Lab::new("move");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    assert_eq!(run("mkfs --mgs --mdt --fsname lv mdt").0, 0);
    let ost = format!(
        "mkfs --ost --fsname lv --index 0 --mgsnode {NID} --servicenode {NID} \
         --servicenode 127.0.0.75@tcp ost"
    );
    assert_eq!(run(&ost).0, 0);
    let networks = ["--networks", "tcp(127.0.0.71)"];
    let one = lab.node_with(71, &[&networks[..], &["--target", "mdt", "--target", "ost"]].concat());
    // It serves nothing yet.
    let two = lab.node(75);
    let client = Client::mount(lab.port);
    let file = wait_for(|| client.mounted.open("file", both()));
    file.write(0, vec![1; 1 << 20]).unwrap();
    assert_eq!(one.output("target stop ost"), "stopped lv-OST0000\n");
    assert_eq!(two.output("target start ost"), "started lv-OST0000\n");
    file.write(1 << 20, *b"there").unwrap();
    file.sync().unwrap();
    assert_eq!(file.read((1 << 20) - 1, 10).unwrap(), b"\x01there");
    file.close().unwrap();
    client.mounted.unmount();
    client.node.stop();
    for node in [two, one] {
        assert_eq!(node.terminate().0, Some(0));
    }
}

#[test]
fn an_administrator_learns_why_a_target_is_not_started_or_stopped() {
    let lab = Lab::new("refused-targets");
    let run = |words: &str| ran(fulmar(&lab.path("")).args(words.split_whitespace()));
    for directory in ["one", "two", "three"] {
        assert_eq!(run(&format!("mkfs --mgs {directory}")).0, 0);
    }
    let node = lab
        .node_with(73, &["--networks", "tcp(127.0.0.73)", "--target", "one", "--target", "later"]);
    let err = refused(&node, "target start one");
    assert!(err.contains("one is served already, as MGS\nhint: to start it again, "), "{err}");
    let err = refused(&node, "target start two");
    assert!(err.contains("it is that of a second MGS, and a node has one"), "{err}");
    let err = refused(&node, "target start none");
    assert!(err.contains("none is not a store: there is no such directory"), "{err}");
    let err = refused(&node, "target stop lv-OST0000");
    assert!(err.contains("the node does not serve lv-OST0000. It serves MGS\nhint: "), "{err}");
    std::fs::write(lab.path("three").join("store"), "a store of the year 2100").unwrap();
    let err = refused(&node, "target start three");
    assert!(err.contains("three"), "{err}");
    // One of another node, which has no target so far.
    let other = lab.node(74);
    let err = refused(&other, "target start one");
    assert!(err.contains("one is in use by process "), "{err}");
    assert_eq!(other.output("target list"), "name  state  clients  directory\n");
    let err = refused(&other, "target stop MGS");
    assert!(err.contains("the node does not serve MGS. It serves nothing"), "{err}");

    // A directory that was missing at the start: it is there now.
    let (_, out, err) = node.run("target list");
    assert!(out.contains("not served") && err.contains("later is not served: "), "{out}{err}");
    let (_, out, _) = node.run("lctl get_param -n health_check");
    assert!(out.contains("NOT HEALTHY"), "{out}");
    assert_eq!(node.output("target stop one"), "stopped MGS\n");
    std::fs::rename(lab.path("two"), lab.path("later")).unwrap();
    assert_eq!(node.output("target start later"), "started MGS\n");
    assert_eq!(node.output("lctl get_param -n health_check"), "healthy\n");
    let json: serde_json::Value = serde_json::from_str(&node.output("target list --json")).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(1));
    assert!(Path::new(json[0]["directory"].as_str().unwrap()).ends_with("later"));
    // The first one may go to the other node.
    assert_eq!(other.output("target start one"), "started MGS\n");
    let (status, _, err) = run("target start");
    assert_eq!(status, 2, "{err}");
}
