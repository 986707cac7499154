//! Links in network namespaces that the tests create and remove.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fulmar_link::{
    Counters, End, Line, Link, LinkError, Options, SiteOptions, Sites, Tcp, set_congestion, within,
};

const IPV4: [&str; 2] = ["10.99.0.1", "10.99.0.2"];
const IPV6: [&str; 2] = ["fd00:99::1", "fd00:99::2"];

fn line(words: &str) -> Line {
    let mut line = Line::new("1Gbit".parse().unwrap(), Duration::from_millis(2));
    line.change(words).unwrap();
    line
}

/// Creates sites with a unique name; `None`, with a NOT RUN line, if that is not allowed.
fn sites(lines: [Line; 2]) -> Option<Sites> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}n{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let addresses =
        [0, 1].map(|side: usize| vec![format!("{}/24", IPV4[side]), format!("{}/64", IPV6[side])]);
    let started = Sites::start(&SiteOptions {
        name,
        device: "wan0".into(),
        addresses,
        lines,
        mtu: 9000,
        seed: 7,
        tcp: Tcp::filling(&lines),
    });
    match started {
        Ok(sites) => Some(sites),
        Err(error) if Path::new("/proc/self/ns/net").exists() && is_root() => {
            panic!("root has no sites: {error}")
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "\nNOT RUN: a link needs root: {error}");
            None
        }
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Waits until nothing is in flight, and returns the counters.
fn settled(sites: &Sites) -> [Counters; 2] {
    loop {
        let counters = sites.counters();
        if counters.iter().all(|of| of.under_way == 0) {
            return counters;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn adds_up(of: &Counters) {
    assert_eq!(of.entered, of.delivered + of.lost + of.overflowed + of.refused + of.under_way);
    assert!(of.packets <= of.entered, "{of:?}");
}

#[test]
fn a_datagram_takes_the_delay_of_either_direction() {
    let Some(sites) = sites([line("delay 30ms"), line("delay 10ms jitter 1ms")]) else { return };
    let [a, b] = sites.namespaces();
    let server = within(b, || UdpSocket::bind((IPV4[1], 0)).unwrap()).unwrap();
    let client = within(a, || UdpSocket::bind((IPV4[0], 0)).unwrap()).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    for _ in 0..5 {
        let (sent, mut bytes) = (Instant::now(), [0; 100]);
        client.send(b"there").unwrap();
        let (len, from) = server.recv_from(&mut bytes).unwrap();
        // The pump assumes that a packet that woke it is up to 0.1 ms old.
        assert!(sent.elapsed() >= Duration::from_micros(29_800), "{:?}", sent.elapsed());
        server.send_to(&bytes[..len], from).unwrap();
        client.recv(&mut bytes).unwrap();
        assert!(sent.elapsed() >= Duration::from_micros(38_600), "{:?}", sent.elapsed());
        assert_eq!(&bytes[..len], b"there");
    }
    let [there, back] = settled(&sites);
    adds_up(&there);
    adds_up(&back);
    assert!(there.delivered >= 5 && back.delivered >= 5);
}

/// Sends a pattern from A to B and requires that it arrives.
fn transfer(sites: &Sites, addresses: [&str; 2], len: usize) {
    let [a, b] = sites.namespaces();
    let listener = within(b, || TcpListener::bind((addresses[1], 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let pattern: Vec<u8> = (0..len).map(|n| (n / 7 + n / 65_537) as u8).collect();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut got = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
            got
        });
        let mut stream = within(a, || TcpStream::connect((addresses[1], port)).unwrap()).unwrap();
        stream.write_all(&pattern).unwrap();
        drop(stream);
        assert!(receiver.join().unwrap() == pattern, "the pattern arrives unchanged");
    });
}

#[test]
fn tcp_arrives_intact_through_loss_and_reordering() {
    let bad = line("loss 0.5% reorder 1% reorder-by 500us jitter 200us");
    let Some(sites) = sites([bad, line("loss 0.5%")]) else { return };
    for addresses in [IPV4, IPV6] {
        transfer(&sites, addresses, 20_000_000);
    }
    let [there, back] = settled(&sites);
    adds_up(&there);
    adds_up(&back);
    assert!(there.lost > 0 && there.reordered > 0, "{there:?}");
    assert!(there.packets < there.entered, "packets are longer than segments: {there:?}");
    assert!(there.delivered_bytes > 40_000_000, "{there:?}");
}

#[test]
fn tcp_works_over_a_short_queue_that_overflows() {
    let Some(sites) = sites([line("rate 200Mbit queue 100000B"), line("")]) else { return };
    transfer(&sites, IPV4, 10_000_000);
    let [there, back] = settled(&sites);
    adds_up(&there);
    adds_up(&back);
    assert!(there.queue_max_bytes <= 100_000, "{there:?}");
    assert!(there.overflowed > 0, "{there:?}");
}

#[test]
fn a_guard_removes_everything() {
    let Some(sites) = sites([line(""); 2]) else { return };
    let names = sites.namespaces().map(|name| Path::new("/run/netns").join(name));
    assert!(names.iter().all(|name| name.exists()));
    // A second link between the same namespaces, which is removed before them.
    let ends = sites.namespaces().map(|namespace| End {
        namespace: namespace.to_owned(),
        device: "wan1".into(),
        addresses: vec![],
    });
    let options = Options { ends, lines: [line(""); 2], mtu: 1500, seed: 1 };
    let interfaces =
        || within(sites.namespaces()[0], || std::fs::read_to_string("/proc/thread-self/net/dev"));
    let link = Link::start(&options).unwrap();
    assert!(interfaces().unwrap().unwrap().contains("wan1:"));
    let taken = Link::start(&options).err().unwrap();
    assert!(matches!(taken, LinkError::Device { .. }), "{taken}");
    assert!(taken.to_string().contains("choose another"), "{taken}");
    drop(link);
    // A program that another test is starting has a copy of the device for a short time.
    while interfaces().unwrap().unwrap().contains("wan1:") {
        thread::sleep(Duration::from_millis(5));
    }
    drop(sites);
    assert!(!names.iter().any(|name| name.exists()));
}

#[test]
fn programs_end_with_their_site() {
    let Some(sites) = sites([line(""); 2]) else { return };
    // One that ends when its terminal is closed, and one that does not. The first has no handler:
    // the kernel notes its end when it sends the signal, so that a slow machine shows no SIGKILL.
    let scripts = ["", "trap '' HUP; "];
    let mut children = scripts.map(|trap| {
        let script = format!("{trap}echo ready; while :; do sleep 0.01; done");
        // A parent may ignore the signal, as nohup does.
        let mut command = sites.command(1, "env".as_ref());
        command
            .args(["--default-signal=HUP", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        child
    });
    drop(sites);
    let ended = children.each_mut().map(|child| child.wait().unwrap().signal());
    assert_eq!(ended, [Some(1), Some(9)]);
}

#[test]
fn a_device_that_was_down_works_again() {
    let Some(sites) = sites([line(""); 2]) else { return };
    let set = |side: usize, state: &str| {
        let mut command = sites.command(side, "ip".as_ref());
        assert!(command.args(["link", "set", "wan0", state]).status().unwrap().success());
    };
    set(1, "down");
    let client = within(sites.namespaces()[0], || UdpSocket::bind((IPV4[0], 0)).unwrap()).unwrap();
    client.send_to(b"in vain", (IPV4[1], 1)).unwrap();
    while sites.counters()[0].refused == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    set(1, "up");
    transfer(&sites, IPV4, 1_000_000);
    assert_eq!(sites.link().failure(), None);
    adds_up(&settled(&sites)[0]);
}

#[test]
fn a_link_stops_under_load() {
    let Some(sites) = sites([line("rate 100Gbit"); 2]) else { return };
    let client = within(sites.namespaces()[0], || UdpSocket::bind((IPV4[0], 0)).unwrap()).unwrap();
    let flood = thread::spawn(move || {
        // It ends when there is no route.
        while client.send_to(&[0; 100], (IPV4[1], 1)).is_ok() {}
    });
    while sites.counters()[0].delivered < 10_000 {
        thread::sleep(Duration::from_millis(5));
    }
    drop(sites);
    flood.join().unwrap();
}

#[test]
fn a_link_reports_the_removal_of_its_device() {
    let Some(sites) = sites([line(""); 2]) else { return };
    assert_eq!(sites.link().failure(), None);
    let mut delete = sites.command(1, "ip".as_ref());
    assert!(delete.args(["link", "delete", "wan0"]).status().unwrap().success());
    while sites.link().failure().is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(sites.link().failure().unwrap().contains("a device was removed"));
}

#[test]
fn routes_select_a_congestion_control_that_the_host_restricts() {
    let Some(sites) = sites([line(""); 2]) else { return };
    let namespace = sites.namespaces()[0];
    let setting = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}congestion_control");
        within(namespace, || std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let (available, allowed) = (setting("available_"), setting("allowed_"));
    for name in available.split_whitespace() {
        set_congestion(namespace, name).unwrap();
        if allowed.split_whitespace().any(|one| one == name) {
            assert_eq!(setting("").trim(), name);
            continue;
        }
        for family in ["-4", "-6"] {
            let routes = ["-n", namespace, family, "route", "show", "dev", "wan0"];
            let output = std::process::Command::new("ip").args(routes).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let chosen = format!("congctl {name}");
            let mut links = text.lines().filter(|route| route.contains("kernel"));
            assert!(links.all(|route| route.contains(&chosen)) && text.contains(&chosen), "{text}");
        }
    }
    let error = set_congestion(namespace, "nonesuch").unwrap_err().to_string();
    assert!(error.contains("tcp_available_congestion_control"), "{error}");
}

#[test]
fn the_error_of_a_missing_namespace_says_what_to_do() {
    let end = |namespace: &str| End {
        namespace: namespace.to_owned(),
        device: "wan0".into(),
        addresses: vec![],
    };
    let ends = [end("fulmar-nowhere"), end("fulmar-nowhere")];
    let options = Options { ends, lines: [line(""); 2], mtu: 1500, seed: 1 };
    let text = Link::start(&options).err().unwrap().to_string();
    assert!(text.contains("ip netns add fulmar-nowhere"), "{text}");
}
